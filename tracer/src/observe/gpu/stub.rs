//! Stub for builds without the feature `nvml`: no GPU is seen.

use std::sync::mpsc::Receiver;

use crate::event::GpuState;

/// Has no values, because no GPU can be opened.
pub enum Gpus {}

impl Gpus {
    /// Says why GPUs cannot be seen.
    pub fn open() -> Result<Self, String> {
        Err("this raytrace was built without NVML (its feature nvml)".into())
    }

    /// Returns the number of GPUs.
    pub fn count(&self) -> u32 {
        match *self {}
    }

    /// Reads the present state of all GPUs.
    pub fn read(&self) -> Result<Vec<GpuState>, String> {
        match *self {}
    }

    /// Reads the GPUs periodically.
    pub fn watch(self) -> std::io::Result<Receiver<Vec<GpuState>>> {
        match self {}
    }
}
