//! The tracked processes: which are alive, what each is, how each is watched, which ended unseen.

mod family;
mod identity;
mod pidfds;
mod sweep;
mod watchers;

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use family::NonRayProcesses;
use identity::Identities;
pub(super) use identity::OwnLog;
use sweep::Sweep;
pub use watchers::Watch;
use watchers::Watchers;

use super::{clusters::Clusters, output::Output};
use crate::{
    event::{Exit, MemorySplit, Observation, Process, Role, Source, Step},
    ids::{BootTime, Pid, ProcessKey},
    observe::{
        kernel::Growth,
        processes::{self, Stat},
    },
};

/// All processes of the machine.
pub(super) type ProcessTable = FxHashMap<Pid, Stat>;

pub(super) fn read_process_table() -> ProcessTable {
    processes::all()
        .into_iter()
        .filter_map(|pid| Some((pid, processes::stat(pid)?)))
        .collect()
}

/// What is known of a live, tracked process.
pub(super) struct KnownProcess {
    pub(super) process: Process,
    pub(super) role: Role,
    /// Whether it is fully identified.
    pub(super) identified: bool,
}

/// A change of a process, for modules that keep state for each.
pub(super) enum Change {
    /// The process is known from now on.
    Began(ProcessKey),
    /// The process has executed a program.
    Executed(Pid),
    /// The process is gone.
    Gone(Pid),
}

/// What has been found of Ray so far.
#[derive(Clone, Copy)]
pub(super) struct RayState<'a> {
    pub(super) clusters: &'a Clusters,
    pub(super) processes: &'a Processes,
}

/// All tracked processes.
pub(super) struct Processes {
    known: FxHashMap<Pid, KnownProcess>,
    changes: Vec<Change>,
    identities: Identities,
    non_ray: NonRayProcesses,
    watchers: Watchers,
    sweep: Sweep,
}

impl Processes {
    /// Tracks none yet. `watch` has the kernel's means to watch them.
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            known: FxHashMap::default(),
            changes: Vec::new(),
            identities: Identities::default(),
            non_ray: NonRayProcesses::default(),
            watchers: Watchers::new(watch),
            sweep: Sweep::default(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &KnownProcess> {
        self.known.values()
    }

    pub(super) fn get(&self, pid: Pid) -> Option<&KnownProcess> {
        self.known.get(&pid)
    }

    /// Returns the same for exactly this process. Its pid may be another's by now.
    pub(super) fn get_as(&self, process: ProcessKey) -> Option<&KnownProcess> {
        let known = self.known.get(&process.pid);
        known.filter(|known| known.process.process.same(process))
    }

    pub(super) fn known_as(&self, process: ProcessKey) -> Option<&Process> {
        self.get_as(process).map(|known| &known.process)
    }

    /// Returns the clusters with a live process.
    pub(super) fn clusters(&self) -> HashSet<ProcessKey> {
        let all = self.known.values();
        all.filter_map(|known| known.process.cluster).collect()
    }

    /// Whether the cluster has a live process that Ray knows by this pid.
    pub(super) fn lives_in(&self, cluster: ProcessKey, ray_pid: Pid) -> bool {
        self.known.values().any(|known| {
            let own = &known.process;
            own.cluster == Some(cluster) && own.ns_pid.unwrap_or(own.process.pid) == ray_pid
        })
    }

    /// Returns what processes map and how their memory changes, where the kernel reports it.
    pub(super) fn growth(&self) -> Option<&Growth> {
        self.watchers.growth.as_ref()
    }

    pub(super) fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.watchers.growth.as_mut()
    }

    /// Returns the changes of processes since the last call, in order.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Tracks a process and all processes that it will fork.
    pub(super) fn track(&mut self, process: ProcessKey) {
        self.watchers.track(process);
    }

    /// Has the kernel report signals to a process that is not one of those that are recorded.
    pub(super) fn report_signals_to(&mut self, process: ProcessKey) {
        if let Some(tracked) = &mut self.watchers.tracked {
            tracked.add(process);
        }
    }

    /// Whether ends of processes are found by pidfds, without the kernel's hooks.
    pub(super) fn by_pidfds(&self) -> bool {
        self.watchers.pidfds.is_some()
    }

    /// Tracks a process that is already identified.
    pub(super) fn track_known(&mut self, known: KnownProcess, out: &mut Output) {
        self.track(known.process.process);
        self.describe(&known.process, out);
        self.know(known);
    }

    /// Records what a process is.
    fn describe(&mut self, process: &Process, out: &mut Output) {
        out.emit_now(Source::Proc, Observation::Process(process.clone()));
        self.watchers.watch_memory(process.process);
    }

    /// Keeps what is known of a process.
    fn know(&mut self, known: KnownProcess) {
        let process = known.process.process;
        let role = known.role;
        let before = self.known.insert(process.pid, known);
        if before.is_some_and(|before| before.process.process.same(process)) {
            return;
        }
        tracing::debug!("process {process} is known as {role:?}");
        // An earlier process may have had its pid.
        self.changes.push(Change::Gone(process.pid));
        self.changes.push(Change::Began(process));
    }

    /// Forgets a process that is gone. Returns the last steps of its memory; a second call returns
    /// none.
    pub(super) fn gone(&mut self, process: ProcessKey) -> Vec<Step> {
        // Its pid may be another's by now.
        if self.known_as(process).is_some() {
            self.known.remove(&process.pid);
            self.changes.push(Change::Gone(process.pid));
        }
        self.identities.forget(process);
        self.watchers.forget(process)
    }

    /// Schedules the identification of a process that was forked or has executed a program.
    pub(super) fn expect(&mut self, process: ProcessKey, time: BootTime) {
        self.identities.expect(process, time);
    }

    /// Does the same for one that has executed. Returns whether it was known before.
    pub(super) fn executed(&mut self, process: ProcessKey, time: BootTime) -> bool {
        self.identities.expect(process, time);
        self.changes.push(Change::Executed(process.pid));
        self.known_as(process).is_some()
    }

    /// Identifies a process again when it has a title of Ray's: it has joined its cluster then, and
    /// its logs are open.
    pub(super) fn has_title(&mut self, process: ProcessKey, time: BootTime) {
        if self.get_as(process).is_some_and(|known| !known.identified) {
            self.identities.expect_again(process, time);
        }
    }

    /// In procfs mode, reads titles again. A title changes with what runs, and the kernel does not
    /// report the last one at a death, so the last one that was seen counts. Execs are not seen in
    /// this mode either, so a process is identified again if its command line could not be read
    /// before.
    pub(super) fn refresh_titles(&mut self, now: BootTime, out: &mut Output) {
        for (pid, known) in &mut self.known {
            let argv = processes::argv(*pid);
            if argv.is_empty() || argv == known.process.argv {
                continue;
            }
            if !known.identified && known.role == Role::Other {
                self.identities.expect_again(known.process.process, now);
            }
            known.process.argv.clone_from(&argv);
            if let [title] = argv.as_slice()
                && title.starts_with("ray::")
            {
                let what = Observation::Title {
                    process: known.process.process,
                    title: title.clone(),
                    memory: MemorySplit::default(),
                };
                out.emit_now(Source::Proc, what);
            }
        }
    }

    /// Makes the exit of a process that no event reports, from what is known of it.
    pub(super) fn exit_of(&self, process: ProcessKey, status: Option<i32>) -> Exit {
        let known = self.known_as(process);
        Exit {
            process,
            ns_pid: known.and_then(|known| known.ns_pid),
            parent: known.and_then(|known| known.parent),
            comm: known.map(|known| known.comm.clone()).unwrap_or_default(),
            status,
            uid: known.and_then(|known| known.uid),
            ..Exit::default()
        }
    }
}
