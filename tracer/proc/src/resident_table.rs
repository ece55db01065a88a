//! Reads the kernel's table of the resident memory of watched processes.
//!
//! The table is mapped, so a read takes no system call. Its figures show which process to look at,
//! not how much memory the process has. Each figure can be off by a batch for each CPU, and a
//! process that runs only between ticks is not seen to run.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering},
};

use raytrace_ebpf::records::{self, MEMBERS, WATCHED};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::ids::ProcessKey;

const WORDS: usize = size_of::<records::Level>() / 8;

/// A process's slot in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u32);

/// The figures of a process at one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentLevel {
    looks: u64,
    bytes: [u64; MEMBERS],
}

impl ResidentLevel {
    /// Returns the largest change of any figure.
    pub fn moved(&self, since: &Self) -> u64 {
        let pairs = self.bytes.iter().zip(since.bytes);
        pairs
            .map(|(now, before)| now.abs_diff(before))
            .max()
            .unwrap_or(0)
    }

    /// Whether the process was seen to run, or mapped something large, since then.
    pub fn ran(&self, since: &Self) -> bool {
        self.looks != since.looks
    }

    /// Memory in swap.
    pub fn swap(&self) -> u64 {
        self.bytes[2]
    }

    /// Resident memory.
    pub fn resident(&self) -> u64 {
        let [file, anon, _, shmem] = self.bytes;
        file + anon + shmem
    }
}

/// Makes the level of a process with this much private memory that was counted this often.
#[cfg(any(test, feature = "samples"))]
pub fn level_of(looks: u64, private: u64) -> ResidentLevel {
    ResidentLevel {
        looks,
        bytes: [0, private, 0, 0],
    }
}

/// Makes a table that contains these words.
#[cfg(any(test, feature = "samples"))]
pub fn levels_of(words: &[u64]) -> ResidentTable {
    let words: Vec<AtomicU64> = words.iter().map(|word| AtomicU64::new(*word)).collect();
    ResidentTable {
        words: words.leak(),
        page: 4096,
    }
}

/// Makes a slot.
#[cfg(any(test, feature = "samples"))]
pub fn slot_of(place: u32) -> Slot {
    Slot(place)
}

/// The mapped table. It stays until this program ends.
#[derive(Debug, Clone, Copy)]
pub struct ResidentTable {
    words: &'static [AtomicU64],
    page: u64,
}

impl ResidentTable {
    /// Maps the table of `map`.
    pub fn map(map: impl AsFd) -> std::io::Result<Self> {
        let length = WATCHED * size_of::<records::Level>();
        // SAFETY: a new mapping; nothing else points into it.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                map,
                0,
            )?
        };
        // SAFETY: the mapping has this many words, is aligned to a page and is never unmapped. The
        // kernel writes whole words, and this program only loads them.
        let words = unsafe { std::slice::from_raw_parts(start.cast(), WATCHED * WORDS) };
        Ok(Self {
            words,
            page: rustix::param::page_size() as u64,
        })
    }

    /// Returns how often the process in this slot was counted, or mapped something large. While
    /// this number stays the same, the slot's other words do not change.
    pub fn looks(&self, slot: Slot) -> u64 {
        let looks = self.words.get(slot.0 as usize * WORDS + 1);
        looks.map_or(0, |looks| looks.load(Ordering::Relaxed))
    }

    /// Returns the last figures of `process`; zeros before its first count.
    pub fn of(&self, slot: Slot, process: ProcessKey) -> ResidentLevel {
        let at = slot.0 as usize * WORDS;
        let Some(words) = self.words.get(at..at + WORDS) else {
            return ResidentLevel::default();
        };
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        if !ProcessKey::new(process.pid.0, word(0)).same(process) {
            // The slot still has the figures of the previous process.
            return ResidentLevel::default();
        }
        let pages = |member: usize| word(2 + member).cast_signed().max(0).unsigned_abs();
        ResidentLevel {
            looks: word(1),
            bytes: [0, 1, 2, 3].map(|member| pages(member).saturating_mul(self.page)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_is_read_only_for_its_process() {
        let process = ProcessKey::new(7, 100_000_000);
        let later = ProcessKey::new(7, 900_000_000);
        let levels = levels_of(&[0, 0, 0, 0, 0, 0, 100_000_000, 3, 1, 256, 0, u64::MAX]);
        let nothing = ResidentLevel::default();
        assert_eq!(levels.of(Slot(0), process), nothing, "no look yet");
        assert_eq!(levels.of(Slot(1), later), nothing);
        let level = levels.of(Slot(1), process);
        // A counter that is below zero for a moment counts as zero.
        assert_eq!(level.resident(), 257 * 4096);
        assert_eq!(levels.of(Slot(9), process), nothing);
    }

    #[test]
    fn largest_change_counts() {
        let before = ResidentLevel {
            looks: 1,
            bytes: [10, 100, 0, 5],
        };
        let now = ResidentLevel {
            looks: 1,
            bytes: [10, 70, 20, 5],
        };
        assert_eq!(now.moved(&before), 30);
        assert!(!now.ran(&before));
    }
}
