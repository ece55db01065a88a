//! Checks what a machine will do to a Ray job, before the run. Pure.
//!
//! The checks use facts that `command::doctor` gathered. There is one file for each section. A
//! check states a figure and its source. If it is a problem, it names the command that fixes it.

pub mod facts;
#[cfg(any(test, feature = "samples"))]
#[path = "tests/fixtures.rs"]
pub mod fixtures;
mod gpu;
mod killers;
mod ray_variables;
mod recording;
mod sessions;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::ids::Pid;
use facts::Machine;

/// Comes between the reason of a missing probe and what to type.
pub const ADVICE_FOLLOWS: &str = ". For full detail: ";

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its stable name: `setting.RAY_memory_usage_threshold`.
    pub id: String,
    /// The section of the text that it belongs to.
    pub section: Section,
    /// The raylet that it is about; `None` for the machine.
    pub raylet_pid: Option<Pid>,
    /// How it came out.
    pub state: State,
    /// The word before its line: `ok`, `missing`, `IGNORED`, a rank.
    pub word: String,
    /// One sentence.
    pub text: String,
    /// The value found.
    pub value: Option<String>,
    /// The value wanted, if there is one.
    pub expected: Option<String>,
    /// The command to type.
    pub command: Option<String>,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// A figure without a judgement.
    Note,
    /// Something cannot be seen here, but verdicts are still proven.
    Missing,
    /// Something to change.
    Problem,
}

/// A section of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Can this machine record?
    Recording,
    /// Who kills first?
    Killers,
    /// Which settings are in force?
    Settings,
    /// GPUs.
    Gpu,
    /// Old sessions.
    Disk,
}

/// Returns all checks of a machine, in the order of the text.
pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut all = Vec::new();
    let mut add = |section, checks: Vec<Check>| {
        all.extend(checks.into_iter().map(|check| Check { section, ..check }));
    };
    add(Section::Recording, recording::checks(machine));
    for node in &machine.nodes {
        add(Section::Killers, killers::checks(machine, node));
        add(Section::Settings, ray_variables::checks(node));
    }
    add(Section::Gpu, gpu::checks(machine));
    add(Section::Disk, sessions::checks(machine));
    all
}

impl Check {
    /// Creates a check. [`checks`] sets its section.
    fn new(id: impl Into<String>, state: State, text: impl Into<String>) -> Self {
        let word = match state {
            State::Ok => "ok",
            State::Note => "note",
            State::Missing => "missing",
            State::Problem => "PROBLEM",
        };
        Self {
            id: id.into(),
            section: Section::Recording,
            raylet_pid: None,
            state,
            word: word.into(),
            text: text.into(),
            value: None,
            expected: None,
            command: None,
        }
    }

    fn word(mut self, word: impl Into<String>) -> Self {
        self.word = word.into();
        self
    }

    fn value(mut self, value: &dyn ToString) -> Self {
        self.value = Some(value.to_string());
        self
    }

    fn expected(mut self, expected: &dyn ToString) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    fn of(mut self, raylet: Option<Pid>) -> Self {
        self.raylet_pid = raylet;
        self
    }
}
