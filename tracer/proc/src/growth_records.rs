//! Holds what the kernel's programs report of a process that grows, with the stack of the thread that they found.

use raytrace_ebpf::records;

use crate::{
    event::Mapped,
    ids::{BootTime, Bytes, Pid, ProcessKey},
};

/// What the kernel said of a new mapping.
#[derive(Debug, Clone)]
pub struct NewMapping {
    /// The time.
    pub time: BootTime,
    /// What is written of it.
    pub mapped: Mapped,
    /// Where it may lie.
    pub address: u64,
    /// The Python stack of its thread, the running frame first; empty where that was not taken.
    pub stack: Vec<records::PythonFrame>,
    /// The thread's registers and native stack, where they were taken.
    pub native: Option<Native>,
}

/// What the kernel said of a Python process that grew by much.
#[derive(Debug, Clone)]
pub struct NewGrowth {
    /// When that was seen.
    pub time: BootTime,
    /// The process.
    pub process: ProcessKey,
    /// The thread that ran then.
    pub tid: Pid,
    /// Whether that one runs no Python: the stack is the main thread's.
    pub of_main: bool,
    /// What its private memory grew by since it was told last.
    pub private: Bytes,
    /// And its shared memory.
    pub shared: Bytes,
    /// The Python stack, the running frame first.
    pub stack: Vec<records::PythonFrame>,
    /// Its registers and native stack, where they were taken.
    pub native: Option<Native>,
}

/// The native side of a thread, as it left user space.
#[derive(Debug, Clone)]
pub struct Native {
    /// Its registers, as [`records::register`] numbers them.
    pub registers: [u64; records::REGISTERS],
    /// Its stack from the stack pointer upwards.
    pub stack: Vec<u8>,
}

/// What the ring holds.
#[derive(Debug, Clone)]
pub enum MemoryRecord {
    /// A new mapping.
    Mapped(NewMapping),
    /// Memory that became resident.
    Growth(NewGrowth),
}
