//! The programs, one file for each hook, and the code that they share.
//!
//! Each hook has two programs with the same arguments, a `tp_btf` and a raw tracepoint. User space
//! loads the one that the kernel accepts. `out_of_memory` and those of `interference` are at the
//! entry or the exit of a function, and have one.

mod budget;
mod call;
mod caught;
mod commands;
mod exec;
mod exit;
mod fork;
mod interference;
mod kernel;
mod maps;
mod memory;
mod out_of_memory;
mod rename;
mod signal_deliver;
mod signal_generate;
mod victim;

/// Declares a hook as a `tp_btf` program and as a raw tracepoint. Both call one function, which
/// takes the hook's arguments as integers. Its const parameter says whether the verifier knows
/// their types: [`crate::read::field`].
macro_rules! hook {
    ($btf:ident, $raw:ident, $name:literal, $body:ident, [$($index:literal),*]) => {
        /// Runs as a BTF tracepoint.
        #[aya_ebpf::macros::btf_tracepoint(function = $name)]
        pub(crate) fn $btf(context: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body::<true, _>(&context, $(context.arg::<*const u8>($index) as u64),*);
            0
        }

        /// Runs as a raw tracepoint.
        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $name)]
        pub(crate) fn $raw(context: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $body::<false, _>(&context, $(context.arg::<*const u8>($index) as u64),*);
            0
        }
    };
}

pub(crate) use hook;
