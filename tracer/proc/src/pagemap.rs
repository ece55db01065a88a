//! Counts the private pages in an address range of another process, from /proc/PID/pagemap.
//!
//! The file is opened once and belongs to the address space of that moment. It never shows a later
//! process with the same pid, nor another program in the same process.
//!
//! One call counts a range where the kernel supports it (6.7). A very large range, and any range on
//! an older kernel, is sampled at [`SAMPLES`] pages at even distances. That costs 0.2 ms, and the
//! error is 1/256 if the range was filled from one end, as almost all are.

use std::{
    fs::File,
    os::{fd::AsRawFd as _, unix::fs::FileExt as _},
};

use crate::ids::{Bytes, Pid};

/// How many pages of a range are sampled.
const SAMPLES: u64 = 256;
/// A longer range is sampled: walking its page tables takes more than 1 ms.
const WALKED: u64 = 1 << 30;
/// How many separate regions of memory one call can return. A range with more is sampled.
const REGIONS: usize = 32;
/// `PAGEMAP_SCAN` of linux/fs.h, since 6.7: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
/// Page categories of `PAGEMAP_SCAN`.
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
/// Bits of an entry in the file, for older kernels.
const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SWAPPED: u64 = 1 << 62;
const ENTRY_FILE: u64 = 1 << 61;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// The private memory in a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Private {
    /// All private memory in the range.
    pub bytes: Bytes,
    /// The private memory at the beginning of the range, up to the first gap. If a range is filled
    /// from its beginning, this part need not be scanned again.
    pub solid: Bytes,
}

/// The open pagemap of one process.
pub struct Pagemap {
    file: File,
    page: u64,
}

impl Pagemap {
    /// Opens it. This takes root, or the right to read the process's memory.
    pub fn open(pid: Pid) -> std::io::Result<Self> {
        Ok(Self {
            file: File::open(format!("/proc/{pid}/pagemap"))?,
            page: rustix::param::page_size() as u64,
        })
    }

    /// Returns the private memory in the range, swapped out or not; nothing where the range is no
    /// longer mapped.
    pub fn private(&self, address: u64, length: Bytes) -> Private {
        if let Some(walked) = self.walked(address, length) {
            return walked;
        }
        let pages = length.0 / self.page;
        let samples = pages.min(SAMPLES);
        if samples == 0 {
            return Private::default();
        }
        let first = address / self.page;
        let place = |sample: u64| first + (sample * pages + pages / 2) / samples;
        let found = (0..samples).filter(|sample| self.is_private(place(*sample)));
        Private {
            bytes: Bytes(found.count() as u64 * pages / samples * self.page),
            solid: Bytes(0),
        }
    }

    fn is_private(&self, page: u64) -> bool {
        self.scanned(page).unwrap_or_else(|| self.entry(page))
    }

    /// Returns `None` where the kernel does not know the call.
    fn scanned(&self, page: u64) -> Option<bool> {
        let start = page * self.page;
        let mut region = [Region::default()];
        self.scan(start, start + self.page, &mut region)
            .map(|(found, _)| found > 0)
    }

    /// Counts the whole range by one call; `None` where the kernel does not know it, or it would
    /// take too long.
    fn walked(&self, address: u64, length: Bytes) -> Option<Private> {
        if length.0 == 0 || length.0 > WALKED {
            return None;
        }
        let mut regions = [Region::default(); REGIONS];
        let (start, end) = (address / self.page * self.page, address + length.0);
        let end = end / self.page * self.page;
        let (found, reached) = self.scan(start, end, &mut regions)?;
        let found = regions.get(..found)?;
        let size = |region: &Region| region.end - region.start;
        let first = found.first().filter(|region| region.start == start);
        (reached >= end).then_some(Private {
            bytes: Bytes(found.iter().map(size).sum()),
            solid: Bytes(first.map_or(0, size)),
        })
    }

    /// Returns how many regions of private memory there are, and how far the call got. The zero
    /// page, which a read of untouched memory maps, is not private memory.
    fn scan(&self, start: u64, end: u64, regions: &mut [Region]) -> Option<(usize, u64)> {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_inverted: FILE | ZERO,
            category_mask: FILE | ZERO,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: PRESENT,
            ..Scan::default()
        };
        // SAFETY: the request takes a `pm_scan_arg`, which `Scan` mirrors, and writes at most
        // `vec_len` regions to `vec`; both outlive it.
        let found = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let found = usize::try_from(found).ok()?;
        Some((found, scan.walk_end))
    }

    fn entry(&self, page: u64) -> bool {
        let mut entry = [0; 8];
        let read = self.file.read_exact_at(&mut entry, page * 8);
        let entry = read.map_or(0, |()| u64::from_ne_bytes(entry));
        entry & (ENTRY_PRESENT | ENTRY_SWAPPED) != 0 && entry & ENTRY_FILE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 64 << 20;

    /// Makes a new mapping in this process.
    fn mapped() -> *mut u8 {
        // SAFETY: a new private mapping at no given address.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                LENGTH,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE,
            )
        };
        address.expect("a mapping").cast()
    }

    fn private(pagemap: &Pagemap, address: *mut u8) -> u64 {
        let found = pagemap.private(address as u64, Bytes(LENGTH as u64));
        found.bytes.0 >> 20
    }

    /// Pages that were only mapped or read do not count.
    #[test]
    fn only_written_pages_count() {
        let pagemap = Pagemap::open(Pid(std::process::id())).expect("pagemap");
        let address = mapped();
        assert_eq!(private(&pagemap, address), 0, "mapped");
        let scans = pagemap.scanned(address as u64 / pagemap.page).is_some();
        // SAFETY: the mapping is this test's own and as long; no reference to it exists.
        let slice = unsafe { std::slice::from_raw_parts_mut(address, LENGTH) };
        let sum: u64 = slice
            .iter()
            .step_by(4096)
            .map(|byte| u64::from(*byte))
            .sum();
        assert_eq!(sum, 0);
        if scans {
            assert_eq!(private(&pagemap, address), 0, "read");
        } else {
            crate::skips::skipped("this kernel has no PAGEMAP_SCAN, a page of zeros counts");
        }
        slice[..LENGTH / 4].fill(1);
        let quarter = private(&pagemap, address);
        assert!(!scans || (15..=18).contains(&quarter), "{quarter}");
        let length = Bytes(LENGTH as u64);
        let at = |place: u64| pagemap.private(address as u64 + place, length).solid.0 >> 20;
        assert!(!scans || (15..=18).contains(&at(0)), "{}", at(0));
        assert_eq!(at(LENGTH as u64 / 2), 0);
        // SAFETY: the mapping is this test's own; the slice is not used any more.
        unsafe { rustix::mm::munmap(address.cast(), LENGTH).expect("munmap") };
        assert_eq!(private(&pagemap, address), 0, "unmapped");
    }
}
