//! Judges signals that the kernel sends because somebody had arranged them.
//!
//! They come at a parent's end, from a timer, at a message, or for a file.
//!
//! `prctl`, `timer_create` and `mq_notify` affect only the process that calls them.
//! `fcntl(F_SETOWN)` names any process that its caller may signal, and the event does not tell who
//! called it.

use super::{Case, Draft, LATE_NS};
use crate::{
    event::Signal,
    ids::SECOND_NS,
    judge::{
        cause::{Cause, ProcessRef},
        report::{Certainty, Killer, Mechanism, Relation},
        signal_origin::{Origin, SignalOrigin},
        state::timestamped::Timestamped,
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
    let certainty = if origin.is_certain {
        Certainty::Proven
    } else {
        Certainty::Inferred
    };
    let draft = Draft::new(Killer::KernelOther, certainty, cause);
    Some(
        draft
            .sent(signal, Relation::Other, mechanism)
            .without_sender_identity(),
    )
}

/// Judges `prctl(PR_SET_PDEATHSIG)`: the kernel sends the signal in the name of the dying parent,
/// with code 0.
fn parent_died(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let parent = signal.what.sender.process;
    // The signal comes when the thread that started the child ends. If the parent lives on, the way
    // it ends later has nothing to do with that.
    let exit = case.world.exit(parent);
    let lived_on = exit.is_none_or(|exit| exit.time.since(signal.time) > LATE_NS);
    let killer = match (case.is_of_ray(), case.ended_well(parent)) {
        (false, _) => Killer::Signal,
        (true, Some(true)) if !lived_on => Killer::RayIntended,
        (true, _) => Killer::RayCollapse,
    };
    let cause = Cause::ParentDeath {
        parent: ProcessRef::of(&signal.what.sender),
        thread: exit.is_none_or(|exit| exit.time.since(signal.time) > 5 * SECOND_NS),
    };
    Draft::new(killer, Certainty::Proven, cause)
        .caused_by(Some(parent))
        .sent(signal, Relation::Parent, Mechanism::ParentDeath)
}
