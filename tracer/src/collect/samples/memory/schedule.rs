//! Schedules which process is sampled next: the one with the largest change, then the longest wait.
//!
//! The kernel's table shows which processes changed. The cost of a sample grows with the number of
//! CPUs (since Linux 6.16 `statm` sums the counters of all): 0.7 µs on two, some 30 µs on 384. So
//! only processes that changed are sampled at once, and all samples together have a budget.
//! Processes that sleep are rarely sampled.
//!
//! Finding the processes that are due must stay cheap for thousands of processes. Each process that
//! is skipped costs one word of the kernel's table.

use std::time::Duration;

use crate::{
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    observe::kernel::{ResidentLevel, ResidentTable, Slot},
};

/// Near a limit, processes that run and processes that sleep are sampled at least this often.
const RUNS_NEAR_NS: i64 = 2 * SECOND_NS;
const SLEEPS_NEAR_NS: i64 = 10 * SECOND_NS;
/// A process that changed is followed for this long: it is sampled in the next round, then less and
/// less often.
const MOVES_NS: i64 = 3 * SECOND_NS;
/// The same far from any limit.
const RUNS_FAR_NS: i64 = 10 * SECOND_NS;
const SLEEPS_FAR_NS: i64 = 60 * SECOND_NS;
/// The CPU time of one round near a limit. There are ten rounds a second, so this is a fortieth of
/// a CPU.
pub(super) const BUDGET_NEAR: Duration = Duration::from_micros(2500);
/// The same far from any limit, with one round a second.
pub(super) const BUDGET_FAR: Duration = Duration::from_millis(25);

/// How urgent a sample is. Greater ranks come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// By how much the process changed since its last sample.
    moved: u64,
    /// The time since its last sample.
    age: i64,
}

/// What is known of a process between two samples.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    /// When it was last sampled, and what the kernel had seen then.
    pub(super) looked: Option<BootTime>,
    pub(super) level: Option<ResidentLevel>,
    /// What the kernel had seen when its last row was written: changes count from there.
    pub(super) row_level: Option<ResidentLevel>,
    /// The last sample that found a change.
    pub(super) moved: Option<BootTime>,
}

/// When a process is sampled next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextSample {
    /// Now, with this urgency.
    Now(Rank),
    /// Not before this time, unless the condition is met.
    From(BootTime, WakeCondition),
}

/// What causes a process to be sampled before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeCondition {
    /// The kernel sees the process run.
    Runs,
    /// The process has run already, and the kernel sees its memory change by this much.
    Moves { since: ResidentLevel, by: u64 },
}

impl Before {
    /// Returns when the process is sampled next. The kernel has seen `level` of it by now.
    pub(super) fn turn(
        &self,
        now: BootTime,
        near: bool,
        level: Option<ResidentLevel>,
    ) -> NextSample {
        let Some(looked) = self.looked else {
            let (moved, age) = (0, i64::MAX);
            return NextSample::Now(Rank { moved, age });
        };
        let age = now.since(looked);
        let Some(level) = level else {
            // The kernel does not report on it, so it is sampled in each round.
            return NextSample::Now(Rank { moved: 0, age });
        };
        let since = self.row_level.unwrap_or_default();
        let (moved, threshold) = (level.moved(&since), large(&since));
        if moved >= threshold {
            return NextSample::Now(Rank { moved, age });
        }
        let ran = level.ran(&self.level.unwrap_or_default());
        let at_least = match (ran, near) {
            (true, true) => RUNS_NEAR_NS,
            (false, true) => SLEEPS_NEAR_NS,
            (true, false) => RUNS_FAR_NS,
            (false, false) => SLEEPS_FAR_NS,
        };
        // Growth between two ticks is not seen, so a process that changed is followed for a while.
        let followed = self
            .moved
            .filter(|moved| near && now.since(*moved) < MOVES_NS)
            .map(|moved| looked.since(moved));
        let at_least = followed.map_or(at_least, |quiet| quiet.min(at_least));
        if age >= at_least {
            let moved = u64::from(followed.is_some());
            NextSample::Now(Rank { moved, age })
        } else {
            let unless = if ran {
                WakeCondition::Moves {
                    since,
                    by: threshold,
                }
            } else {
                WakeCondition::Runs
            };
            NextSample::From(looked.plus(at_least), unless)
        }
    }

    /// Lets changes count from the last sample if a row was written of it. They also do if the
    /// kernel's figures had changed enough for a row and the exact ones had not: the process would
    /// be sampled in each round. Otherwise small changes add up from sample to sample.
    pub(super) fn count_from_here(&mut self, has_row: bool) {
        let moved = self
            .level
            .zip(self.row_level)
            .is_none_or(|(level, since)| level.moved(&since) >= large(&since));
        if has_row || moved {
            self.row_level = self.level;
        }
    }
}

/// Returns the change that is worth a row, in bytes.
fn large(since: &ResidentLevel) -> u64 {
    (since.resident() / 100).max(1 << 20)
}

/// All processes, with what shows quickly that a process is not due.
#[derive(Debug, Default)]
pub(super) struct SampleSchedule {
    all: Vec<Waiting>,
    near: bool,
}

/// One process.
#[derive(Debug)]
struct Waiting {
    process: ProcessKey,
    slot: Option<Slot>,
    /// How often the kernel had checked it.
    looks: u64,
    from: BootTime,
    unless: WakeCondition,
}

impl Waiting {
    /// Whether the condition to sample it early is not met.
    fn rests(&self, levels: Option<ResidentTable>, looks: u64) -> bool {
        match (self.unless, levels.zip(self.slot)) {
            _ if looks == self.looks => true,
            (WakeCondition::Moves { since, by }, Some((levels, slot))) => {
                levels.of(slot, self.process).moved(&since) < by
            }
            _ => false,
        }
    }
}

/// What is known of a process that may be due.
pub(super) struct ScheduleEntry {
    /// Its slot in the kernel's table.
    pub(super) slot: Option<Slot>,
    /// When a process is sampled next.
    pub(super) turn: NextSample,
}

impl SampleSchedule {
    /// Adds a process. It is due at once.
    pub(super) fn add(&mut self, process: ProcessKey) {
        self.all.push(Waiting {
            process,
            slot: None,
            looks: 0,
            from: BootTime(0),
            unless: WakeCondition::Runs,
        });
    }

    /// Returns the processes that are due, the most urgent first. `ask` is called for each that may
    /// be due; it returns `None` for a process that has exited, which is then dropped.
    pub(super) fn take(
        &mut self,
        now: BootTime,
        near: bool,
        levels: Option<ResidentTable>,
        mut ask: impl FnMut(ProcessKey) -> Option<ScheduleEntry>,
    ) -> Vec<Pid> {
        let all_may = std::mem::replace(&mut self.near, near) != near;
        let mut due = Vec::new();
        self.all.retain_mut(|one| {
            let looks = levels.zip(one.slot);
            let looks = looks.map_or(0, |(levels, slot)| levels.looks(slot));
            if !all_may && now < one.from && one.rests(levels, looks) {
                return true;
            }
            let Some(ScheduleEntry { slot, turn }) = ask(one.process) else {
                return false;
            };
            (one.slot, one.looks) = (slot, looks);
            (one.from, one.unless) = match turn {
                NextSample::Now(rank) => {
                    due.push((rank, one.process.pid));
                    // It is asked again in the next round, in case there is no time for it in this
                    // one.
                    (BootTime(0), WakeCondition::Runs)
                }
                NextSample::From(time, unless) => (time, unless),
            };
            true
        });
        in_order(due)
    }
}

/// Sorts the processes by rank, the most urgent first.
fn in_order(mut due: Vec<(Rank, Pid)>) -> Vec<Pid> {
    due.sort_unstable_by(|one, other| other.cmp(one));
    due.into_iter().map(|(_, pid)| pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::kernel::{level_of, levels_of, slot_of};

    const MIB: u64 = 1 << 20;

    fn at(tenths: u64) -> BootTime {
        BootTime(100_000_000_000 + tenths * 100_000_000)
    }

    fn before(level: Option<ResidentLevel>) -> Before {
        Before {
            looked: Some(at(0)),
            level,
            row_level: level,
            moved: None,
        }
    }

    fn rank(own: &Before, now: BootTime, near: bool, level: Option<ResidentLevel>) -> Option<Rank> {
        match own.turn(now, near, level) {
            NextSample::Now(rank) => Some(rank),
            NextSample::From(time, _) => {
                assert!(time > now);
                None
            }
        }
    }

    /// Processes that run are sampled more often.
    #[test]
    fn sleeping_processes_are_sampled_rarely() {
        let own = before(Some(level_of(1, 50 * MIB)));
        let slept = Some(level_of(1, 50 * MIB));
        let ran = Some(level_of(2, 50 * MIB));
        assert_eq!(rank(&own, at(599), false, slept), None);
        assert!(rank(&own, at(600), false, slept).is_some());
        assert_eq!(rank(&own, at(99), false, ran), None);
        assert!(rank(&own, at(100), false, ran).is_some());
        assert_eq!(rank(&own, at(19), true, ran), None);
        assert!(rank(&own, at(20), true, ran).is_some());
        assert_eq!(rank(&own, at(99), true, slept), None);
        assert!(rank(&own, at(100), true, slept).is_some());
    }

    /// A change of 1 MiB or of 1 % is large.
    #[test]
    fn large_change_is_due_at_once() {
        let small = before(Some(level_of(1, 50 * MIB)));
        assert!(rank(&small, at(1), false, Some(level_of(1, 51 * MIB))).is_some());
        let large = before(Some(level_of(1, 1000 * MIB)));
        assert_eq!(
            rank(&large, at(1), true, Some(level_of(2, 1009 * MIB))),
            None
        );
        assert!(rank(&large, at(1), true, Some(level_of(2, 990 * MIB))).is_some());
    }

    #[test]
    fn small_changes_add_up_to_a_large_one() {
        let mut own = before(Some(level_of(1, 50 * MIB)));
        let sampled = |own: &mut Before, kib: u64, has_row: bool| {
            own.level = Some(level_of(1, 50 * MIB + (kib << 10)));
            own.count_from_here(has_row);
        };
        let is_due = |own: &Before, kib: u64| {
            rank(own, at(1), false, Some(level_of(1, 50 * MIB + (kib << 10)))).is_some()
        };
        sampled(&mut own, 700, false);
        assert!(!is_due(&own, 1000) && is_due(&own, 1024));
        // The exact figure had not changed as much as the kernel's: it is not asked again at once.
        sampled(&mut own, 1024, false);
        assert!(!is_due(&own, 1024) && is_due(&own, 2048));
        sampled(&mut own, 1500, true);
        assert!(!is_due(&own, 2048) && is_due(&own, 2524));
    }

    #[test]
    fn changed_process_is_followed_near_a_limit() {
        let own = Before {
            moved: Some(at(0)),
            ..before(Some(level_of(1, 50 * MIB)))
        };
        let level = Some(level_of(1, 50 * MIB));
        assert!(rank(&own, at(1), true, level).is_some());
        assert_eq!(rank(&own, at(1), false, level), None);
        // The longer it has not changed, the less often it is sampled.
        let quiet = Before {
            looked: Some(at(8)),
            ..own
        };
        assert_eq!(rank(&quiet, at(15), true, level), None);
        assert!(rank(&quiet, at(16), true, level).is_some());
        assert_eq!(rank(&quiet, at(30), true, level), None);
    }

    #[test]
    fn fastest_come_first_then_new_then_oldest() {
        let rank = |before: Before, level| rank(&before, at(1), true, level).expect("a turn");
        let fast = rank(before(Some(level_of(1, 0))), Some(level_of(2, 90 * MIB)));
        let slow = rank(before(Some(level_of(1, 0))), Some(level_of(2, 2 * MIB)));
        let new = rank(Before::default(), None);
        let unknown = rank(before(None), None);
        let due = vec![
            (unknown, Pid(4)),
            (slow, Pid(2)),
            (new, Pid(3)),
            (fast, Pid(1)),
        ];
        assert_eq!(in_order(due), [Pid(1), Pid(2), Pid(3), Pid(4)]);
    }

    /// A change of whether a limit is near makes all processes due.
    #[test]
    fn sleeping_process_is_asked_when_due() {
        let (one, other) = (ProcessKey::new(1, 0), ProcessKey::new(2, 0));
        let mut schedule = SampleSchedule::default();
        schedule.add(one);
        schedule.add(other);
        let round = |schedule: &mut SampleSchedule, now: BootTime, near: bool, turn: NextSample| {
            let mut asked = Vec::new();
            let due = schedule.take(now, near, None, |process| {
                asked.push(process);
                let is_gone = process == other;
                (!is_gone).then_some(ScheduleEntry { slot: None, turn })
            });
            (asked, due)
        };
        let now = NextSample::Now(Rank { moved: 0, age: 1 });
        let later = NextSample::From(at(20), WakeCondition::Runs);
        // A process that is gone is asked for once.
        assert_eq!(
            round(&mut schedule, at(0), false, now),
            (vec![one, other], vec![Pid(1)])
        );
        // There was no time for it.
        assert_eq!(
            round(&mut schedule, at(1), false, now),
            (vec![one], vec![Pid(1)])
        );
        assert_eq!(
            round(&mut schedule, at(2), false, later),
            (vec![one], vec![])
        );
        assert_eq!(round(&mut schedule, at(19), false, later), (vec![], vec![]));
        assert_eq!(
            round(&mut schedule, at(20), false, later),
            (vec![one], vec![])
        );
        // A change of `near` makes all processes due again.
        let later = NextSample::From(at(40), WakeCondition::Runs);
        assert_eq!(
            round(&mut schedule, at(21), false, later),
            (vec![one], vec![])
        );
        assert_eq!(round(&mut schedule, at(22), false, later), (vec![], vec![]));
        assert_eq!(
            round(&mut schedule, at(23), true, now),
            (vec![one], vec![Pid(1)])
        );
    }

    #[test]
    fn process_seen_running_is_asked() {
        let mut words = vec![0; 12];
        words[7] = 3;
        let levels = levels_of(&words);
        let slot = slot_of(1);
        let mut schedule = SampleSchedule::default();
        schedule.add(ProcessKey::new(1, 0));
        let ask = |_| {
            Some(ScheduleEntry {
                slot: Some(slot),
                turn: NextSample::From(at(600), WakeCondition::Runs),
            })
        };
        let mut asked = |levels| {
            let mut count = 0;
            schedule.take(at(1), false, Some(levels), |process| {
                count += 1;
                ask(process)
            });
            count
        };
        assert_eq!((asked(levels), asked(levels), asked(levels)), (1, 1, 0));
        words[7] = 4;
        assert_eq!(asked(levels_of(&words)), 1);
    }
    #[test]
    fn running_process_without_change_is_not_asked() {
        let mut words = vec![0; 6];
        let (process, slot) = (ProcessKey::new(1, 0), slot_of(0));
        let mut schedule = SampleSchedule::default();
        schedule.add(process);
        let (since, by) = (ResidentLevel::default(), 8192);
        let unless = WakeCondition::Moves { since, by };
        let mut asked = |words: &[u64]| {
            let mut count = 0;
            schedule.take(at(1), false, Some(levels_of(words)), |_| {
                count += 1;
                let turn = NextSample::From(at(600), unless);
                let slot = Some(slot);
                Some(ScheduleEntry { slot, turn })
            });
            count
        };
        words[1] = 1;
        assert_eq!((asked(&words), asked(&words), asked(&words)), (1, 0, 0));
        words[1] = 2;
        words[3] = 1;
        assert_eq!(asked(&words), 0);
        words[3] = 2;
        assert_eq!(asked(&words), 1);
    }
}
