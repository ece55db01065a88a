//! Samples the memory of tracked processes and of the machine.
//!
//! Often near a limit, seldom far from it; of processes that the kernel saw move before others; a row only when a figure moved.

mod families;

use std::collections::HashMap;

use families::Families;

use super::{
    Collector,
    costs::Cause,
    margins::{self, Counts, Limit, Margins},
    turns::{self, Asked, Before, Turns},
};
use crate::{
    event::{
        CgroupState, MemorySplit, MonitorCount, NodeMemory, Observation, ProcessMemory, Source,
    },
    ids::{BootTime, Bytes, MINUTE_NS, Pid, ProcessKey},
    observe::{
        clock, forks,
        kernel::{Growth, ResidentLevel, Slot},
        memory::{self, MemoryFiles},
    },
};

/// Without a move a row is written this often, of a process seldom: thousands of them rest all day.
pub(super) const AT_LEAST_NS: i64 = MINUTE_NS;
const PROCESS_AT_LEAST_NS: i64 = 10 * MINUTE_NS;
/// Far from any limit each tenth tick samples.
const FAR_TICKS: u64 = 10;
/// And each fifth looks whether one has come near.
const LIMIT_TICKS: u64 = 5;
/// Near one each twentieth looks for who outside Ray holds memory: that is a look at the whole machine.
const OUTSIDE_TICKS: u64 = 20;
/// All figures of a process are read at each tenth look, and whenever the cheap ones say that shared memory moved.
const FULL_LOOKS: u64 = 10;
/// Looks between two of the clock.
const LOOKS_AT_ONCE: usize = 8;

/// The last rows of processes and of the node.
#[derive(Default)]
pub(super) struct Samples {
    processes: HashMap<Pid, Sampled>,
    turns: Turns,
    node: Option<(BootTime, NodeMemory)>,
    monitors: HashMap<Pid, (BootTime, MonitorCount)>,
    margins: Margins,
    near: bool,
    /// Whether that is wanted far from all of them.
    armed: bool,
    ticks: u64,
    families: Families,
}

/// One process between two looks.
struct Sampled {
    files: Option<MemoryFiles>,
    /// Its place in the kernel's table.
    slot: Option<Slot>,
    before: Before,
    looks: u64,
    /// Whether it has executed a program since its fork: then it shares with nobody above it.
    executed: bool,
    /// What of its anonymous memory counts as a relative's, where it has such by fork.
    shared: Option<i64>,
    /// The figures of the last look, and of the last row with its time.
    last: MemorySplit,
    row: Option<(BootTime, MemorySplit)>,
}

impl Samples {
    /// Whether a limit is near.
    pub(super) fn near(&self) -> bool {
        self.near
    }

    /// Samples a process from now on.
    pub(super) fn begin(&mut self, process: ProcessKey) {
        self.turns.add(process);
    }

    pub(super) fn forget(&mut self, pid: Pid) {
        self.processes.remove(&pid);
    }

    /// A process has executed a program: it shares nothing any more.
    pub(super) fn executed(&mut self, pid: Pid) {
        if let Some(sampled) = self.processes.get_mut(&pid) {
            sampled.execute();
        }
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
            slot: None,
            before: Before::default(),
            looks: 0,
            executed: false,
            shared: None,
            last: MemorySplit::default(),
            row: None,
        }
    }

    /// What the kernel has seen of it.
    fn level(&mut self, process: ProcessKey, growth: Option<&Growth>) -> Option<ResidentLevel> {
        let growth = growth?;
        self.slot = self.slot.or_else(|| growth.slot(process));
        Some(growth.levels()?.of(self.slot?, process))
    }

    /// The figures now, when the kernel has seen `level`; `None` when the process is gone.
    fn look_at(
        &mut self,
        now: BootTime,
        pid: Pid,
        level: Option<ResidentLevel>,
    ) -> Option<MemorySplit> {
        let swap = |level: Option<ResidentLevel>| level.map(|level| Bytes(level.swap()));
        if moved(swap(self.before.level), swap(level)) {
            // `statm` does not count it.
            self.looks = 0;
        }
        let last = self.last;
        let split = self.look(pid).map(|split| self.with_own(pid, split));
        let has_moved = split
            .is_some_and(|split| moved(last.anon, split.anon) || moved(last.shmem, split.shmem));
        self.before = Before {
            looked: Some(now),
            level,
            moved: if has_moved {
                Some(now)
            } else {
                self.before.moved
            },
        };
        split
    }

    fn execute(&mut self) {
        (self.executed, self.shared) = (true, None);
    }

    /// With what of it is its own, where it is a fork or has forked. Until its family is measured,
    /// that is at most what it has faulted in.
    fn with_own(&mut self, pid: Pid, split: MemorySplit) -> MemorySplit {
        let Some(anon) = split.anon else { return split };
        if !self.executed && self.shared.is_none() {
            match forks::forked(pid) {
                Some(fork) => {
                    self.shared = Some(anon.0.saturating_sub(fork.faulted.0).cast_signed());
                }
                None => self.executed = true,
            }
        }
        let own = self.shared.map(|shared| {
            let own = anon.0.cast_signed() - shared;
            Bytes(u64::try_from(own).unwrap_or(0))
        });
        MemorySplit { own, ..split }
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
            now.since(since) >= PROCESS_AT_LEAST_NS
                || moved(row.anon, split.anon)
                || moved(row.private(), split.private())
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
        let Some(state) = self.charged(Cause::Machine, |own| own.read_machine(turn)) else {
            return;
        };
        let (now, mut node, cgroups, next) = state;
        let near = self.samples.near;
        if near
            && ticks.is_multiple_of(OUTSIDE_TICKS)
            && let Some(counts) = next
        {
            let counted = self.charged(Cause::Outside, |own| own.sample_outside(now, &counts));
            node.others = Some(counted);
        }
        if near || turn {
            self.charged(Cause::Processes, |own| {
                own.sample_processes(now);
                own.measure_families(now);
            });
            // Before the machine's row: what was shared then is of one moment.
            let shared = node.shmem;
            let last = self.samples.node.as_ref().map(|(_, node)| node.shmem);
            let news = (turn || moved(last, Some(shared)))
                && self.charged(Cause::SharedFiles, |own| {
                    own.sample_shared_files(now, shared)
                });
            self.sample_node(now, node, news);
            self.sample_cgroups(now, cgroups);
            self.sample_shared_memory(now);
        }
    }

    /// The machine and the cgroups, and what the limit that is next counts.
    fn read_machine(
        &mut self,
        turn: bool,
    ) -> Option<(BootTime, NodeMemory, Vec<CgroupState>, Option<Counts>)> {
        let mut node = memory::node()?;
        // The heads are a sum only where all are of one moment.
        node.cpu_lists = turn.then(memory::cpu_lists).flatten();
        let now = clock::boot();
        let cgroups = self.read_cgroups(turn);
        let limits = self.limits(&node, &cgroups);
        self.samples.near = self.samples.margins.near(now, &limits) || self.samples.armed;
        self.sample_monitors(now, &limits);
        let next = margins::next(&limits).cloned();
        Some((now, node, cgroups, next))
    }

    /// Looks at those whose turn it is, as long as there is time.
    fn sample_processes(&mut self, now: BootTime) {
        let near = self.samples.near;
        let (known, growth) = (&self.known, self.growth.as_ref());
        let samples = &mut self.samples.processes;
        let levels = growth.and_then(Growth::levels);
        let ask = |process: ProcessKey| {
            let known = known.get(&process.pid)?;
            if !known.process.process.same(process) {
                return None;
            }
            let sampled = samples.entry(process.pid);
            let sampled = sampled.or_insert_with(|| Sampled::new(process.pid));
            let level = sampled.level(process, growth);
            Some(Asked {
                slot: sampled.slot,
                turn: sampled.before.turn(now, near, level),
            })
        };
        let due = self.samples.turns.take(now, near, levels, ask);
        let budget = if near {
            turns::BUDGET_NEAR
        } else {
            turns::BUDGET_FAR
        };
        let began = clock::cpu_time();
        for (done, pid) in due.into_iter().enumerate() {
            // The clock costs as much as a look on a small machine.
            if done % LOOKS_AT_ONCE == 0 && clock::cpu_time().saturating_sub(began) >= budget {
                break;
            }
            self.sample_process(pid);
        }
    }

    /// A row for each monitor that counts another figure: by these a kill for memory is proven.
    fn sample_monitors(&mut self, now: BootTime, limits: &[Limit]) {
        for limit in limits {
            let Some(raylet) = limit.raylet else { continue };
            let count = MonitorCount {
                raylet,
                used: limit.used,
                threshold: limit.limit,
            };
            let last = self.samples.monitors.get(&raylet.pid);
            let row = last.is_none_or(|(since, last)| {
                now.since(*since) >= AT_LEAST_NS
                    || last.raylet != raylet
                    || last.threshold != count.threshold
                    || moved(Some(last.used), Some(count.used))
            });
            if row {
                self.samples.monitors.insert(raylet.pid, (now, count));
                self.emit(Source::Proc, now, Observation::Monitor(count));
            }
        }
        let there = |pid: &Pid| {
            limits
                .iter()
                .any(|limit| limit.raylet.is_some_and(|raylet| raylet.pid == *pid))
        };
        self.samples.monitors.retain(|pid, _| there(pid));
    }

    fn sample_process(&mut self, pid: Pid) {
        let Some(process) = self.known.get(&pid).map(|known| known.process.process) else {
            return;
        };
        let Some(sampled) = self.samples.processes.get_mut(&pid) else {
            return;
        };
        let level = sampled.level(process, self.growth.as_ref());
        let now = clock::boot();
        let Some(split) = sampled.look_at(now, pid, level) else {
            return;
        };
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
            || node.others.is_some()
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
