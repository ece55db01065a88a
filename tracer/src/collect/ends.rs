//! Handles the end of a process in one way, whether the kernel, a pidfd or /proc reported it.

use super::{
    Collector,
    processes::{ProcessTable, RayState},
};
use crate::{
    event::{Event, Exit, Observation, Source},
    ids::{BootTime, ProcessKey},
    observe::clock,
};

impl Collector {
    /// Handles an exit that the kernel reported. The recording has it already.
    pub(super) fn reported_ended(&mut self, exit: &Exit, event: &Event) {
        self.last_words(exit);
        self.out.observe(event);
        self.forget(exit, event.time);
    }

    /// Handles an end that no event reports.
    fn found_ended(
        &mut self,
        process: ProcessKey,
        status: Option<i32>,
        (source, time): (Source, BootTime),
    ) {
        let exit = self.processes.exit_of(process, status);
        self.last_words(&exit);
        self.out.emit(source, time, Observation::Exit(exit.clone()));
        self.forget(&exit, time);
    }

    /// Reads a worker's last log lines. They must be known before its death is judged.
    fn last_words(&mut self, exit: &Exit) {
        let (clusters, processes) = (&self.clusters, &self.processes);
        let found = RayState {
            clusters,
            processes,
        };
        self.logs
            .last_words(exit.process, exit.ns_pid, found, &mut self.out);
    }

    /// Forgets the process. If its status was not 0, its last memory steps are recorded.
    fn forget(&mut self, exit: &Exit, time: BootTime) {
        let process = exit.process;
        let steps = self.processes.gone(process);
        if exit.status != Some(0) && !steps.is_empty() {
            let steps = Observation::Steps { process, steps };
            self.out.emit(Source::Kernel, time, steps);
        }
    }

    /// In procfs mode, handles the ends of watched processes.
    pub(super) fn poll_pidfds(&mut self) {
        let ended = self.processes.ended(clock::boot());
        let any = !ended.is_empty();
        for (process, time, status) in ended {
            self.found_ended(process, status, (Source::Pidfd, time));
        }
        if any {
            self.logs.read(&mut self.out);
        }
    }

    /// Records an exit, with what is known, for each process that is gone without an exit event.
    pub(super) fn sweep_in(&mut self, table: &ProcessTable) {
        let missed = self.processes.missed(table, self.out.judge());
        let mut any = !missed.is_empty();
        for (process, status) in missed {
            self.found_ended(process, status, (Source::Proc, clock::boot()));
        }
        for process in self.processes.stale(table) {
            if self.processes.by_pidfds() && !self.out.judge().has_ended(process) {
                self.found_ended(process, None, (Source::Proc, clock::boot()));
                any = true;
            }
            self.processes.gone(process);
        }
        if any {
            self.logs.read(&mut self.out);
        }
    }
}
