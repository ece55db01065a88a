//! What each watched process has, in a table that user space reads without a system call: only who moved there is asked for exact figures.

use raytrace_ebpf::records::{MEMBERS, Watched};

use super::maps::LEVELS;

/// A look at a process: its counters as they are.
#[inline(always)]
pub(crate) fn looked(watched: &Watched, pages: [i64; MEMBERS]) {
    if let Some(level) = LEVELS.get_ptr_mut(watched.slot as u32) {
        // SAFETY: the pointer is of a map value. Two CPUs may write at once: each figure is one of both, and the next look has the newest.
        unsafe {
            (*level).start = watched.start;
            (*level).pages = pages;
            (*level).looks = (*level).looks.wrapping_add(1);
        }
    }
}

/// It has mapped something large: it is about to grow.
#[inline(always)]
pub(crate) fn mapped(watched: &Watched) {
    if let Some(level) = LEVELS.get_ptr_mut(watched.slot as u32) {
        // SAFETY: as above; a count that is lost is made up by the next look.
        unsafe { (*level).looks = (*level).looks.wrapping_add(1) };
    }
}
