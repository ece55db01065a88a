//! The programs, one file a hook, and what they share.
//!
//! Each hook stands twice, as `tp_btf` and as raw tracepoint with the same arguments: user space loads what the kernel takes.

mod call;
mod commands;
mod exec;
mod exit;
mod fork;
mod kernel;
mod maps;
mod memory;
mod rename;
mod signal_deliver;
mod signal_generate;
mod victim;

/// Declares a hook as `tp_btf` and as raw tracepoint around one body that takes its arguments as
/// integers, and whether the verifier knows their types: [`crate::read::field`].
macro_rules! hook {
    ($btf:ident, $raw:ident, $name:literal, $body:ident, [$($index:literal),*]) => {
        /// As BTF tracepoint.
        #[aya_ebpf::macros::btf_tracepoint(function = $name)]
        pub(crate) fn $btf(context: aya_ebpf::programs::BtfTracePointContext) -> i32 {
            $body::<true, _>(&context, $(context.arg::<*const u8>($index) as u64),*);
            0
        }

        /// As raw tracepoint.
        #[aya_ebpf::macros::raw_tracepoint(tracepoint = $name)]
        pub(crate) fn $raw(context: aya_ebpf::programs::RawTracePointContext) -> i32 {
            $body::<false, _>(&context, $(context.arg::<*const u8>($index) as u64),*);
            0
        }
    };
}

pub(crate) use hook;
