//! Defines memory of GPUs.

use serde::{Deserialize, Serialize};

use crate::ids::{Bytes, Pid, ProcessKey};

/// Memory of one GPU and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuState {
    /// NVML's index.
    pub device: u32,
    /// Its memory, without what the driver reserves for itself.
    pub total: Bytes,
    /// In use.
    pub used: Bytes,
    /// Uncorrected ECC errors since the driver was loaded; `None` without ECC.
    pub uncorrected_errors: Option<u64>,
    /// The processes that compute on it.
    pub holders: Vec<GpuHolder>,
}

/// A process on a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHolder {
    /// Its pid as NVML reports it: in the host's pid namespace, or in that of the recorder's
    /// container.
    pub pid: Pid,
    /// The tracked process with this pid.
    pub process: Option<ProcessKey>,
    /// Name of a process that is not tracked, where /proc shows it.
    pub name: Option<String>,
    /// Parent of a process that is not tracked, where /proc shows it.
    pub parent: Option<Pid>,
    /// Its memory on this GPU; `None` where the driver does not report it.
    pub used: Option<Bytes>,
}
