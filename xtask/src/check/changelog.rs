//! Checks that a change of what raytrace does has a line in CHANGELOG.md.
//!
//! A branch is compared with where it left `main`. A commit that changes no behaviour says so with
//! a line `Changelog: none` in its message.

use std::process::Command;

use anyhow::{Result, bail};

use super::Outcome;
use crate::{
    layout,
    process::{output, succeeds},
};

/// The heading under which each change of behaviour has its line.
const HEADING: &str = "## Unreleased";
/// The last line of a commit that changes no behaviour.
const NONE: &str = "Changelog: none";
/// Where a branch may have begun, the first that exists.
const BASES: [&str; 2] = ["origin/main", "main"];
/// What decides how raytrace behaves.
const BEHAVIOUR: [&str; 3] = ["tracer/", "tracer-ebpf/", "deploy/"];

pub(super) fn has_line() -> Result<Outcome> {
    let text = std::fs::read_to_string(layout::root().join("CHANGELOG.md"))?;
    if !text.lines().any(|line| line == HEADING) {
        bail!("CHANGELOG.md has no heading `{HEADING}`");
    }
    let exists = |base: &&str| succeeds(git().args(["rev-parse", "--verify", "--quiet", base]));
    let Some(base) = BASES.into_iter().find(exists) else {
        return Ok(Outcome::Skipped(
            "no branch main to compare with".to_owned(),
        ));
    };
    let began = output(git().args(["merge-base", base, "HEAD"]))?;
    let began = began.trim();
    let changed = output(git().args(["diff", "--name-only", began]))?;
    let messages = output(git().args(["log", "--format=%B", &format!("{began}..HEAD")]))?;
    if lacks_line(&changed, &messages) {
        bail!(
            "this branch changes what raytrace does, and CHANGELOG.md has no new line; add one under `{HEADING}`, or a line `{NONE}` to the message of a commit"
        );
    }
    Ok(Outcome::Passed)
}

fn lacks_line(changed: &str, messages: &str) -> bool {
    let behaves = |file: &str| BEHAVIOUR.iter().any(|folder| file.starts_with(folder));
    let is_test = |file: &str| file.contains("tests") || file.contains("golden");
    let mut files = changed.lines();
    files.clone().any(|file| behaves(file) && !is_test(file))
        && !files.any(|file| file == "CHANGELOG.md")
        && !messages.lines().any(|line| line.trim() == NONE)
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(layout::root());
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_behaviour_needs_a_line() {
        let judge = "tracer/core/src/judge/fatal_act.rs\n";
        assert!(lacks_line(judge, "judge: Mend it"));
        assert!(!lacks_line(
            &format!("CHANGELOG.md\n{judge}"),
            "judge: Mend it"
        ));
        assert!(!lacks_line(judge, "judge: Move it\n\nChangelog: none\n"));
    }

    #[test]
    fn tests_and_documents_need_none() {
        let files =
            "docs/glossary.md\ntracer/core/src/judge/tests/act.rs\ntracer/src/golden/mod.rs\n";
        assert!(!lacks_line(files, "docs: Say it"));
    }
}
