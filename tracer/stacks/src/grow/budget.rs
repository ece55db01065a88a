//! Rations the processor time that goes into growth.
//!
//! The time is spent by bytes: the less of it is left, the more bytes a piece of work must explain.
//! So the largest growth has its line however fast the machine is. Work that explains much at
//! little cost has savings of its own, and takes from the common ones when these do not suffice.

use std::time::Duration;

use raytrace_proc::clock;

/// Processor time per second that all kinds of work share, for all processes together. Unused time
/// is saved for the next burst, up to the second value.
const COMMON: Savings = Savings::new(Duration::from_micros(1500), Duration::from_millis(175));
/// Additional time while a limit is near. What is held then explains a death.
const NEAR: Savings = Savings::new(Duration::from_millis(12), Duration::from_millis(1500));
/// What is kept for [`Work::Lines`]: without the interpreter the kernel takes no stacks, and a
/// stack that is not named is not seen again.
const LINES: Savings = Savings::new(Duration::from_millis(1), Duration::from_millis(75));
/// What is kept for [`Work::Native`].
const NATIVE: Savings = Savings::new(Duration::from_millis(1), Duration::from_millis(100));
/// What is kept for [`Work::Measure`]: growth that is not measured may be that of another line.
const MEASURES: Savings = Savings::new(Duration::from_millis(1), Duration::from_millis(100));
/// What is kept for [`Work::GivenBack`]: memory that is given back and not measured would be told
/// as held.
const GIVEN_BACK: Savings = Savings::new(Duration::from_micros(500), Duration::from_millis(20));
/// What is kept for counters, which are read in any case. On a node with 40 processes of Ray that
/// start, they take 3 to 6 ms a second, else 1 ms.
const COUNTERS: Savings = Savings::new(Duration::from_millis(2), Duration::from_millis(30));

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Finding an interpreter, and naming the Python frames that the kernel took.
    Lines,
    /// Naming the native frames that the kernel took.
    Native,
    /// Measuring what was given back.
    GivenBack,
    /// Measuring what grew.
    Measure,
    /// Reading a stack from outside.
    Outside,
}

impl Work {
    /// How many bytes it must explain while all the time is left. Naming a stack takes 0.1 ms,
    /// measuring mappings 0.1 to 0.8, reading a stack 0.5 to 1.5. Native frames take 0.04 ms, but
    /// 3 ms where a library is new.
    fn least(self) -> u64 {
        match self {
            Self::Lines | Self::GivenBack | Self::Measure => 64 << 10,
            Self::Outside => 1 << 20,
            Self::Native => 4 << 20,
        }
    }
}

/// Processor time that may be spent.
#[derive(Debug, Clone, Copy)]
struct Savings {
    /// The time that is added each second.
    earned: Duration,
    most: Duration,
    left: Duration,
}

impl Savings {
    const fn new(earned: Duration, most: Duration) -> Self {
        Self {
            earned,
            most,
            left: most,
        }
    }

    fn scaled(self, percent: u32) -> Self {
        Self::new(self.earned * percent / 100, self.most * percent / 100)
    }

    fn and(self, other: Self) -> Self {
        Self {
            earned: self.earned + other.earned,
            most: self.most + other.most,
            left: self.left + other.left,
        }
    }

    /// Whether work on so many bytes is worth what is left. With half of the time left, it must
    /// explain four times as much as with all of it, with a tenth a hundred times.
    fn affords(&self, bytes: u64, least: u64) -> bool {
        let left = self.left.as_secs_f64() / self.most.as_secs_f64();
        bytes as f64 * left * left >= least as f64
    }

    /// Pays as much as there is. Returns the rest.
    fn pay(&mut self, cost: Duration) -> Duration {
        let paid = cost.min(self.left);
        self.left -= paid;
        cost.saturating_sub(paid)
    }

    fn earn(&mut self, time: Duration) {
        let earned = self.earned.mul_f64(time.as_secs_f64());
        self.left = (self.left + earned).min(self.most);
    }
}

/// The time of all processes together.
pub(super) struct Budget {
    common: Savings,
    for_near: Savings,
    lines: Savings,
    native: Savings,
    measures: Savings,
    given_back: Savings,
    counters: Savings,
    /// Whether a limit is near, and whether one was near since the time was last counted.
    near: bool,
    was_near: bool,
    /// The thread's processor time when it was last counted, and what was paid since then.
    counted: Duration,
    paid: Duration,
}

impl Budget {
    /// Starts with all savings, each of `percent` of its usual size.
    pub(super) fn new(percent: u32) -> Self {
        Self {
            common: COMMON.scaled(percent),
            for_near: NEAR.scaled(percent),
            lines: LINES.scaled(percent),
            native: NATIVE.scaled(percent),
            measures: MEASURES.scaled(percent),
            given_back: GIVEN_BACK.scaled(percent),
            counters: COUNTERS.scaled(percent),
            near: false,
            was_near: false,
            counted: clock::cpu_time(),
            paid: Duration::ZERO,
        }
    }

    /// Starts without the savings that all kinds of work share.
    #[cfg(test)]
    pub(super) fn without_common_time() -> Self {
        let mut budget = Self::new(100);
        budget.pay(Work::Outside, COMMON.most);
        budget
    }

    pub(super) fn set_near(&mut self, near: bool) {
        self.near = near;
        self.was_near |= near;
    }

    pub(super) fn is_near(&self) -> bool {
        self.near
    }

    /// Whether work that explains so many bytes may be done now.
    pub(super) fn may(&self, work: Work, bytes: u64) -> bool {
        let common = if self.near {
            self.common.and(self.for_near)
        } else {
            self.common
        };
        let own = self.own(work);
        own.is_some_and(|own| own.affords(bytes, work.least()))
            || common.affords(bytes, work.least())
    }

    /// Whether such work would be done if all the time were left.
    pub(super) fn would(work: Work, bytes: u64) -> bool {
        bytes >= work.least()
    }

    /// Does a piece of work, and pays for it.
    pub(super) fn pays<T>(&mut self, work: Work, done: impl FnOnce() -> T) -> T {
        let began = clock::cpu_time();
        let result = done();
        let cost = clock::cpu_time().saturating_sub(began);
        self.paid += cost;
        self.pay(work, cost);
        result
    }

    fn pay(&mut self, work: Work, cost: Duration) {
        let own = match work {
            Work::Lines => Some(&mut self.lines),
            Work::Native => Some(&mut self.native),
            Work::GivenBack => Some(&mut self.given_back),
            Work::Measure => Some(&mut self.measures),
            Work::Outside => None,
        };
        let rest = own.map_or(cost, |own| own.pay(cost));
        self.pay_common(rest);
    }

    fn pay_common(&mut self, cost: Duration) {
        let over = self.common.pay(cost);
        // Far from a limit, the savings for a near one pay for nothing.
        if self.was_near {
            self.for_near.pay(over);
        }
    }

    fn own(&self, work: Work) -> Option<&Savings> {
        match work {
            Work::Lines => Some(&self.lines),
            Work::Native => Some(&self.native),
            Work::GivenBack => Some(&self.given_back),
            Work::Measure => Some(&self.measures),
            Work::Outside => None,
        }
    }

    /// Counts what else the thread took, mostly for counters, and adds what was earned in `time`.
    pub(super) fn count(&mut self, time: Duration) {
        let spent = clock::cpu_time().saturating_sub(self.counted);
        self.counted += spent;
        let paid = std::mem::take(&mut self.paid);
        let over = self.counters.pay(spent.saturating_sub(paid));
        self.pay_common(over);
        self.was_near = self.near;
        for savings in [
            &mut self.common,
            &mut self.for_near,
            &mut self.lines,
            &mut self.native,
            &mut self.measures,
            &mut self.given_back,
            &mut self.counters,
        ] {
            savings.earn(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn time_for_near_limits_is_kept_for_them() {
        let mut budget = Budget::new(100);
        budget.pay(Work::Outside, COMMON.most * 2);
        assert!(!budget.may(Work::Outside, u64::MAX));
        budget.set_near(true);
        assert!(budget.may(Work::Outside, 2 * MIB));
        budget.pay(Work::Outside, NEAR.most * 2);
        assert!(!budget.may(Work::Outside, u64::MAX));
        budget.count(Duration::from_secs(3600));
        assert!(budget.may(Work::Outside, MIB));
    }

    /// The less time is left, the larger must be what it is spent on.
    #[test]
    fn largest_growth_is_explained_with_the_last_time() {
        let mut budget = Budget::new(100);
        let least = |budget: &Budget| {
            let sizes = (0..).map(|power| MIB << power);
            let mut worth = sizes.filter(|size| budget.may(Work::Outside, *size));
            worth.next().expect("a size") / MIB
        };
        let mut found = Vec::new();
        for _ in 0..4 {
            found.push(least(&budget));
            let half = budget.common.left / 2;
            budget.pay(Work::Outside, half);
        }
        assert_eq!(found, [1, 4, 16, 64]);
    }

    /// Reading stacks from outside takes nothing of what is kept for other work.
    #[test]
    fn each_kind_of_work_has_a_part_of_its_own() {
        let mut budget = Budget::new(50);
        budget.pay(Work::Outside, Duration::from_secs(1));
        for work in [Work::Lines, Work::Native, Work::Measure, Work::GivenBack] {
            assert!(budget.may(work, 16 * MIB), "{work:?}");
        }
        budget.pay(Work::Native, Duration::from_secs(1));
        assert!(!budget.may(Work::Native, 1 << 40));
        assert!(budget.may(Work::Lines, MIB) && budget.may(Work::GivenBack, MIB));
        // What was earned since pays for what is large.
        budget.count(Duration::from_secs(15));
        assert!(budget.may(Work::Native, 320 * MIB));
        assert!(!budget.may(Work::Native, 16 * MIB));
    }
}
