//! Memory samples: a row only when a figure moved.

use std::collections::HashMap;

use super::Collector;
use crate::{
    event::{MemorySplit, Observation, ProcessMemory, Source},
    ids::{BootTime, Bytes, Pid},
    observe::{clock, memory},
};

/// Without a move a row is written this often.
pub(super) const AT_LEAST_NS: i64 = 60_000_000_000;

/// The last row of each process and of the node.
#[derive(Default)]
pub(super) struct Samples {
    last: HashMap<Pid, (BootTime, MemorySplit)>,
    node: Option<(BootTime, Bytes)>,
}

impl Samples {
    pub(super) fn forget(&mut self, pid: Pid) {
        self.last.remove(&pid);
    }
}

/// Whether a figure moved by max(1 MiB, 1 %).
pub(super) fn moved(from: Option<Bytes>, to: Option<Bytes>) -> bool {
    let (from, to) = (from.unwrap_or_default().0, to.unwrap_or_default().0);
    from.abs_diff(to) >= (from / 100).max(1 << 20)
}

impl Collector {
    /// Samples every tracked process and the node.
    pub(super) fn sample(&mut self) {
        let now = clock::boot();
        let pids: Vec<(Pid, crate::ids::ProcessKey)> = self
            .known
            .values()
            .map(|known| (known.process.process.pid, known.process.process))
            .collect();
        for (pid, process) in pids {
            let Some(split) = memory::process(pid) else {
                continue;
            };
            let row = self.samples.last.get(&pid).is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS
                    || moved(last.anon, split.anon)
                    || moved(last.file, split.file)
                    || moved(last.shmem, split.shmem)
            });
            if row {
                self.samples.last.insert(pid, (now, split));
                self.emit(
                    Source::Proc,
                    now,
                    Observation::Memory(ProcessMemory {
                        process,
                        memory: split,
                    }),
                );
            }
        }
        let Some(node) = memory::node() else { return };
        let row = self.samples.node.is_none_or(|(since, last)| {
            now.since(since) >= AT_LEAST_NS || moved(Some(last), Some(node.available))
        });
        if row {
            self.samples.node = Some((now, node.available));
            self.emit(Source::Proc, now, Observation::Node(node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_moves_by_a_mebibyte_or_a_percent() {
        let mib = |count: u64| Some(Bytes(count << 20));
        assert!(!moved(mib(10), mib(10)));
        assert!(moved(mib(10), mib(11)));
        assert!(!moved(mib(1000), mib(1009)));
        assert!(moved(mib(1000), mib(1010)));
        assert!(moved(None, mib(1)));
    }
}
