//! The processes that are tracked: who lives, who each is, in which ways they are watched, and who of them ended unseen.

mod family;
mod identity;
mod pidfds;
mod sweep;
mod watched;

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use family::NonRayProcesses;
use identity::Identities;
pub(super) use identity::OwnLog;
use sweep::Sweep;
pub use watched::Watch;
use watched::Watched;

use super::{clusters::Clusters, output::Output};
use crate::{
    event::{Exit, MemorySplit, Observation, Process, Role, Source, Step},
    ids::{BootTime, Pid, ProcessKey},
    observe::{
        kernel::Growth,
        processes::{self, Stat},
    },
};

/// Every process of the machine.
pub(super) type Table = FxHashMap<Pid, Stat>;

pub(super) fn table() -> Table {
    processes::all()
        .into_iter()
        .filter_map(|pid| Some((pid, processes::stat(pid)?)))
        .collect()
}

/// What is known of a live process that is tracked.
pub(super) struct Known {
    pub(super) process: Process,
    pub(super) role: Role,
    /// Whether nothing more is to be learnt of who it is.
    pub(super) identified: bool,
}

/// What became of a process, for those who keep something of each.
pub(super) enum Change {
    /// It is known from now on.
    Began(ProcessKey),
    /// It has executed a program.
    Executed(Pid),
    /// It is gone.
    Gone(Pid),
}

/// What is found of Ray so far, to be asked.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) clusters: &'a Clusters,
    pub(super) processes: &'a Processes,
}

/// All that are tracked.
pub(super) struct Processes {
    known: FxHashMap<Pid, Known>,
    changes: Vec<Change>,
    identities: Identities,
    non_ray: NonRayProcesses,
    watched: Watched,
    sweep: Sweep,
}

impl Processes {
    /// None yet; the kernel's part of how they are watched comes from `watch`.
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            known: FxHashMap::default(),
            changes: Vec::new(),
            identities: Identities::default(),
            non_ray: NonRayProcesses::default(),
            watched: Watched::new(watch),
            sweep: Sweep::default(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    pub(super) fn get(&self, pid: Pid) -> Option<&Known> {
        self.known.get(&pid)
    }

    /// The same of this process alone: its pid may be another's by now.
    pub(super) fn get_as(&self, process: ProcessKey) -> Option<&Known> {
        let known = self.known.get(&process.pid);
        known.filter(|known| known.process.process.same(process))
    }

    pub(super) fn known_as(&self, process: ProcessKey) -> Option<&Process> {
        self.get_as(process).map(|known| &known.process)
    }

    /// The clusters of which something lives.
    pub(super) fn clusters(&self) -> HashSet<ProcessKey> {
        let all = self.known.values();
        all.filter_map(|known| known.process.cluster).collect()
    }

    /// Whether the process of a cluster that Ray knows by this pid lives.
    pub(super) fn lives_in(&self, cluster: ProcessKey, ray_pid: Pid) -> bool {
        self.known.values().any(|known| {
            let own = &known.process;
            own.cluster == Some(cluster) && own.ns_pid.unwrap_or(own.process.pid) == ray_pid
        })
    }

    /// What processes map and how their memory moves, where the kernel tells it.
    pub(super) fn growth(&self) -> Option<&Growth> {
        self.watched.growth.as_ref()
    }

    pub(super) fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.watched.growth.as_mut()
    }

    /// What became of processes since the last call, in its order.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Has a process tracked, with what it will fork.
    pub(super) fn track(&mut self, process: ProcessKey) {
        self.watched.track(process);
    }

    /// Does `what` while this process, whatever it forks, is in the tracked set.
    pub(super) fn while_tracked<T>(&mut self, process: ProcessKey, what: impl FnOnce() -> T) -> T {
        self.watched.while_tracked(process, what)
    }

    /// Whether ends are told without the kernel's word.
    pub(super) fn by_pidfds(&self) -> bool {
        self.watched.pidfds.is_some()
    }

    /// Tracks a process that is known for what it is.
    pub(super) fn track_known(&mut self, known: Known, out: &mut Output) {
        self.track(known.process.process);
        self.describe(&known.process, out);
        self.know(known);
    }

    /// Records what a process is.
    fn describe(&mut self, process: &Process, out: &mut Output) {
        out.emit_now(Source::Proc, Observation::Process(process.clone()));
        self.watched.described(process.process);
    }

    /// Keeps what is known of a process.
    fn know(&mut self, known: Known) {
        let process = known.process.process;
        let role = known.role;
        let before = self.known.insert(process.pid, known);
        if before.is_some_and(|before| before.process.process.same(process)) {
            return;
        }
        tracing::debug!("process {process} is known as {role:?}");
        // Of an earlier one with its pid.
        self.changes.push(Change::Gone(process.pid));
        self.changes.push(Change::Began(process));
    }

    /// Forgets a process that is gone; gives the last steps of its memory, once.
    pub(super) fn gone(&mut self, process: ProcessKey) -> Vec<Step> {
        // Its pid may be another's by now.
        if self.known_as(process).is_some() {
            self.known.remove(&process.pid);
            self.changes.push(Change::Gone(process.pid));
        }
        self.identities.forget(process);
        self.watched.forget(process)
    }

    /// Someone is to be looked at, who has executed a program or was forked.
    pub(super) fn expect(&mut self, process: ProcessKey, time: BootTime) {
        self.identities.expect(process, time);
    }

    /// The same of one that has executed; whether it was known before.
    pub(super) fn executed(&mut self, process: ProcessKey, time: BootTime) -> bool {
        self.identities.expect(process, time);
        self.changes.push(Change::Executed(process.pid));
        self.known_as(process).is_some()
    }

    /// Who has Ray's title has joined its cluster, and its logs are open.
    pub(super) fn has_title(&mut self, process: ProcessKey, time: BootTime) {
        if self.get_as(process).is_some_and(|known| !known.identified) {
            self.identities.expect_again(process, time);
        }
    }

    /// In procfs mode: a title changes with what runs; without the kernel's word at death, the last one seen counts. No exec is seen
    /// there either: whose command line could not be read before is looked at again.
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

    /// The end of a process that no event tells, with what is known of it.
    pub(super) fn exit_of(&self, process: ProcessKey, status: Option<i32>) -> Exit {
        let known = self.known_as(process);
        Exit {
            process,
            ns_pid: known.and_then(|known| known.ns_pid),
            parent: known.and_then(|known| known.parent),
            comm: known.map(|known| known.comm.clone()).unwrap_or_default(),
            status,
            title: None,
            memory: MemorySplit::default(),
            mm: 0,
            uid: known.and_then(|known| known.uid),
            harvested: false,
            tracer: None,
        }
    }
}
