//! Decodes interference: another process traces a process, or has written into its memory.
//!
//! Four hooks report it, and so do `signal_generate`, `fork` and `exec`.

use raytrace_ebpf::records::{self, Kind};

use super::{
    Deaths, Decoder, NO_FIELDS,
    bytes::{key, take, text},
};
use crate::event::{self, Observation, Way};

pub(super) const ATTACH: Deaths = Deaths {
    is_needed: false,
    cost: "a tracer that ignores SIGCHLD and detaches is not seen",
    offsets: NO_FIELDS,
    decode,
};

pub(super) const TRACE_ME: Deaths = Deaths {
    is_needed: false,
    cost: "a parent that ignores SIGCHLD and traces a child that asked for it may not be seen",
    offsets: NO_FIELDS,
    decode,
};

pub(super) const MEMORY_WRITE: Deaths = Deaths {
    is_needed: false,
    cost: "who writes into /proc/PID/mem is not seen",
    offsets: |fields, offsets| {
        offsets.mm_owner = fields.need("mm_struct", "owner")?;
        offsets.file_private_data = fields.need("file", "private_data")?;
        Ok(())
    },
    decode,
};

/// `process_vm_writev`: `syscall_64.tbl` and `syscall_32.tbl` of arch/x86/entry/syscalls.
#[cfg(target_arch = "x86_64")]
const VM_WRITE_CALLS: [i32; 3] = [311, 0x4000_0000 | 540, 348];
/// The same: include/uapi/asm-generic/unistd.h, and `syscall.tbl` of arch/arm/tools.
#[cfg(target_arch = "aarch64")]
const VM_WRITE_CALLS: [i32; 3] = [271, 271, 377];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const VM_WRITE_CALLS: [i32; 3] = [0; 3];

pub(super) const MEMORY_ACCESS: Deaths = Deaths {
    is_needed: false,
    cost: "who writes by process_vm_writev is not seen",
    offsets: |_, offsets| {
        offsets.vm_write_calls = VM_WRITE_CALLS;
        Ok(())
    },
    decode,
};

pub(super) fn decode(_: &Decoder, bytes: &[u8]) -> Option<Observation> {
    let record: records::Interference = take(bytes, size_of::<records::Interference>())?;
    let way = match Kind::of(record.header.kind)? {
        Kind::Traced | Kind::TracedAtFork | Kind::TracedAtExec | Kind::Attached | Kind::TraceMe => {
            Way::Ptrace
        }
        Kind::MemoryWritten => Way::ProcMem,
        Kind::VmWritten => Way::ProcessVmWritev,
        _ => return None,
    };
    Some(Observation::Interference(event::Interference {
        process: key(record.process),
        by: key(record.by),
        comm: text(&record.comm),
        uid: record.uid,
        way,
    }))
}
