//! The memory counters of watched processes, in a table that user space maps.
//!
//! User space reads the table without a system call. It reads exact figures only for processes
//! whose entry has changed.

use raytrace_ebpf::records::{MEMBERS, Watched};

use super::maps::LEVELS;

/// Stores the present counters of a process.
#[inline(always)]
pub(crate) fn looked(watched: &Watched, pages: [i64; MEMBERS]) {
    if let Some(level) = LEVELS.get_ptr_mut(watched.slot as u32) {
        // SAFETY: the pointer is to a map value, which stays valid while the program runs. Two CPUs
        // may write at once: each field then has the value of one of them, and the next write
        // stores the newest.
        unsafe {
            (*level).start = watched.start;
            (*level).pages = pages;
            (*level).looks = (*level).looks.wrapping_add(1);
        }
    }
}

/// Counts a large mapping of a process, which is about to grow.
#[inline(always)]
pub(crate) fn mapped(watched: &Watched) {
    if let Some(level) = LEVELS.get_ptr_mut(watched.slot as u32) {
        // SAFETY: the pointer is to a map value, which stays valid while the program runs. If two
        // CPUs add at once, one addition is lost, and the next check makes up for it.
        unsafe { (*level).looks = (*level).looks.wrapping_add(1) };
    }
}
