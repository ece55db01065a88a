//! The programs, one file a hook, and what they share.
//!
//! Each hook stands twice, as `tp_btf` and as raw tracepoint with the same arguments: user space loads what the kernel takes.

mod levels;
mod maps;
mod native;
mod python;
mod steps;
mod tick;
mod vm_unmapped_area;

use crate::read::read;

/// A start differs from the same one of another source below this (`USER_HZ`).
const CLOCK_TICK_NS: u64 = 10_000_000;

/// Whether two starts are of one process: user space knows some from /proc alone, which cuts them.
#[inline(always)]
fn same_start(one: u64, other: u64) -> bool {
    one / CLOCK_TICK_NS == other / CLOCK_TICK_NS
}

/// Declares a hook as `tp_btf` and as raw tracepoint around one body that takes its arguments as integers, and whether the verifier
/// knows their types: [`field`].
macro_rules! hook {
    ($btf:ident, $raw:ident, $name:literal, $body:ident) => {
        /// As BTF tracepoint.
        #[aya_ebpf::macros::btf_tracepoint(function = $name)]
        pub(crate) fn $btf(context: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body::<true>(
                context.arg::<*const u8>(0) as u64,
                context.arg::<*const u8>(1) as u64,
            );
            0
        }

        /// As raw tracepoint.
        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $name)]
        pub(crate) fn $raw(context: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $body::<false>(
                context.arg::<*const u8>(0) as u64,
                context.arg::<*const u8>(1) as u64,
            );
            0
        }
    };
}

/// Reads a field of a struct that an argument of a hook points to.
///
/// `TYPED`: the verifier knows the argument's type, as in a `tp_btf` program, and `offset` is a constant to it: one load, which gives zeroes
/// where it faults. The helper costs some 20 ns, at a hook that every mapping meets.
#[inline(always)]
fn field<T: Copy, const TYPED: bool>(base: u64, offset: u32) -> T {
    if TYPED {
        // SAFETY: the verifier lets no load pass that is not within the struct; the kernel catches its fault.
        return unsafe { core::ptr::read_volatile((base + u64::from(offset)) as *const T) };
    }
    read(base, offset)
}

pub(crate) use hook;
