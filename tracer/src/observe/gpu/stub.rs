//! Stub for builds without the feature `nvml`: no GPU is seen.

use std::sync::mpsc::Receiver;

use crate::event::GpuState;

/// Has no value, since no GPU can be opened.
pub enum Gpus {}

impl Gpus {
    /// Says why GPUs cannot be seen.
    pub fn open() -> Result<Self, String> {
        Err("this raytrace was built without NVML (its feature nvml)".into())
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        match *self {}
    }

    /// All of them now.
    pub fn read(&self) -> Result<Vec<GpuState>, String> {
        match *self {}
    }

    /// Reads them again and again.
    pub fn watch(self) -> std::io::Result<Receiver<Vec<GpuState>>> {
        match self {}
    }
}
