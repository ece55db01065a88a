//! Judges signals that the kernel sent for a reason of its own (`si_code` 128).
//!
//! They come from the OOM killer, or look as if they did.

use libc::{SIGALRM, SIGBUS, SIGHUP, SIGKILL, SIGPROF, SIGVTALRM};

use super::{Case, Draft, arranged, limits};
use crate::{
    cgroup_path::is_below,
    event::{KernelLog, OomVictim, ProbeState, Signal},
    ids::{ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, ProcessRef, Resource},
        fatal_act,
        missing::Missing,
        query::oom::{self, Basis, Marked},
        report::{Certainty, Killer, Mechanism, OomReport},
        signal_origin::{Origin, SignalOrigin},
        state::timestamped::Timestamped,
    },
    signals,
};

/// A mark, and the kill of a process that shares the victim's memory, are at most this far apart.
const SHARERS_NS: i64 = SECOND_NS;
/// The hook that reports OOM kills.
const MARK: &str = "oom/mark_victim";

/// Returns the verdict on a signal that the kernel sent, for its own reason or because somebody had
/// arranged it.
pub(super) fn verdict(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    origin: SignalOrigin,
) -> Draft {
    if let Some(draft) = arranged::verdict(case, signal, origin) {
        return draft;
    }
    if let Some(draft) = limits::by_signal(signal, origin) {
        return draft;
    }
    let certainty = origin.certainty();
    match (origin.kind, signal.what.signal) {
        (Origin::Kernel, SIGKILL) => kill(case, signal, certainty),
        (Origin::Kernel, SIGHUP) if was_stopped_and_left(case, signal) => {
            stopped_and_left(signal, true)
        }
        (Origin::Kernel, SIGHUP) if is_of_a_stopped_group(case, signal) => {
            // A terminal whose session leader exits sends it too.
            stopped_and_left(signal, false).at_most(Certainty::Inferred)
        }
        (Origin::Kernel, number @ 1..=3) => {
            // The same signal goes to a running process whose group has a stopped one that nobody
            // is left to continue.
            let certainty = if number == SIGHUP && signal.what.sender.exiting {
                certainty.max(Certainty::Inferred)
            } else {
                certainty
            };
            Draft::new(
                Killer::Signal,
                certainty,
                Cause::Terminal { signal: number },
            )
            .sent_for_itself(signal, Mechanism::Tty)
        }
        (Origin::Kernel, number @ (SIGALRM | SIGVTALRM | SIGPROF)) => {
            let cause = Cause::Timer {
                signal: number,
                created: false,
            };
            not_memory(signal, Mechanism::Timer, cause).at_most(certainty)
        }
        (Origin::Kernel, number) if !signals::is_fault(number) => {
            let cause = Cause::KernelSignal { signal: number };
            let mut draft = not_memory(signal, Mechanism::Unknown, cause).at_most(certainty);
            draft.reason_certainty = Certainty::Unknown;
            draft
        }
        _ => fault(case, signal).at_most(certainty),
    }
}

/// Signals to the processes of one group are sent within this time.
const AT_ONCE_NS: i64 = 100_000_000;

/// Returns whether the kernel sent SIGHUP to a stopped process when the last process ended that
/// could have continued it (`kill_orphaned_pgrp`, kernel/exit.c). A hang-up of a terminal, which a
/// dying session leader also sends, takes effect at once in a running process that does not block
/// it.
fn was_stopped_and_left(case: &Case<'_>, signal: &Timestamped<Signal>) -> bool {
    let mut all = case.world.signals_to(case.key()).iter();
    // A process that caught it, and raised it again or exited, may have been running.
    let waited = case.exit.exit.signal() == Some(SIGHUP)
        && !all.any(|seen| seen.what.signal == SIGHUP && seen.what.took_effect);
    signal.what.sender.exiting && waited
}

/// Returns whether the same end made the kernel send SIGHUP to another process, which was stopped.
fn is_of_a_stopped_group(case: &Case<'_>, signal: &Timestamped<Signal>) -> bool {
    let mut all = case.world.signals.values().flatten();
    let is_stopped = |seen: &Timestamped<Signal>| {
        let one = &seen.what;
        one.signal == SIGHUP
            && one.code == signal.what.code
            && one.sender.process.same(signal.what.sender.process)
            && seen.time.since(signal.time).abs() < AT_ONCE_NS
            && !one.group_exit
            && fatal_act::STOPS.contains(&one.group_exit_code)
    };
    signal.what.sender.exiting && all.any(is_stopped)
}

fn stopped_and_left(signal: &Timestamped<Signal>, itself: bool) -> Draft {
    let cause = Cause::StoppedThenOrphaned {
        ended: ProcessRef::of(&signal.what.sender),
        itself,
    };
    not_memory(signal, Mechanism::OrphanedGroup, cause).caused_by(Some(signal.what.sender.process))
}

/// Returns the verdict on a synchronous fault, or on a signal that the process sent to itself.
pub(super) fn fault(case: &Case<'_>, signal: &Timestamped<Signal>) -> Draft {
    let number = signal.what.signal;
    let shared = case.exit.around.memory.shmem_bytes;
    let cause = Cause::Crash {
        signal: Some(number),
        says: None,
        // A full `/dev/shm` is one cause of SIGBUS.
        shared_memory: number == SIGBUS && shared.is_some_and(|bytes| bytes.0 > 0),
    };
    Draft::new(Killer::Crash, Certainty::Proven, cause)
}

fn kill(case: &Case<'_>, signal: &Timestamped<Signal>, certainty: Certainty) -> Draft {
    let key = case.key();
    if let Some(victim) = marked(case, key, signal) {
        let leader = group_leader(case, victim);
        let waits = leader.is_none() && may_be_of_a_group(case, victim);
        return oom_kill(case, victim, leader).open_if(waits);
    }
    if let Some(victim) = sharer(case, signal) {
        return oom_kill(case, victim, Some(victim.what.victim));
    }
    // The process that allocates when its cgroup is full is often the one that is killed. It is
    // then the sender of its own signal.
    if let Some(draft) = by_kernel_log(case) {
        return draft;
    }
    let sender = &signal.what.sender;
    if sender.process.same(key) && signal.what.group && marks_are_seen(case) {
        return not_memory(
            signal,
            Mechanism::RlimitCpu,
            Cause::ResourceLimit {
                limit: Resource::CpuTimeHard,
            },
        )
        .at_most(certainty);
    }
    if sender.exiting && signal.what.group {
        return not_memory(
            signal,
            Mechanism::PidNamespaceExit,
            Cause::PidNamespaceExit {
                init_pid: sender.process.pid,
            },
        )
        .caused_by(Some(sender.process));
    }
    if sender.exiting {
        return not_memory(
            signal,
            Mechanism::TracerExit,
            Cause::TracerExit {
                tracer_pid: sender.process.pid,
            },
        )
        // Each thread traces for itself.
        .caused_by(Some(sender.process).filter(|_| sender.process_exiting != Some(false)));
    }
    unexplained(case)
}

/// Returns whether every OOM kill is marked here. Without marks, a process that is killed as it
/// allocates looks like one at its CPU time limit.
fn marks_are_seen(case: &Case<'_>) -> bool {
    let missing = case
        .world
        .probes
        .iter()
        .any(|probe| probe.name == MARK && probe.state == ProbeState::Missing);
    let lost = case
        .world
        .ledgers
        .iter()
        .any(|ledger| ledger.hook == MARK && ledger.lost() > 0);
    !missing && !lost
}

/// Returns the verdict on an OOM kill by the kernel log, if its mark was not seen.
pub(super) fn by_kernel_log(case: &Case<'_>) -> Option<Draft> {
    oom::from_kernel_log(case.world, case.key(), case.exit.time).map(unmarked)
}

/// Returns the verdict on an OOM kill whose mark was not seen.
fn unmarked(report: OomReport) -> Draft {
    let cause = oom::cause(&report);
    let killer = Killer::of_oom(&cause);
    let mut draft = Draft::new(killer, Certainty::Inferred, Cause::KernelOom(cause));
    draft.oom = Some(report);
    draft
}

/// Returns the verdict on an OOM kill by the count of kills in the process's cgroup, in a recording
/// without eBPF.
pub(super) fn by_counts(case: &Case<'_>) -> Option<Draft> {
    if case.saw_signals() {
        return None;
    }
    oom::from_counts(case.world, case.exit).map(|counted| unmarked(counted.report))
}

/// Returns the verdict on a SIGKILL by the kernel that nothing explains.
fn unexplained(case: &Case<'_>) -> Draft {
    Draft::unknown(Cause::KernelUnexplained, Missing::KernelReason).open(case.may_still_learn())
}

fn marked<'a>(
    case: &Case<'a>,
    key: ProcessKey,
    signal: &Timestamped<Signal>,
) -> Option<&'a Timestamped<OomVictim>> {
    // The mark finds its signal only on the same CPU. If the invoker moved to another CPU between
    // the two, the signal is matched by its sender.
    let follows = |seen: &Timestamped<OomVictim>| {
        seen.time >= signal.time && seen.what.invoker.same(signal.what.sender.process)
    };
    case.world.victims.iter().find(|seen| {
        seen.what.victim.same(key)
            && (seen.what.signalled || follows(seen))
            && seen.time.since(signal.time).abs() < SHARERS_NS
    })
}

/// Returns the marked victim that shares its memory with this process. The kernel kills such a
/// process without marking it.
fn sharer<'a>(case: &Case<'a>, signal: &Timestamped<Signal>) -> Option<&'a Timestamped<OomVictim>> {
    let mm = case.exit.exit.mm;
    case.world.victims.iter().find(|seen| {
        mm != 0
            && seen.what.mm == mm
            && seen.what.invoker.same(signal.what.sender.process)
            && (0..SHARERS_NS).contains(&signal.time.since(seen.time))
    })
}

/// Returns the victim for which the kernel killed a whole cgroup (`memory.oom.group`). It is the
/// cause of the others.
fn group_leader(case: &Case<'_>, victim: &Timestamped<OomVictim>) -> Option<ProcessKey> {
    let group = case
        .world
        .kernel_log
        .iter()
        .find_map(|seen| match &seen.what {
            KernelLog::OomGroup { cgroup }
                if seen.time.since(victim.time).abs() < 5 * SHARERS_NS =>
            {
                Some(cgroup)
            }
            _ => None,
        })?;
    let within = |one: &OomVictim| {
        let own = one.cgroups.first().and_then(|own| one.path(own));
        own.is_some_and(|own| is_below(own, group))
    };
    let first = case
        .world
        .victims
        .iter()
        .filter(|seen| {
            seen.what.signalled
                && within(&seen.what)
                && seen.what.invoker.same(victim.what.invoker)
                && seen.time.since(victim.time).abs() < SHARERS_NS
        })
        .min_by_key(|seen| seen.time)?;
    (within(&victim.what) && !first.what.victim.same(victim.what.victim))
        .then_some(first.what.victim)
}

/// Returns whether the kernel log may still say that a whole cgroup was killed for one victim. That
/// is possible if others were marked in the same act.
fn may_be_of_a_group(case: &Case<'_>, victim: &Timestamped<OomVictim>) -> bool {
    let beside = |seen: &&Timestamped<OomVictim>| {
        !seen.what.victim.same(victim.what.victim)
            && seen.what.invoker.same(victim.what.invoker)
            && seen.time.since(victim.time).abs() < SHARERS_NS
    };
    case.may_still_learn() && case.world.victims.iter().any(|seen| beside(&seen))
}

fn oom_kill(case: &Case<'_>, victim: &Timestamped<OomVictim>, cause: Option<ProcessKey>) -> Draft {
    let Marked { report, limit } = oom::from_mark(case.world, victim);
    let oom = oom::cause(&report);
    let killer = Killer::of_oom(&oom);
    let shared = !victim.what.victim.same(case.key());
    let why = if shared {
        Cause::SharedVictimsMemory {
            victim_pid: victim.what.victim.pid,
        }
    } else {
        Cause::KernelOom(oom)
    };
    // The mark says that it was the OOM killer, and for which kind of limit.
    let mut draft = Draft::new(killer, Certainty::Proven, why).caused_by(cause);
    draft.reason_certainty = limit.certainty();
    draft.missing = match (killer, limit) {
        (Killer::KernelOom, _) => Some(Missing::Scope),
        (_, Basis::Nothing) => Some(Missing::Limit),
        _ => None,
    };
    draft.oom = Some(report);
    // The kernel log may still say it.
    let waits = limit.certainty() != Certainty::Proven && case.may_still_learn();
    draft.open_if(waits)
}

fn not_memory(signal: &Timestamped<Signal>, mechanism: Mechanism, cause: Cause) -> Draft {
    Draft::new(Killer::KernelOther, Certainty::Proven, cause).sent_for_itself(signal, mechanism)
}
