//! Signals that the kernel itself sent (`si_code` 128, and -2 for timers): the OOM killer, and everything else that looks like it.

use super::{Case, Draft, SI_KERNEL, SI_TIMER, SIGKILL, itself};
use crate::{
    event::{KernelLog, OomVictim, ProbeState, Role, Signal},
    ids::ProcessKey,
    judge::{
        oom::{self, Constraint},
        report::{Certainty, Killer, Mechanism, Relation},
        world::Seen,
    },
    signals,
};

/// A mark and the kill of a process that shares the victim's memory are at most this far apart.
const SHARERS_NS: i64 = 1_000_000_000;
/// The hook that tells OOM kills.
const MARK: &str = "oom/mark_victim";

/// Whether the kernel sent it by itself: then its sender is only whoever ran at that moment.
pub(super) fn sent(signal: &Seen<Signal>) -> bool {
    matches!(signal.what.code, SI_KERNEL | SI_TIMER)
}

pub(super) fn verdict(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    if signal.what.code == SI_TIMER {
        let name = signals::name(signal.what.signal);
        return not_memory(
            signal,
            Mechanism::Timer,
            &format!("was ended by {name} from a timer of its own (timer_create)"),
        );
    }
    match signal.what.signal {
        SIGKILL => kill(case, signal),
        1..=3 => Draft::new(
            Killer::Signal,
            Certainty::Proven,
            format!(
                "was ended by its terminal ({})",
                signals::name(signal.what.signal)
            ),
        )
        .sent(signal, Relation::Other, Mechanism::Tty)
        .without_sender_identity(),
        24 => not_memory(
            signal,
            Mechanism::RlimitCpu,
            "was ended by the kernel at its CPU time limit (SIGXCPU, RLIMIT_CPU)",
        ),
        14 | 26 | 27 => not_memory(
            signal,
            Mechanism::Timer,
            "was ended by a timer that ran out",
        ),
        _ => itself::fault(case, signal),
    }
}

fn kill(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let key = case.key();
    if let Some(victim) = marked(case, key, signal) {
        return oom_kill(case, victim, group_leader(case, victim));
    }
    if let Some(victim) = sharer(case, signal) {
        return oom_kill(case, victim, Some(victim.what.victim));
    }
    // Who allocates when its cgroup is full is often the one that is killed: then the kernel sends in its own name.
    if let Some(draft) = by_kernel_log(case) {
        return draft;
    }
    let sender = &signal.what.sender;
    if sender.process.same(key) && signal.what.group && marks_are_seen(case) {
        return not_memory(
            signal,
            Mechanism::RlimitCpu,
            "was killed by the kernel at its hard CPU time limit (RLIMIT_CPU)",
        );
    }
    if sender.exiting && signal.what.group {
        return not_memory(
            signal,
            Mechanism::PidNamespaceExit,
            &format!(
                "was killed by the kernel because the init of its pid namespace (pid {}) ended",
                sender.process.pid
            ),
        )
        .caused_by(Some(sender.process));
    }
    if sender.exiting {
        return not_memory(
            signal,
            Mechanism::TracerExit,
            &format!(
                "was killed by the kernel because its tracer (pid {}) ended",
                sender.process.pid
            ),
        )
        .caused_by(Some(sender.process));
    }
    unexplained(case)
}

/// Whether every OOM kill is marked here: without that a process that is killed as it allocates looks like one at its CPU time limit.
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

/// An OOM kill whose mark was not seen, by the kernel log.
pub(super) fn by_kernel_log(case: &Case<'_>) -> Option<Draft> {
    let report = oom::from_kernel_log(case.world, case.exit)?;
    let mut draft = Draft::new(report.killer(), Certainty::Inferred, report.clause());
    draft.oom = Some(report.report);
    Some(draft)
}

/// A SIGKILL by the kernel that nothing explains.
fn unexplained(case: &Case<'_>) -> Draft {
    Draft::unknown(
        "was killed by the kernel itself (SIGKILL, si_code 128); nothing seen says why",
        "oom/mark_victim or a kernel log line for this pid: dmesg -T | grep -i -e oom -e 'killed process'",
    )
    .open(case.may_still_learn())
}

fn marked<'a>(
    case: &Case<'a>,
    key: ProcessKey,
    signal: &Seen<Signal>,
) -> Option<&'a Seen<OomVictim>> {
    // The mark finds its signal on the same CPU only: an invoker that was moved between the two has left it elsewhere.
    let follows = |seen: &Seen<OomVictim>| {
        seen.time >= signal.time && seen.what.invoker.same(signal.what.sender.process)
    };
    case.world.victims.iter().find(|seen| {
        seen.what.victim.same(key)
            && (seen.what.signalled || follows(seen))
            && seen.time.since(signal.time).abs() < SHARERS_NS
    })
}

/// The kernel kills every process that shares a victim's memory, without marking it.
fn sharer<'a>(case: &Case<'a>, signal: &Seen<Signal>) -> Option<&'a Seen<OomVictim>> {
    let mm = case.exit.exit.mm;
    case.world.victims.iter().find(|seen| {
        mm != 0
            && seen.what.mm == mm
            && seen.what.invoker.same(signal.what.sender.process)
            && (0..SHARERS_NS).contains(&signal.time.since(seen.time))
    })
}

/// With `memory.oom.group` the kernel kills a whole cgroup for one victim: that one is the cause of the others.
fn group_leader(case: &Case<'_>, victim: &Seen<OomVictim>) -> Option<ProcessKey> {
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
        one.cgroups.first().is_some_and(|level| {
            level.path == *group || level.path.starts_with(&format!("{group}/"))
        })
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

fn oom_kill(case: &Case<'_>, victim: &Seen<OomVictim>, cause: Option<ProcessKey>) -> Draft {
    let context = oom::from_mark(case.world, victim);
    let shared = !victim.what.victim.same(case.key());
    let clause = if shared {
        format!(
            "was killed by the kernel with pid {}, whose memory it shared",
            victim.what.victim
        )
    } else {
        context.clause()
    };
    let killer = context.killer();
    if killer == Killer::Unknown {
        let missing = "the kernel's stack at that moment, or its log: CAP_SYSLOG, dmesg";
        let mut draft = Draft::unknown(clause, missing).caused_by(cause);
        draft.oom = Some(context.report);
        return draft;
    }
    let certainty = if context.constraint == Constraint::Unknown {
        Certainty::Inferred
    } else {
        Certainty::Proven
    };
    let mut draft = Draft::new(killer, certainty, clause).caused_by(cause);
    draft.oom = Some(context.report);
    draft
}

fn not_memory(signal: &Seen<Signal>, mechanism: Mechanism, clause: &str) -> Draft {
    Draft::new(Killer::KernelOther, Certainty::Proven, clause)
        .sent(signal, Relation::Other, mechanism)
        .without_sender_identity()
}

/// Whether a process belongs to Ray, which uses parent-death signals on purpose.
pub(super) fn of_ray(case: &Case<'_>) -> bool {
    case.role() != Role::Other || case.cluster().is_some()
}
