//! Defines a rule: what it finds, whether that is a cause of a kill, what it needs, and which finding it contradicts.

use super::Run;
use crate::judge::report::Finding;

/// One rule, which lives in a file of its own.
pub(super) struct Rule {
    /// The names of its findings.
    pub(super) ids: &'static [&'static str],
    /// What they say of a kill.
    pub(super) kind: Kind,
    /// Without what it has nothing to say.
    pub(super) needs: Needs,
    /// Findings of other rules whose remedies are opposite, or of which only one can be right.
    pub(super) contradicts: &'static [Contradiction],
    /// What it finds.
    pub(super) find: fn(Run<'_>) -> Vec<Finding>,
}

/// What findings of a rule say of a kill. All but [`Kind::Note`] name a cause: where none does, nothing fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// How and by what a process grew.
    Growth,
    /// Only who held much: a growth of the same process says more.
    Size,
    /// Another cause.
    Cause,
    /// Settings of the workload that take memory: a cause where processes that they act on were seen to hold much.
    Setting,
    /// Its remedy is another limit: what a setting of the workload can mend comes before.
    Limit,
    /// No cause.
    Note,
}

/// What a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing in particular.
    Nothing,
    /// A death for memory.
    MemoryKill,
}

/// Two findings of which each is told of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradiction {
    /// One of the rule's own.
    pub(super) rule: &'static str,
    /// That of another rule.
    pub(super) other: &'static str,
    /// The reason.
    pub(super) why: &'static str,
}

/// Why offloading and a full GPU contradict.
pub(super) const OFFLOADED: &str = "offloading trades GPU memory for host memory, and both are short: use fewer ranks or a smaller model";

impl Rule {
    /// Whether it can have something to say.
    pub(super) fn applies(&self, run: Run<'_>) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::MemoryKill => run.memory_kills().next().is_some(),
        }
    }
}
