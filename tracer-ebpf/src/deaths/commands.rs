//! The command line that each process of the machine was given at its last exec, in case that it
//! sends a signal: what it shows then may have been rewritten.
//!
//! Each process has the place of its tgid's last bits, so that one is kept until another one with
//! the same last bits starts a program. (A `BPF_MAP_TYPE_LRU_HASH` took 1.6 µs of an exec's 2.2,
//! and before Linux 6.16 each CPU sets 128 of its entries aside: with 32 CPUs all 4,096.)

use core::arch::asm;

use raytrace_ebpf::records::{COMMAND, COMMANDS_KEPT, Process};

use super::{kernel::arguments, maps::COMMANDS};

/// Keeps what a process was started as.
///
/// Two processes may have one place. Who meets another writer there leaves it empty or to him:
/// then a signal's sender has no exec that was seen, and never another one's.
#[inline(always)]
pub(crate) fn keep(process: &Process, range: (u64, u64)) {
    let Some(place) = COMMANDS.get_ptr_mut(process.tgid % COMMANDS_KEPT) else {
        return;
    };
    // SAFETY: a map value stays valid during the program. `writers` is written by atomic additions
    // only, the rest by one writer at a time, but `start`, which all set to 0.
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

/// Adds in one step (`BPF_XADD`), with wrap-around. `core` has no addition for this target, because
/// the oldest instruction set cannot give what was there before.
///
/// SAFETY: `to` is of a map's value.
#[inline(always)]
unsafe fn add(to: *mut u64, what: u64) {
    // SAFETY: as said above.
    unsafe { asm!("lock *(u64 *)({to} + 0) += {what}", to = in(reg) to, what = in(reg) what) };
}

/// Copies what a process was started as; gives the bytes of it that are valid.
#[inline(always)]
pub(crate) fn find(process: &Process, to: &mut [u8; COMMAND]) -> Option<u32> {
    let place = COMMANDS.get_ptr(process.tgid % COMMANDS_KEPT)?;
    // SAFETY: a map value stays readable during the program. Another writer sets `start` to 0
    // before he writes.
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
