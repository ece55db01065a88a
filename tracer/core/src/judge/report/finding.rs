//! Defines findings, and the settings that they refer to.

use serde::Serialize;

use super::Certainty;
use crate::ids::{Bytes, EventId, HexId, Pid};

/// A setting that affects memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Where it was found.
    pub source: String,
    /// Whether it is in force.
    pub effective: bool,
    /// The number of the cluster that it is in; `None` if that is not known.
    pub cluster: Option<u32>,
    /// The job that it is set for; `None` if it is set for the whole cluster, or that is not known.
    pub job_id: Option<HexId>,
}

/// A cause and its remedy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// One sentence.
    pub summary: String,
    /// The figures that it rests on.
    pub evidence: Vec<String>,
    /// What to change.
    pub remedy: Vec<String>,
    /// What that costs.
    pub cost: Option<String>,
    /// What would show that it is wrong.
    pub not_if: Option<String>,
    /// Other findings whose remedy is the opposite, each with why.
    pub contradicts: Vec<String>,
    /// The deaths it explains.
    pub deaths: Vec<EventId>,
    /// The recording that it is about; `None` if there is only one, or if it is about several.
    pub recording_id: Option<u32>,
    /// What the first remedy is expected to save; `None` if what was seen does not tell.
    pub saving: Option<Saving>,
    /// Which memory it is about, for choosing between findings; not part of the contract.
    #[serde(skip)]
    pub about: About,
}

/// What a remedy is expected to save.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saving {
    /// The class whose processes will hold less.
    pub class: Option<String>,
    /// The method or task whose peak gets lower, if other work of the class may peak higher.
    pub task: Option<String>,
    /// How much less at their peak, all of them together.
    pub bytes: Bytes,
}

impl Saving {
    /// Returns what processes of a class will hold less, whatever they run.
    pub(crate) fn of(class: Option<&str>, bytes: Bytes) -> Self {
        Self {
            class: class.map(str::to_owned),
            task: None,
            bytes,
        }
    }
}

/// Which memory a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The processes.
    pub pids: Vec<Pid>,
    /// The method or task that they ran.
    pub task: Option<String>,
    /// How much it explains of the memory that was held at the first of its deaths; 0 if that is
    /// not known.
    pub bytes: Bytes,
    /// What held that and how much, if it was shared memory that belongs to no process.
    pub shared: Option<String>,
    /// Whether its first remedy changes a setting of what they ran.
    pub turns: bool,
    /// Whether its first remedy changes a line of the user's own code.
    pub own_line: bool,
    /// Whether gradients and the optimizer's states were still to come.
    pub before_optimizer: bool,
    /// Whether its first remedy raises a limit for which the machine had room.
    pub has_room: bool,
}

impl Finding {
    /// Returns whether it says what to change so that this death does not come again.
    pub fn is_remedy_for(&self, death: EventId) -> bool {
        self.deaths.contains(&death) && !self.remedy.is_empty()
    }

    /// Creates a finding with a summary. All else is empty.
    pub fn new(rule: &str, certainty: Certainty, summary: impl Into<String>) -> Self {
        Self {
            rule: rule.to_owned(),
            certainty,
            summary: summary.into(),
            ..Self::default()
        }
    }
}
