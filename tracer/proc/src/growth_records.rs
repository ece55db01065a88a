//! Defines what the eBPF programs report about a process that grows.
//!
//! Each report has the stack of the thread that they found.

use raytrace_ebpf::records;

use crate::{
    event::Mapped,
    ids::{BootTime, Bytes, Pid, ProcessKey},
};

/// A kernel report of a new mapping.
#[derive(Debug, Clone)]
pub struct NewMapping {
    /// The time.
    pub time: BootTime,
    /// The part that is written to the recording.
    pub mapped: Mapped,
    /// The address where it may be.
    pub address: u64,
    /// The Python stack of its thread, the running frame first; empty where that was not taken.
    pub stack: Vec<records::PythonFrame>,
    /// The thread's registers and native stack, where they were taken.
    pub native: Option<Native>,
}

/// A kernel report of a Python process that grew by much.
#[derive(Debug, Clone)]
pub struct NewGrowth {
    /// When the growth was seen.
    pub time: BootTime,
    /// The process.
    pub process: ProcessKey,
    /// The thread that ran then.
    pub tid: Pid,
    /// Whether that thread runs no Python. If so, the stack is the main thread's.
    pub has_main_thread_stack: bool,
    /// How much its private memory grew since the last report.
    pub private: Bytes,
    /// How much its shared memory grew since then.
    pub shared: Bytes,
    /// The Python stack, the running frame first.
    pub stack: Vec<records::PythonFrame>,
    /// The thread's registers and native stack, where they were taken.
    pub native: Option<Native>,
}

/// The native registers and stack of a thread, as it left user space.
#[derive(Debug, Clone)]
pub struct Native {
    /// Its registers, as [`records::register`] numbers them.
    pub registers: [u64; records::REGISTERS],
    /// Its stack from the stack pointer upwards.
    pub stack: Vec<u8>,
}

/// A record in the ring.
#[derive(Debug, Clone)]
pub enum MemoryRecord {
    /// A new mapping.
    Mapped(NewMapping),
    /// Memory that became resident.
    Growth(NewGrowth),
}
