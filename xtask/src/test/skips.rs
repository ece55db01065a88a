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

/// A skip that is no failure: a part of the test's name, how its message begins, and why it may be
/// skipped.
struct Expected {
    test: &'static str,
    says: &'static str,
    because: &'static str,
}

const EXPECTED: [Expected; 6] = [
    Expected {
        test: "growing_lines_are_found_in_every_python",
        says: "no python3.",
        because: "each Python that is installed is tried; the system's own has to be there",
    },
    Expected {
        test: "other_kernels_name_each_death",
        says: "no kernels in ",
        because: "these kernels are not fetched by themselves (docs/development/reliability.md)",
    },
    Expected {
        test: "",
        says: "only in cargo xtask soak",
        because: "it takes longer than all others together",
    },
    Expected {
        test: "",
        says: "the machine's init lets nobody enter its cgroup namespace here",
        because: "a container gives its init another root of cgroups",
    },
    Expected {
        test: "",
        says: "a site: ",
        because: "libraries that are in no environment of the tests: their lines are tried where they are installed",
    },
    Expected {
        test: "foretold",
        says: "what and when: ",
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
        let (test, says) = row.split_once(": ").unwrap_or(("", row));
        let expected = EXPECTED.iter().find(|one| one.covers(test, says));
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

impl Expected {
    fn covers(&self, test: &str, says: &str) -> bool {
        test.contains(self.test) && says.starts_with(self.says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_is_expected_with_its_reason_only() {
        let test = "growing_lines_are_found_in_every_python";
        let covered = |test: &str, says: &str| EXPECTED.iter().any(|one| one.covers(test, says));
        assert!(covered(test, "no python3.9 here"));
        assert!(!covered(test, "no python3 here"));
        assert!(!covered("another", "no python3.9 here"));
    }
}
