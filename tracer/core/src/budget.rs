//! Limits what one cluster, one user and all of them together may make the recorder spend.
//!
//! A [`Budget`] is a token bucket. [`Budgets`] has one for each cluster, each user and the whole,
//! and divides what is left among those that want some now, so that one that wants much takes
//! nothing from the others. [`Most`] limits what is held at the same time.
//!
//! Pure: the caller passes the time.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use crate::ids::{BootTime, ProcessKey, SECOND_NS};

/// How much may be spent.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// How much comes back each second.
    pub each_second: u64,
    /// How much there is after a while in which nothing was spent.
    pub at_once: u64,
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    rate: Rate,
    /// Negative after more was spent than there was.
    left: i64,
    since: BootTime,
}

impl Budget {
    /// Makes a budget of which nothing has been spent.
    pub fn new(rate: Rate, now: BootTime) -> Self {
        Self {
            rate,
            left: whole(rate.at_once),
            since: now,
        }
    }

    /// Returns what is left.
    pub fn left(&mut self, now: BootTime) -> u64 {
        let each_second = i128::from(self.rate.each_second.max(1));
        let second = i128::from(SECOND_NS);
        let new = i128::from(now.since(self.since).max(0)) * each_second / second;
        if new > 0 {
            // The part that is no whole unit yet stays for the next call.
            let took = i64::try_from(new * second / each_second).unwrap_or(i64::MAX);
            self.since = self.since.plus(took);
            let new = i64::try_from(new).unwrap_or(i64::MAX);
            self.left = (self.left.saturating_add(new)).min(whole(self.rate.at_once));
        }
        u64::try_from(self.left).unwrap_or(0)
    }

    /// Spends this much. What is more than there was is taken from what comes back.
    pub fn spend(&mut self, amount: u64) {
        self.left = self.left.saturating_sub(whole(amount));
    }
}

fn whole(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// For whom something is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Payer {
    /// The cluster, by its raylet.
    pub cluster: ProcessKey,
    /// The user who started its raylet.
    pub user: Option<u32>,
}

/// A limit for each cluster, each user and all of them.
#[derive(Debug, Clone, Copy)]
pub struct Most<T> {
    /// Of one cluster.
    pub cluster: T,
    /// Of all clusters of one user.
    pub user: T,
    /// Of all.
    pub whole: T,
}

impl Most<usize> {
    /// Whether this payer may hold one more, beside what is held.
    pub fn has_room(&self, payer: Payer, held: impl Iterator<Item = Payer>) -> bool {
        let (mut cluster, mut user, mut whole) = (0, 0, 0);
        for one in held {
            cluster += usize::from(one.cluster == payer.cluster);
            user += usize::from(one.user == payer.user);
            whole += 1;
        }
        cluster < self.cluster && user < self.user && whole < self.whole
    }
}

/// What is left for each cluster, each user and the whole. A budget that is full is not kept.
#[derive(Debug)]
pub struct Budgets {
    rates: Most<Rate>,
    whole: Option<Budget>,
    users: HashMap<Option<u32>, Budget>,
    clusters: HashMap<ProcessKey, Budget>,
}

impl Budgets {
    /// Makes budgets of which nothing has been spent.
    pub fn new(rates: Most<Rate>) -> Self {
        Self {
            rates,
            whole: None,
            users: HashMap::new(),
            clusters: HashMap::new(),
        }
    }

    /// Divides what is left, and at most `room` of it, among the payers that want some now. Returns
    /// how much each cluster may spend.
    pub fn shares(
        &mut self,
        wanting: impl IntoIterator<Item = Payer>,
        room: u64,
        now: BootTime,
    ) -> HashMap<ProcessKey, u64> {
        keep_spent(&mut self.users, self.rates.user, now);
        keep_spent(&mut self.clusters, self.rates.cluster, now);
        let all: HashSet<Payer> = wanting.into_iter().collect();
        let mut of_user: HashMap<Option<u32>, u64> = HashMap::new();
        for payer in &all {
            *of_user.entry(payer.user).or_default() += 1;
        }
        let whole = self.whole.get_or_insert(Budget::new(self.rates.whole, now));
        let each = whole.left(now).min(room) / (of_user.len() as u64).max(1);
        let mut shares = HashMap::new();
        for payer in all {
            let user = left(&mut self.users, &payer.user, self.rates.user, now).min(each);
            let cluster = left(&mut self.clusters, &payer.cluster, self.rates.cluster, now);
            let share = cluster.min(user / of_user[&payer.user]);
            shares.insert(payer.cluster, share);
        }
        shares
    }

    /// Spends this much for a payer.
    pub fn spend(&mut self, payer: Payer, amount: u64, now: BootTime) {
        if amount == 0 {
            return;
        }
        let rates = self.rates;
        let full = |rate| Budget::new(rate, now);
        self.whole.get_or_insert(full(rates.whole)).spend(amount);
        let user = self.users.entry(payer.user);
        user.or_insert(full(rates.user)).spend(amount);
        let cluster = self.clusters.entry(payer.cluster);
        cluster.or_insert(full(rates.cluster)).spend(amount);
    }
}

fn left<K: Eq + Hash>(budgets: &mut HashMap<K, Budget>, key: &K, rate: Rate, now: BootTime) -> u64 {
    let known = budgets.get_mut(key);
    known.map_or(rate.at_once, |budget| budget.left(now))
}

fn keep_spent<K>(budgets: &mut HashMap<K, Budget>, rate: Rate, now: BootTime) {
    budgets.retain(|_, budget| budget.left(now) < rate.at_once);
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        each_second: 10,
        at_once: 100,
    };

    fn at(ms: u64) -> BootTime {
        BootTime(ms * 1_000_000)
    }

    fn payer(cluster: u32, user: u32) -> Payer {
        Payer {
            cluster: ProcessKey::new(cluster, 0),
            user: Some(user),
        }
    }

    fn budgets() -> Budgets {
        let rate = |times: u64| Rate {
            each_second: 10 * times,
            at_once: 100 * times,
        };
        Budgets::new(Most {
            cluster: rate(1),
            user: rate(2),
            whole: rate(4),
        })
    }

    #[test]
    fn what_is_spent_comes_back_at_its_rate() {
        let mut budget = Budget::new(RATE, at(0));
        budget.spend(100);
        assert_eq!(budget.left(at(0)), 0);
        // Frequent questions lose no part of a unit.
        let last = (0..=1000).map(|ms| budget.left(at(ms))).last();
        assert_eq!(last, Some(10));
        assert_eq!(budget.left(at(3_600_000)), 100, "never more than at once");
    }

    #[test]
    fn debt_is_paid_first() {
        let mut budget = Budget::new(RATE, at(0));
        budget.spend(120);
        assert_eq!(budget.left(at(1900)), 0);
        assert_eq!(budget.left(at(2100)), 1);
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut budget = Budget::new(RATE, at(5000));
        budget.spend(100);
        assert_eq!(budget.left(at(1000)), 0);
        assert_eq!(budget.left(at(6000)), 10);
    }

    /// Spends whatever these payers get, ten times a second.
    fn flood(budgets: &mut Budgets, of: &[Payer], seconds: u64) -> HashMap<ProcessKey, u64> {
        let mut spent: HashMap<ProcessKey, u64> = HashMap::new();
        for tick in 0..seconds * 10 {
            let now = at(tick * 100);
            let shares = budgets.shares(of.iter().copied(), u64::MAX, now);
            for payer in of {
                let share = shares[&payer.cluster];
                budgets.spend(*payer, share, now);
                *spent.entry(payer.cluster).or_default() += share;
            }
        }
        spent
    }

    #[test]
    fn one_flood_takes_nothing_from_others() {
        let mut budgets = budgets();
        let spent = flood(&mut budgets, &[payer(1, 1)], 100);
        let spent = spent[&ProcessKey::new(1, 0)];
        assert!((1_090..=1_100).contains(&spent), "{spent}");
        let (same, other) = (payer(2, 1), payer(3, 2));
        let shares = budgets.shares([payer(1, 1), same, other], u64::MAX, at(100_000));
        assert_eq!(shares[&same.cluster], 100);
        assert_eq!(shares[&other.cluster], 100);
    }

    /// Ten clusters of one user flood: another user's cluster has all it may have, and a quiet
    /// cluster of that user an equal share.
    #[test]
    fn floods_of_one_user_share_that_users_budget() {
        let mut budgets = budgets();
        let many: Vec<Payer> = (1..=10).map(|cluster| payer(cluster, 1)).collect();
        let spent: u64 = flood(&mut budgets, &many, 100).values().sum();
        assert!(spent <= 2_200, "{spent}");
        let (same, other) = (payer(11, 1), payer(12, 2));
        let shares = budgets.shares(many.into_iter().chain([same, other]), u64::MAX, at(101_000));
        assert_eq!(shares[&other.cluster], 100);
        assert!(shares[&same.cluster] >= 1, "{shares:?}");
    }

    #[test]
    fn room_is_divided_too() {
        let mut budgets = budgets();
        let shares = budgets.shares([payer(1, 1), payer(2, 1), payer(3, 2)], 40, at(0));
        let shares = [1, 2, 3].map(|cluster| shares[&ProcessKey::new(cluster, 0)]);
        assert_eq!(shares, [10, 10, 20]);
    }

    #[test]
    fn full_budgets_are_not_kept() {
        let mut budgets = budgets();
        for user in 0..1000 {
            budgets.spend(payer(user, user), 10, at(0));
        }
        budgets.shares([], u64::MAX, at(900));
        assert_eq!(budgets.clusters.len(), 1000);
        budgets.shares([], u64::MAX, at(1000));
        assert_eq!((budgets.clusters.len(), budgets.users.len()), (0, 0));
    }

    #[test]
    fn room_is_counted_by_cluster_user_and_whole() {
        let most = Most {
            cluster: 2,
            user: 3,
            whole: 4,
        };
        let held = [payer(1, 1), payer(1, 1), payer(2, 1)];
        let fits = |new| most.has_room(new, held.into_iter());
        assert!(!fits(payer(1, 1)) && !fits(payer(3, 1)) && fits(payer(3, 2)));
        let full = held.into_iter().chain([payer(3, 2)]);
        assert!(!most.has_room(payer(4, 3), full));
    }
}
