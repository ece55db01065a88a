//! Keeps GPU memory over a recording.
//!
//! That is each device's peak, what each process holds, and what left a GPU and came to the host.

use std::collections::BTreeMap;

use crate::{
    event::GpuState,
    ids::{BootTime, ByProcess, Bytes, ProcessKey, SECOND_NS},
    judge::report::GpuUse,
};

/// A smaller fall is no offload of a model.
const LEAST: u64 = 2 << 30;
/// The host's memory rises within this time. Its copy is made before the GPU's is freed, or is
/// sampled soon after.
const NEAR_NS: i64 = 20 * SECOND_NS;
/// What a process held within this time before its end, it held at its end.
const JUST_NS: i64 = 3 * SECOND_NS;
/// At most this many offloads are kept: the first ones.
const MOST: usize = 256;

/// All GPUs.
#[derive(Debug, Default)]
pub(crate) struct Gpus {
    pub(crate) devices: BTreeMap<u32, Device>,
    held: ByProcess<Held>,
    pub(crate) offloads: Vec<GpuOffload>,
}

/// One GPU.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) last: GpuState,
    pub(crate) peak: Bytes,
    pub(crate) peaked: BootTime,
}

/// What one process holds on all GPUs.
#[derive(Debug, Default)]
struct Held {
    /// Memory by device, and since when it is gone.
    on: BTreeMap<u32, (Bytes, Option<BootTime>)>,
    /// The level from which the present one is a fall, and when it fell.
    high: u64,
    fell: Option<BootTime>,
}

/// Memory that left the GPU of a process while its private memory rose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuOffload {
    pub(crate) process: ProcessKey,
    pub(crate) time: BootTime,
    pub(crate) from: Bytes,
    pub(crate) to: Bytes,
    pub(crate) host: Bytes,
}

impl Held {
    fn sum(&self) -> u64 {
        let there = self.on.values().filter(|(_, gone)| gone.is_none());
        there.map(|(bytes, _)| bytes.0).sum()
    }

    /// Folds in the present level.
    fn level(&mut self, time: BootTime) {
        let now = self.sum();
        if now >= self.high {
            (self.high, self.fell) = (now, None);
        } else if self.high - now >= LEAST && self.fell.is_none() {
            self.fell = Some(time);
        }
    }
}

impl Gpus {
    pub(crate) fn sampled(&mut self, time: BootTime, state: &GpuState) {
        let device = state.device;
        for held in self.held.values_mut() {
            if let Some((_, gone)) = held.on.get_mut(&device) {
                gone.get_or_insert(time);
            }
        }
        for holder in &state.holders {
            if let (Some(process), Some(used)) = (holder.process, holder.used) {
                let held = self.held.entry(process.truncated()).or_default();
                held.on.insert(device, (used, None));
            }
        }
        for held in self.held.values_mut() {
            held.level(time);
        }
        let known = self.devices.get(&device);
        let (peak, peaked) = known
            .filter(|known| known.peak >= state.used)
            .map_or((state.used, time), |known| (known.peak, known.peaked));
        let last = state.clone();
        self.devices.insert(device, Device { last, peak, peaked });
    }

    /// Returns the processes whose GPU memory has fallen and whose private memory must be checked.
    pub(crate) fn fallen(&self) -> Vec<ProcessKey> {
        let fallen = self.held.iter().filter(|(_, held)| held.fell.is_some());
        fallen.map(|(process, _)| *process).collect()
    }

    pub(crate) fn has_fallen(&self, process: ProcessKey) -> bool {
        let held = self.held.get(&process.truncated());
        held.is_some_and(|held| held.fell.is_some())
    }

    /// Records that the private memory of a process rose by this much around `time`.
    pub(crate) fn host_rose(&mut self, process: ProcessKey, time: BootTime, host: Bytes) {
        let Some(held) = self.held.get_mut(&process.truncated()) else {
            return;
        };
        let Some(fell) = held.fell else {
            return;
        };
        let to = held.sum();
        let freed = held.high.saturating_sub(to);
        let came = host.0 * 2 >= freed;
        if came && self.offloads.len() < MOST {
            self.offloads.push(GpuOffload {
                process,
                time: fell,
                from: Bytes(held.high),
                to: Bytes(to),
                host,
            });
        }
        if came || time.since(fell) > NEAR_NS {
            (held.high, held.fell) = (to, None);
        }
    }

    /// Whether a process holds, or has held, memory of a GPU.
    pub(crate) fn has_held(&self, process: ProcessKey) -> bool {
        self.held.contains_key(&process.truncated())
    }

    /// Returns what a process held at its end.
    pub(crate) fn at_end(&self, process: ProcessKey, time: BootTime) -> Vec<GpuUse> {
        let held = self.held.get(&process.truncated());
        let on = held.into_iter().flat_map(|held| &held.on);
        on.filter(|(_, (_, gone))| gone.is_none_or(|gone| time.since(gone) <= JUST_NS))
            .filter_map(|(device, (used, _))| {
                let seen = self.devices.get(device)?;
                Some(GpuUse {
                    device: *device,
                    used_bytes: *used,
                    total_bytes: seen.last.total,
                    device_used_bytes: Some(seen.last.used),
                })
            })
            .collect()
    }

    pub(crate) fn forget(&mut self, process: ProcessKey) {
        self.held.remove(&process.truncated());
    }
}

/// Returns the time from which a rise of private memory counts at `time`.
pub(crate) fn lately(time: BootTime) -> BootTime {
    time.plus(-NEAR_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::GpuHolder, ids::Pid};

    const GIB: u64 = 1 << 30;

    fn state(used: u64) -> GpuState {
        let holder = GpuHolder {
            pid: Pid(7),
            process: Some(ProcessKey::new(7, 1)),
            name: None,
            parent: None,
            used: Some(Bytes(used * GIB)),
        };
        GpuState {
            device: 0,
            total: Bytes(80 * GIB),
            used: Bytes(used * GIB),
            uncorrected_errors: Some(0),
            holders: if used > 0 { vec![holder] } else { Vec::new() },
        }
    }

    /// A fall on the GPU alone is none.
    #[test]
    fn gpu_fall_with_host_rise_is_an_offload() {
        let key = ProcessKey::new(7, 1);
        let second = |at: u64| BootTime(at * 1_000_000_000);
        let mut gpus = Gpus::default();
        gpus.sampled(second(1), &state(60));
        gpus.sampled(second(2), &state(20));
        assert_eq!(gpus.fallen(), [key.truncated()]);
        gpus.host_rose(key, second(3), Bytes(GIB));
        assert!(gpus.offloads.is_empty(), "not yet");
        gpus.host_rose(key, second(4), Bytes(39 * GIB));
        let swing = gpus.offloads.pop().expect("an offload");
        assert_eq!(
            (swing.from, swing.to, swing.host),
            (Bytes(60 * GIB), Bytes(20 * GIB), Bytes(39 * GIB))
        );
        gpus.sampled(second(50), &state(5));
        gpus.host_rose(key, second(80), Bytes(0));
        assert!(gpus.offloads.is_empty() && gpus.fallen().is_empty());
    }

    #[test]
    fn gpu_memory_just_before_the_end_counts() {
        let key = ProcessKey::new(7, 1);
        let second = |at: u64| BootTime(at * 1_000_000_000);
        let mut gpus = Gpus::default();
        gpus.sampled(second(1), &state(60));
        gpus.sampled(second(9), &state(0));
        assert_eq!(gpus.at_end(key, second(10))[0].used_bytes, Bytes(60 * GIB));
        assert_eq!(gpus.at_end(key, second(20)), []);
    }
}
