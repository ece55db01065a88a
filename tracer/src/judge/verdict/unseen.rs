//! A death by a signal whose sending was not seen: procfs mode, a signal from before the attach, or an injected one.

use super::{Case, Draft, SI_KERNEL, SIGKILL, itself, kernel, reasons};
use crate::{
    judge::report::{Certainty, Killer, Mechanism},
    signals,
};

pub(super) fn verdict(case: &Case<'_>, signal: i32) -> Draft {
    let name = signals::name(signal);
    if let Some(draft) = timer(case, signal) {
        return draft;
    }
    if let Some(raylet) = case.cluster().filter(|raylet| !raylet.same(case.key()))
        && let Some(reason) = reasons::for_process(case, raylet, case.exit.time)
    {
        let rival = kernel::by_kernel_log(case).filter(|_| signal == SIGKILL);
        if rival.is_none() {
            return reason.draft(case, Certainty::Inferred);
        }
    }
    if signal == SIGKILL
        && let Some(draft) = kernel::by_kernel_log(case)
    {
        return draft;
    }
    if signal == SIGKILL
        && let Some(draft) = itself::ended_before(case, case.exit.time)
    {
        return draft;
    }
    match signal {
        4 | 5 | 6 | 8 | 11 => Draft::new(
            Killer::Crash,
            Certainty::Inferred,
            format!("crashed with {name} (by its exit status)"),
        ),
        7 => Draft::new(
            Killer::Crash,
            Certainty::Inferred,
            "crashed with SIGBUS (by its exit status; a full /dev/shm does that)",
        ),
        31 => {
            let mut draft = Draft::new(
                Killer::KernelOther,
                Certainty::Inferred,
                "died of SIGSYS: a system call that seccomp forbids",
            );
            draft.sender = None;
            draft
        }
        24 => Draft::new(
            Killer::KernelOther,
            Certainty::Inferred,
            "died of SIGXCPU: its CPU time limit",
        ),
        _ => {
            let clause = format!("was ended by {name}; who sent it was not seen");
            Draft::unknown(clause, missing(case, signal)).open(case.may_still_learn())
        }
    }
}

/// SIGALRM, SIGVTALRM and SIGPROF are not reported when they are sent; the kernel's own, delivered with the default action,
/// is a timer that ran out.
fn timer(case: &Case<'_>, signal: i32) -> Option<Draft> {
    let key = case.exit.exit.process.truncated();
    let delivered = case.world.delivered.get(&key)?;
    let by_kernel = delivered
        .iter()
        .any(|seen| seen.what == (signal, SI_KERNEL));
    (by_kernel && matches!(signal, 14 | 26 | 27)).then(|| {
        let clause = "was ended by a timer that ran out";
        Draft::new(Killer::KernelOther, Certainty::Proven, clause)
            .sent_by_kernel(signal, Mechanism::Timer)
    })
}

/// What would settle it, by the mode that recorded.
fn missing(case: &Case<'_>, signal: i32) -> String {
    let at = case.world.clock.wall(case.exit.time);
    let journal = at.map_or_else(
        || "journalctl -k | grep -i -e oom -e killed".to_owned(),
        |at| {
            let second = 1_000_000_000;
            let show = |offset: i64| {
                let moved = crate::ids::WallTime(at.0.0 + offset * second);
                format!("{:.0}", moved.timestamp()).replace('T', " ").replace('Z', " UTC")
            };
            format!(
                "on the host: journalctl -k --since \"{}\" --until \"{}\" | grep -i -e oom -e killed",
                show(-30),
                show(30)
            )
        },
    );
    match (case.saw_signals(), signal) {
        (false, SIGKILL) => format!("{journal}; next time: sudo raytrace record"),
        (false, _) => "the sender: sudo raytrace record".into(),
        (true, _) => {
            format!("the sending, before the recorder attached or injected by a tracer; {journal}")
        }
    }
}
