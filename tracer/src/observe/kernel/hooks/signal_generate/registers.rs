//! Finds the registers with which a task left user space. They say which system call it is in.

use raytrace_ebpf::records::{NONE, Offsets};

use crate::observe::kernel::btf::Btf;

/// `THREAD_SIZE` without KASAN. Nothing lies above the registers on the kernels that need this
/// constant: FRED keeps data there only since 6.9.
const STACK_OF_X86_64: u32 = 16 << 10;
/// The same on aarch64. A kernel with larger pages uses one page.
const STACK_OF_AARCH64: u32 = 16 << 10;

/// Adds the offsets of the registers, and which of them hold the system call and its arguments.
pub(super) fn find(btf: &Btf, known: &Offsets) -> Offsets {
    let found = of_x86_64(btf, known).or_else(|| of_aarch64(btf, known));
    found.unwrap_or(Offsets {
        registers_call: NONE,
        task_status: NONE,
        ..*known
    })
}

/// `ptrace.h`, `syscall.h` and `page_64_types.h` of arch/x86/include/asm.
fn of_x86_64(btf: &Btf, known: &Offsets) -> Option<Offsets> {
    let of = |field| btf.offset("pt_regs", field);
    Some(Offsets {
        registers_on_stack: STACK_OF_X86_64.checked_sub(btf.size("pt_regs")?)?,
        registers_call: of("orig_ax")?,
        registers_arguments: [of("di")?, of("si")?, of("dx")?],
        registers_compat_arguments: [of("bx")?, of("cx")?, of("dx")?],
        registers_mode: of("cs")?,
        registers_user_mask: 3,
        registers_user: 3,
        task_status: btf.offset("task_struct", "thread_info.status")?,
        ..*known
    })
}

/// `ptrace.h`, `syscall.h` and `memory.h` of arch/arm64/include/asm.
fn of_aarch64(btf: &Btf, known: &Offsets) -> Option<Offsets> {
    let of = |field| btf.offset("pt_regs", field);
    let registers = of("regs")?;
    let arguments = [of("orig_x0")?, registers + 8, registers + 16];
    let page = u32::try_from(rustix::param::page_size()).ok()?;
    let stack = STACK_OF_AARCH64.max(page);
    Some(Offsets {
        registers_on_stack: stack.checked_sub(btf.size("pt_regs")?)?,
        registers_call: of("syscallno")?,
        registers_arguments: arguments,
        registers_compat_arguments: arguments,
        registers_mode: of("pstate")?,
        registers_user_mask: 0xf,
        registers_user: 0,
        registers_compat_mask: 0x10,
        task_status: NONE,
        ..*known
    })
}
