//! Defines what the kernel reports of processes that interfere with another one.

use serde::{Deserialize, Serialize};

use crate::ids::ProcessKey;

/// Another process traces a process, or has written into its memory. It can make the process do
/// anything, and be gone before the process ends.
///
/// Of several acts of one process, one of each way is recorded every 4.3 s. Reads are no acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interference {
    /// The process that is traced or written into.
    pub process: ProcessKey,
    /// The other process.
    pub by: ProcessKey,
    /// Its name (its leader thread).
    pub comm: String,
    /// Real user id in the initial user namespace.
    pub uid: u32,
    /// How.
    pub way: Way,
}

/// How a process interferes with another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By ptrace: it has attached, or the process has stopped for it.
    Ptrace,
    /// By a write into `/proc/PID/mem`.
    ProcMem,
    /// By `process_vm_writev`.
    ProcessVmWritev,
}
