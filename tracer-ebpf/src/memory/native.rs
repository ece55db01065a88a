//! The native side of the running thread: the registers with which it left user space, and the innermost part of its stack.
//!
//! The registers are those of the page fault or the system call that the kernel is in. Helpers: `bpf_get_current_task_btf` (5.11),
//! `bpf_task_pt_regs` (5.15); where the offsets say that they are not there, the verifier never sees the calls. Nothing here faults. Some µs.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{NATIVE_STACK, Native, PIECE, REGISTERS, register};

use super::maps::offset;

/// Whether this kernel gives registers.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    offset!(has_registers) != 0
}

/// Takes registers and stack into `to`, a part of a reserved record. What was reached is kept there and not in a register of the program:
/// the verifier then goes through what follows once.
#[inline(always)]
pub(crate) fn take(to: *mut Native) {
    // SAFETY: the record is reserved; the helpers check their sources, and the kernel knows that the task is the running one.
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
        // The lowest two bits are the privilege level.
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
