//! Keeps how near each memory cgroup came to its limit, by what the kernel cannot reclaim.

use std::collections::HashMap;

use crate::{
    event::CgroupState,
    ids::{BootTime, Bytes},
    judge::{report::LimitPeak, state::clock::Clock},
};

/// At most this many are reported, the nearest first. A machine may have thousands.
const MAX_REPORTED: usize = 32;
/// At most this many are kept, so a machine that keeps making cgroups costs no more.
const MAX_KEPT: usize = 4096;

/// For each cgroup, the moment at which it was nearest to its limit.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    nearest: HashMap<String, Moment>,
    /// Whether a cgroup counted the time in which its tasks waited; `None` without any sample.
    counts_waits: Option<bool>,
}

/// How much of which limit was needed at that moment.
#[derive(Debug, Clone, Copy)]
struct Moment {
    time: BootTime,
    needed: Bytes,
    limit: Bytes,
}

impl Moment {
    fn share(self) -> f64 {
        self.needed.0 as f64 / self.limit.0 as f64
    }

    fn is_nearer_than(self, other: Self) -> bool {
        let product = |needed: Bytes, limit: Bytes| u128::from(needed.0) * u128::from(limit.0);
        product(self.needed, other.limit) > product(other.needed, self.limit)
    }
}

impl Limits {
    /// Folds in one sample.
    pub(crate) fn observe(&mut self, time: BootTime, state: &CgroupState) {
        let counts = state.stalled_us.is_some();
        self.counts_waits = Some(counts || self.counts_waits == Some(true));
        let Some(limit) = state.limit.filter(|limit| limit.0 > 0) else {
            return;
        };
        let needed = state.needed();
        let moment = Moment {
            time,
            needed,
            limit,
        };
        let known = self.nearest.get(&state.path);
        if known.is_none_or(|known| moment.is_nearer_than(*known)) {
            self.nearest.insert(state.path.clone(), moment);
        }
        if self.nearest.len() > MAX_KEPT {
            self.forget_the_farther_half();
        }
    }

    /// Returns the version of cgroups, for recordings that do not say it. Only cgroups of version 2
    /// count waits, and all of them do where the kernel does.
    pub(crate) fn version(&self, kernel_counts_waits: bool) -> Option<u8> {
        if self.counts_waits? {
            return Some(2);
        }
        kernel_counts_waits.then_some(1)
    }

    fn forget_the_farther_half(&mut self) {
        let mut shares: Vec<f64> = self.nearest.values().map(|moment| moment.share()).collect();
        let middle = shares.len() / 2;
        let (_, middle, _) = shares.select_nth_unstable_by(middle, f64::total_cmp);
        let middle = *middle;
        self.nearest.retain(|_, moment| moment.share() > middle);
    }

    /// Returns the limits, the nearest first. Limits above the machine's memory cannot be hit.
    pub(crate) fn report(&self, clock: &Clock, machine: Bytes) -> Vec<LimitPeak> {
        let met = self.nearest.iter();
        let met = met.filter(|(_, moment)| moment.limit < machine);
        let mut found: Vec<LimitPeak> = met
            .filter_map(|(path, moment)| {
                Some(LimitPeak {
                    cgroup: path.clone(),
                    time: clock.wall(moment.time)?,
                    needed_bytes: moment.needed,
                    limit_bytes: moment.limit,
                    clusters: Vec::new(),
                })
            })
            .collect();
        found.sort_by(|one, other| {
            let share = |peak: &LimitPeak| peak.needed_bytes.0 as f64 / peak.limit_bytes.0 as f64;
            let nearer = share(other).total_cmp(&share(one));
            nearer.then_with(|| one.cgroup.cmp(&other.cgroup))
        });
        found.truncate(MAX_REPORTED);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WallTime;

    const GIB: u64 = 1 << 30;

    fn state(path: &str, usage: u64, file: u64, limit: Option<u64>) -> CgroupState {
        CgroupState {
            path: path.into(),
            usage: Bytes(usage * GIB),
            file: Some(Bytes(file * GIB)),
            limit: limit.map(|limit| Bytes(limit * GIB)),
            ..CgroupState::default()
        }
    }

    #[test]
    fn version_follows_from_counted_waits() {
        let version = |stalled_us, kernel| {
            let mut limits = Limits::default();
            let state = CgroupState {
                stalled_us,
                ..state("/a", 1, 0, None)
            };
            limits.observe(BootTime(1), &state);
            limits.version(kernel)
        };
        assert_eq!(version(Some(0), true), Some(2));
        assert_eq!(version(None, true), Some(1));
        assert_eq!(version(None, false), None);
        assert_eq!(Limits::default().version(true), None);
    }

    /// The nearest to its limit is kept.
    #[test]
    fn number_of_cgroups_is_bounded() {
        let mut limits = Limits::default();
        limits.observe(BootTime(1), &state("/near", 23, 0, Some(24)));
        for number in 0..3 * MAX_KEPT as u64 {
            limits.observe(BootTime(2), &state(&format!("/{number}"), 1, 0, Some(24)));
            assert!(limits.nearest.len() <= MAX_KEPT);
        }
        assert!(limits.nearest.contains_key("/near"));
    }

    /// The limit is the one at that moment.
    #[test]
    fn cgroup_is_reported_at_its_nearest_moment() {
        let mut limits = Limits::default();
        let samples = [
            (1, state("/pod", 10, 0, Some(24))),
            (2, state("/pod", 23, 1, Some(24))),
            // More use of a limit that was raised; and as much use as the limit, most of it page
            // cache.
            (3, state("/pod", 30, 0, Some(48))),
            (4, state("/pod", 48, 40, Some(48))),
            (5, state("/idle", 1, 0, Some(24))),
            (6, state("/free", 90, 0, None)),
            (7, state("/above", 90, 0, Some(600))),
        ];
        for (time, state) in &samples {
            limits.observe(BootTime(*time), state);
        }
        let mut clock = Clock::default();
        clock.note(BootTime(0), WallTime(0), None);
        let found = limits.report(&clock, Bytes(512 * GIB));
        let told: Vec<_> = found
            .iter()
            .map(|peak| {
                (
                    peak.cgroup.as_str(),
                    peak.needed_bytes.0 / GIB,
                    peak.limit_bytes.0 / GIB,
                )
            })
            .collect();
        assert_eq!(told, [("/pod", 22, 24), ("/idle", 1, 24)]);
        assert_eq!(found[0].time.0, WallTime(2));
    }
}
