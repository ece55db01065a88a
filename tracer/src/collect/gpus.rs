//! GPU memory of the machine: a row for each GPU of which something moved, its holders matched to tracked processes.

use std::{collections::HashMap, sync::mpsc::Receiver};

use super::{
    Collector,
    samples::{AT_LEAST_NS, moved},
};
use crate::{
    event::{GpuHolder, GpuState, Observation, Source},
    ids::{BootTime, Pid, ProcessKey},
    observe::{clock, gpu::Gpus, processes},
};

/// Where figures come from, and the last row of each GPU.
#[derive(Default)]
pub(super) struct GpuRows {
    from: Option<Receiver<Vec<GpuState>>>,
    rows: HashMap<u32, (BootTime, GpuState)>,
}

impl Collector {
    /// Begins to read GPUs; how many there are, or why none can be seen.
    pub fn watch_gpus(&mut self) -> Result<u32, String> {
        let gpus = Gpus::open()?;
        let count = gpus.count();
        let from = gpus.watch();
        self.gpus.from = Some(from.map_err(|error| format!("no thread for NVML: {error}"))?);
        Ok(count)
    }

    /// Takes what was read since.
    pub(super) fn sample_gpus(&mut self) {
        let from = self.gpus.from.as_ref();
        let states: Vec<GpuState> = from
            .into_iter()
            .flat_map(Receiver::try_iter)
            .flatten()
            .collect();
        let now = clock::boot();
        for mut state in states {
            for holder in &mut state.holders {
                self.match_holder(holder);
            }
            let row = self.gpus.rows.get(&state.device);
            if row.is_none_or(|(since, row)| is_news(now, *since, row, &state)) {
                let kept = (now, state.clone());
                self.gpus.rows.insert(state.device, kept);
                self.emit(Source::Nvml, now, Observation::Gpu(state));
            }
        }
    }

    fn match_holder(&self, holder: &mut GpuHolder) {
        holder.process = self.tracked_as(holder.pid);
        if holder.process.is_none()
            && let Some(stat) = processes::stat(holder.pid)
        {
            holder.name = Some(stat.comm);
            holder.parent = Some(stat.parent);
        }
    }

    /// By its pid, else by the pid that it has in its container, where that is one process's alone.
    fn tracked_as(&self, pid: Pid) -> Option<ProcessKey> {
        if let Some(known) = self.known.get(&pid) {
            return Some(known.process.process);
        }
        let mut inside = self
            .known
            .values()
            .filter(|known| known.process.ns_pid == Some(pid));
        let one = inside.next()?;
        inside.next().is_none().then_some(one.process.process)
    }
}

fn is_news(now: BootTime, since: BootTime, last: &GpuState, state: &GpuState) -> bool {
    let of = |state: &GpuState, holder: &GpuHolder| {
        let mut holders = state.holders.iter();
        holders
            .find(|one| one.pid == holder.pid)
            .map(|one| one.used)
    };
    let changed =
        |holder: &GpuHolder| of(last, holder).is_none_or(|before| moved(before, holder.used));
    now.since(since) >= AT_LEAST_NS
        || last.uncorrected_errors != state.uncorrected_errors
        || last.holders.len() != state.holders.len()
        || moved(Some(last.used), Some(state.used))
        || state.holders.iter().any(changed)
}
