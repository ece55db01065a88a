//! Reads the user registers of the running thread, and the innermost part of its native stack.
//!
//! The registers are those with which the thread left user space, for the page fault or the system
//! call that the kernel is in. Helpers: `bpf_get_current_task_btf` (5.11) and `bpf_task_pt_regs`
//! (5.15). If the offsets say that the kernel lacks them, the verifier never sees the calls.
//! Nothing here faults. It takes some µs.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{NATIVE_STACK, Native, PIECE, REGISTERS, register};

use super::maps::offset;

/// Returns whether this kernel provides the registers.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    offset!(has_registers) != 0
}

/// Reads the registers and the stack into `to`, a part of a reserved record.
///
/// The number of valid bytes is kept in the record and not in a BPF register: so the verifier walks
/// the code that follows only once.
#[inline(always)]
pub(crate) fn take(to: *mut Native) {
    // SAFETY: `to` points into a reserved record. The helpers check their sources, and the kernel
    // knows that the task is the running one.
    unsafe {
        (&raw mut (*to).bytes).write_volatile(0);
        let task = generated::bpf_get_current_task_btf();
        let saved = generated::bpf_task_pt_regs(task);
        generated::bpf_probe_read_kernel(
            (&raw mut (*to).registers).cast(),
            (REGISTERS * size_of::<u64>()) as u32,
            saved as *const _,
        );
        let registers = &raw const (*to).registers;
        // The two lowest bits are the privilege level.
        if (&raw const (*registers)[register::CS]).read_volatile() & 3 != 3 {
            return;
        }
        let from = (&raw const (*registers)[register::RSP]).read_volatile();
        let mut at = 0;
        while at < NATIVE_STACK {
            let piece = (&raw mut (*to).stack).cast::<u8>().add(at);
            let source = from.wrapping_add(at as u64);
            if generated::bpf_probe_read_user(piece.cast(), PIECE as u32, source as *const _) != 0 {
                return;
            }
            at += PIECE;
            (&raw mut (*to).bytes).write_volatile(at as u64);
        }
    }
}
