//! Samples GPU memory: a row for each GPU with a figure that changed.
//!
//! The processes that hold GPU memory are matched to tracked processes.

use std::sync::mpsc::Receiver;

use super::rows::{Rows, moved};
use crate::{
    collect::{output::Output, processes::Processes},
    event::{GpuHolder, GpuState, Observation, Source},
    ids::{Pid, ProcessKey},
    observe::{clock, gpu, processes},
};

/// The source of the figures, and the last row of each GPU.
#[derive(Default)]
pub(super) struct Gpus {
    from: Option<Receiver<Vec<GpuState>>>,
    rows: Rows<u32, GpuState>,
}

impl Gpus {
    /// Begins to read GPUs. Returns how many there are, or why none can be seen.
    pub(super) fn watch(&mut self) -> Result<u32, String> {
        let gpus = gpu::Gpus::open()?;
        let count = gpus.count();
        let from = gpus.watch();
        self.from = Some(from.map_err(|error| format!("no thread for NVML: {error}"))?);
        Ok(count)
    }

    /// Takes what was read since the last call.
    pub(super) fn sample(&mut self, known: &Processes, out: &mut Output) {
        let from = self.from.as_ref();
        let states: Vec<GpuState> = from
            .into_iter()
            .flat_map(Receiver::try_iter)
            .flatten()
            .collect();
        let now = clock::boot();
        for mut state in states {
            for holder in &mut state.holders {
                match_holder(holder, known);
            }
            if let Some(state) = self.rows.next(now, state.device, state, is_news) {
                out.emit(Source::Nvml, now, Observation::Gpu(state));
            }
        }
    }
}

fn match_holder(holder: &mut GpuHolder, known: &Processes) {
    holder.process = tracked_as(holder.pid, known);
    if holder.process.is_none()
        && let Some(stat) = processes::stat(holder.pid)
    {
        holder.name = Some(stat.comm);
        holder.parent = Some(stat.parent);
    }
}

/// Finds a tracked process by its pid, or else by the pid that it has in its container, if only one
/// process has that.
fn tracked_as(pid: Pid, known: &Processes) -> Option<ProcessKey> {
    if let Some(known) = known.get(pid) {
        return Some(known.process.process);
    }
    let mut inside = known
        .all()
        .filter(|known| known.process.ns_pid == Some(pid));
    let one = inside.next()?;
    inside.next().is_none().then_some(one.process.process)
}

fn is_news(last: &GpuState, state: &GpuState) -> bool {
    let of = |state: &GpuState, holder: &GpuHolder| {
        let mut holders = state.holders.iter();
        holders
            .find(|one| one.pid == holder.pid)
            .map(|one| one.used)
    };
    let changed =
        |holder: &GpuHolder| of(last, holder).is_none_or(|before| moved(before, holder.used));
    last.uncorrected_errors != state.uncorrected_errors
        || last.holders.len() != state.holders.len()
        || moved(Some(last.used), Some(state.used))
        || state.holders.iter().any(changed)
}
