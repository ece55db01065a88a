//! Finds the act that ended a process: the first fatal signal that took effect.
//!
//! A result of 0 from `signal_generate` is not enough, because a handled SIGTERM has it too. The
//! act is the signal that set the group-exit flag with its own number. For core-dumping signals, it
//! is the one whose default action was delivered.

use libc::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGKILL, SIGQUIT, SIGSEGV, SIGSTOP, SIGSYS, SIGTRAP,
    SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ,
};

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
    signals::ENDING,
};

/// How a process ended, as far as its signals show.
#[derive(Debug, Clone, Copy)]
pub(super) enum FatalAct<'a> {
    /// This signal killed it.
    Killed(&'a Timestamped<Signal>),
    /// It exited by itself, or how it ended is not known.
    Exited {
        /// A catchable signal from another process that arrived shortly before. Its handler may
        /// have ended the process.
        caught: Option<&'a Timestamped<Signal>>,
    },
    /// It died of this signal, but the sending was not seen.
    Unseen {
        /// The signal number in its wait status.
        signal: i32,
    },
}

impl FatalAct<'_> {
    /// Returns when the process was doomed: the time of the act if it was seen, else of the exit.
    pub(super) fn time(&self, exit: &ExitSeen) -> BootTime {
        match self {
            Self::Killed(signal) => signal.time,
            Self::Exited { .. } | Self::Unseen { .. } => exit.time,
        }
    }
}

/// A caught signal explains an exit that follows within this time.
///
/// Ray itself sends SIGKILL after 5 s. Nothing follows a SIGTERM from another program. On a machine
/// short of CPU time, a Python process took 9 s from the SIGTERM to its end.
pub(super) const CAUGHT_WINDOW_NS: i64 = 15 * SECOND_NS;

/// Signals that stop a process.
pub(super) const STOPS: [i32; 4] = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];

/// Signals whose default action dumps core (`SIG_KERNEL_COREDUMP_MASK`, linux/signal.h).
const DUMPS: [i32; 10] = [
    SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS,
];

/// Roles that Ray starts with SIGINT blocked (`python/ray/_private/services.py`; seen on 2.9 and
/// 2.60). A Ctrl-C stays pending there and does nothing.
const BLOCK_INTERRUPTS: [Role; 4] = [Role::Raylet, Role::Gcs, Role::Agent, Role::Worker];

/// Returns the act that ended the process of `exit`.
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
    // A signal that no thread could take at once sets no flag when it is sent. A later one with the
    // same number is queued only after the earlier one was taken. So the last one queued is the one
    // that killed.
    let queued = || {
        signals.iter().rev().find(|seen| {
            seen.what.signal == fatal && matches!(seen.what.result, 0 | 4) && !seen.what.group_exit
        })
    };
    // SIGKILL during a core dump ends the dump and becomes the wait status. The process was already
    // lost.
    let dumping = |kill: &'a Timestamped<Signal>| {
        let before = delivered.iter().find(|seen| {
            seen.what.0 != fatal && DUMPS.contains(&seen.what.0) && seen.time <= kill.time
        })?;
        generated(signals, before)
    };
    let effective = effective.map(|kill| dumping(kill).unwrap_or(kill));
    match effective.or_else(dumped).or_else(queued) {
        Some(act) => FatalAct::Killed(act),
        None => FatalAct::Unseen { signal: fatal },
    }
}

/// Whether this signal, whose number the process died of, waited before it was taken.
///
/// It took no effect when it was sent, and no delivery was seen soon after. Meanwhile a tracer may
/// have removed it, injected another one with the same number, and be gone by the end. A stopped
/// process takes no signal until it continues. Until then the kernel keeps the number of the stop
/// signal (`do_signal_stop` and `prepare_signal`, kernel/signal.c).
pub(super) fn was_pending(world: &World, exit: &ExitSeen, signal: &Timestamped<Signal>) -> bool {
    let delivered = world.delivered.get(&exit.exit.process.truncated());
    let mut delivered = delivered.into_iter().flatten();
    let is_stopped = !signal.what.group_exit && STOPS.contains(&signal.what.group_exit_code);
    let at_once = |seen: &Timestamped<(i32, i32)>| {
        seen.what.0 == signal.what.signal && seen.time.since(signal.time) < SECOND_NS
    };
    !signal.what.took_effect && (is_stopped || !delivered.any(at_once))
}

/// Returns the process that traced this one when it was ended, if that was seen.
pub(super) fn tracer<'a>(exit: &'a ExitSeen, act: &FatalAct<'a>) -> Option<&'a Ancestor> {
    let of_signal = |seen: &'a Timestamped<Signal>| seen.what.tracer.as_ref();
    let at_act = match act {
        FatalAct::Killed(signal) => of_signal(signal),
        FatalAct::Exited { caught } => caught.and_then(of_signal),
        FatalAct::Unseen { .. } => None,
    };
    exit.exit.tracer.as_ref().or(at_act)
}

/// Whether a tracer may have made the process end like this. A tracer can neither remove a SIGKILL
/// from somebody else nor make one.
pub(super) fn may_come_from_tracer(exit: &ExitSeen, act: &FatalAct<'_>) -> bool {
    let is_beyond_it = match act {
        FatalAct::Killed(signal) => {
            let own = signal.what.sender.process.same(exit.exit.process);
            signal.what.signal == SIGKILL
                && signal.what.took_effect
                && (!own || signal_origin::of(&signal.what).is_from_kernel())
        }
        FatalAct::Exited { .. } | FatalAct::Unseen { .. } => false,
    };
    tracer(exit, act).is_some() && !is_beyond_it
}

/// Infers the fatal signal if the exit status is unknown. It is the first signal that took effect
/// or whose default action was delivered.
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

/// Returns the signal whose default action was `delivered`.
///
/// Several signals of the same number may be queued. The kernel delivers the first pending one,
/// with its code.
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

/// Returns the catchable signal from another process that arrived shortly before `end`.
///
/// Of several, it is the first of the last volley. Later signals found a process that was already
/// ending.
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
    // Signals within a second of each other belong together.
    let first = signals.iter().find(|seen| {
        comes_from_outside(seen) && (0..=SECOND_NS).contains(&last.time.since(seen.time))
    });
    Some(first.unwrap_or(last))
}
