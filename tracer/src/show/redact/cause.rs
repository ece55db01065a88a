//! Redacts a cause: removes names, paths and foreign words that identify anybody.

use super::scrub::Scrubber;
use crate::judge::cause::{Cause, ProcessRef};

/// Redacts what a cause holds.
pub(super) fn redact(scrubber: &mut Scrubber, cause: &mut Cause) {
    match cause {
        Cause::KernelOom(oom) => {
            oom.cgroup = oom.cgroup.as_deref().map(|path| scrubber.path(path));
            scrubber.each(Scrubber::text, &mut oom.invoker);
            scrubber.each(Scrubber::text, &mut oom.reported_by);
        }
        Cause::Signal {
            sender: Some(by), ..
        }
        | Cause::ParentDeath { parent: by, .. }
        | Cause::RayletShutdown {
            requested_by: Some(by),
        }
        | Cause::MessageQueue { sent_by: by, .. }
        | Cause::FileReady { running: by, .. }
        | Cause::ChildExit { ended: by, .. }
        | Cause::SignalOfUnknownOrigin { running: by, .. }
        | Cause::StoppedThenOrphaned { ended: by, .. }
        | Cause::SiblingDied { sibling: by, .. } => party(scrubber, by),
        Cause::Slurm(end) => party(scrubber, &mut end.stepd),
        Cause::CaughtSignalThenExit { cause, .. }
        | Cause::CaughtSignalThenReraise { cause, .. }
        | Cause::CaughtSignalThenAbort { cause, .. }
        | Cause::CaughtSignalThenSignal { cause, .. }
        | Cause::CaughtSignalThenRaylet { cause } => redact(scrubber, cause),
        Cause::MemoryDaemon { says, .. }
        | Cause::SystemProgram { says, .. }
        | Cause::RayletEndedItself { says }
        | Cause::EndAfterError { says }
        | Cause::NodeDrained { says }
        | Cause::NodePreempted { says } => {
            *says = scrubber.text(says);
        }
        Cause::Crash { says, .. }
        | Cause::RayRequest { says, .. }
        | Cause::OwnerDied { says, .. }
        | Cause::NodeDead { says }
        | Cause::Exit {
            exception: says, ..
        }
        | Cause::ExitOrSigterm {
            exception: says, ..
        } => scrubber.each(Scrubber::text, says),
        // Numbers, names of Ray's parts and of the kernel's limits.
        Cause::SharedVictimsMemory { .. }
        | Cause::OomReaped
        | Cause::RayMemoryMonitor { .. }
        | Cause::RayMemoryMonitorOrKernelOom
        | Cause::RayMemoryDigit
        | Cause::RayMemoryTable
        | Cause::Signal { sender: None, .. }
        | Cause::Terminal { .. }
        | Cause::Timer { .. }
        | Cause::KernelSignal { .. }
        | Cause::ResourceLimit { .. }
        | Cause::Seccomp
        | Cause::HardwareMemoryError
        | Cause::PidNamespaceExit { .. }
        | Cause::TracerExit { .. }
        | Cause::KernelUnexplained
        | Cause::ExitThenRaylet { .. }
        | Cause::ExitAtSigterm { .. }
        | Cause::RayCommand { .. }
        | Cause::DidNotExit
        | Cause::DidNotRegister
        | Cause::DeadBeforeRegistered
        | Cause::JobEnded
        | Cause::JobSupervisorEnded { .. }
        | Cause::OwnersNodeCrashed
        | Cause::AgentDied { .. }
        | Cause::GcsLost
        | Cause::RayletDied { .. }
        | Cause::DashboardGone { .. }
        | Cause::EndedWithRaylet { .. }
        | Cause::RayletShutdown { requested_by: None }
        | Cause::RayletWithoutReason { .. }
        | Cause::WorkerEnding { .. }
        | Cause::Intended
        | Cause::SuddenEnd
        | Cause::Unexplained
        | Cause::NotSeen => {}
    }
}

fn party(scrubber: &mut Scrubber, party: &mut ProcessRef) {
    party.comm = scrubber.text(&party.comm);
}
