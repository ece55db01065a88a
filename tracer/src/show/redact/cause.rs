//! A cause without names, paths and foreign words that identify anybody.

use super::scrub::Scrubber;
use crate::judge::cause::{Cause, ProcessRef};

/// Redacts what a cause holds.
pub(super) fn redact(scrubber: &mut Scrubber, cause: &mut Cause) {
    match cause {
        Cause::KernelOom(oom) => {
            oom.cgroup = oom.cgroup.as_deref().map(|path| scrubber.path(path));
            scrubber.text_if_any(&mut oom.invoker);
            scrubber.text_if_any(&mut oom.reported_by);
        }
        Cause::Signal {
            sender: Some(by), ..
        }
        | Cause::ParentDeath { parent: by, .. }
        | Cause::RayletShutdown { told_by: Some(by) }
        | Cause::MessageQueue { sent_by: by, .. }
        | Cause::FileReady { running: by, .. }
        | Cause::SignalOfUnknownWay { running: by, .. }
        | Cause::StoppedAndLeft { ended: by }
        | Cause::SiblingDied { sibling: by, .. } => party(scrubber, by),
        Cause::CaughtSignalThenExit { cause, .. }
        | Cause::CaughtSignalThenReraise { cause }
        | Cause::CaughtSignalThenAbort { cause }
        | Cause::CaughtSignalThenRaylet { cause } => redact(scrubber, cause),
        Cause::MemoryDaemon { says, .. }
        | Cause::RayletEndedItself { says }
        | Cause::NodeDrained { says } => {
            *says = scrubber.text(says);
        }
        Cause::Crash { says, .. }
        | Cause::RayRequest { says, .. }
        | Cause::OwnerDied { says }
        | Cause::NodeDead { says }
        | Cause::Exit {
            exception: says, ..
        }
        | Cause::ExitOrSigterm {
            exception: says, ..
        } => scrubber.text_if_any(says),
        _ => {}
    }
}

fn party(scrubber: &mut Scrubber, party: &mut ProcessRef) {
    party.comm = scrubber.text(&party.comm);
}
