//! Samples the memory of tracked processes and of the machine.
//!
//! Samples are frequent near a limit and rare far from it. A row is written only when a figure
//! changed.

mod gpus;
mod machine;
mod margins;
mod memory;
mod outside;
mod rows;
mod shared_files;
mod surroundings;

use gpus::Gpus;
use machine::Machine;
use margins::{Limit, Margins};
use memory::Memories;
use outside::OutsideProcesses;
use rows::moved;
use shared_files::SharedFiles;
use surroundings::Surroundings;

use super::{
    costs::{Cause, Costs},
    output::Output,
    processes::{Change, RayState},
};
use crate::{
    event::{CgroupState, NodeMemory},
    ids::{BootTime, ProcessKey},
    observe::{self, clock},
};

/// Far from any limit, every tenth tick samples.
const FAR_TICKS: u64 = 10;
/// Every fifth tick checks whether a limit is near.
const LIMIT_TICKS: u64 = 5;
/// Near a limit, every twentieth tick finds the processes outside Ray that hold memory. That scans
/// the whole machine.
const OUTSIDE_TICKS: u64 = 20;

/// Everything that has memory, with its last row.
#[derive(Default)]
pub(super) struct Samples {
    memories: Memories,
    machine: Machine,
    surroundings: Surroundings,
    shared_files: SharedFiles,
    outside_processes: OutsideProcesses,
    gpus: Gpus,
    margins: Margins,
    near: bool,
    /// Whether to sample as if a limit were always near.
    armed: bool,
    ticks: u64,
}

/// The machine as it is at one moment.
struct Now {
    time: BootTime,
    node: NodeMemory,
    cgroups: Vec<CgroupState>,
    /// The limit with the least memory left.
    next: Option<Limit>,
}

impl Samples {
    /// Whether a limit is near.
    pub(super) fn near(&self) -> bool {
        self.near
    }

    /// Samples as often as near a limit, even far from any.
    pub(super) fn sample_as_near_limit(&mut self) {
        self.armed = true;
    }

    /// Begins to read GPUs. Returns how many there are, or why none can be seen.
    pub(super) fn watch_gpus(&mut self) -> Result<u32, String> {
        self.gpus.watch()
    }

    /// Starts with new processes and drops those that have exited.
    pub(super) fn follow(&mut self, changes: Vec<Change>) {
        self.memories.follow(changes);
    }

    /// Forgets a cluster that is over.
    pub(super) fn forget(&mut self, raylet: ProcessKey) {
        self.surroundings.forget(raylet);
    }

    /// Called ten times a second. Checks the limits when they are due, and samples everything when
    /// one of them is near.
    pub(super) fn sample(&mut self, found: RayState<'_>, out: &mut Output, costs: &mut Costs) {
        let ticks = self.ticks;
        self.ticks += 1;
        if !self.near && !ticks.is_multiple_of(LIMIT_TICKS) {
            return;
        }
        let turn = ticks.is_multiple_of(FAR_TICKS);
        self.gpus.sample(found.processes, out);
        let read = costs.charged(Cause::Machine, || self.read_machine(turn, found, out));
        let Some(mut now) = read else {
            return;
        };
        if self.near
            && ticks.is_multiple_of(OUTSIDE_TICKS)
            && let Some(next) = &now.next
        {
            let counts = next.counts.as_deref();
            let outside = || self.outside_processes.sample(now.time, counts, found, out);
            now.node.others = Some(costs.charged(Cause::Outside, outside));
        }
        if self.near || turn {
            self.sample_all(now, turn, found, out, costs);
        }
    }

    /// Reads the machine and its cgroups, and finds the next limit.
    fn read_machine(&mut self, turn: bool, found: RayState<'_>, out: &mut Output) -> Option<Now> {
        let mut node = observe::memory::node()?;
        // This is not reused between turns: the figures add up only if all are read at one moment.
        node.cpu_lists = turn.then(observe::memory::cpu_lists).flatten();
        let time = clock::boot();
        let cgroups = self.surroundings.read_cgroups(turn, found.processes);
        let limits = surroundings::limits(&node, &cgroups, found);
        self.near = self.margins.near(time, &limits) || self.armed;
        self.machine.sample_monitors(time, &limits, out);
        let next = margins::next(&limits).cloned();
        Some(Now {
            time,
            node,
            cgroups,
            next,
        })
    }

    fn sample_all(
        &mut self,
        now: Now,
        turn: bool,
        found: RayState<'_>,
        out: &mut Output,
        costs: &mut Costs,
    ) {
        let (time, near) = (now.time, self.near);
        costs.charged(Cause::Processes, || {
            self.memories.sample(time, near, found.processes, out);
            self.memories
                .measure_families(time, near, found.processes, out);
        });
        // This comes before the machine's row, so that both show shared memory at one moment.
        let shared = now.node.shmem;
        let is_due = (turn || moved(self.machine.shared(), Some(shared)))
            && costs.charged(Cause::SharedFiles, || {
                let touched = |pid| self.memories.shared(pid);
                self.shared_files
                    .sample(time, shared, found.processes, touched, out)
            });
        self.machine.sample(time, now.node, is_due, out);
        self.surroundings.sample_cgroups(time, now.cgroups, out);
        self.shared_memory(time, found, out);
    }

    /// Samples `/dev/shm` as each raylet sees it.
    pub(super) fn shared_memory(&mut self, now: BootTime, found: RayState<'_>, out: &mut Output) {
        self.surroundings.sample_shared_memory(now, found, out);
    }
}
