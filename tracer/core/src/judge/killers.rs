//! Orders Ray's monitor, cgroup limits and the machine by how much is left until each kills.

use std::time::Duration;

use crate::{
    event::{CgroupState, LimitOwner, NodeMemory},
    ids::Bytes,
};

/// A limit that will kill, with what is left until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitMargin {
    /// The owner of the limit.
    pub limit_owner: LimitOwner,
    /// The limit. Above it, the owner kills.
    pub at: Bytes,
    /// How much more may be used until then.
    pub margin: Bytes,
    /// How long that lasts at the present rate, if what the limit counts was seen to grow.
    pub left: Option<Duration>,
}

impl LimitMargin {
    /// Returns what counts against it now.
    pub fn used(&self) -> Bytes {
        Bytes(self.at.0.saturating_sub(self.margin.0))
    }
}

/// Returns the killers, the nearest first. `monitor` is the monitor's threshold and count, `None`
/// if it is off.
pub fn in_order(
    monitor: Option<(Bytes, Bytes)>,
    limits: &[CgroupState],
    node: &NodeMemory,
) -> Vec<LimitMargin> {
    let mut threats: Vec<LimitMargin> = Vec::new();
    threats.extend(monitor.map(|(threshold, used)| LimitMargin {
        limit_owner: LimitOwner::RayMonitor,
        at: threshold,
        margin: Bytes(threshold.0.saturating_sub(used.0)),
        left: None,
    }));
    threats.extend(limits.iter().filter_map(|level| {
        let limit = level.binding(node)?;
        Some(LimitMargin {
            limit_owner: LimitOwner::Cgroup(level.path.clone()),
            at: limit,
            margin: Bytes(limit.0.saturating_sub(level.needed().0)),
            left: None,
        })
    }));
    let swap_free = node.swap_size().0.saturating_sub(node.swap_used.0);
    threats.push(LimitMargin {
        limit_owner: LimitOwner::Machine,
        at: Bytes(node.total.0 + node.swap_size().0),
        margin: Bytes(node.available.0 + swap_free),
        left: None,
    });
    threats.sort_by_key(|threat| threat.margin);
    threats
}

/// Returns a cgroup's limit that is hit before Ray's monitor acts. The monitor takes `total` for
/// all memory and does not see that limit.
pub fn hidden_limit<'a>(
    limits: &'a [CgroupState],
    node: &NodeMemory,
    total: Bytes,
    threshold: Bytes,
) -> Option<(&'a CgroupState, Bytes)> {
    let lower = limits
        .iter()
        .filter_map(|level| Some((level, level.binding(node)?)));
    lower
        .filter(|(_, limit)| *limit < total && *limit <= threshold)
        .min_by_key(|(_, limit)| *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const NODE: NodeMemory = NodeMemory {
        total: Bytes(188 * GIB),
        available: Bytes(47 * GIB),
        free: Bytes(0),
        shmem: Bytes(0),
        swap_used: Bytes(GIB),
        swap_total: Some(Bytes(8 * GIB)),
        anon: None,
        file: None,
        kernel: None,
        huge: None,
        cpu_lists: None,
        stalled_us: None,
        others: None,
    };

    fn level(path: &str, usage: u64, file: u64, limit: Option<u64>) -> CgroupState {
        CgroupState {
            path: path.into(),
            usage: Bytes(usage * GIB),
            limit: limit.map(|limit| Bytes(limit * GIB)),
            file: Some(Bytes(file * GIB)),
            ..CgroupState::default()
        }
    }

    #[test]
    fn nearest_killer_is_first() {
        let limits = [level("/pod", 100, 20, Some(120)), level("/", 141, 0, None)];
        let monitor = Some((Bytes(178 * GIB), Bytes(141 * GIB)));
        let threats = in_order(monitor, &limits, &NODE);
        let margins: Vec<u64> = threats.iter().map(|threat| threat.margin.0 / GIB).collect();
        assert_eq!(margins, [37, 40, 54]);
        assert_eq!(threats[1].limit_owner, LimitOwner::Cgroup("/pod".into()));
        assert_eq!(threats[2].at, Bytes(196 * GIB));
    }

    #[test]
    fn limit_equal_to_rays_total_is_not_hidden() {
        let limits = [level("/pod", 1, 0, Some(100))];
        let hidden_limit = |total: u64| {
            hidden_limit(
                &limits,
                &NODE,
                Bytes(total * GIB),
                Bytes(total * GIB * 95 / 100),
            )
        };
        assert_eq!(hidden_limit(100), None);
        assert!(hidden_limit(188).is_some());
    }

    #[test]
    fn limit_above_rays_threshold_is_not_hidden() {
        let limits = [level("/pod", 1, 0, Some(100))];
        assert_eq!(
            hidden_limit(&limits, &NODE, Bytes(188 * GIB), Bytes(94 * GIB)),
            None
        );
    }
}
