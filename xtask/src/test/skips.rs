//! Prints skipped tests at the end of `cargo xtask test`, which fails for an unexpected one.
//!
//! A skip is expected only here and with its reason.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::layout;

/// A skip that is no failure.
struct ExpectedSkip {
    /// The functions of the tests that may be skipped, each by its whole name.
    tests: &'static [&'static str],
    /// How the message of the skip begins.
    message: &'static str,
    /// Why they may be skipped.
    because: &'static str,
}

const EXPECTED: [ExpectedSkip; 7] = [
    ExpectedSkip {
        tests: &[
            "slurm_is_named_with_job_and_reason",
            "job_without_cgroups_is_named",
        ],
        message: "no Slurm: ",
        because: "not every Debian has Slurm, and a newer one may not start without systemd",
    },
    ExpectedSkip {
        tests: &["growing_lines_are_found_in_every_python"],
        message: "no python3.",
        because: "each Python that is installed is tried; the system's own has to be there",
    },
    ExpectedSkip {
        tests: &["other_kernels_name_each_death"],
        message: "no kernels in ",
        because: "these kernels are not fetched by themselves (docs/development/reliability-details.md)",
    },
    ExpectedSkip {
        tests: &[
            "deb_installs_upgrades_and_purges",
            "each_directive_alone_lets_a_kill_be_proven",
            "ray_2_51_everything_follows_a_killed_gcs",
            "ray_2_51_node_cut_off_then_head_gone",
            "ray_2_60_everything_follows_a_killed_gcs",
            "ray_2_60_node_cut_off_then_head_gone",
            "unit_restarts_after_a_kill",
            "worker_clock_ahead_keeps_the_order",
            "worker_clock_behind_keeps_the_order",
        ],
        message: "only in cargo xtask soak",
        because: "it takes longer than all others together",
    },
    ExpectedSkip {
        tests: &["limits_in_a_private_cgroup_namespace_are_right"],
        message: "the machine's init lets nobody enter its cgroup namespace here",
        because: "a container gives its init another root of cgroups",
    },
    ExpectedSkip {
        tests: &[
            "each_line_of_a_wrapped_program_has_its_growth",
            "each_line_of_an_actor_has_its_growth",
            "half_of_the_time_is_enough_for_the_lines_of_an_actor",
        ],
        message: "a site: ",
        because: "libraries that are in no environment of the tests: their lines are tried where they are installed",
    },
    ExpectedSkip {
        tests: &[
            "limit_unseen_by_ray_is_foretold_first",
            "monitor_off_the_kernel_is_foretold",
            "plain_machine_rays_monitor_is_foretold",
            "threshold_of_the_environment_is_foretold",
        ],
        message: "what and when: ",
        because: "a busy machine has no steady ramp; the arithmetic has unit tests (judge/time_to_limit)",
    },
];

/// Returns the file into which tests write what they skip.
pub(super) fn list() -> PathBuf {
    layout::target().join("tests").join("skipped")
}

/// Removes the skips of the last run.
pub(super) fn forget() -> Result<()> {
    let list = list();
    fs::create_dir_all(list.parent().unwrap_or(Path::new(".")))?;
    match fs::remove_file(&list) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context("the list of skips")
        }
        _ => Ok(()),
    }
}

/// Prints each skip. An unexpected one is an error.
pub(super) fn print() -> Result<()> {
    let rows = match fs::read_to_string(list()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        rows => rows.context("the list of skips")?,
    };
    let mut unexpected = Vec::new();
    for row in rows.lines() {
        let (test, message) = row.split_once(": ").unwrap_or(("", row));
        let expected = EXPECTED.iter().find(|one| one.covers(test, message));
        if let Some(expected) = expected {
            eprintln!("    skipped: {row} (expected: {})", expected.because);
        } else {
            eprintln!("    SKIPPED: {row}");
            unexpected.push(row);
        }
    }
    if !unexpected.is_empty() {
        bail!("not tested:\n    {}", unexpected.join("\n    "));
    }
    Ok(())
}

impl ExpectedSkip {
    /// Returns whether `test` may be skipped with this message. The modules before the function's
    /// name, as in `module::tests::name`, are not compared.
    fn covers(&self, test: &str, message: &str) -> bool {
        let function = test.rsplit("::").next().unwrap_or(test);
        self.tests.contains(&function) && message.starts_with(self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_is_expected_with_its_reason_only() {
        let test = "growing_lines_are_found_in_every_python";
        let covered =
            |test: &str, message: &str| EXPECTED.iter().any(|one| one.covers(test, message));
        assert!(covered(test, "no python3.9 here"));
        assert!(covered(&format!("tests::{test}"), "no python3.9 here"));
        assert!(!covered(test, "no python3 here"));
        for other in ["", "another", "python", &format!("{test}_again")] {
            assert!(!covered(other, "no python3.9 here"), "{other}");
        }
        assert!(!covered("another", "only in cargo xtask soak"));
    }

    /// An entry must not outlive its test or the test's name.
    #[test]
    fn expected_skips_name_existing_tests() {
        let mut sources = String::new();
        for folder in ["tests/tests", "tracer/tests"] {
            let entries = fs::read_dir(layout::root().join(folder)).expect("a folder");
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.extension().is_some_and(|extension| extension == "rs") {
                    sources += &fs::read_to_string(path).expect("a file");
                }
            }
        }
        for test in EXPECTED.iter().flat_map(|one| one.tests) {
            assert!(sources.contains(&format!("fn {test}()")), "{test}");
        }
    }
}
