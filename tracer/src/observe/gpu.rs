//! Reads GPUs by NVML: the memory in use, and the processes that compute on each.
//!
//! The library is opened only at run time, because not every machine has NVIDIA's driver.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use nvml_wrapper::{
    Nvml,
    enum_wrappers::device::{EccCounter, MemoryError},
    enums::device::UsedGpuMemory,
    error::NvmlError,
};

use crate::{
    event::{GpuHolder, GpuState},
    ids::{Bytes, Pid},
};

/// The name that the library has in containers too. The name without a version comes only with
/// development packages.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// How often GPUs are read. Each read asks the driver, and most training steps take longer.
const PERIOD: Duration = Duration::from_secs(1);

/// The driver's library.
pub struct Gpus {
    nvml: Nvml,
    count: u32,
}

impl Gpus {
    /// Opens the library, or says why GPUs cannot be seen.
    pub fn open() -> Result<Self, String> {
        let open = || {
            let nvml = Nvml::builder().lib_path(LIBRARY.as_ref()).init()?;
            let count = nvml.device_count()?;
            Ok(Self { nvml, count })
        };
        open().map_err(|error| said(&error))
    }

    /// Returns the number of GPUs.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Reads the present state of all GPUs.
    pub fn read(&self) -> Result<Vec<GpuState>, String> {
        let all = (0..self.count).map(|device| self.device(device));
        all.collect::<Result<_, _>>().map_err(|error| said(&error))
    }

    fn device(&self, index: u32) -> Result<GpuState, NvmlError> {
        let device = self.nvml.device_by_index(index)?;
        let memory = device.memory_info()?;
        let processes = device.running_compute_processes()?;
        let holders = processes.into_iter().map(|process| GpuHolder {
            pid: Pid(process.pid),
            used: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
                UsedGpuMemory::Unavailable => None,
            },
            ..GpuHolder::default()
        });
        let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        Ok(GpuState {
            device: index,
            total: Bytes(memory.total),
            used: Bytes(memory.used),
            uncorrected_errors: errors.ok(),
            holders: holders.collect(),
        })
    }

    /// Reads the GPUs each second in a thread of its own. A driver that is busy with a broken GPU
    /// answers late.
    pub fn watch(self) -> std::io::Result<Receiver<Vec<GpuState>>> {
        let (sender, receiver) = sync_channel(2);
        thread::Builder::new()
            .name("gpus".into())
            .spawn(move || self.run(&sender))?;
        Ok(receiver)
    }

    fn run(&self, sender: &SyncSender<Vec<GpuState>>) {
        loop {
            // A GPU that has fallen off the bus has no figures. It may come back.
            if let Ok(states) = self.read()
                && sender.send(states).is_err()
            {
                return;
            }
            thread::sleep(PERIOD);
        }
    }
}

fn said(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => format!("no NVIDIA driver found ({LIBRARY} is missing)"),
        other => format!("NVML: {other}; try: nvidia-smi"),
    }
}
