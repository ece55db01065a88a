//! Samples the machine's memory, and what each raylet's monitor counts of it.

use super::{
    margins::Limit,
    rows::{Rows, moved},
};
use crate::{
    collect::output::Output,
    event::{MonitorCount, NodeMemory, Observation, Source},
    ids::{BootTime, Bytes, Pid},
};

/// The last rows.
#[derive(Default)]
pub(super) struct Machine {
    node: Rows<(), NodeMemory>,
    monitors: Rows<Pid, MonitorCount>,
}

impl Machine {
    /// Returns the shared memory in the last row.
    pub(super) fn shared(&self) -> Option<Bytes> {
        self.node.last(&()).map(|node| node.shmem)
    }

    /// Writes a row if a figure changed, or if a row is wanted beside another one.
    pub(super) fn sample(
        &mut self,
        now: BootTime,
        node: NodeMemory,
        wanted: bool,
        out: &mut Output,
    ) {
        let wanted = wanted || node.others.is_some();
        let row = self.node.next(now, (), node, |last, node| {
            wanted
                || moved(Some(last.available), Some(node.available))
                || moved(Some(last.shmem), Some(node.shmem))
                || moved(Some(last.swap_used), Some(node.swap_used))
                || moved(last.anon, node.anon)
                || moved(last.kernel, node.kernel)
        });
        if let Some(node) = row {
            out.emit(Source::Proc, now, Observation::Node(node));
        }
    }

    /// Writes a row for each monitor with a count that changed. These rows prove a kill for memory.
    pub(super) fn sample_monitors(&mut self, now: BootTime, limits: &[Limit], out: &mut Output) {
        let there = |pid: &Pid| {
            let mut raylets = limits.iter().filter_map(|limit| limit.raylet);
            raylets.any(|raylet| raylet.pid == *pid)
        };
        self.monitors.retain(there);
        for limit in limits {
            let Some(raylet) = limit.raylet else { continue };
            let count = MonitorCount {
                raylet,
                used: limit.used,
                threshold: limit.limit,
            };
            let row = self.monitors.next(now, raylet.pid, count, |last, count| {
                last.raylet != raylet
                    || last.threshold != count.threshold
                    || moved(Some(last.used), Some(count.used))
            });
            if let Some(count) = row {
                out.emit(Source::Proc, now, Observation::Monitor(count));
            }
        }
    }
}
