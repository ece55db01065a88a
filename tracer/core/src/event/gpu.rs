//! Memory of GPUs.

use crate::ids::{Bytes, Pid, ProcessKey};

/// Memory of one GPU and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuState {
    /// NVML's index.
    pub device: u32,
    /// Its memory, without what the driver keeps for itself.
    pub total: Bytes,
    /// In use.
    pub used: Bytes,
    /// Uncorrected ECC errors since the driver was loaded; `None` without ECC.
    pub uncorrected_errors: Option<u64>,
    /// Who computes on it.
    pub holders: Vec<GpuHolder>,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHolder {
    /// As NVML tells it: of the host, or of the container that the recorder runs in.
    pub pid: Pid,
    /// The tracked process that this is.
    pub process: Option<ProcessKey>,
    /// Name and parent of one that is not tracked, where /proc shows it.
    pub name: Option<String>,
    /// See `name`.
    pub parent: Option<Pid>,
    /// Its memory of this GPU; `None` where the driver does not tell.
    pub used: Option<Bytes>,
}
