//! GPUs by NVML, where a driver is installed: who computes on each.

use nvml_wrapper::{Nvml, enums::device::UsedGpuMemory, error::NvmlError};

use crate::ids::{Bytes, Pid};

/// The name under which containers have it too; the one without number comes with development packages only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A process on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnGpu {
    /// The GPU's index.
    pub gpu: u32,
    /// The process.
    pub pid: Pid,
    /// Its memory of that GPU; `None` where the driver does not tell.
    pub used: Option<Bytes>,
}

/// How many GPUs there are, and who computes on them; or why that cannot be seen.
pub fn processes() -> Result<(u32, Vec<OnGpu>), String> {
    read().map_err(|error| match error {
        NvmlError::LibloadingError(_) => format!("no NVIDIA driver ({LIBRARY} is not here)"),
        other => format!("NVML: {other}; try: nvidia-smi"),
    })
}

fn read() -> Result<(u32, Vec<OnGpu>), NvmlError> {
    let nvml = Nvml::builder().lib_path(LIBRARY.as_ref()).init()?;
    let count = nvml.device_count()?;
    let mut found = Vec::new();
    for index in 0..count {
        let device = nvml.device_by_index(index)?;
        let processes = device.running_compute_processes()?;
        found.extend(processes.into_iter().map(|process| OnGpu {
            gpu: index,
            pid: Pid(process.pid),
            used: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                UsedGpuMemory::Unavailable => None,
            },
        }));
    }
    Ok((count, found))
}
