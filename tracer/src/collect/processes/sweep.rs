//! Finds tracked processes that ended without an exit event.
//!
//! Such events can be missing. Since Linux 7.0 a hook may be preempted, and another hook on the
//! same CPU is then skipped. A full ring followed by a full table has the same effect.
//!
//! A process that is still in the tracked set, but no longer in /proc, was missed. This check is
//! slow, so it is not done for each event.

use std::collections::HashSet;

use raytrace_ebpf::records::Hook;

use super::{ProcessTable, Processes};
use crate::{
    event::Ledger,
    ids::ProcessKey,
    judge::Judge,
    observe::{
        kernel::{Ledgers, Tracked},
        processes,
    },
};

/// What /proc says about a process.
#[derive(Debug, PartialEq, Eq)]
enum Liveness {
    Alive,
    /// It is gone, with its wait status if that is still there.
    Gone(Option<i32>),
}

fn liveness(process: ProcessKey, stat: Option<&processes::Stat>) -> Liveness {
    let Some(stat) = stat else {
        // Without a free descriptor, nothing can be read of processes that are alive.
        return if processes::exists(process.pid) {
            Liveness::Alive
        } else {
            Liveness::Gone(None)
        };
    };
    let now = ProcessKey {
        pid: process.pid,
        start: stat.start,
    };
    if !now.same(process) {
        return Liveness::Gone(None);
    }
    if is_dead(stat) {
        Liveness::Gone(stat.exit_code)
    } else {
        Liveness::Alive
    }
}

/// Whether all of a process is dead. The main thread may be a zombie while other threads live.
pub(super) fn is_dead(stat: &processes::Stat) -> bool {
    matches!(stat.state, 'Z' | 'X') && stat.threads <= 1
}

/// Whether the hook at the exit may have run already for a process with this state in /proc. The
/// hook runs after the flag of the exit is set.
pub(super) fn may_have_been_reported(process: ProcessKey, stat: Option<&processes::Stat>) -> bool {
    liveness(process, stat) != Liveness::Alive || stat.is_none_or(|stat| stat.exiting)
}

/// Whether a process is alive, by a table that was read just before.
fn lives(table: &ProcessTable, process: ProcessKey) -> bool {
    let stat = table.get(&process.pid);
    stat.is_some() && liveness(process, stat) == Liveness::Alive
}

/// The processes that may have ended unseen.
#[derive(Default)]
pub(super) struct Sweep {
    /// Processes that were in the tracked set, but gone, at the last check.
    suspects: Vec<ProcessKey>,
    /// Processes that were known, but not in /proc, at the last check.
    stale: Vec<ProcessKey>,
    /// The number of ends that no event reported.
    missed_exits: u64,
}

impl Processes {
    /// Returns each tracked process that is gone without an exit event, with its wait status if
    /// that is there. A process must be gone at two checks, so that an event still under way can
    /// arrive. A process that was alive in the table counts as alive.
    pub(in crate::collect) fn missed(
        &mut self,
        table: &ProcessTable,
        judge: &Judge,
    ) -> Vec<(ProcessKey, Option<i32>)> {
        let tracked = self.watchers.tracked.as_ref();
        let all = tracked.map(Tracked::all).unwrap_or_default();
        let suspects = std::mem::take(&mut self.sweep.suspects);
        if !self.watchers.late.is_empty() {
            let there: HashSet<ProcessKey> = all.iter().copied().collect();
            self.watchers.late.retain(|late| there.contains(late));
        }
        let mut missed = Vec::new();
        for process in all.into_iter().filter(|process| !lives(table, *process)) {
            let stat = processes::stat(process.pid);
            let Liveness::Gone(status) = liveness(process, stat.as_ref()) else {
                continue;
            };
            let told = judge.has_ended(process);
            if !told && !suspects.contains(&process) {
                self.sweep.suspects.push(process);
                continue;
            }
            // The hook removes a process from the set before it leaves /proc. If it is still in the
            // set after that, it was missed, or it was added too late.
            let tracked = self.watchers.tracked.as_mut();
            if tracked.is_some_and(|tracked| tracked.take(process))
                && !told
                && self.is_owed(process)
            {
                missed.push((process, status));
            }
        }
        missed
    }

    /// Whether the end of a process that is gone is to be reported.
    fn is_owed(&mut self, process: ProcessKey) -> bool {
        if !self.watchers.late.contains(&process) {
            self.sweep.missed_exits += 1;
            return true;
        }
        let known = self.known_as(process);
        let is_rays = known.is_some_and(|known| known.role.is_ray_or_driver());
        if !is_rays {
            // It ended before it was tracked, and is of no interest.
            self.gone(process);
        }
        is_rays
    }

    /// Returns processes that are known, but not in /proc, at two checks. The end of such a process
    /// was dropped on the way here, though the recording has it, or the process could not be
    /// watched. Without this, a later process with its pid would be taken for it.
    pub(in crate::collect) fn stale(&mut self, table: &ProcessTable) -> Vec<ProcessKey> {
        let known = self.all().map(|known| known.process.process);
        let pidfds = self.watchers.pidfds.as_ref();
        let is_gone = |process: &ProcessKey| {
            !lives(table, *process)
                && liveness(*process, processes::stat(process.pid).as_ref()) != Liveness::Alive
                && !pidfds.is_some_and(|pidfds| pidfds.waits_for(*process))
        };
        let gone: Vec<ProcessKey> = known.filter(is_gone).collect();
        let before = std::mem::replace(&mut self.sweep.stale, gone);
        let stale = &mut self.sweep.stale;
        let both = stale.extract_if(.., |process| before.contains(process));
        both.collect()
    }

    /// Returns a row for each user that was over a budget of the hooks.
    pub(in crate::collect) fn over_budgets(&self) -> Vec<Ledger> {
        let ledgers = self.watchers.ledgers.as_ref();
        ledgers.map(Ledgers::over).unwrap_or_default()
    }

    /// Returns the loss ledger of the hooks, with the exits that were missed.
    pub(in crate::collect) fn ledger(&self) -> Vec<Ledger> {
        let ledgers = self.watchers.ledgers.as_ref();
        let mut rows = ledgers.map(Ledgers::read).unwrap_or_default();
        if let Some(row) = rows.iter_mut().find(|row| row.hook == Hook::Exit.name()) {
            row.missed = self.sweep.missed_exits;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BootTime, Pid};

    /// Its pid is above the greatest that a kernel gives.
    const PROCESS: ProcessKey = ProcessKey {
        pid: Pid(5_000_077),
        start: BootTime(5_004_321_000),
    };

    fn stat(state: char, threads: u32) -> processes::Stat {
        processes::Stat {
            comm: "x".into(),
            state,
            parent: Pid(1),
            process_group: PROCESS.pid,
            start: PROCESS.truncated().start,
            threads,
            exit_code: Some(9),
            exiting: false,
        }
    }

    #[test]
    fn process_with_live_threads_is_alive() {
        assert_eq!(liveness(PROCESS, Some(&stat('S', 3))), Liveness::Alive);
        assert_eq!(liveness(PROCESS, Some(&stat('Z', 2))), Liveness::Alive);
    }

    /// A process that is missing from /proc is gone without a status.
    #[test]
    fn zombie_is_gone_with_its_status() {
        assert_eq!(liveness(PROCESS, None), Liveness::Gone(None));
        let zombie = stat('Z', 1);
        assert_eq!(liveness(PROCESS, Some(&zombie)), Liveness::Gone(Some(9)));
    }

    /// The exit of a process that was ending when it was tracked may have been reported already.
    #[test]
    fn exit_may_precede_tracking() {
        let running = stat('R', 1);
        assert!(!may_have_been_reported(PROCESS, Some(&running)));
        let exiting = processes::Stat {
            exiting: true,
            ..running
        };
        assert!(may_have_been_reported(PROCESS, Some(&exiting)));
        assert!(may_have_been_reported(PROCESS, Some(&stat('Z', 1))));
        assert!(may_have_been_reported(PROCESS, None));
    }

    #[test]
    fn reused_pid_is_another_process() {
        let other = processes::Stat {
            start: BootTime(6_000_000_000),
            ..stat('R', 1)
        };
        assert_eq!(liveness(PROCESS, Some(&other)), Liveness::Gone(None));
    }
}
