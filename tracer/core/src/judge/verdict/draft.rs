//! Defines the draft of a verdict, which rules return and the report completes.

use crate::{
    event::Signal,
    ids::{BootTime, ProcessKey},
    judge::{
        cause::Cause,
        missing::Missing,
        report::{Certainty, Killer, Mechanism, OomReport, Relation, Remote, SenderReport},
        signal_origin::{self, Origin},
        state::timestamped::Timestamped,
    },
};

/// What says that Ray wanted the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The process's own log alone.
    OwnLog,
    /// A tool of Ray's sent the signal, by an identity that was seen.
    KnownTool,
    /// Something else, or nothing.
    Other,
}

/// A draft of a verdict. Its cause is a process, not yet a death.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) killer: Killer,
    pub(crate) certainty: Certainty,
    /// How sure the reason is. It is no surer than who acted.
    pub(crate) reason_certainty: Certainty,
    /// Why it ended.
    pub(crate) why: Cause,
    /// The process whose end caused this one.
    pub(crate) cause: Option<ProcessKey>,
    pub(crate) cause_remote: Option<Remote>,
    pub(crate) sender: Option<SenderReport>,
    /// When the sender sent its signal.
    pub(crate) sent_at: Option<BootTime>,
    pub(crate) oom: Option<OomReport>,
    pub(crate) missing: Option<Missing>,
    pub(crate) settled: bool,
    pub(crate) basis: Basis,
    /// Whether Ray ended it as it should, and that is more than a guess.
    pub(crate) normal: bool,
}

impl Draft {
    /// Returns whether only the process's own log says why it ended.
    pub(crate) fn is_by_own_log(&self) -> bool {
        self.basis == Basis::OwnLog
    }

    pub(super) fn new(killer: Killer, certainty: Certainty, why: Cause) -> Self {
        Self {
            killer,
            certainty,
            reason_certainty: certainty,
            why,
            cause: None,
            cause_remote: None,
            sender: None,
            sent_at: None,
            oom: None,
            missing: None,
            settled: true,
            basis: Basis::Other,
            normal: false,
        }
    }

    pub(super) fn unknown(why: Cause, missing: Missing) -> Self {
        Self {
            missing: Some(missing),
            ..Self::new(Killer::Unknown, Certainty::Unknown, why)
        }
    }

    /// Adds to the cause what the process did at the signal that the cause names.
    pub(super) fn wrap_cause(mut self, what: impl FnOnce(Box<Cause>) -> Cause) -> Self {
        self.why = what(Box::new(self.why));
        self
    }

    pub(super) fn caused_by(mut self, cause: Option<ProcessKey>) -> Self {
        self.cause = cause;
        self
    }

    /// Limits the certainty of who acted and why to `most`.
    pub(super) fn at_most(mut self, most: Certainty) -> Self {
        self.certainty = self.certainty.max(most);
        self.reason_certainty = self.reason_certainty.max(most);
        self
    }

    /// Limits the certainty of the reason to inferred. It rests on what the sender's own user can
    /// bring about: a log line, a program's files, the order of two deaths.
    pub(super) fn by_text(mut self) -> Self {
        self.reason_certainty = self.certainty.max(Certainty::Inferred);
        self
    }

    pub(super) fn sent(
        mut self,
        signal: &Timestamped<Signal>,
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

    /// Sets the kernel as the sender, if it was not seen in which process's context it sent the
    /// signal.
    pub(super) fn sent_by_kernel(mut self, signal: i32, mechanism: Mechanism) -> Self {
        self.sender = Some(SenderReport {
            comm: "kernel".into(),
            signal: Some(signal),
            mechanism,
            ..SenderReport::default()
        });
        self
    }

    /// Sets the kernel as the sender, for a reason of its own. The process that ran at that moment
    /// did nothing.
    pub(super) fn sent_for_itself(
        mut self,
        signal: &Timestamped<Signal>,
        mechanism: Mechanism,
    ) -> Self {
        self.sent_at = Some(signal.time);
        self.sent_by_kernel(signal.what.signal, mechanism)
    }

    /// Marks a signal of a tool of Ray's, which is the sender with this certainty.
    pub(super) fn by_tool(self, identity: Certainty) -> Self {
        self.known(identity == Certainty::Proven).at_most(identity)
    }

    /// Marks a signal of a tool of Ray's that several observed facts show.
    pub(super) fn known(mut self, known: bool) -> Self {
        if known {
            self.basis = Basis::KnownTool;
        }
        self
    }

    /// Marks a reason that only the process's own log gives.
    pub(super) fn only_by_own_log(mut self, only: bool) -> Self {
        if only {
            self.basis = Basis::OwnLog;
        }
        self
    }

    pub(super) fn open(mut self, open: bool) -> Self {
        self.settled = !open;
        self
    }

    /// Opens the verdict if it waits for something. Otherwise it stays as it was.
    pub(super) fn open_if(mut self, waits: bool) -> Self {
        self.settled &= !waits;
        self
    }
}

/// Returns how a process sent the signal.
pub(super) fn mechanism(signal: &Timestamped<Signal>) -> Mechanism {
    match signal_origin::of(&signal.what).kind {
        Origin::Requested(mechanism) => mechanism,
        Origin::CgroupKill => Mechanism::CgroupKill,
        _ => Mechanism::Unknown,
    }
}
