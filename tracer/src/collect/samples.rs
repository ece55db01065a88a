//! Memory samples of processes and of the machine: often near a limit, seldom far from it, a row only when a figure moved.

use std::collections::HashMap;

use super::{
    Collector,
    margins::{self, Margins},
};
use crate::{
    event::{MemorySplit, NodeMemory, Observation, ProcessMemory, Source},
    ids::{BootTime, Bytes, Pid, ProcessKey},
    observe::{
        clock,
        memory::{self, MemoryFiles},
    },
};

/// Without a move a row is written this often.
pub(super) const AT_LEAST_NS: i64 = 60_000_000_000;
/// Far from any limit each tenth tick samples.
const FAR_TICKS: u64 = 10;
/// And each fifth looks whether one has come near.
const LIMIT_TICKS: u64 = 5;
/// All figures of a process are read at each tenth look, and whenever the cheap ones say that shared memory moved.
const FULL_LOOKS: u64 = 10;

/// The last rows of processes and of the node.
#[derive(Default)]
pub(super) struct Samples {
    processes: HashMap<Pid, Sampled>,
    node: Option<(BootTime, NodeMemory)>,
    margins: Margins,
    near: bool,
    /// Whether that is wanted far from all of them.
    armed: bool,
    ticks: u64,
}

/// One process between two looks.
struct Sampled {
    files: Option<MemoryFiles>,
    looks: u64,
    /// The figures of the last look, and of the last row with its time.
    last: MemorySplit,
    row: Option<(BootTime, MemorySplit)>,
}

impl Samples {
    /// Whether a limit is near.
    pub(super) fn near(&self) -> bool {
        self.near
    }

    pub(super) fn forget(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }

    /// Shared memory that a process has mapped and touched, as it was last seen.
    pub(super) fn shared(&self, pid: Pid) -> Bytes {
        let sampled = self.processes.get(&pid);
        let last = sampled.and_then(|sampled| sampled.last.shmem);
        last.unwrap_or_default()
    }
}

/// Whether a figure moved by max(1 MiB, 1 %).
pub(super) fn moved(from: Option<Bytes>, to: Option<Bytes>) -> bool {
    let (from, to) = (from.unwrap_or_default().0, to.unwrap_or_default().0);
    from.abs_diff(to) >= (from / 100).max(1 << 20)
}

impl Sampled {
    fn new(pid: Pid) -> Self {
        Self {
            files: MemoryFiles::open(pid).ok(),
            looks: 0,
            last: MemorySplit::default(),
            row: None,
        }
    }

    /// The figures now; `None` when the process is gone.
    fn look(&mut self, pid: Pid) -> Option<MemorySplit> {
        let turn = self.looks.is_multiple_of(FULL_LOOKS);
        self.looks += 1;
        let Some(files) = &self.files else {
            // No descriptor could be had.
            return memory::process(pid);
        };
        let count = files.count()?;
        let last = &self.last;
        let shared = last.file.unwrap_or_default().0 + last.shmem.unwrap_or_default().0;
        let split = if turn || moved(Some(Bytes(shared)), Some(count.shared)) {
            files.split()?
        } else {
            let resident = Bytes(count.anon.0 + count.shared.0);
            MemorySplit {
                anon: Some(count.anon),
                peak: last.peak.max(Some(resident)),
                ..*last
            }
        };
        self.last = split;
        Some(split)
    }

    /// Whether `split` is worth a row.
    fn is_news(&self, now: BootTime, split: &MemorySplit) -> bool {
        self.row.is_none_or(|(since, row)| {
            now.since(since) >= AT_LEAST_NS
                || moved(row.anon, split.anon)
                || moved(row.file, split.file)
                || moved(row.shmem, split.shmem)
                || moved(row.swap, split.swap)
                || moved(row.peak, split.peak)
        })
    }
}

impl Collector {
    /// Looks as often as near a limit, also far from any.
    pub fn keep_armed(&mut self) {
        self.samples.armed = true;
    }

    /// Called ten times a second: looks at the limits when it is their turn, and at everything when one of them is near.
    pub fn sample(&mut self) {
        let ticks = self.samples.ticks;
        self.samples.ticks += 1;
        if !self.samples.near && !ticks.is_multiple_of(LIMIT_TICKS) {
            return;
        }
        let turn = ticks.is_multiple_of(FAR_TICKS);
        self.sample_gpus();
        let Some(mut node) = memory::node() else {
            return;
        };
        // The heads are a sum only where all are of one moment.
        node.cpu_lists = turn.then(memory::cpu_lists).flatten();
        let now = clock::boot();
        let cgroups = self.read_cgroups();
        let limits = self.limits(&node, &cgroups);
        self.samples.near = self.samples.margins.near(now, &limits) || self.samples.armed;
        if self.samples.near || turn {
            self.sample_processes();
            // Before the machine's row: what was shared then is of one moment.
            let news = self.sample_shared_files(now, node.shmem);
            self.sample_node(now, node, news);
            self.sample_cgroups(now, cgroups);
            self.sample_shared_memory(now);
        }
        if self.samples.near
            && turn
            && let Some(counts) = margins::next(&limits)
        {
            self.sample_outside(now, counts);
        }
    }

    fn sample_processes(&mut self) {
        let known = self.known.values();
        let all: Vec<ProcessKey> = known.map(|known| known.process.process).collect();
        for process in all {
            self.sample_process(process);
        }
    }

    fn sample_process(&mut self, process: ProcessKey) {
        let pid = process.pid;
        let new = || Sampled::new(pid);
        let sampled = self.samples.processes.entry(pid).or_insert_with(new);
        let Some(split) = sampled.look(pid) else {
            return;
        };
        let now = clock::boot();
        if sampled.is_news(now, &split) {
            sampled.row = Some((now, split));
            let memory = split;
            let what = Observation::Memory(ProcessMemory { process, memory });
            self.emit(Source::Proc, now, what);
        }
    }

    /// A row where something moved, or when one is wanted beside another.
    fn sample_node(&mut self, now: BootTime, node: NodeMemory, wanted: bool) {
        let last = self.samples.node.as_ref();
        let row = wanted
            || last.is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS
                    || moved(Some(last.available), Some(node.available))
                    || moved(Some(last.shmem), Some(node.shmem))
                    || moved(Some(last.swap_used), Some(node.swap_used))
                    || moved(last.anon, node.anon)
                    || moved(last.kernel, node.kernel)
            });
        if row {
            self.samples.node = Some((now, node.clone()));
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

    #[test]
    fn a_look_that_reads_less_says_the_same() {
        let pid = Pid(std::process::id());
        let mut sampled = Sampled::new(pid);
        let full = sampled.look(pid).expect("status");
        let quick = sampled.look(pid).expect("statm");
        let anon = |split: MemorySplit| split.anon.expect("anon").0;
        assert!(
            anon(full).abs_diff(anon(quick)) < 8 << 20,
            "{full:?} {quick:?}"
        );
        assert_eq!((full.swap, quick.shmem), (quick.swap, full.shmem));
        assert!(!sampled.is_news(BootTime(0), &quick) || sampled.row.is_none());
    }
}
