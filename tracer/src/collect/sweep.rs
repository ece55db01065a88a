//! Finds tracked processes that ended without an exit event.
//!
//! The kernel can owe us one: since Linux 7.0 a hook may be preempted, and another one on the same processor is then left out; a
//! full ring with a full table behind it does the same.
//!
//! A slow look: who is still in the tracked set, and no longer in /proc, was missed. Never per event.

use std::collections::HashSet;

use raytrace_ebpf::records::Hook;

use super::{
    Collector,
    discover::{Table, table},
    endings::Heard,
};
use crate::{
    event::{Ledger, Process, Source},
    ids::ProcessKey,
    observe::{clock, processes},
};

/// What /proc tells of a process.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Alive,
    /// With its wait status, where that is still there.
    Gone(Option<i32>),
}

fn look(process: ProcessKey, stat: Option<&processes::Stat>) -> Found {
    let Some(stat) = stat else {
        // Without a descriptor to be had nothing can be read of those that live.
        return if processes::is_there(process.pid) {
            Found::Alive
        } else {
            Found::Gone(None)
        };
    };
    let now = ProcessKey {
        pid: process.pid,
        start: stat.start,
    };
    if !now.same(process) {
        return Found::Gone(None);
    }
    if is_dead(stat) {
        Found::Gone(stat.exit_code)
    } else {
        Found::Alive
    }
}

/// A zombie; a leader may have ended while other threads live.
pub(super) fn is_dead(stat: &processes::Stat) -> bool {
    matches!(stat.state, 'Z' | 'X') && stat.threads <= 1
}

/// Whether the hook at the exit, which runs after the flag is set, may have run already for a process that is as this look at it found it.
pub(super) fn may_have_been_told(process: ProcessKey, stat: Option<&processes::Stat>) -> bool {
    look(process, stat) != Found::Alive || stat.is_none_or(|stat| stat.exiting)
}

impl Collector {
    /// Gives each tracked process that is gone without an exit event its death, with what is known. It must be gone at two looks, so that
    /// an event that is under way has come.
    pub fn sweep(&mut self) {
        self.sweep_in(&table());
    }

    /// The same by a table that was read just before: who lived then lives.
    pub(super) fn sweep_in(&mut self, table: &Table) {
        let tracked = self.tracked.as_ref();
        let all = tracked.map(super::Tracked::all).unwrap_or_default();
        let suspects = std::mem::take(&mut self.suspects);
        if !self.late.is_empty() {
            let there: HashSet<ProcessKey> = all.iter().copied().collect();
            self.late.retain(|late| there.contains(late));
        }
        let mut any = false;
        let lived = |process: ProcessKey| {
            let stat = table.get(&process.pid);
            stat.is_some() && look(process, stat) == Found::Alive
        };
        for process in all.into_iter().filter(|process| !lived(*process)) {
            let stat = processes::stat(process.pid);
            let Found::Gone(status) = look(process, stat.as_ref()) else {
                continue;
            };
            let told = self.judge.has_ended(process);
            if !told && !suspects.contains(&process) {
                self.suspects.push(process);
                continue;
            }
            // The hook takes it out of the set before it leaves /proc: who is in it after that was missed, or was put in too late.
            let tracked = self.tracked.as_mut();
            if tracked.is_some_and(|tracked| tracked.take(process)) && !told {
                if !self.late.contains(&process) {
                    self.missed_exits += 1;
                } else if self
                    .known_as(process)
                    .is_none_or(|known| !known.role.is_rays())
                {
                    // It ended before it was tracked, and nobody will ask for it.
                    self.gone(process);
                    continue;
                }
                any = true;
                self.found_ended(process, status, Heard::Now(Source::Proc, clock::boot()));
            }
        }
        any |= self.drop_stale_processes(lived);
        if any {
            self.read_logs();
        }
    }

    /// Who is known and not in /proc, at two looks: its end was dropped on the way here, though the recording has it, or it could not be
    /// watched, and then it is told now. Else a later process with its pid would pass for it.
    fn drop_stale_processes(&mut self, lived: impl Fn(ProcessKey) -> bool) -> bool {
        let known = self.known.values().map(|known| known.process.process);
        let pidfds = self.pidfds.as_ref();
        let is_gone = |process: &ProcessKey| {
            !lived(*process)
                && look(*process, processes::stat(process.pid).as_ref()) != Found::Alive
                && !pidfds.is_some_and(|pidfds| pidfds.waits_for(*process))
        };
        let gone: Vec<ProcessKey> = known.filter(is_gone).collect();
        let before = std::mem::replace(&mut self.stale, gone);
        let both: Vec<ProcessKey> = self
            .stale
            .extract_if(.., |process| before.contains(process))
            .collect();
        let mut told = false;
        for process in both {
            if self.pidfds.is_some() && !self.judge.has_ended(process) {
                self.found_ended(process, None, Heard::Now(Source::Proc, clock::boot()));
                told = true;
            }
            self.gone(process);
        }
        told
    }

    pub(super) fn known_as(&self, process: ProcessKey) -> Option<&Process> {
        let known = self.known.get(&process.pid).map(|known| &known.process);
        known.filter(|known| known.process.same(process))
    }

    /// Puts the exits that were missed into the ledger's row.
    pub(super) fn count_missed(&self, rows: &mut [Ledger]) {
        if let Some(row) = rows.iter_mut().find(|row| row.hook == Hook::Exit.name()) {
            row.missed = self.missed_exits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BootTime, Pid};

    /// Above the greatest pid that a kernel gives.
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
    fn who_lives_or_has_threads_that_live_is_not_called_gone() {
        assert_eq!(look(PROCESS, Some(&stat('S', 3))), Found::Alive);
        assert_eq!(look(PROCESS, Some(&stat('Z', 2))), Found::Alive);
    }

    #[test]
    fn a_process_that_is_gone_has_ended_and_a_zombie_has_its_status() {
        assert_eq!(look(PROCESS, None), Found::Gone(None));
        let zombie = stat('Z', 1);
        assert_eq!(look(PROCESS, Some(&zombie)), Found::Gone(Some(9)));
    }

    #[test]
    fn an_end_that_had_begun_before_it_was_tracked_may_have_been_told_before() {
        let running = stat('R', 1);
        assert!(!may_have_been_told(PROCESS, Some(&running)));
        let exiting = processes::Stat {
            exiting: true,
            ..running
        };
        assert!(may_have_been_told(PROCESS, Some(&exiting)));
        assert!(may_have_been_told(PROCESS, Some(&stat('Z', 1))));
        assert!(may_have_been_told(PROCESS, None));
    }

    #[test]
    fn a_pid_that_somebody_else_has_now_is_not_the_process() {
        let other = processes::Stat {
            start: BootTime(6_000_000_000),
            ..stat('R', 1)
        };
        assert_eq!(look(PROCESS, Some(&other)), Found::Gone(None));
    }
}
