//! A verdict in the making: what the rules return and the report finishes.

use crate::{
    event::Signal,
    ids::{BootTime, ProcessKey},
    judge::{
        report::{Certainty, Killer, Mechanism, OomReport, Relation, SenderReport},
        world::Seen,
    },
};

/// One verdict, with its cause as a process.
#[derive(Debug, Clone)]
pub(in crate::judge) struct Draft {
    pub(in crate::judge) killer: Killer,
    pub(in crate::judge) certainty: Certainty,
    /// What happened, as a clause that follows the process's name: `was killed by …`.
    pub(in crate::judge) clause: String,
    pub(in crate::judge) cause: Option<ProcessKey>,
    pub(in crate::judge) cause_remote: Option<String>,
    pub(in crate::judge) sender: Option<SenderReport>,
    /// When the sender sent its signal.
    pub(in crate::judge) sent_at: Option<BootTime>,
    pub(in crate::judge) oom: Option<OomReport>,
    pub(in crate::judge) missing: Option<String>,
    pub(in crate::judge) settled: bool,
}

impl Draft {
    pub(super) fn new(killer: Killer, certainty: Certainty, clause: impl Into<String>) -> Self {
        Self {
            killer,
            certainty,
            clause: clause.into(),
            cause: None,
            cause_remote: None,
            sender: None,
            sent_at: None,
            oom: None,
            missing: None,
            settled: true,
        }
    }

    pub(super) fn unknown(clause: impl Into<String>, missing: impl Into<String>) -> Self {
        let missing = Some(missing.into());
        Self {
            missing,
            ..Self::new(Killer::Unknown, Certainty::Unknown, clause)
        }
    }

    pub(super) fn caused_by(mut self, cause: Option<ProcessKey>) -> Self {
        self.cause = cause;
        self
    }

    pub(super) fn sent(
        mut self,
        signal: &Seen<Signal>,
        relation: Relation,
        mechanism: Mechanism,
    ) -> Self {
        let sender = &signal.what.sender;
        self.sent_at = Some(signal.time);
        self.sender = Some(SenderReport {
            pid: sender.process.pid,
            comm: sender.comm.clone(),
            exe: sender.exe.clone(),
            uid: Some(sender.uid),
            container_id: sender.container_id.clone(),
            relation,
            signal: Some(signal.what.signal),
            mechanism,
            ancestors: sender.ancestors.clone(),
        });
        self
    }

    /// By the kernel, in whose context was not seen.
    pub(super) fn sent_by_kernel(mut self, signal: i32, mechanism: Mechanism) -> Self {
        self.sender = Some(SenderReport {
            pid: crate::ids::Pid(0),
            comm: "kernel".into(),
            exe: None,
            uid: None,
            container_id: None,
            relation: Relation::Other,
            signal: Some(signal),
            mechanism,
            ancestors: Vec::new(),
        });
        self
    }

    /// For signals that the kernel sends: whoever ran at that moment did nothing.
    pub(super) fn without_sender_identity(mut self) -> Self {
        self.sender = self.sender.map(|sender| SenderReport {
            pid: crate::ids::Pid(0),
            comm: "kernel".into(),
            exe: None,
            uid: None,
            container_id: None,
            ancestors: Vec::new(),
            ..sender
        });
        self
    }

    pub(super) fn open(mut self, open: bool) -> Self {
        self.settled = !open;
        self
    }
}
