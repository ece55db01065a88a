//! Reads the loss ledger: how many events each hook saw, sent, filtered out and lost.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use raytrace_ebpf::records::{self, Hook, ledger};

use crate::{bounded, event::Ledger};

/// How often a row is read until it adds up. Its columns are read one by one, so while a program
/// counts they may belong to different moments.
const READS: usize = 8;

/// The number of records that user space took out of the ring, by hook.
#[derive(Debug, Default)]
pub(super) struct Received([AtomicU64; Hook::COUNT]);

impl Received {
    pub(super) fn add(&self, hook: Hook) {
        self.0[hook as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, hook: Hook) -> u64 {
        self.0[hook as usize].load(Ordering::Relaxed)
    }
}

/// Reads the kernel's counters.
pub struct Ledgers {
    counters: PerCpuArray<MapData, u64>,
    budgets: [Budget; 3],
    programs: Vec<(Hook, RawFd)>,
    received: Arc<Received>,
}

/// A `records::Spent`, in words.
type SpentWords = [u64; 2];

const _: () = assert!(size_of::<SpentWords>() == size_of::<records::Spent>());

/// The records of one kind that each user and all users caused.
pub(super) struct Budget {
    /// The begin of the name of a user's row.
    pub(super) rows: &'static str,
    pub(super) users: HashMap<MapData, u32, SpentWords>,
    pub(super) all: Array<MapData, SpentWords>,
}

impl Budget {
    /// Returns one row for each user that was over it.
    fn over(&self) -> Vec<Ledger> {
        let users = self.users.iter().filter_map(Result::ok);
        let of_user = |(uid, [_, over]): (u32, SpentWords)| (format!("{}{uid}", self.rows), over);
        let rest = self.all.get(&0, 0).map_or(0, |[_, over]| over);
        let others = (format!("{}others", self.rows), rest);
        let mut rows: Vec<_> = users.map(of_user).chain([others]).collect();
        rows.retain(|(_, over)| *over > 0);
        rows.sort();
        let row = |(hook, missed)| Ledger {
            hook,
            missed,
            ..Ledger::default()
        };
        rows.into_iter().map(row).collect()
    }
}

impl Ledgers {
    pub(super) fn new(
        counters: PerCpuArray<MapData, u64>,
        budgets: [Budget; 3],
        programs: Vec<(Hook, RawFd)>,
        received: Arc<Received>,
    ) -> Self {
        Self {
            counters,
            budgets,
            programs,
            received,
        }
    }

    /// Returns one row for each user that was over a budget, and budget.
    pub fn over(&self) -> Vec<Ledger> {
        self.budgets.iter().flat_map(Budget::over).collect()
    }

    /// Returns one row for each hook. `written` and `dropped` are left for the caller to fill.
    pub fn read(&self) -> Vec<Ledger> {
        Hook::ALL.into_iter().map(|hook| self.row(hook)).collect()
    }

    fn row(&self, hook: Hook) -> Ledger {
        let mut programs = self.programs.iter().filter(|(of, _)| *of == hook);
        let first = programs.next();
        Ledger {
            recursion_misses: first.and_then(|(_, fd)| recursion_misses(*fd)),
            second: programs.next().is_some(),
            received: self.received.of(hook),
            ..self.of_both(hook)
        }
    }

    /// Returns the sum of what the programs of a hook have counted. Some hooks have two.
    fn of_both(&self, hook: Hook) -> Ledger {
        let first = counted(&self.counters, hook.row(), hook.name());
        if hook.programs().len() < 2 {
            return first;
        }
        let second = counted(&self.counters, hook.second_row(), hook.name());
        Ledger {
            seen: first.seen + second.seen,
            submitted: first.submitted + second.submitted,
            filtered: first.filtered + second.filtered,
            ring_full: first.ring_full + second.ring_full,
            map_full: first.map_full + second.map_full,
            ..first
        }
    }
}

/// Returns what a program has counted on all CPUs. The rest of the row is for the caller to fill.
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
    let text = bounded::text(format!("/proc/self/fdinfo/{fd}"), bounded::SMALL).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))?;
    line.trim().parse().ok()
}
