//! `mmap/vm_unmapped_area(addr, info)`: a range of addresses was found for a new mapping: every large `malloc` and `mmap`, with its thread.
//!
//! Format (6.18): `addr, total_vm, flags, length, …`; the arguments are the address (or a negative error) and the request on every
//! kernel since 5.8. Rate: one per mapping without `MAP_FIXED`; below 1 MiB nothing but the length is read. It says what was mapped, not
//! what was touched, and since 6.7 it has up to 2 MiB more than was asked for, to align huge pages. Without it growth is known from samples alone, without its thread.
//! From 16 MiB on it carries the Python stack of its thread where user space has said where the interpreter is, and from 5.15 on the native one.

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

/// Smaller ones are not looked at.
const SMALLEST: u64 = 1 << 20;
/// From here on the reader is woken: by one, or by smaller ones together (the arenas of small objects).
const LARGE: u64 = 16 << 20;
/// Of one process so many a second have a record of their own; what is left out is added to the next.
const A_SECOND: u32 = 2;
const LARGE_A_SECOND: u32 = 20;
/// `BPF_RB_NO_WAKEUP`
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
    // Errors are the last page of addresses.
    let failed = address >= 4096u64.wrapping_neg();
    let Some(watched) = WATCHED.get_ptr_mut(tgid).filter(|_| !failed) else {
        return count(MemoryHook::Mapped, ledger::FILTERED);
    };
    // SAFETY: a map value stays valid during the program. Two threads may add at once and lose one of two sums: the records are
    // exact, only what was left out of them may be short.
    let watched = unsafe { &mut *watched };
    // SAFETY: the helper takes nothing and always answers.
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
        // SAFETY: the record is reserved.
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
    // SAFETY: the record is reserved.
    unsafe { fill(record.as_mut_ptr(), mapped, python) };
    record.submit(WAKEUP);
    true
}

/// SAFETY: `place` is of a reserved record.
#[inline(always)]
unsafe fn fill(place: *mut MappedWithPython, mapped: Mapped, python: &Python) {
    // SAFETY: as said above.
    unsafe {
        let (frames, own) = stack(python, &raw mut (*place).stack);
        let frames = if own { frames } else { 0 };
        (&raw mut (*place).mapped).write(Mapped { frames, ..mapped });
    }
}
