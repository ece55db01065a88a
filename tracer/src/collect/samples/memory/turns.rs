//! Whose turn it is to be looked at: first those that the kernel saw move, the fastest first, then those that were not looked at for the longest.
//!
//! What a look costs grows with the number of CPUs (since Linux 6.16 `statm` sums the counters of all): 0.7 µs on two, some 30 µs on 384. So a look is
//! made where something moved, and all looks together have a budget. Who sleeps is hardly looked at.
//!
//! Finding out whose turn it is must not grow with the number of processes either: thousands are passed by at the price of one word of the kernel's table each.

use std::time::Duration;

use crate::{
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    observe::kernel::{Levels, ResidentLevel, Slot},
};

/// Near a limit who runs is looked at this often at least, and who sleeps.
const RUNS_NEAR_NS: i64 = 2 * SECOND_NS;
const SLEEPS_NEAR_NS: i64 = 10 * SECOND_NS;
/// Who moved is looked at in each round for so long.
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

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleTurn {
    /// Its own, as urgent as that.
    Now(Rank),
    /// Not before then, unless that happens.
    From(BootTime, Unless),
}

/// What gives a process a turn before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unless {
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
    ) -> SampleTurn {
        let Some(looked) = self.looked else {
            let (moved, age) = (0, i64::MAX);
            return SampleTurn::Now(Rank { moved, age });
        };
        let age = now.since(looked);
        let Some(level) = level else {
            // The kernel does not tell of it: each round has it.
            return SampleTurn::Now(Rank { moved: 0, age });
        };
        let before = self.level.unwrap_or_default();
        let (moved, news) = (level.moved(&before), (before.resident() / 100).max(1 << 20));
        if moved >= news {
            return SampleTurn::Now(Rank { moved, age });
        }
        // What it takes between two ticks nobody sees: who moves is followed for a while.
        let moves = self.moved.is_some_and(|moved| now.since(moved) < MOVES_NS);
        if near && moves {
            return SampleTurn::Now(Rank { moved: 1, age });
        }
        let ran = level.ran(&before);
        let at_least = match (ran, near) {
            (true, true) => RUNS_NEAR_NS,
            (false, true) => SLEEPS_NEAR_NS,
            (true, false) => RUNS_FAR_NS,
            (false, false) => SLEEPS_FAR_NS,
        };
        if age >= at_least {
            SampleTurn::Now(Rank { moved: 0, age })
        } else {
            let unless = if ran {
                let (since, by) = (before, news);
                Unless::Moves { since, by }
            } else {
                Unless::Runs
            };
            SampleTurn::From(looked.plus(at_least), unless)
        }
    }
}

/// All processes, with what says at a glance that a process has no turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
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
    unless: Unless,
}

impl Waiting {
    /// Whether what would give it a turn before its time has not happened.
    fn rests(&self, levels: Option<Levels>, looks: u64) -> bool {
        match (self.unless, levels.zip(self.slot)) {
            _ if looks == self.looks => true,
            (Unless::Moves { since, by }, Some((levels, slot))) => {
                levels.of(slot, self.process).moved(&since) < by
            }
            _ => false,
        }
    }
}

/// What is known of a process that may have a turn.
pub(super) struct Asked {
    /// Its place in the kernel's table.
    pub(super) slot: Option<Slot>,
    /// Whose turn it is.
    pub(super) turn: SampleTurn,
}

impl Turns {
    /// Takes a process on; it has a turn at once.
    pub(super) fn add(&mut self, process: ProcessKey) {
        self.all.push(Waiting {
            process,
            slot: None,
            looks: 0,
            from: BootTime(0),
            unless: Unless::Runs,
        });
    }

    /// Those whose turn it is, the most urgent first. `ask` is called for who may have one, and forgets who is gone.
    pub(super) fn take(
        &mut self,
        now: BootTime,
        near: bool,
        levels: Option<Levels>,
        mut ask: impl FnMut(ProcessKey) -> Option<Asked>,
    ) -> Vec<Pid> {
        let all_may = std::mem::replace(&mut self.near, near) != near;
        let mut due = Vec::new();
        self.all.retain_mut(|one| {
            let looks = levels.zip(one.slot);
            let looks = looks.map_or(0, |(levels, slot)| levels.looks(slot));
            if !all_may && now < one.from && one.rests(levels, looks) {
                return true;
            }
            let Some(Asked { slot, turn }) = ask(one.process) else {
                return false;
            };
            (one.slot, one.looks) = (slot, looks);
            (one.from, one.unless) = match turn {
                SampleTurn::Now(rank) => {
                    due.push((rank, one.process.pid));
                    // Asked again in the next round: there may be no time for it in this one.
                    (BootTime(0), Unless::Runs)
                }
                SampleTurn::From(time, unless) => (time, unless),
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
            SampleTurn::Now(rank) => Some(rank),
            SampleTurn::From(time, _) => {
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
        assert!(rank(&own, at(29), true, level).is_some());
        assert_eq!(rank(&own, at(30), true, level), None);
        assert_eq!(rank(&own, at(29), false, level), None);
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
        let mut turns = Turns::default();
        turns.add(one);
        turns.add(other);
        let round = |turns: &mut Turns, now: BootTime, near: bool, turn: SampleTurn| {
            let mut asked = Vec::new();
            let due = turns.take(now, near, None, |process| {
                asked.push(process);
                let is_gone = process == other;
                (!is_gone).then_some(Asked { slot: None, turn })
            });
            (asked, due)
        };
        let now = SampleTurn::Now(Rank { moved: 0, age: 1 });
        let later = SampleTurn::From(at(20), Unless::Runs);
        // Who is gone is asked for once.
        assert_eq!(
            round(&mut turns, at(0), false, now),
            (vec![one, other], vec![Pid(1)])
        );
        // There was no time for it.
        assert_eq!(
            round(&mut turns, at(1), false, now),
            (vec![one], vec![Pid(1)])
        );
        assert_eq!(round(&mut turns, at(2), false, later), (vec![one], vec![]));
        assert_eq!(round(&mut turns, at(19), false, later), (vec![], vec![]));
        assert_eq!(round(&mut turns, at(20), false, later), (vec![one], vec![]));
        // Another pace holds as soon as a limit is near.
        let later = SampleTurn::From(at(40), Unless::Runs);
        assert_eq!(round(&mut turns, at(21), false, later), (vec![one], vec![]));
        assert_eq!(round(&mut turns, at(22), false, later), (vec![], vec![]));
        assert_eq!(
            round(&mut turns, at(23), true, now),
            (vec![one], vec![Pid(1)])
        );
    }

    #[test]
    fn the_kernel_s_look_at_a_process_has_it_asked_for() {
        let mut words = vec![0; 12];
        words[7] = 3;
        let levels = levels_of(&words);
        let slot = slot_of(1);
        let mut turns = Turns::default();
        turns.add(ProcessKey::new(1, 0));
        let ask = |_| {
            Some(Asked {
                slot: Some(slot),
                turn: SampleTurn::From(at(600), Unless::Runs),
            })
        };
        let mut asked = |levels| {
            let mut count = 0;
            turns.take(at(1), false, Some(levels), |process| {
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
        let mut turns = Turns::default();
        turns.add(process);
        let (since, by) = (ResidentLevel::default(), 8192);
        let unless = Unless::Moves { since, by };
        let mut asked = |words: &[u64]| {
            let mut count = 0;
            turns.take(at(1), false, Some(levels_of(words)), |_| {
                count += 1;
                let turn = SampleTurn::From(at(600), unless);
                let slot = Some(slot);
                Some(Asked { slot, turn })
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
