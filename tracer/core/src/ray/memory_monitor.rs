//! Computes what Ray's memory monitor counts, and above which threshold it kills.
//!
//! Mirrors `src/ray/common/memory_monitor.cc` (Ray 2.9 to 2.54) and `memory_monitor_utils.cc` (from
//! 2.55). The monitor reads the files at `/sys/fs/cgroup` as its own mount namespace shows them,
//! never those of the cgroup that contains the raylet.

use crate::{ids::Bytes, ray::version::Version};

/// From this version on, active file pages are not counted either, in both cgroup versions.
const WITHOUT_ACTIVE_FILE: Version = Version(2, 10);

/// The variable that sets the threshold.
pub const THRESHOLD: &str = "RAY_memory_usage_threshold";

/// The settings that the monitor reads from the raylet's environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// [`THRESHOLD`], in single precision as in Ray, so that the product equals Ray's own.
    pub fraction: f32,
    /// `RAY_memory_monitor_refresh_ms`; 0 turns it off.
    pub refresh_ms: u64,
    /// `RAY_min_memory_free_bytes`, unless it is -1.
    pub min_free: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fraction: 0.95,
            refresh_ms: 250,
            min_free: None,
        }
    }
}

impl Config {
    /// Returns the settings in force for a raylet with these `RAY_*` variables.
    pub fn of(settings: &[(String, String)]) -> Self {
        let value = |wanted: &str| {
            let found = settings.iter().find(|(key, _)| key == wanted);
            found.map(|(_, value)| value.trim())
        };
        let default = Self::default();
        Self {
            fraction: value(THRESHOLD)
                .and_then(|text| text.parse().ok())
                .unwrap_or(default.fraction),
            refresh_ms: value("RAY_memory_monitor_refresh_ms")
                .and_then(|text| text.parse().ok())
                .unwrap_or(default.refresh_ms),
            min_free: value("RAY_min_memory_free_bytes")
                .and_then(|text| text.parse().ok())
                .map(Bytes),
        }
    }

    /// Returns the threshold above which it kills.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "Ray casts the product of two positive floats in the same way"
    )]
    pub fn threshold(&self, total: Bytes) -> Bytes {
        let fraction = (total.0 as f32 * self.fraction) as u64;
        let free = self.min_free.map(|free| total.0.saturating_sub(free.0));
        Bytes(fraction.max(free.unwrap_or(0)))
    }
}

/// The memory cgroup that a process finds at `/sys/fs/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCgroup {
    /// Whether it is version 2.
    pub v2: bool,
    /// `memory.max` or `memory.limit_in_bytes`; `None` for `max`.
    pub limit: Option<Bytes>,
    /// `memory.current` or `memory.usage_in_bytes`; the root of version 2 has none.
    pub usage: Option<Bytes>,
    /// `memory.stat`.
    pub stat: String,
}

/// What the monitor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// In use.
    pub used: Bytes,
    /// The total.
    pub total: Bytes,
    /// Whether both are the cgroup's figures. If not, they are the machine's.
    pub of_cgroup: bool,
}

impl Count {
    /// Makes a count of the whole machine.
    pub fn of_machine(used: Bytes, total: Bytes) -> Self {
        Self {
            used,
            total,
            of_cgroup: false,
        }
    }
}

/// Returns what a monitor of this version counts now. `machine` is the count of a monitor that sees
/// no cgroup.
pub fn count(machine: Count, cgroup: Option<&RootCgroup>, version: Option<Version>) -> Count {
    let Some(cgroup) = cgroup else {
        return machine;
    };
    match cgroup.limit {
        Some(limit) if limit.0 > 0 && limit <= machine.total => Count {
            used: used(cgroup, version).min(limit),
            total: limit,
            of_cgroup: true,
        },
        _ => machine,
    }
}

fn used(cgroup: &RootCgroup, version: Option<Version>) -> Bytes {
    let stat = |key| stat(&cgroup.stat, key).0;
    let usage = cgroup.usage.unwrap_or_default().0;
    let old = version.is_some_and(|version| version < WITHOUT_ACTIVE_FILE);
    let used = match (old, cgroup.v2) {
        (true, true) => usage.saturating_sub(stat("inactive_file")),
        (true, false) => {
            (stat("total_rss") + stat("total_cache")).saturating_sub(stat("total_inactive_file"))
        }
        (false, _) => usage.saturating_sub(file_pages(&cgroup.stat, cgroup.v2).0),
    };
    Bytes(used)
}

/// Returns the file pages of a cgroup and all below it. The kernel takes them back before it kills.
pub fn file_pages(text: &str, v2: bool) -> Bytes {
    let prefix = if v2 { "" } else { "total_" };
    let part = |name: &str| stat(text, &format!("{prefix}{name}")).0;
    Bytes(part("inactive_file") + part("active_file"))
}

fn stat(text: &str, key: &str) -> Bytes {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(name, _)| *name == key);
    Bytes(found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Count = Count {
        used: Bytes(5_276_502_016),
        total: Bytes(25_276_502_016),
        of_cgroup: false,
    };

    fn v1(limit: u64) -> RootCgroup {
        RootCgroup {
            v2: false,
            limit: Some(Bytes(limit)),
            usage: Some(Bytes(3000)),
            stat: "cache 1\ninactive_file 7\ntotal_cache 900\ntotal_rss 2000\ntotal_inactive_file 500\ntotal_active_file 300\n"
                .into(),
        }
    }

    #[test]
    fn unlimited_cgroup_counts_the_machine() {
        let count = count(MACHINE, Some(&v1(9_223_372_036_854_771_712)), None);
        assert_eq!((count.total, count.of_cgroup), (MACHINE.total, false));
        assert_eq!(count.used, Bytes(5_276_502_016));
    }

    /// Before 2.10, active file pages are counted.
    #[test]
    fn file_pages_do_not_count_from_2_10_on() {
        let cgroup = v1(4 << 30);
        let used = |version| count(MACHINE, Some(&cgroup), Some(version)).used;
        assert_eq!(used(Version(2, 60)), Bytes(3000 - 500 - 300));
        assert_eq!(used(Version(2, 9)), Bytes(2000 + 900 - 500));
        let v2 = RootCgroup {
            v2: true,
            stat: "anon 9\ninactive_file 500\nactive_file 300\n".into(),
            ..cgroup
        };
        let used = |version| count(MACHINE, Some(&v2), Some(version)).used;
        assert_eq!(used(Version(2, 60)), Bytes(2200));
        assert_eq!(used(Version(2, 9)), Bytes(2500));
    }

    #[test]
    fn threshold_equals_the_logged_one() {
        // Ray 2.60.0: "usage threshold at 2147483648 bytes (50.000000% …), total system memory
        // bytes: 4294967296".
        let settings = [("RAY_memory_usage_threshold".to_owned(), "0.5".to_owned())];
        assert_eq!(
            Config::of(&settings).threshold(Bytes(4_294_967_296)),
            Bytes(2_147_483_648)
        );
        // 25276510208 × 0.95 in single precision, as 2.60.0 logs it with default settings on that
        // machine.
        let plain = Config::default();
        assert_eq!(plain.threshold(Bytes(25_276_510_208)).0 % 1024, 0);
    }

    #[test]
    fn min_free_bytes_win_where_they_leave_more() {
        let settings = [("RAY_min_memory_free_bytes".to_owned(), "100".to_owned())];
        assert_eq!(Config::of(&settings).threshold(Bytes(10_000)), Bytes(9900));
        let off = [("RAY_min_memory_free_bytes".to_owned(), "-1".to_owned())];
        assert_eq!(Config::of(&off).min_free, None);
    }
}
