//! Defines a rule: what it finds, and when it is asked.

use super::Run;
use crate::judge::report::Finding;

/// Returns the findings of a rule.
pub(super) type Find = fn(Run<'_>) -> Vec<Finding>;

/// A rule of findings.
pub(super) struct Rule {
    /// Names of its findings.
    pub(super) ids: &'static [&'static str],
    /// What its findings say about a kill.
    pub(super) kind: Kind,
    /// Whether it is asked only after a memory kill.
    at_kill: bool,
    /// Returns its findings.
    pub(super) find: Find,
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

impl Rule {
    /// Creates a rule that is asked only after a memory kill.
    pub(super) const fn at_kill(ids: &'static [&'static str], kind: Kind, find: Find) -> Self {
        Self {
            at_kill: true,
            ..Self::always(ids, kind, find)
        }
    }

    /// Creates a rule that is always asked.
    pub(super) const fn always(ids: &'static [&'static str], kind: Kind, find: Find) -> Self {
        let at_kill = false;
        Self {
            ids,
            kind,
            at_kill,
            find,
        }
    }

    /// Returns whether it is asked in this run.
    pub(super) fn applies(&self, run: Run<'_>) -> bool {
        !self.at_kill || run.memory_kills().next().is_some()
    }
}
