//! Finds the system call that the running task is in.
//!
//! It distinguishes a signal that a process asked for from one that the kernel sends by itself. The
//! number is in the registers that were saved when the task left user space: `pt_regs.orig_ax`
//! (x86-64) or `pt_regs.syscallno` (aarch64). It is −1 for an interrupt or a fault.
//! `bpf_task_pt_regs` (5.15) returns the address of the registers; on older kernels they are at the
//! upper end of the kernel stack.

use aya_ebpf::helpers::generated;
use raytrace_ebpf::records::{CALL_ARGUMENTS, CALL_UNKNOWN, NO_CALL, NONE, SENDER_COMPAT};

use super::maps::{has_registers, offsets};
use crate::read::read;

/// `PF_IO_WORKER` and `PF_KTHREAD` (linux/sched.h).
const PF_IO_WORKER: u32 = 0x10;
const PF_KTHREAD: u32 = 0x0020_0000;
/// `TS_COMPAT` of `thread_info.status` (arch/x86/include/asm/thread_info.h).
const TS_COMPAT: u32 = 2;

/// The system call that a task is in.
pub(crate) struct Call {
    /// Its number, [`NO_CALL`] or [`CALL_UNKNOWN`].
    pub(crate) number: i32,
    /// Whether it is a 32-bit one.
    pub(crate) compat: bool,
    /// The address of the registers; 0 if they were not read.
    registers: u64,
}

impl Call {
    const fn without_registers(number: i32) -> Self {
        Self {
            number,
            compat: false,
            registers: 0,
        }
    }

    /// Returns the first arguments; zeroes if they were not read.
    #[inline(always)]
    pub(crate) fn arguments(&self) -> [u64; CALL_ARGUMENTS] {
        let mut arguments = [0; CALL_ARGUMENTS];
        if self.registers == 0 {
            return arguments;
        }
        for at in 0..CALL_ARGUMENTS {
            let place = if self.compat {
                offsets().registers_compat_arguments[at]
            } else {
                offsets().registers_arguments[at]
            };
            arguments[at] = read(self.registers, place);
        }
        arguments
    }

    /// Returns [`SENDER_COMPAT`] for a 32-bit call, else 0.
    #[inline(always)]
    pub(crate) fn flag(&self) -> u32 {
        if self.compat { SENDER_COMPAT } else { 0 }
    }
}

/// Returns the system call that the running task is in.
#[inline(always)]
pub(crate) fn of(task: u64) -> Call {
    let flags: u32 = read(task, offsets().task_flags);
    if flags & PF_KTHREAD != 0 {
        return Call::without_registers(NO_CALL);
    }
    // An io_uring worker thread has the registers of the task that created it.
    if flags & PF_IO_WORKER != 0 || offsets().registers_call == NONE {
        return Call::without_registers(CALL_UNKNOWN);
    }
    let registers = registers(task);
    if registers == 0 {
        return Call::without_registers(CALL_UNKNOWN);
    }
    let mode: u64 = read(registers, offsets().registers_mode);
    if !is_from_user_space(mode) {
        return Call::without_registers(CALL_UNKNOWN);
    }
    Call {
        number: read(registers, offsets().registers_call),
        compat: is_compat(task, mode),
        registers,
    }
}

/// Returns the address of the registers; 0 if it is not known.
#[inline(always)]
fn registers(task: u64) -> u64 {
    if has_registers() {
        // SAFETY: the helpers take the running task, which the kernel guarantees to be valid.
        return unsafe {
            generated::bpf_task_pt_regs(generated::bpf_get_current_task_btf()) as u64
        };
    }
    if offsets().registers_on_stack == 0 {
        return 0;
    }
    let stack: u64 = read(task, offsets().task_stack);
    if stack == 0 {
        return 0;
    }
    stack + u64::from(offsets().registers_on_stack)
}

/// Returns whether the registers are those of user space. Data from a wrong address seldom passes
/// this check.
#[inline(always)]
fn is_from_user_space(mode: u64) -> bool {
    mode as u32 & offsets().registers_user_mask == offsets().registers_user
}

#[inline(always)]
fn is_compat(task: u64, mode: u64) -> bool {
    if mode as u32 & offsets().registers_compat_mask != 0 {
        return true;
    }
    if offsets().task_status == NONE {
        return false;
    }
    let status: u32 = read(task, offsets().task_status);
    status & TS_COMPAT != 0
}
