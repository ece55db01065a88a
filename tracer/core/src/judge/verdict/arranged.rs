//! Judges signals that the kernel sends because somebody had arranged them.
//!
//! They come at a parent's end, from a timer, at a message, or for a file.
//!
//! `prctl`, `timer_create` and `mq_notify` affect only the process that calls them.
//! `fcntl(F_SETOWN)` names any process that its caller may signal, and the event does not tell who
//! called it.

use super::{Case, Draft, watched};
use crate::{
    event::{Role, Signal},
    judge::{
        cause::{Cause, ProcessRef},
        report::{Certainty, Killer, Mechanism, Relation},
        signal_origin::{Origin, SignalOrigin},
        state::{timestamped::Timestamped, world::EXITS_NS},
    },
};

/// Returns the verdict on a signal that somebody had arranged; `None` for any other.
pub(super) fn verdict(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    origin: SignalOrigin,
) -> Option<Draft> {
    let number = signal.what.signal;
    let running = ProcessRef::of(&signal.what.sender);
    let (mechanism, cause) = match origin.kind {
        Origin::ParentDeath => return Some(parent_died(case, signal)),
        Origin::Timer => (
            Mechanism::Timer,
            Cause::Timer {
                signal: number,
                created: true,
            },
        ),
        Origin::MessageQueue => (
            Mechanism::MessageQueue,
            Cause::MessageQueue {
                signal: number,
                sent_by: running,
            },
        ),
        Origin::Descriptor => (
            Mechanism::FileDescriptor,
            Cause::FileReady {
                signal: number,
                running,
            },
        ),
        Origin::ChildExit => (
            Mechanism::Unknown,
            Cause::ChildExit {
                signal: number,
                ended: running,
            },
        ),
        _ => return None,
    };
    let draft = Draft::new(Killer::KernelOther, origin.certainty(), cause);
    Some(draft.sent_for_itself(signal, mechanism))
}

/// Judges `prctl(PR_SET_PDEATHSIG)`: the kernel sends the signal in the name of the thread that had
/// started the process, with code 0, when that thread ends. How its process ends later has nothing
/// to do with that.
fn parent_died(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let parent = signal.what.sender.process;
    let thread = !ends_as_a_whole(case, signal);
    // A subprocess may arrange it for a child of its own, which has nothing to do with Ray.
    let is_of_job = matches!(case.role(), Role::Driver | Role::Descendant);
    let by_the_job = is_of_job && watched::part(case.world, parent).is_none();
    let killer = match (case.is_of_ray(), case.ended_well(parent)) {
        (true, _) if thread => Killer::KernelOther,
        (false, _) => Killer::Signal,
        (true, Some(true)) if by_the_job => Killer::Signal,
        (true, Some(true)) => Killer::RayIntended,
        (true, _) => Killer::RayCollapse,
    };
    let cause = Cause::ParentDeath {
        parent: ProcessRef::of(&signal.what.sender),
        thread,
    };
    Draft::new(killer, Certainty::Proven, cause)
        .caused_by(Some(parent).filter(|_| !thread))
        .sent(signal, Relation::Parent, Mechanism::ParentDeath)
}

/// Returns whether the whole parent was ending, and not one of its threads alone. Recordings of
/// earlier versions do not say so. There its own end shows it, which comes at once.
fn ends_as_a_whole(case: &Case<'_>, signal: &Timestamped<Signal>) -> bool {
    signal.what.sender.process_exiting.unwrap_or_else(|| {
        let exit = case.world.exit(signal.what.sender.process);
        exit.is_some_and(|exit| exit.time.since(signal.time) <= EXITS_NS)
    })
}
