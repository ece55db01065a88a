//! The loss ledger: what each hook saw, sent, left out and lost.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use aya::maps::{MapData, PerCpuArray};
use raytrace_ebpf::records::{HOOKS, ledger};

use crate::event::Ledger;

/// The columns of a row are read one by one: while a program counts they are of different moments, and are read again so often.
const READS: usize = 8;

/// Records that user space took out of the ring, by hook.
#[derive(Debug, Default)]
pub(super) struct Received([AtomicU64; HOOKS.len()]);

impl Received {
    pub(super) fn add(&self, row: usize) {
        if let Some(counter) = self.0.get(row) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads the kernel's counters.
pub struct Ledgers {
    counters: PerCpuArray<MapData, u64>,
    programs: Vec<(usize, RawFd)>,
    received: Arc<Received>,
}

impl Ledgers {
    pub(super) fn new(
        counters: PerCpuArray<MapData, u64>,
        programs: Vec<(usize, RawFd)>,
        received: Arc<Received>,
    ) -> Self {
        Self {
            counters,
            programs,
            received,
        }
    }

    /// One row a hook. `written` and `dropped` are for the caller to fill.
    #[must_use]
    pub fn read(&self) -> Vec<Ledger> {
        (0u32..)
            .zip(HOOKS)
            .map(|(row, hook)| self.row(row, hook))
            .collect()
    }

    fn row(&self, row: u32, hook: &str) -> Ledger {
        let at = row as usize;
        let mut programs = self.programs.iter().filter(|(hook, _)| *hook == at);
        let first = programs.next();
        Ledger {
            recursion_misses: first.and_then(|(_, fd)| recursion_misses(*fd)),
            second: programs.next().is_some(),
            received: self
                .received
                .0
                .get(at)
                .map_or(0, |counter| counter.load(Ordering::Relaxed)),
            ..counted(&self.counters, row, hook)
        }
    }
}

/// What the programs at a hook have counted, each processor for itself; the rest of its row is for the caller to fill.
pub(super) fn counted(counters: &PerCpuArray<MapData, u64>, row: u32, hook: &str) -> Ledger {
    let mut read = (0..READS).map(|_| at_once(counters, row, hook));
    let adds_up =
        |row: &Ledger| row.seen == row.submitted + row.filtered + row.ring_full + row.map_full;
    let sound = read.find(adds_up);
    sound.unwrap_or_else(|| at_once(counters, row, hook))
}

fn at_once(counters: &PerCpuArray<MapData, u64>, row: u32, hook: &str) -> Ledger {
    let column = |column: u32| {
        let counter = counters.get(&(row * ledger::COLUMNS + column), 0);
        counter.map_or(0, |cpus| cpus.iter().sum())
    };
    Ledger {
        hook: hook.to_owned(),
        seen: column(ledger::SEEN),
        submitted: column(ledger::SUBMITTED),
        filtered: column(ledger::FILTERED),
        ring_full: column(ledger::RING_FULL),
        map_full: column(ledger::MAP_FULL),
        ..Ledger::default()
    }
}

/// `recursion_misses` in the program's fdinfo (Linux ≥ 5.12).
fn recursion_misses(fd: RawFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))?;
    line.trim().parse().ok()
}
