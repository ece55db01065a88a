//! Forwards the kernel's records of mappings and growth to the thread that reads stacks.

use super::{
    output::Output,
    processes::Processes,
    stacks::{self, Stacks},
};
use crate::{
    event::{Ledger, Observation, Probe, Role, Source},
    ids::ProcessKey,
    observe::kernel::{Growth, MemoryRecord},
};

/// The name of the thread that reads stacks, in the probe for its absence and in the ledger.
const STACKS: &str = "python stacks";

/// The thread that reads stacks, where there is one.
#[derive(Default)]
pub(super) struct GrowthForwarder {
    stacks: Option<Stacks>,
}

impl GrowthForwarder {
    /// Reads the Python stacks of processes that grow, from now on, with `percent` of the usual
    /// time.
    pub(super) fn read_stacks(
        &mut self,
        growth: Option<&mut Growth>,
        out: &Output,
        percent: u32,
    ) -> std::io::Result<()> {
        let (ids, recording) = (out.ids.clone(), out.recording.clone());
        self.stacks = Some(stacks::start(ids, recording, growth, percent)?);
        Ok(())
    }

    /// Ends the thread. It writes its last rows first.
    pub(super) fn end(&mut self) {
        self.stacks = None;
    }

    /// Takes the kernel's records since the last call, some microseconds to milliseconds after they
    /// were made.
    pub(super) fn take(&mut self, growth: &mut Growth, out: &mut Output) {
        let mut found = Vec::new();
        growth.drain(|told| found.push(told));
        for told in found {
            match told {
                MemoryRecord::Mapped(new) => {
                    let (time, mapped) = (new.time, new.mapped);
                    if let Some(stacks) = &mut self.stacks {
                        stacks.mapped(new);
                    }
                    out.emit(Source::Kernel, time, Observation::Mapped(mapped));
                }
                MemoryRecord::Growth(new) => {
                    if let Some(stacks) = &mut self.stacks {
                        stacks.grew(new);
                    }
                }
            }
        }
    }

    /// Tells the thread that a process runs another program now.
    pub(super) fn replaced(&mut self, process: ProcessKey) {
        if let Some(stacks) = &mut self.stacks {
            stacks.replaced(process);
        }
    }

    /// Tells the thread which processes are alive. Reports once if there is no such thread any
    /// more. `near` says whether a limit is near.
    pub(super) fn forward(&mut self, processes: &Processes, near: bool, out: &mut Output) {
        let Some(stacks) = &mut self.stacks else {
            return;
        };
        let python = processes
            .all()
            .filter(|known| !matches!(known.role, Role::Raylet | Role::Gcs));
        let growth = processes.growth();
        let slot = |process| growth.and_then(|growth| growth.slot(process));
        let python = python
            .map(|known| known.process.process)
            .map(|process| (process, slot(process)))
            .collect();
        if let Some(reason) = stacks.update_processes(python, near) {
            let probe = Probe::missing(STACKS, reason.into(), false);
            out.emit_now(Source::Recorder, Observation::Probe(probe));
        }
    }

    /// Returns a row for the requests that were dropped, if there are any. No event is lost by
    /// that: the thread finds this growth itself later, mostly without a line.
    pub(super) fn refused_records(&self) -> Option<Ledger> {
        let dropped = self.stacks.as_ref().map(Stacks::dropped_requests);
        let dropped = dropped.filter(|dropped| *dropped > 0)?;
        Some(Ledger {
            hook: STACKS.into(),
            seen: dropped,
            filtered: dropped,
            ..Ledger::default()
        })
    }
}
