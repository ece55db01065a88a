//! Finds the act that ended a process: the first fatal signal that took effect.
//!
//! A result of 0 from `signal_generate` is not enough, because a handled SIGTERM has it too. The
//! act is the signal that set the group-exit flag with its own number. For core-dumping signals, it
//! is the one whose default action was delivered.

use libc::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGINT, SIGKILL, SIGPROF, SIGQUIT, SIGSEGV, SIGSTOP,
    SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU, SIGVTALRM, SIGXCPU, SIGXFSZ,
};

use crate::{
    event::{Ancestor, Role, Signal, Source},
    ids::{BootTime, ProcessKey, SECOND_NS},
    judge::{
        signal_origin::{self, Origin},
        state::{
            interferences,
            timestamped::{ExitSeen, Timestamped},
            world::{EXITS_NS, World},
        },
    },
    ray::facts::RayFact,
    signals::{ENDING, is_fault},
};

/// How a process ended, as far as its signals show.
#[derive(Debug, Clone, Copy)]
pub(super) enum FatalAct<'a> {
    /// This signal killed it.
    Killed(&'a Timestamped<Signal>),
    /// It exited by itself, or how it ended is not known.
    Exited {
        /// A signal from outside that the process had caught. Its handler may have ended the
        /// process.
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

/// A hang-up, an interrupt or a quit that was caught explains an exit that follows within this
/// time, or one whose code names it.
///
/// Programs also catch these for other purposes and go on: an interrupted cell of a notebook, a
/// reload. A SIGTERM asks a process to end, and a handler may save for as long as it likes.
pub(super) const GOES_ON_NS: i64 = 15 * SECOND_NS;

/// Signals that stop a process.
pub(super) const STOPS: [i32; 4] = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU];

/// Signals whose default action dumps core (`SIG_KERNEL_COREDUMP_MASK`, linux/signal.h).
const DUMPS: [i32; 10] = [
    SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS,
];

/// Signals that the kernel sends at a timer or a limit that the process has.
const OWN_LIMITS: [i32; 4] = [SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU];

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
    let waited = |seen: &&Timestamped<Signal>| {
        matches!(seen.what.result, 0 | 4) && fate(world, exit.exit.process, seen) != Fate::Pending
    };
    let dumped = || {
        let delivered = delivered.iter().find(|seen| seen.what.0 == fatal)?;
        taken_first(
            signals
                .iter()
                .filter(waited)
                .filter(|seen| fits(seen, delivered)),
        )
    };
    // A signal that no thread could take at once sets no flag when it is sent.
    let queued = || {
        let of_number =
            |seen: &&Timestamped<Signal>| seen.what.signal == fatal && !seen.what.group_exit;
        taken_first(signals.iter().filter(waited).filter(of_number))
    };
    // SIGKILL during a core dump ends the dump and becomes the wait status. The process was already
    // lost.
    let dumping = |kill: &'a Timestamped<Signal>| {
        let before = delivered.iter().find(|seen| {
            seen.what.0 != fatal && DUMPS.contains(&seen.what.0) && seen.time <= kill.time
        })?;
        taken_first(
            signals
                .iter()
                .filter(waited)
                .filter(|seen| fits(seen, before)),
        )
    };
    let effective = effective.map(|kill| dumping(kill).unwrap_or(kill));
    match effective.or_else(dumped).or_else(queued) {
        Some(act) => FatalAct::Killed(act),
        None => FatalAct::Unseen { signal: fatal },
    }
}

/// Returns when the end of a process began, as far as was seen.
///
/// That is the act that killed it. One that exits takes a while, and so does one that its raylet or
/// its own handler ends. Its end began when it caught the signal, or when the kernel or Ray first
/// showed that it was ending.
pub(super) fn began(world: &World, exit: &ExitSeen) -> BootTime {
    let act = of(world, exit);
    let time = act.time(exit);
    let process = exit.exit.process;
    let words = || ray_said_it_ends(world, process);
    let (caught, said) = match act {
        FatalAct::Killed(signal) if signal.what.sender.process.same(process) => {
            (caught_before(world, process, time), None)
        }
        FatalAct::Killed(signal) if is_raylet(world, signal.what.sender.process) => (None, words()),
        FatalAct::Killed(_) => (None, None),
        FatalAct::Exited { caught } => (caught, words()),
        FatalAct::Unseen { .. } => (None, words()),
    };
    let exiting = world.exiting_since.get(&process.truncated()).copied();
    let is_its_end = |(since, whole): &(BootTime, Option<bool>)| {
        whole.is_some() || time.since(*since) <= EXITS_NS
    };
    let exiting = exiting.filter(is_its_end).map(|(since, _)| since);
    // Without the kernel's event, an exit is noticed a while after it.
    let noticed = exit.source != Source::Kernel && !matches!(act, FatalAct::Killed(_));
    let noticed = noticed.then(|| time.plus(-SECOND_NS));
    let first = [caught.map(|seen| seen.time), said, exiting, noticed];
    first.into_iter().flatten().fold(time, BootTime::min)
}

/// Returns whether one sender killed two processes at one time. A raylet kills a worker after the
/// worker's children.
pub(super) fn is_one_act(one: &FatalAct<'_>, other: &FatalAct<'_>) -> bool {
    let (FatalAct::Killed(one), FatalAct::Killed(other)) = (one, other) else {
        return false;
    };
    one.what.sender.process.same(other.what.sender.process)
        && one.time.since(other.time).abs() < SECOND_NS
}

fn is_raylet(world: &World, process: ProcessKey) -> bool {
    let state = world.processes.get(process);
    world.cluster(process).is_some() || state.is_some_and(|state| state.role == Role::Raylet)
}

/// Returns when a log of Ray's first had that this process was to end, or had left.
fn ray_said_it_ends(world: &World, process: ProcessKey) -> Option<BootTime> {
    let about = world.ray_about(process).into_iter().filter(|record| {
        matches!(
            record.what.fact,
            RayFact::MonitorKill(_)
                | RayFact::MonitorEvicted { .. }
                | RayFact::Disconnected { .. }
                | RayFact::DriverDisconnected { .. }
                | RayFact::OwnerDied { .. }
                | RayFact::JobFinished { .. }
                | RayFact::KillActorRequested { .. }
                | RayFact::ForceKilled { .. }
                | RayFact::GroupTerminated { .. }
                | RayFact::StopSignal { .. }
                | RayFact::NotRegistered { .. }
                | RayFact::SelfDisconnect { .. }
                | RayFact::RayletLost { .. }
                | RayFact::ForceKillActor { .. }
                | RayFact::GcsWorkerExit { .. }
        )
    });
    let node = world.ray_of_cluster(process).filter(|record| {
        matches!(
            record.what.fact,
            RayFact::RayletSigterm
                | RayFact::RayletShutdown { .. }
                | RayFact::RayletMarkedDead { .. }
                | RayFact::AgentFailed { .. }
        )
    });
    about.chain(node).map(|record| record.time).min()
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
        seen.what.0 == signal.what.signal && (0..SECOND_NS).contains(&seen.time.since(signal.time))
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

/// Returns the last act of another process, on the memory or by ptrace, that may have brought about
/// this end. It can have made the process exit, fault or send a signal, at once or much later, and
/// have replaced a signal that waited. It can neither undo a signal that took effect nor forge one
/// of somebody else.
pub(super) fn interference<'a>(
    world: &'a World,
    exit: &ExitSeen,
    act: &FatalAct<'_>,
) -> Option<&'a Timestamped<interferences::Act>> {
    let process = exit.exit.process;
    let (from, until) = match act {
        FatalAct::Killed(signal) if is_own(process, &signal.what) => (BootTime(0), signal.time),
        FatalAct::Killed(signal) if signal.what.took_effect => return None,
        FatalAct::Killed(signal) => (signal.time.plus(-RECORDED_NS), exit.time),
        FatalAct::Exited { .. } | FatalAct::Unseen { .. } => (BootTime(0), exit.time),
    };
    let acts = world.interferences.on(process).iter().rev();
    let mut acts = acts.filter(|seen| from <= seen.time && seen.time <= until);
    acts.next()
}

/// One record stands for all acts of one process and way in this time (`PROCESS_SHIFT` of
/// `tracer-ebpf/src/records.rs`).
const RECORDED_NS: i64 = 1 << 32;

/// Whether something was lost that may have brought about this end: a signal that the process
/// caught, or an act of a tracer or writer.
pub(super) fn may_lack_another(world: &World, exit: &ExitSeen, act: &FatalAct<'_>) -> bool {
    let process = exit.exit.process;
    let until = match act {
        FatalAct::Killed(signal) if is_own(process, &signal.what) => signal.time,
        FatalAct::Killed(signal) if signal.what.took_effect => return false,
        _ => exit.time,
    };
    let unrecorded = exit.exit.unrecorded;
    let losses = &world.signal_losses;
    unrecorded == Some(true) || losses.within(process.start, until, unrecorded.is_some())
}

/// Returns whether a signal is what the process itself has done: it sent it, it is a fault, or the
/// process had set the timer or made the call at which the kernel sent it.
fn is_own(process: ProcessKey, signal: &Signal) -> bool {
    use Origin::{CgroupKill, Fault, FileLimit, Kernel, MessageQueue, Requested, Seccomp, Timer};
    let own = signal.sender.process.same(process);
    let number = signal.signal;
    match signal_origin::of(signal).kind {
        Requested(_) | CgroupKill | Fault | MessageQueue | Origin::Unknown => own,
        Seccomp | FileLimit | Timer => true,
        Kernel => OWN_LIMITS.contains(&number) || own && is_fault(number),
        _ => false,
    }
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

/// Returns whether the default action that was `delivered` may be that of this signal. Where the
/// kernel had no memory for what comes with a signal (result 4), its code is lost.
fn fits(seen: &Timestamped<Signal>, delivered: &Timestamped<(i32, i32)>) -> bool {
    let (number, code) = delivered.what;
    let same_code = seen.what.code == code || seen.what.result == 4 && code == 0;
    seen.time <= delivered.time && seen.what.signal == number && same_code
}

/// Returns which of several signals of one number the kernel takes, as far as that is known.
///
/// A thread's own queue comes before that of its process (`dequeue_signal`, kernel/signal.c). In one
/// queue, another one of a number below 32 is queued only after the earlier one was taken, so the
/// last one remains. Of real-time signals, the oldest is taken.
fn taken_first<'a>(
    waited: impl Iterator<Item = &'a Timestamped<Signal>> + Clone,
) -> Option<&'a Timestamped<Signal>> {
    let last = waited.clone().last()?;
    if last.what.signal >= FIRST_REAL_TIME {
        return waited.min_by_key(|seen| (seen.what.group, seen.time));
    }
    waited.filter(|seen| !seen.what.group).last().or(Some(last))
}

/// Returns whether a signal that waited may have been another one, of another sender.
///
/// That is so if another one of its number waited in another queue, or any real-time one, and it is
/// not seen which of them was taken. Of numbers that are reported only without a handler, one that
/// came meanwhile may be missing.
pub(super) fn may_be_another(world: &World, exit: &ExitSeen, signal: &Timestamped<Signal>) -> bool {
    let (process, what) = (exit.exit.process, &signal.what);
    if what.took_effect {
        return false;
    }
    let number = what.signal;
    let is_reported = DUMPS.contains(&number) || ENDING.contains(&number);
    let delivered = world.delivered.get(&process.truncated());
    let mut delivered = delivered.into_iter().flatten();
    let delivered = delivered.find(|seen| seen.what.0 == number);
    let is_rival = |seen: &Timestamped<Signal>| {
        let other = &seen.what;
        let same_queue = other.group == what.group
            && (what.group || other.target_tid == what.target_tid)
            && number < FIRST_REAL_TIME;
        other.signal == number
            && !same_queue
            && !other.sender.process.same(what.sender.process)
            && matches!(other.result, 0 | 4)
            && delivered.is_none_or(|delivered| fits(seen, delivered))
            && fate(world, process, seen) != Fate::Pending
    };
    !is_reported || world.signals_to(process).iter().any(is_rival)
}

/// The first of the real-time signals. Several of one number can wait in one queue.
const FIRST_REAL_TIME: i32 = 32;

/// Returns whether the process did this itself soon after it had caught a signal from outside. The
/// handler may have done it. What comes long after is the process's own. A signal that it sends to
/// itself is judged by `self_exit::own_signal`, which looks at all its life.
pub(super) fn may_follow_caught(world: &World, exit: &ExitSeen, act: &FatalAct<'_>) -> bool {
    let process = exit.exit.process;
    let FatalAct::Killed(signal) = act else {
        return false;
    };
    let kind = signal_origin::of(&signal.what).kind;
    let sends = matches!(kind, Origin::Requested(_) | Origin::CgroupKill);
    let (since, before) = (signal.time.plus(-GOES_ON_NS), signal.time.plus(-1));
    !sends && is_own(process, &signal.what) && has_caught(world, process, since, before)
}

/// Returns the signal from outside that the process had caught before `end`, and that may be why it
/// ended then. Neither this nor the contrary is ever proven.
///
/// Of several, it is the first of the last volley. Later signals found a process that was already
/// ending.
pub(super) fn caught_before(
    world: &World,
    process: ProcessKey,
    end: BootTime,
) -> Option<&Timestamped<Signal>> {
    let explains = |seen: &Timestamped<Signal>| {
        ENDING.contains(&seen.what.signal)
            && was_taken(world, process, seen)
            && fate(world, process, seen) != Fate::Unknown
            && may_have_ended(world, process, seen, end)
    };
    let signals = world.signals_to(process);
    let last = signals.iter().rev().find(|seen| explains(seen))?;
    // Signals within a second of each other belong together.
    let first = signals
        .iter()
        .find(|seen| (0..=SECOND_NS).contains(&last.time.since(seen.time)) && explains(seen));
    Some(first.unwrap_or(last))
}

/// Returns whether the process had caught a signal from outside after `since`, up to `end`. Then it
/// is not proven that it ended by itself: any signal may be agreed on for that (`--signal=USR1` of
/// Slurm).
pub(super) fn has_caught(
    world: &World,
    process: ProcessKey,
    since: BootTime,
    end: BootTime,
) -> bool {
    let mut signals = world.signals_to(process).iter();
    signals.any(|seen| since < seen.time && seen.time <= end && was_taken(world, process, seen))
}

/// Returns whether a signal from outside was queued for this process, and may have been taken by
/// one of its threads.
fn was_taken(world: &World, process: ProcessKey, seen: &Timestamped<Signal>) -> bool {
    !(seen.what.signal == SIGINT && blocks_interrupts(world, process))
        && matches!(seen.what.result, 0 | 4)
        && is_from_outside(process, &seen.what)
        && fate(world, process, seen) != Fate::Pending
}

/// Returns whether another process sent a signal, or the kernel for anything but a fault. At a limit
/// of a process, it runs that process; so it may where a file becomes ready, whoever arranged that,
/// and where a BPF program sends it.
fn is_from_outside(process: ProcessKey, signal: &Signal) -> bool {
    use Origin::{Descriptor, Fault, FileLimit, Kernel, Timer, Unknown};
    let kind = signal_origin::of(signal).kind;
    let is_fault = kind == Fault || is_fault(signal.signal);
    let by_kernel = matches!(kind, Kernel | FileLimit | Timer) && !is_fault;
    let from_another = signal.sender.process.pid != process.pid;
    from_another || by_kernel || matches!(kind, Descriptor | Unknown)
}

/// Returns whether a process blocks SIGINT, as its role says. Recordings of this version have the
/// signals that were pending at its end.
fn blocks_interrupts(world: &World, process: ProcessKey) -> bool {
    let state = world.processes.get(process);
    let exit = world.exit(process);
    exit.is_none_or(|exit| exit.exit.pending.is_none())
        && state.is_some_and(|state| BLOCK_INTERRUPTS.contains(&state.role))
}

/// Returns whether a signal that was caught may be why the process ended at `end`: it has begun no
/// call since. What a handler saves is no call.
fn may_have_ended(
    world: &World,
    process: ProcessKey,
    seen: &Timestamped<Signal>,
    end: BootTime,
) -> bool {
    let exit = world.exit(process);
    let number = seen.what.signal;
    let asks_to_end =
        number == SIGTERM || signal_origin::of(&seen.what).kind == Origin::ParentDeath;
    let named = || exit.is_some_and(|exit| exit.exit.code() == Some(128 + number));
    let calls = world.calls.get(&process.truncated());
    let after = end.since(seen.time);
    after >= 0
        && (asks_to_end || after <= GOES_ON_NS || named())
        && !calls.is_some_and(|calls| calls.began_after(seen.time))
}

/// What became of a signal that was queued for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// No thread took it: it was pending when the process ended.
    Pending,
    /// It was taken, although the last thread blocked it: by `sigwait`, by a signalfd, or by
    /// another thread.
    TakenWhileBlocked,
    /// A thread took it, as far as is known.
    Taken,
    /// It was for one thread, and blocked at the end. Newer kernels (6.18) drop what is pending for
    /// a thread before they report its exit.
    Unknown,
}

/// Returns what became of a signal that was queued for a process which has ended.
pub(super) fn fate(world: &World, process: ProcessKey, seen: &Timestamped<Signal>) -> Fate {
    let number = seen.what.signal;
    let exit = world.exit(process);
    let Some(pending) = exit.and_then(|exit| exit.exit.pending) else {
        return Fate::Taken;
    };
    let is_in = |set: u64| (1..=64).contains(&number) && set & (1 << (number - 1)) != 0;
    let queue = if seen.what.group {
        pending.process
    } else {
        pending.threads
    };
    if is_in(queue) && is_last_queued(world.signals_to(process), seen) {
        Fate::Pending
    } else if !is_in(pending.blocked) {
        Fate::Taken
    } else if seen.what.group {
        Fate::TakenWhileBlocked
    } else {
        Fate::Unknown
    }
}

/// Returns whether no signal with the same number was queued later in the same queue. A later one is
/// queued only after the earlier one was taken. Which of several threads still had one is not known.
fn is_last_queued(signals: &[Timestamped<Signal>], seen: &Timestamped<Signal>) -> bool {
    let mut queued = signals.iter().filter(|other| {
        other.what.signal == seen.what.signal
            && other.what.group == seen.what.group
            && matches!(other.what.result, 0 | 4)
    });
    queued.all(|other| {
        let one_thread = seen.what.group || other.what.target_tid == seen.what.target_tid;
        one_thread && other.time <= seen.time
    })
}
