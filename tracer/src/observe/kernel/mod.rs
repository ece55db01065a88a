//! Observes the kernel: loads the eBPF objects, attaches their hooks, and reads their rings.
//!
//! [`mod@attach`] tries each hook as `tp_btf`, then as a raw tracepoint. A thread of its own empties
//! [`Ring`], and accesses neither disk nor /proc nor Ray. `hooks` has a file for each hook.

mod attach;
mod btf;
mod error;
mod fields;
mod growth;
mod hooks;
mod interpreter_map;
mod ledger;
mod offsets;
mod programs;
mod ring;
mod symbols;
mod tracked;

pub use attach::{Attached, AttachedPrograms, attach};
pub use error::KernelError;
pub use growth::Growth;
pub use hooks::NewTitle;
pub use interpreter_map::InterpreterMap;
pub use ledger::Ledgers;
#[cfg(test)]
pub(crate) use raytrace_proc::resident_table::{level_of, levels_of, slot_of};
pub use raytrace_proc::{
    growth_records::{MemoryRecord, Native, NewGrowth, NewMapping},
    resident_table::{ResidentLevel, ResidentTable, Slot},
};
pub use ring::{FromRing, Ring};
pub use tracked::Tracked;
