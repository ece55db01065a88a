//! A line without its wrappings: what the recognisers see.

use crate::{ids::Pid, judge::from_text::claim::Stamp};

/// A line without its wrappings.
#[derive(Debug, Default, Clone)]
pub(super) struct LogLine {
    /// The message, with Ray's own prefix `[time level pid tid] (component) file.cc:1:` taken off.
    pub(super) text: String,
    /// The record with that prefix, where it has one.
    pub(super) record: Option<String>,
    /// When it was written.
    pub(super) stamp: Stamp,
    /// `(WorkerDict pid=12, ip=…)`: who printed it.
    pub(super) speaker: Option<Speaker>,
    /// The component and pid of Ray's own prefix.
    pub(super) component: Option<(String, Pid)>,
    /// `kernel`, `earlyoom`: the program of a journal's line, with its pid.
    pub(super) program: Option<(String, Option<Pid>)>,
    /// Which words of the recognisers stand in it.
    pub(super) words: Found,
    /// Whether it stands for several: `repeated 3x across cluster`.
    pub(super) repeated: u64,
}

/// The process that printed a line, as Ray's driver shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Speaker {
    /// `WorkerDict`, `raylet`.
    pub(super) name: String,
    /// Its pid.
    pub(super) pid: Option<Pid>,
    /// Its node's address.
    pub(super) ip: Option<String>,
}

/// Whose words stand in a line, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Groups(pub(super) u16);

impl Groups {
    pub(super) const MONITOR: Self = Self(1);
    pub(super) const ACTOR: Self = Self(2);
    pub(super) const COMPONENT: Self = Self(4);
    pub(super) const WORKER: Self = Self(8);
    pub(super) const KERNEL: Self = Self(16);
    pub(super) const DAEMON: Self = Self(32);
    pub(super) const WARNING: Self = Self(64);
    pub(super) const WORDS: Self = Self(128);
    pub(super) const CONFIGURED: Self = Self(256);
    #[cfg(test)]
    pub(super) const ALL: Self = Self(511);
    /// Those whose sentences may be broken over lines.
    pub(super) const SENTENCES: Self = Self(1 | 2 | 8 | 16);

    /// Whether any of `others` is in it.
    pub(super) fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// Which words stand in a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    /// Whose they are.
    pub(super) groups: Groups,
    /// The first of the warnings, by its number in `warnings::anchors`.
    pub(super) rule: Option<usize>,
    /// The first of the after-effects, likewise.
    pub(super) after_effect: Option<usize>,
}
