//! Which act ended a process: the first fatal signal that took effect.
//!
//! Result 0 of `signal_generate` is not enough (a handled SIGTERM has it too): the act is the signal that set the
//! group-exit flag with its own number, or, for core-dumping signals, the one whose default action was delivered.

use libc::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};

use crate::{
    event::{Ancestor, Role, Signal},
    ids::{BootTime, ProcessKey, SECOND_NS},
    judge::{
        signal_origin,
        state::{
            timestamped::{ExitSeen, Timestamped},
            world::World,
        },
    },
};

/// How a process ended, as far as signals tell.
#[derive(Debug, Clone, Copy)]
pub(super) enum FatalAct<'a> {
    /// This signal killed it.
    Killed(&'a Timestamped<Signal>),
    /// It exited by itself, or nobody knows how.
    Exited {
        /// A catchable signal from outside that came shortly before: its handler may have ended the process.
        caught: Option<&'a Timestamped<Signal>>,
    },
    /// It died of this signal, and the sending was not seen.
    Unseen {
        /// The signal number in its wait status.
        signal: i32,
    },
}

impl FatalAct<'_> {
    /// When the process was doomed: the act's time where it was seen, else the exit's.
    pub(super) fn time(&self, exit: &ExitSeen) -> BootTime {
        match self {
            Self::Killed(signal) => signal.time,
            Self::Exited { .. } | Self::Unseen { .. } => exit.time,
        }
    }
}

/// A caught signal explains an exit that follows within this time. Ray's own fall-back (SIGKILL) comes after 5 s, but nothing comes after
/// a stranger's SIGTERM, and on a machine short of processor time a Python took 9 s from it to its end.
pub(super) const CAUGHT_WINDOW_NS: i64 = 15 * SECOND_NS;

/// Those that stop a process: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const STOPS: [i32; 4] = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];

/// The signals that programs catch in order to end.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Ray starts these with SIGINT blocked (`python/ray/_private/services.py`; seen on 2.9 and 2.60): a Ctrl-C waits there and does nothing.
const BLOCK_INTERRUPTS: [Role; 4] = [Role::Raylet, Role::Gcs, Role::Agent, Role::Worker];

/// The act that ended the process of `exit`.
pub(super) fn of<'a>(world: &'a World, exit: &ExitSeen) -> FatalAct<'a> {
    let signals = world.signals_to(exit.exit.process);
    let Some(fatal) = exit
        .exit
        .signal()
        .or_else(|| infer_fatal_signal(world, exit))
    else {
        let caught = caught_before(world, exit.exit.process, exit.time);
        return FatalAct::Exited { caught };
    };
    let effective = signals
        .iter()
        .find(|seen| seen.what.took_effect && seen.what.signal == fatal);
    let delivered = world.delivered.get(&exit.exit.process.truncated());
    let delivered = delivered.map_or(&[][..], Vec::as_slice);
    let dumped = || {
        let delivered = delivered.iter().find(|seen| seen.what.0 == fatal)?;
        generated(signals, delivered)
    };
    // A signal that no thread could take at once sets no flag when it is sent: a later one of its number is only queued when it
    // has been taken, so that the last one that was queued is the one that killed.
    let queued = || {
        signals.iter().rev().find(|seen| {
            seen.what.signal == fatal && matches!(seen.what.result, 0 | 4) && !seen.what.group_exit
        })
    };
    // SIGKILL while a core is written ends the dump and becomes the wait status: the process was lost before.
    let dumping = |kill: &'a Timestamped<Signal>| {
        let before = delivered
            .iter()
            .find(|seen| seen.what.0 != fatal && seen.time <= kill.time)?;
        generated(signals, before)
    };
    let effective = effective.map(|kill| dumping(kill).unwrap_or(kill));
    match effective.or_else(dumped).or_else(queued) {
        Some(act) => FatalAct::Killed(act),
        None => FatalAct::Unseen { signal: fatal },
    }
}

/// Whether this signal, by whose number the process died, waited to be taken: it took no effect as it was sent, and nobody saw it delivered
/// soon after. Meanwhile a tracer may have taken it away and put in another one of its number, and be gone by the end. A process that is
/// stopped takes nothing before it goes on: until then the kernel keeps the number of the stop (`do_signal_stop` and `prepare_signal`,
/// kernel/signal.c).
pub(super) fn waited(world: &World, exit: &ExitSeen, signal: &Timestamped<Signal>) -> bool {
    let delivered = world.delivered.get(&exit.exit.process.truncated());
    let mut delivered = delivered.into_iter().flatten();
    let is_stopped = !signal.what.group_exit && STOPS.contains(&signal.what.group_exit_code);
    let at_once = |seen: &Timestamped<(i32, i32)>| {
        seen.what.0 == signal.what.signal && seen.time.since(signal.time) < SECOND_NS
    };
    !signal.what.took_effect && (is_stopped || !delivered.any(at_once))
}

/// Who traced the process as it was ended, as far as that was seen.
pub(super) fn tracer<'a>(exit: &'a ExitSeen, act: &FatalAct<'a>) -> Option<&'a Ancestor> {
    let of_signal = |seen: &'a Timestamped<Signal>| seen.what.tracer.as_ref();
    let at_act = match act {
        FatalAct::Killed(signal) => of_signal(signal),
        FatalAct::Exited { caught } => caught.and_then(of_signal),
        FatalAct::Unseen { .. } => None,
    };
    exit.exit.tracer.as_ref().or(at_act)
}

/// Whether a tracer may have made the process end so. None can take a SIGKILL of somebody else away, nor make one.
pub(super) fn may_be_a_tracers(exit: &ExitSeen, act: &FatalAct<'_>) -> bool {
    let is_beyond_it = match act {
        FatalAct::Killed(signal) => {
            let own = signal.what.sender.process.same(exit.exit.process);
            signal.what.signal == SIGKILL
                && signal.what.took_effect
                && (!own || signal_origin::of(&signal.what).is_kernels())
        }
        FatalAct::Exited { .. } | FatalAct::Unseen { .. } => false,
    };
    tracer(exit, act).is_some() && !is_beyond_it
}

/// Where the exit itself was not told: the signal that took effect, or whose default action was taken.
fn infer_fatal_signal(world: &World, exit: &ExitSeen) -> Option<i32> {
    if exit.exit.status.is_some() {
        return None;
    }
    let key = exit.exit.process;
    let signals = world.signals_to(key).iter();
    let effective = signals
        .filter(|seen| seen.what.took_effect)
        .map(|seen| (seen.time, seen.what.signal));
    let delivered = world.delivered.get(&key.truncated());
    let delivered = delivered.into_iter().flatten();
    let dumped = delivered.map(|seen| (seen.time, seen.what.0));
    let first = effective.chain(dumped).min_by_key(|(time, _)| *time)?;
    Some(first.1)
}

/// The signal whose default action was `delivered`. A queued signal may have been joined by another one of the same number: the
/// first pending one is what was delivered, with the delivered code.
fn generated<'a>(
    signals: &'a [Timestamped<Signal>],
    delivered: &Timestamped<(i32, i32)>,
) -> Option<&'a Timestamped<Signal>> {
    signals.iter().rev().find(|seen| {
        seen.time <= delivered.time
            && seen.what.signal == delivered.what.0
            && seen.what.code == delivered.what.1
            && matches!(seen.what.result, 0 | 4)
    })
}

/// The catchable signal from outside that came shortly before `end`. Of several, the first of the last volley: what came
/// later found a process that was ending.
pub(super) fn caught_before(
    world: &World,
    process: ProcessKey,
    end: BootTime,
) -> Option<&Timestamped<Signal>> {
    let signals = world.signals_to(process);
    let state = world.processes.get(process);
    let blocks = state.is_some_and(|state| BLOCK_INTERRUPTS.contains(&state.role));
    let comes_from_outside = |seen: &Timestamped<Signal>| {
        ENDING.contains(&seen.what.signal)
            && !(blocks && seen.what.signal == SIGINT)
            && matches!(seen.what.result, 0 | 4)
            && seen.what.sender.process.pid != process.pid
    };
    let last = signals.iter().rev().find(|seen| {
        comes_from_outside(seen) && (0..=CAUGHT_WINDOW_NS).contains(&end.since(seen.time))
    })?;
    // Those within a second belong together.
    let first = signals.iter().find(|seen| {
        comes_from_outside(seen) && (0..=SECOND_NS).contains(&last.time.since(seen.time))
    });
    Some(first.unwrap_or(last))
}
