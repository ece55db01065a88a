//! Samples the memory of tracked processes; those that the kernel saw change come first.
//!
//! A row is written only when a figure changed.

mod families;
mod schedule;

use rustc_hash::FxHashMap;

use families::Families;
use schedule::{Before, SampleSchedule, ScheduleEntry};

use super::moved;
use crate::{
    collect::{
        output::Output,
        processes::{Change, Processes},
    },
    event::{MemorySplit, Observation, ProcessMemory, Source},
    ids::{BootTime, Bytes, MINUTE_NS, Pid, ProcessKey, SECOND_NS},
    observe::{
        clock, forks,
        kernel::{Growth, ResidentLevel, Slot},
        memory::{self, MemoryFiles},
    },
};

/// How often a row is written if no figure changes. Thousands of processes may be idle all day.
const AT_LEAST_NS: i64 = 10 * MINUTE_NS;
/// All figures of a process are read at every tenth sample, if the last such reading is at least
/// this long ago. They are also read whenever the cheap figures show that shared memory changed.
const FULL_LOOKS: u64 = 10;
const FULL_NS: i64 = 10 * SECOND_NS;
/// Samples between two readings of the clock.
const LOOKS_AT_ONCE: usize = 8;

/// All processes that are sampled.
#[derive(Default)]
pub(super) struct Memories {
    processes: FxHashMap<Pid, Sampled>,
    schedule: SampleSchedule,
    families: Families,
}

/// One process between two samples.
#[derive(Default)]
struct Sampled {
    files: Option<MemoryFiles>,
    /// Its slot in the kernel's table.
    slot: Option<Slot>,
    before: Before,
    /// When all figures were last read, and the samples since then.
    full: Option<BootTime>,
    looks: u64,
    /// Whether it has executed a program since its fork. If so, it shares nothing with its
    /// ancestors.
    executed: bool,
    /// What it had faulted in since its fork, and when that was read.
    faulted: Option<(BootTime, Bytes)>,
    /// The part of its anonymous memory that counts for a relative, if it has relatives by fork.
    shared: Option<i64>,
    /// The figures of the last sample, and those of the last row with its time.
    last: MemorySplit,
    row: Option<(BootTime, MemorySplit)>,
}

impl Sampled {
    fn new(pid: Pid) -> Self {
        Self {
            files: MemoryFiles::open(pid).ok(),
            ..Self::default()
        }
    }

    /// Returns what the kernel has seen of its memory.
    fn level(&mut self, process: ProcessKey, growth: Option<&Growth>) -> Option<ResidentLevel> {
        let growth = growth?;
        self.slot = self.slot.or_else(|| growth.slot(process));
        Some(growth.levels()?.of(self.slot?, process))
    }

    /// Samples the process, when the kernel has seen `level`. Returns `None` if the process is
    /// gone.
    fn look_at(
        &mut self,
        now: BootTime,
        pid: Pid,
        level: Option<ResidentLevel>,
    ) -> Option<MemorySplit> {
        let swap = |level: Option<ResidentLevel>| level.map(|level| Bytes(level.swap()));
        if moved(swap(self.before.level), swap(level)) {
            // `statm` does not count swap.
            self.full = None;
        }
        let last = self.last;
        let split = self.look(now, pid).map(|split| self.with_own(pid, split));
        let has_moved = split
            .is_some_and(|split| moved(last.anon, split.anon) || moved(last.shmem, split.shmem));
        self.before = Before {
            looked: Some(now),
            level,
            row_level: self.before.row_level,
            moved: if has_moved {
                Some(now)
            } else {
                self.before.moved
            },
        };
        split
    }

    fn execute(&mut self) {
        (self.executed, self.shared, self.faulted) = (true, None, None);
    }

    /// Adds the part that is its own, if it is a fork or has forked. Until its family is measured,
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

    /// Reads the figures; `None` if the process is gone.
    fn look(&mut self, now: BootTime, pid: Pid) -> Option<MemorySplit> {
        self.looks += 1;
        let is_long_ago = |full| self.looks >= FULL_LOOKS && now.since(full) >= FULL_NS;
        let turn = self.full.is_none_or(is_long_ago);
        let Some(files) = &self.files else {
            // No descriptor was available.
            return memory::process(pid);
        };
        let count = files.count()?;
        let last = &self.last;
        let shared = last.file.unwrap_or_default().0 + last.shmem.unwrap_or_default().0;
        let split = if turn || moved(Some(Bytes(shared)), Some(count.shared)) {
            (self.full, self.looks) = (Some(now), 0);
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
                || moved(row.private(), split.private())
                || moved(row.file, split.file)
                || moved(row.shmem, split.shmem)
                || moved(row.swap, split.swap)
                || moved(row.peak, split.peak)
        })
    }
}

impl Memories {
    /// Starts with new processes and drops those that have exited.
    pub(super) fn follow(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Began(process) => self.schedule.add(process),
                // It no longer shares anything.
                Change::Executed(pid) => {
                    if let Some(sampled) = self.processes.get_mut(&pid) {
                        sampled.execute();
                    }
                }
                Change::Gone(pid) => {
                    self.processes.remove(&pid);
                }
            }
        }
    }

    /// Returns the shared memory that a process has mapped and touched, as last seen.
    pub(super) fn shared(&self, pid: Pid) -> Bytes {
        let sampled = self.processes.get(&pid);
        let last = sampled.and_then(|sampled| sampled.last.shmem);
        last.unwrap_or_default()
    }

    /// Samples the processes that are due, while the time budget lasts. `near` says whether a limit
    /// is near.
    pub(super) fn sample(
        &mut self,
        now: BootTime,
        near: bool,
        known: &Processes,
        out: &mut Output,
    ) {
        let growth = known.growth();
        let samples = &mut self.processes;
        let levels = growth.and_then(Growth::levels);
        let ask = |process: ProcessKey| {
            known.get_as(process)?;
            let sampled = samples.entry(process.pid);
            let sampled = sampled.or_insert_with(|| Sampled::new(process.pid));
            let level = sampled.level(process, growth);
            Some(ScheduleEntry {
                slot: sampled.slot,
                turn: sampled.before.turn(now, near, level),
            })
        };
        let due = self.schedule.take(now, near, levels, ask);
        let budget = if near {
            schedule::BUDGET_NEAR
        } else {
            schedule::BUDGET_FAR
        };
        let began = clock::cpu_time();
        for (done, pid) in due.into_iter().enumerate() {
            // On a small machine, reading the clock costs as much as a sample.
            if done % LOOKS_AT_ONCE == 0 && clock::cpu_time().saturating_sub(began) >= budget {
                break;
            }
            self.sample_one(pid, known, out);
        }
    }

    fn sample_one(&mut self, pid: Pid, known: &Processes, out: &mut Output) {
        let Some(process) = known.get(pid).map(|known| known.process.process) else {
            return;
        };
        let Some(sampled) = self.processes.get_mut(&pid) else {
            return;
        };
        let level = sampled.level(process, known.growth());
        let now = clock::boot();
        let Some(split) = sampled.look_at(now, pid, level) else {
            return;
        };
        let is_news = sampled.is_news(now, &split);
        sampled.before.count_from_here(is_news);
        if is_news {
            sampled.row = Some((now, split));
            let memory = split;
            let what = Observation::Memory(ProcessMemory { process, memory });
            out.emit(Source::Proc, now, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_sample_agrees_with_a_full_one() {
        let pid = Pid(std::process::id());
        let mut sampled = Sampled::new(pid);
        let full = sampled.look(BootTime(1), pid).expect("status");
        let quick = sampled.look(BootTime(2), pid).expect("statm");
        let anon = |split: MemorySplit| split.anon.expect("anon").0;
        assert!(
            anon(full).abs_diff(anon(quick)) < 8 << 20,
            "{full:?} {quick:?}"
        );
        assert_eq!((full.swap, quick.shmem), (quick.swap, full.shmem));
        assert!(!sampled.is_news(BootTime(0), &quick) || sampled.row.is_none());
    }
}
