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

use crate::read::{field, read};

/// A start differs from the same one of another source below this (`USER_HZ`).
const CLOCK_TICK_NS: u64 = 10_000_000;

/// Whether two starts are of one process: user space knows some from /proc alone, which cuts them.
#[inline(always)]
fn same_start(one: u64, other: u64) -> bool {
    one / CLOCK_TICK_NS == other / CLOCK_TICK_NS
}

/// Declares a hook as `tp_btf` and as raw tracepoint around one body that takes its arguments as integers, and whether the verifier
/// knows their types: [`crate::read::field`].
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

pub(crate) use hook;
