//! Keeps the command line of each process's last exec, for the case that it sends a signal.
//!
//! The command line that a process shows when it sends the signal may have been rewritten. All
//! processes of the machine are included.
//!
//! Each process uses the slot of its tgid's low bits. So an entry stays until another process with
//! the same low bits starts a program. (A `BPF_MAP_TYPE_LRU_HASH` took 1.6 µs of the 2.2 µs of an
//! exec. Before Linux 6.16 each CPU also reserves 128 of its entries: with 32 CPUs, all 4,096.)

use core::arch::asm;

use raytrace_ebpf::records::{COMMAND, COMMANDS_KEPT, Process};

use super::{kernel::arguments, maps::COMMANDS};

/// Keeps the command line of a process at its exec.
///
/// Two processes may share a slot. A writer that meets another writer in a slot leaves the slot
/// empty or leaves it to the other writer. The sender of a signal then has no recorded exec, but
/// never the command line of another process.
#[inline(always)]
pub(crate) fn keep(process: &Process, range: (u64, u64)) {
    let Some(place) = COMMANDS.get_ptr_mut(process.tgid % COMMANDS_KEPT) else {
        return;
    };
    // SAFETY: a map value stays valid while the program runs. `writers` is changed only by atomic
    // additions. All other fields have one writer at a time, except `start`, which every writer
    // sets to 0.
    unsafe {
        (&raw mut (*place).start).write_volatile(0);
        let writers = &raw mut (*place).writers;
        add(writers, 1);
        if writers.read_volatile() == 1 {
            (*place).tgid = process.tgid;
            (*place).length = arguments(range, (&raw mut (*place).argv).cast(), COMMAND as u32);
            (&raw mut (*place).start).write_volatile(process.start);
        }
        add(writers, u64::MAX);
    }
}

/// Adds atomically (`BPF_XADD`), with wrap-around. `core` has no atomic addition for this target,
/// because the oldest instruction set cannot return the previous value.
///
/// # Safety
/// `to` points into a map value.
#[inline(always)]
unsafe fn add(to: *mut u64, what: u64) {
    // SAFETY: the caller guarantees that `to` points into a map value.
    unsafe { asm!("lock *(u64 *)({to} + 0) += {what}", to = in(reg) to, what = in(reg) what) };
}

/// Copies the command line of a process's last exec. Returns the number of valid bytes, or `None`
/// if the command line is not kept.
#[inline(always)]
pub(crate) fn find(process: &Process, to: &mut [u8; COMMAND]) -> Option<u32> {
    let place = COMMANDS.get_ptr(process.tgid % COMMANDS_KEPT)?;
    // SAFETY: a map value stays readable while the program runs. Another writer sets `start` to 0
    // before it writes, so the two checks detect it.
    unsafe {
        let is_its_own = || {
            (&raw const (*place).start).read_volatile() == process.start
                && (&raw const (*place).tgid).read_volatile() == process.tgid
        };
        if !is_its_own() {
            return None;
        }
        let length = (&raw const (*place).length).read_volatile();
        *to = (*place).argv;
        is_its_own().then_some(length)
    }
}
