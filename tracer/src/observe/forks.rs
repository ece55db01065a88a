//! Measures how much anonymous memory only one process has mapped, and whether it is a fork.
//!
//! This reads /proc/PID/pagemap (`fs/proc/task_mmu.c`: bit 56, `PM_MMAP_EXCLUSIVE`). Where there
//! are many pages, it reads samples at even distances. These are short reads; each holds the lock
//! of the mapping for some microseconds. `smaps_rollup` would be exact, but holds it for 20 ms for
//! each GiB. On a busy machine, that cost the process that is read seconds
//! (docs/development/performance-details.md).

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use super::{maps, timed_read};
use crate::{
    bounded,
    ids::{Bytes, Pid},
};

/// `PF_FORKNOEXEC` of include/linux/sched.h: forked, and no exec since.
const PF_FORKNOEXEC: u32 = 0x40;
/// Where the flags are among the fields of /proc/PID/stat after the name; the minor faults follow.
const FLAGS: usize = 6;

/// The number of places that are sampled, and the pages read at each.
const WINDOWS: u64 = 4096;
const WINDOW: u64 = 16;
/// A process with no more pages than these places have is read as a whole. It is read in pieces of
/// the size that the kernel reads under one lock of the mapping (`PAGEMAP_WALK_SIZE`).
const WHOLE: usize = 512;
/// Bits of an entry: the page is present, it is a page of a file, only one process maps it.
const PRESENT: u64 = 1 << 63;
const FILE: u64 = 1 << 61;
const ALONE: u64 = 1 << 56;

/// Counts of the anonymous pages that were sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    /// All that are present.
    pub present: u64,
    /// Those that no other process has mapped.
    pub alone: u64,
    /// How long reading them took.
    pub took: Duration,
}

impl Pages {
    /// Returns the part of `anon` that only this process has; `None` if no page was present.
    pub fn own(&self, anon: u64) -> Option<u64> {
        let product = u128::from(anon) * u128::from(self.alone);
        let own = product.checked_div(u128::from(self.present))?;
        u64::try_from(own).ok()
    }
}

/// A process that was forked and has not executed a program since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forked {
    /// An upper bound on what it has touched since: one page for each minor fault. Huge pages make
    /// the true figure higher.
    pub faulted: Bytes,
}

/// Samples a process's pages on a helper thread. Returns `None` if the process is gone, may not be
/// read, or takes too long.
pub fn sample_pages(pid: Pid) -> Option<Pages> {
    timed_read::run_optional(pid, move || {
        let began = Instant::now();
        let maps = maps::read(pid, bounded::LARGE).ok()?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok()?;
        let mut pages = look_in(&pagemap, &anonymous(&maps));
        pages.took = began.elapsed();
        Some(pages)
    })
}

/// Returns the first page and the number of pages of each mapping without a file.
fn anonymous(maps: &str) -> Vec<(u64, u64)> {
    let page = rustix::param::page_size() as u64;
    maps::parse(maps)
        .filter(|map| map.inode == 0 && !map.name.starts_with("[v"))
        .map(|map| (map.start / page, (map.end - map.start) / page))
        .collect()
}

fn look_in(pagemap: &File, ranges: &[(u64, u64)]) -> Pages {
    let all: u64 = ranges.iter().map(|(_, pages)| pages).sum();
    // The pages read at a time, and the distance from one read to the next.
    let (window, stride) = if all > WINDOWS * WINDOW {
        (WINDOW, all / WINDOWS)
    } else {
        (WHOLE as u64, 1)
    };
    let (mut found, mut before, mut next) = (Pages::default(), 0, 0);
    let mut entries = [0_u8; 8 * WHOLE];
    for (first, pages) in ranges {
        while next < before + pages {
            let place = first + (next - before);
            let length = window.min(before + pages - next);
            let wanted = usize::try_from(length * 8).unwrap_or(entries.len());
            if let Ok(read) = pagemap.read_at(&mut entries[..wanted], place * 8) {
                found.count(&entries[..read]);
            }
            next += stride.max(length);
        }
        before += pages;
    }
    found
}

impl Pages {
    fn count(&mut self, entries: &[u8]) {
        for entry in entries.as_chunks::<8>().0 {
            let entry = u64::from_ne_bytes(*entry);
            let is_there = entry & PRESENT != 0 && entry & FILE == 0;
            self.present += u64::from(is_there);
            self.alone += u64::from(is_there && entry & ALONE != 0);
        }
    }
}

/// Returns what a process has touched since it was forked, if it is a fork without exec. Returns
/// `None` if it is not, or if it is gone.
pub fn forked(pid: Pid) -> Option<Forked> {
    let stat = bounded::text_of_process(pid, "stat", bounded::SMALL).ok()?;
    of_stat(&stat, rustix::param::page_size() as u64)
}

fn of_stat(stat: &str, page: u64) -> Option<Forked> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace().skip(FLAGS);
    let flags: u32 = fields.next()?.parse().ok()?;
    let faults: u64 = fields.next()?.parse().ok()?;
    (flags & PF_FORKNOEXEC != 0).then(|| Forked {
        faulted: Bytes(faults.saturating_mul(page)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_the_name_hide_no_flag() {
        let stat = |flags: u32| format!("7 (a) b) S 1 7 7 0 -1 {flags} 250 0 0 0 1 2");
        let found = of_stat(&stat(0x40_0040), 4096).expect("forked");
        assert_eq!(found.faulted, Bytes(250 * 4096));
        assert_eq!(of_stat(&stat(0x40_0000), 4096), None);
    }

    #[test]
    fn shared_and_file_pages_are_not_alone() {
        let mut pages = Pages::default();
        let entries = [PRESENT | ALONE, PRESENT, PRESENT | FILE | ALONE, ALONE, 0];
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.to_ne_bytes())
            .collect();
        pages.count(&bytes);
        assert_eq!((pages.present, pages.alone), (2, 1));
        assert_eq!(pages.own(100), Some(50));
        assert_eq!(Pages::default().own(100), None);
    }

    /// Nearly all of its memory is its own.
    #[test]
    fn own_process_is_no_fork() {
        let own = Pid(std::process::id());
        assert_eq!(forked(own), None);
        let pages = sample_pages(own).expect("a look");
        assert!(
            pages.present > 0 && pages.alone * 10 >= pages.present * 9,
            "{pages:?}"
        );
    }
}
