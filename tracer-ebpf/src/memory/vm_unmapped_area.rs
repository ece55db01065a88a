//! `mmap/vm_unmapped_area(addr, info)`: reports large mappings and their threads.
//!
//! The kernel has found a range of addresses for a new mapping. So every large `malloc` and `mmap`
//! is reported with its thread. Format (6.18): `addr, total_vm, flags, length, …`. The arguments
//! are the address (or a negative error) and the request, on every kernel since 5.8. Rate: one per
//! mapping without `MAP_FIXED`; below 1 MiB only the length is read.
//!
//! The record says what was mapped, not what was touched. Since 6.7 it contains up to 2 MiB more
//! than was requested, to align huge pages. From 16 MiB on it has the Python stack of its thread,
//! if user space has reported where the interpreter is, and since 5.15 also the native stack.
//! Without this hook, growth is known only from samples, without its thread.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_boot_ns};
use raytrace_ebpf::records::{
    Header, Kind, Mapped, MappedWithNative, MappedWithPython, MemoryHook, Process, Python, ledger,
};

use super::{
    field, hook, levels,
    maps::{MAPPINGS, SECOND_NS, WAKEUP, WATCHED, count, offset},
    native,
    python::{self, stack},
};

hook!(mapped_btf, mapped_raw, "vm_unmapped_area", mapped);

/// The minimum length: smaller mappings are ignored.
const SMALLEST: u64 = 1 << 20;
/// The length from which the reader is woken: of one mapping, or of several smaller ones together
/// (the arenas of small objects).
const LARGE: u64 = 16 << 20;
/// The maximum number of records of one process per second. Mappings beyond it are added to the
/// next record.
const A_SECOND: u32 = 2;
/// The same for large mappings.
const LARGE_A_SECOND: u32 = 20;
/// `BPF_RB_NO_WAKEUP`.
const NO_WAKEUP: u64 = 1;

#[inline(always)]
fn mapped<const TYPED: bool>(address: u64, info: u64) {
    let length = field::<u64, TYPED>(info, offset!(unmapped_length));
    if length < SMALLEST {
        return;
    }
    count(MemoryHook::Mapped, ledger::SEEN);
    let ids = bpf_get_current_pid_tgid();
    let tgid = (ids >> 32) as u32;
    // An error is an address in the last page.
    let failed = address >= 4096u64.wrapping_neg();
    let Some(watched) = WATCHED.get_ptr_mut(tgid).filter(|_| !failed) else {
        return count(MemoryHook::Mapped, ledger::FILTERED);
    };
    // SAFETY: a map value stays valid while the program runs. If two threads add at once, one
    // addition is lost. The mapping in each record is exact; only the sums of mappings without a
    // record may be too small.
    let watched = unsafe { &mut *watched };
    // SAFETY: the helper takes no arguments and cannot fail.
    let time = unsafe { bpf_ktime_get_boot_ns() };
    watched.held_bytes += length;
    watched.held_calls += 1;
    levels::mapped(watched);
    if time.wrapping_sub(watched.window) >= SECOND_NS {
        watched.window = time;
        watched.sent = 0;
    }
    let large = watched.held_bytes >= LARGE;
    let most = if large { LARGE_A_SECOND } else { A_SECOND };
    if watched.sent >= most {
        return count(MemoryHook::Mapped, ledger::FILTERED);
    }
    let mapped = Mapped {
        header: Header {
            kind: Kind::Mapped as u32,
            reserved: 0,
            time,
        },
        process: Process {
            tgid,
            tid: ids as u32,
            start: watched.start,
        },
        address,
        bytes: length,
        all_bytes: watched.held_bytes,
        calls: watched.held_calls,
        frames: 0,
    };
    let python = if large {
        python::of(tgid, watched.start)
    } else {
        None
    };
    let is_sent = match python {
        Some(python) => send_with_stack(mapped, python),
        None => send(mapped, large),
    };
    if !is_sent {
        return count(MemoryHook::Mapped, ledger::RING_FULL);
    }
    watched.sent += 1;
    watched.held_bytes = 0;
    watched.held_calls = 0;
    count(MemoryHook::Mapped, ledger::SUBMITTED);
}

#[inline(always)]
fn send(mapped: Mapped, large: bool) -> bool {
    let Some(mut record) = MAPPINGS.reserve::<Mapped>(0) else {
        return false;
    };
    record.write(mapped);
    record.submit(if large { WAKEUP } else { NO_WAKEUP });
    true
}

#[inline(always)]
fn send_with_stack(mapped: Mapped, python: &Python) -> bool {
    if native::is_here()
        && let Some(mut record) = MAPPINGS.reserve::<MappedWithNative>(0)
    {
        let place = record.as_mut_ptr();
        // SAFETY: `place` points into a reserved record.
        unsafe {
            fill(&raw mut (*place).by, mapped, python);
            native::take(&raw mut (*place).native);
        }
        record.submit(WAKEUP);
        return true;
    }
    let Some(mut record) = MAPPINGS.reserve::<MappedWithPython>(0) else {
        return false;
    };
    // SAFETY: `place` points into a reserved record.
    unsafe { fill(record.as_mut_ptr(), mapped, python) };
    record.submit(WAKEUP);
    true
}

/// Writes the mapping and the stack into a reserved record.
///
/// # Safety
/// `place` points into a reserved record.
#[inline(always)]
unsafe fn fill(place: *mut MappedWithPython, mapped: Mapped, python: &Python) {
    // SAFETY: the caller guarantees that `place` points into a reserved record.
    unsafe {
        let (frames, own) = stack(python, &raw mut (*place).stack);
        let frames = if own { frames } else { 0 };
        (&raw mut (*place).mapped).write(Mapped { frames, ..mapped });
    }
}
