//! The programs, one file for each hook, and the code that they share.
//!
//! Each hook has two programs with the same arguments, a `tp_btf` and a raw tracepoint. User space
//! loads the one that the kernel accepts.

mod levels;
mod maps;
mod native;
mod python;
mod steps;
mod tick;
mod vm_unmapped_area;

use crate::read::{field, read};

/// The resolution of start times in `/proc` (`USER_HZ`). Two sources of one start time may differ
/// by less than this.
const CLOCK_TICK_NS: u64 = 10_000_000;

/// Returns whether two start times are those of one process. User space knows some of them only
/// from `/proc`, which truncates them.
#[inline(always)]
fn same_start(one: u64, other: u64) -> bool {
    one / CLOCK_TICK_NS == other / CLOCK_TICK_NS
}

/// Declares a hook as a `tp_btf` program and as a raw tracepoint. Both call one function, which
/// takes the hook's arguments as integers. Its const parameter says whether the verifier knows
/// their types: [`crate::read::field`].
macro_rules! hook {
    ($btf:ident, $raw:ident, $name:literal, $body:ident) => {
        /// Runs as a BTF tracepoint.
        #[aya_ebpf::macros::btf_tracepoint(function = $name)]
        pub(crate) fn $btf(context: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body::<true>(
                context.arg::<*const u8>(0) as u64,
                context.arg::<*const u8>(1) as u64,
            );
            0
        }

        /// Runs as a raw tracepoint.
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
