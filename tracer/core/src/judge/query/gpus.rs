//! Reports each GPU of the recording.

use crate::judge::{report::GpuReport, state::world::World};

/// Returns each GPU of the recording.
pub(crate) fn report(world: &World) -> Vec<GpuReport> {
    let devices = world.gpus.devices.iter();
    devices
        .map(|(device, seen)| GpuReport {
            device: *device,
            total_bytes: seen.last.total,
            used_bytes: seen.last.used,
            peak_bytes: seen.peak,
            peak_time: world.clock.wall(seen.peaked),
            uncorrected_errors: seen.last.uncorrected_errors,
        })
        .collect()
}
