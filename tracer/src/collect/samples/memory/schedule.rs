//! Schedules which process is sampled next: first those whose memory the kernel saw change, the fastest first, then those not sampled for longest.
//!
//! What a look costs grows with the number of CPUs (since Linux 6.16 `statm` sums the counters of all): 0.7 µs on two, some 30 µs on 384. So a look is
//! made where something moved, and all looks together have a budget. Who sleeps is hardly looked at.
//!
//! Finding out whose turn it is must not grow with the number of processes either: thousands are passed by at the price of one word of the kernel's table each.

use std::time::Duration;

use crate::{
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    observe::kernel::{ResidentLevel, ResidentTable, Slot},
};

/// Near a limit who runs is looked at this often at least, and who sleeps.
const RUNS_NEAR_NS: i64 = 2 * SECOND_NS;
const SLEEPS_NEAR_NS: i64 = 10 * SECOND_NS;
/// Who moved is followed for so long: in the next round, then ever more seldom.
const MOVES_NS: i64 = 3 * SECOND_NS;
/// And far from any.
const RUNS_FAR_NS: i64 = 10 * SECOND_NS;
const SLEEPS_FAR_NS: i64 = 60 * SECOND_NS;
/// Processor time of one round, ten of which make a second near a limit: a fortieth of a core.
pub(super) const BUDGET_NEAR: Duration = Duration::from_micros(2500);
/// And far from any, where a second has one round.
pub(super) const BUDGET_FAR: Duration = Duration::from_millis(25);

/// How urgent a look is: a greater one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// What the process moved by since its last look.
    moved: u64,
    /// Since when it was not looked at.
    age: i64,
}

/// What is known of a process between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    /// The last look, and what the kernel had seen then.
    pub(super) looked: Option<BootTime>,
    pub(super) level: Option<ResidentLevel>,
    /// The last look that found that it had moved.
    pub(super) moved: Option<BootTime>,
}

/// When a process is sampled next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextSample {
    /// Now, as urgent as that.
    Now(Rank),
    /// Not before then, unless that happens.
    From(BootTime, WakeCondition),
}

/// What causes a process to be sampled before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeCondition {
    /// The kernel sees it run.
    Runs,
    /// It has run already; the kernel sees it move by so much.
    Moves { since: ResidentLevel, by: u64 },
}

impl Before {
    /// Whether it is to be looked at now, of which the kernel has seen `level` by now.
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
            // The kernel does not tell of it: each round has it.
            return NextSample::Now(Rank { moved: 0, age });
        };
        let before = self.level.unwrap_or_default();
        let (moved, threshold) = (level.moved(&before), (before.resident() / 100).max(1 << 20));
        if moved >= threshold {
            return NextSample::Now(Rank { moved, age });
        }
        let ran = level.ran(&before);
        let at_least = match (ran, near) {
            (true, true) => RUNS_NEAR_NS,
            (false, true) => SLEEPS_NEAR_NS,
            (true, false) => RUNS_FAR_NS,
            (false, false) => SLEEPS_FAR_NS,
        };
        // What it takes between two ticks nobody sees: who moves is followed for a while.
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
                let (since, by) = (before, threshold);
                WakeCondition::Moves { since, by }
            } else {
                WakeCondition::Runs
            };
            NextSample::From(looked.plus(at_least), unless)
        }
    }
}

/// All processes, with what says at a glance that a process has no turn.
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
    /// The kernel's looks at it so far.
    looks: u64,
    from: BootTime,
    unless: WakeCondition,
}

impl Waiting {
    /// Whether what would give it a turn before its time has not happened.
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

/// What is known of a process that may have a turn.
pub(super) struct ScheduleEntry {
    /// Its place in the kernel's table.
    pub(super) slot: Option<Slot>,
    /// When a process is sampled next.
    pub(super) turn: NextSample,
}

impl SampleSchedule {
    /// Takes a process on; it has a turn at once.
    pub(super) fn add(&mut self, process: ProcessKey) {
        self.all.push(Waiting {
            process,
            slot: None,
            looks: 0,
            from: BootTime(0),
            unless: WakeCondition::Runs,
        });
    }

    /// Those whose turn it is, the most urgent first. `ask` is called for who may have one, and drops processes that have exited.
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
                    // Asked again in the next round: there may be no time for it in this one.
                    (BootTime(0), WakeCondition::Runs)
                }
                NextSample::From(time, unless) => (time, unless),
            };
            true
        });
        in_order(due)
    }
}

/// The processes in the order of their turns.
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

    #[test]
    fn who_sleeps_is_left_alone_and_who_runs_has_a_turn_now_and_then() {
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

    #[test]
    fn a_move_of_a_mebibyte_or_a_percent_is_looked_at_at_once() {
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
    fn who_moved_is_followed_for_a_while_near_a_limit() {
        let own = Before {
            moved: Some(at(0)),
            ..before(Some(level_of(1, 50 * MIB)))
        };
        let level = Some(level_of(1, 50 * MIB));
        assert!(rank(&own, at(1), true, level).is_some());
        assert_eq!(rank(&own, at(1), false, level), None);
        // The longer it has not moved, the more seldom.
        let quiet = Before {
            looked: Some(at(8)),
            ..own
        };
        assert_eq!(rank(&quiet, at(15), true, level), None);
        assert!(rank(&quiet, at(16), true, level).is_some());
        assert_eq!(rank(&quiet, at(30), true, level), None);
    }

    #[test]
    fn the_fastest_come_first_then_the_new_then_the_oldest() {
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

    #[test]
    fn who_sleeps_is_not_even_asked_until_its_time_comes_or_the_kernel_sees_it_run() {
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
        // Who is gone is asked for once.
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
        // Another pace holds as soon as a limit is near.
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
    fn the_kernel_s_look_at_a_process_has_it_asked_for() {
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
    fn who_runs_on_without_moving_is_not_asked_again() {
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
