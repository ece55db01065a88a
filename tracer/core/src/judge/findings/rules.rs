//! Defines a rule: what it finds, what it needs, and which findings contradict it.

use super::Run;
use crate::judge::report::Finding;

/// A rule of findings.
pub(super) struct Rule {
    /// Names of its findings.
    pub(super) ids: &'static [&'static str],
    /// What its findings say about a kill.
    pub(super) kind: Kind,
    /// What must be present for it to find anything.
    pub(super) needs: Needs,
    /// Findings of other rules that have the opposite remedy, or that cannot be right at the same
    /// time.
    pub(super) contradicts: &'static [Contradiction],
    /// Returns its findings.
    pub(super) find: fn(Run<'_>) -> Vec<Finding>,
}

/// What the findings of a rule say about a kill.
///
/// All kinds but [`Kind::Note`] name a cause. A kill for which no finding does gets the finding
/// `nothing-fits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// How a process grew, and by what.
    Growth,
    /// Only that processes held much. A growth of the same process says more.
    Size,
    /// Another cause.
    Cause,
    /// Settings of the workload that take memory: a cause if processes that they act on were seen
    /// to hold much.
    Setting,
    /// A cause with another limit as its remedy. Settings of the workload that help come before it.
    Limit,
    /// No cause.
    Note,
}

/// What a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing in particular.
    Nothing,
    /// A memory kill.
    MemoryKill,
}

/// Two findings that contradict each other. Each names the other in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contradiction {
    /// The finding of this rule.
    pub(super) rule: &'static str,
    /// The finding of the other rule.
    pub(super) other: &'static str,
    /// The reason.
    pub(super) why: &'static str,
}

/// Why findings about offloading and about a full GPU contradict each other.
pub(super) const OFFLOADED: &str = "offloading trades GPU memory for host memory, and both are short: use fewer ranks or a smaller model";

impl Rule {
    /// Returns whether what the rule needs is present.
    pub(super) fn applies(&self, run: Run<'_>) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::MemoryKill => run.memory_kills().next().is_some(),
        }
    }
}
