//! Decides whether a limit is near. Memory is sampled more often then.

use std::collections::{HashMap, HashSet};

use crate::ids::{BootTime, Bytes, ProcessKey, SECOND_NS};

/// A limit is near when less than this share of it is left.
const NEAR: f64 = 0.1;
/// A limit is also near when it would be full within this time at the present rate.
const AHEAD_NS: f64 = 20e9;
/// How long a limit counts as near after it was. A job that allocates and frees goes back and
/// forth.
const HOLD_NS: i64 = 10 * SECOND_NS;
/// A rate is measured over at least this time.
const RATE_NS: i64 = SECOND_NS;

/// A limit: something that causes a kill when it is full.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Limit {
    /// Distinguishes it from the others.
    pub(super) name: String,
    /// The memory that counts against it.
    pub(super) used: Bytes,
    /// The amount at which it kills.
    pub(super) limit: Bytes,
    /// The same as the raylet's log has it, if that is less. A driver may have set it
    /// (`ray.init(_system_config=…)`), which the raylet's environment does not show.
    pub(super) logged: Option<Bytes>,
    /// The cgroup whose memory counts, including that of processes outside Ray; `None` if that of
    /// all processes counts.
    pub(super) counts: Option<String>,
    /// The raylet, if the limit is that of its monitor.
    pub(super) raylet: Option<ProcessKey>,
}

impl Limit {
    /// The lowest amount at which it may kill.
    fn lowest(&self) -> Bytes {
        self.logged
            .map_or(self.limit, |logged| logged.min(self.limit))
    }
}

/// Returns the next limit: the one with the least memory left.
pub(super) fn next(limits: &[Limit]) -> Option<&Limit> {
    let left = |limit: &&Limit| limit.lowest().0.saturating_sub(limit.used.0);
    limits.iter().min_by_key(left)
}

/// The memory used of each limit a second ago.
#[derive(Debug, Default)]
pub(super) struct Margins {
    before: HashMap<String, (BootTime, Bytes)>,
    until: BootTime,
}

impl Margins {
    /// Whether one of `limits` is near at `now`, or was near a short while ago.
    pub(super) fn near(&mut self, now: BootTime, limits: &[Limit]) -> bool {
        let found = limits
            .iter()
            .filter(|limit| self.is_near(now, limit))
            .count();
        let there: HashSet<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
        self.before.retain(|name, _| there.contains(name.as_str()));
        for limit in limits {
            let last = self.before.get(&limit.name);
            if last.is_none_or(|(since, _)| now.since(*since) >= RATE_NS) {
                self.before.insert(limit.name.clone(), (now, limit.used));
            }
        }
        if found > 0 {
            self.until = now.plus(HOLD_NS);
        }
        now < self.until
    }

    fn is_near(&self, now: BootTime, limit: &Limit) -> bool {
        let lowest = limit.lowest().0;
        let margin = lowest.saturating_sub(limit.used.0) as f64;
        let Some((since, before)) = self.before.get(&limit.name) else {
            return margin < NEAR * lowest as f64;
        };
        let grown = limit.used.0.saturating_sub(before.0) as f64;
        let time = now.since(*since).max(1) as f64;
        margin < NEAR * lowest as f64 || grown > 0.0 && margin / grown * time < AHEAD_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(margins: &mut Margins, tenths: u64, used: u64) -> bool {
        let limit = Limit {
            name: "machine".into(),
            used: Bytes(used << 20),
            limit: Bytes(10_000 << 20),
            counts: None,
            logged: None,
            raylet: None,
        };
        margins.near(BootTime(100 * SECOND + tenths * SECOND / 10), &[limit])
    }

    /// A limit stays near for 10 s after less than a tenth of it was left.
    #[test]
    fn last_tenth_is_near_and_stays_near() {
        let mut margins = Margins::default();
        assert!(!at(&mut margins, 0, 5000));
        assert!(at(&mut margins, 600, 9100));
        assert!(at(&mut margins, 650, 5000));
        assert!(!at(&mut margins, 701, 5000));
    }

    #[test]
    fn limit_full_within_20_s_is_near() {
        let mut slow = Margins::default();
        assert!(!at(&mut slow, 0, 4000));
        assert!(!at(&mut slow, 10, 4250), "23 s to go");
        let mut quick = Margins::default();
        assert!(!at(&mut quick, 0, 4000));
        assert!(at(&mut quick, 10, 4300), "19 s to go");
    }

    #[test]
    fn freed_memory_is_no_growth() {
        let mut margins = Margins::default();
        assert!(!at(&mut margins, 0, 8000));
        assert!(!at(&mut margins, 10, 2000));
        assert!(!at(&mut margins, 20, 2010));
    }

    #[test]
    fn lower_logged_threshold_is_near() {
        let limit = |logged| Limit {
            name: "raylet 7".into(),
            used: Bytes(56),
            limit: Bytes(95),
            logged,
            counts: None,
            raylet: None,
        };
        let near = |logged| Margins::default().near(BootTime(100 * SECOND), &[limit(logged)]);
        assert!(!near(None));
        assert!(near(Some(Bytes(60))));
        assert!(!near(Some(Bytes(98))));
    }

    /// It decides which processes outside Ray are of interest.
    #[test]
    fn next_limit_has_the_least_memory_left() {
        let limit = |used: u64, limit: u64, counts: Option<&str>| Limit {
            name: String::new(),
            used: Bytes(used),
            limit: Bytes(limit),
            counts: counts.map(str::to_owned),
            logged: None,
            raylet: None,
        };
        let limits = [limit(50, 100, None), limit(1, 60, Some("/pod"))];
        assert_eq!(next(&limits), Some(&limits[0]));
        let limits = [limit(50, 100, None), limit(20, 60, Some("/pod"))];
        assert_eq!(next(&limits), Some(&limits[1]));
        assert_eq!(next(&[]), None);
    }
}
