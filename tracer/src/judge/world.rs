//! The world: all events folded into what the verdicts ask for. Facts only; opinions are in `verdict`.

use std::collections::HashMap;

use crate::{
    event::{
        CgroupState, Cluster, Event, Exit, KernelLog, Ledger, NodeMemory, Observation, OomVictim,
        Probe, RayLog, RecordingStarted, Signal, Source,
    },
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey},
    judge::{
        clock::Clock,
        memory::{self, Snapshot},
        processes::Processes,
    },
    ray::facts::RayFact,
};

/// A thing with the event that it stands in.
#[derive(Debug, Clone)]
pub(super) struct Seen<T> {
    pub(super) time: BootTime,
    pub(super) what: T,
}

/// One exit, with what was known of the memory around it at that moment.
#[derive(Debug, Clone)]
pub(super) struct ExitSeen {
    pub(super) id: EventId,
    pub(super) time: BootTime,
    pub(super) source: Source,
    pub(super) exit: Exit,
    pub(super) around: Snapshot,
}

/// All that one recording (so far) says.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) started: Option<(BootTime, RecordingStarted)>,
    pub(super) clean_end: bool,
    pub(super) last_time: BootTime,
    pub(super) clock: Clock,
    pub(super) probes: Vec<Probe>,
    pub(super) ledgers: Vec<Ledger>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) processes: Processes,
    pub(super) signals: HashMap<ProcessKey, Vec<Seen<Signal>>>,
    pub(super) delivered: HashMap<ProcessKey, Vec<Seen<(i32, i32)>>>,
    pub(super) victims: Vec<Seen<OomVictim>>,
    pub(super) exits: Vec<ExitSeen>,
    pub(super) exit_of: HashMap<ProcessKey, usize>,
    pub(super) kernel_log: Vec<Seen<KernelLog>>,
    pub(super) ray_log: Vec<Seen<RayLog>>,
    pub(super) ray_by_worker: HashMap<HexId, Vec<usize>>,
    pub(super) ray_by_pid: HashMap<(ProcessKey, Pid), Vec<usize>>,
    pub(super) ray_by_cluster: HashMap<ProcessKey, Vec<usize>>,
    pub(super) cgroups: HashMap<String, Vec<Seen<CgroupState>>>,
    pub(super) node: Option<(BootTime, NodeMemory)>,
    pub(super) peak: Option<(BootTime, Bytes, Bytes)>,
}

impl World {
    /// Folds one event in.
    pub(super) fn observe(&mut self, event: &Event) {
        self.last_time = self.last_time.max(event.time);
        let time = event.time;
        let source = event.source;
        match &event.what {
            Observation::RecordingStarted(started) => {
                self.clock.note(time, started.wall);
                self.started = Some((time, started.clone()));
            }
            Observation::RecordingEnded => self.clean_end = true,
            Observation::Clock { wall } => self.clock.note(time, *wall),
            Observation::Probe(probe) => {
                replace(&mut self.probes, probe, |known| known.name == probe.name);
            }
            Observation::Ledger(ledger) => {
                replace(&mut self.ledgers, ledger, |known| known.hook == ledger.hook);
            }
            Observation::Cluster(cluster) => {
                replace(&mut self.clusters, cluster, |known| {
                    known.raylet.same(cluster.raylet)
                });
            }
            Observation::Process(process) => self.processes.described(process),
            Observation::Worker(worker) => self.processes.identified(worker),
            Observation::Fork { parent, child } => self.processes.forked(*parent, *child),
            Observation::Exec(exec) => self.processes.executed(exec),
            Observation::Title { process, title } => {
                self.processes.touch(*process).title = Some(title.clone());
            }
            Observation::Signal(signal) => {
                let what = signal.clone();
                self.signals
                    .entry(signal.target.truncated())
                    .or_default()
                    .push(Seen { time, what });
            }
            Observation::Delivered {
                process,
                signal,
                code,
            } => {
                let what = (*signal, *code);
                self.delivered
                    .entry(process.truncated())
                    .or_default()
                    .push(Seen { time, what });
            }
            Observation::OomVictim(victim) => {
                self.victims.push(Seen {
                    time,
                    what: victim.clone(),
                });
            }
            Observation::Exit(exit) => self.exited(event.id, time, source, exit),
            Observation::Kmsg(line) => {
                self.kernel_log.push(Seen {
                    time,
                    what: line.clone(),
                });
            }
            Observation::RayLog(record) => self.ray_said(time, source, record),
            Observation::Cgroup(state) => {
                let states = self.cgroups.entry(state.path.clone()).or_default();
                states.push(Seen {
                    time,
                    what: state.clone(),
                });
            }
            Observation::Memory(sample) => {
                self.processes.touch(sample.process).memory = Some((time, sample.memory));
            }
            Observation::Node(node) => self.node_sampled(time, node),
        }
    }

    fn exited(&mut self, id: EventId, time: BootTime, source: Source, exit: &Exit) {
        if self.exit_of.contains_key(&exit.process.truncated()) {
            return;
        }
        let state = self.processes.touch(exit.process);
        state.exit = Some(id);
        state.parent = state.parent.or(exit.parent);
        state.ns_pid = exit.ns_pid.or(state.ns_pid);
        if !exit.comm.is_empty() {
            state.comm.clone_from(&exit.comm);
        }
        if let Some(title) = &exit.title {
            state.title = Some(title.clone());
        }
        self.processes.index(exit.process, None);
        let around = memory::snapshot(self, exit, time);
        self.exit_of
            .insert(exit.process.truncated(), self.exits.len());
        self.exits.push(ExitSeen {
            id,
            time,
            source,
            exit: exit.clone(),
            around,
        });
    }

    /// Text of a worker's own files is evidence about that worker alone: it cannot say what the raylet did.
    fn ray_said(&mut self, time: BootTime, source: Source, record: &RayLog) {
        if source == Source::WorkerLog && !of_the_worker_itself(&record.fact) {
            return;
        }
        let at = self.ray_log.len();
        let about = About::of(record);
        for worker in about.workers {
            self.ray_by_worker.entry(worker).or_default().push(at);
        }
        if let Some(cluster) = record.cluster {
            let cluster = cluster.truncated();
            for pid in about.pids {
                self.ray_by_pid.entry((cluster, pid)).or_default().push(at);
            }
            self.ray_by_cluster.entry(cluster).or_default().push(at);
            if let RayFact::WorkerStarted {
                pid,
                worker_id: Some(worker),
                ..
            } = &record.fact
                && let Some(key) = self
                    .processes
                    .by_ray_pid(cluster, *pid)
                    .map(|state| state.key)
            {
                self.processes.index(key, Some(worker.clone()));
            }
        }
        self.ray_log.push(Seen {
            time,
            what: record.clone(),
        });
    }

    fn node_sampled(&mut self, time: BootTime, node: &NodeMemory) {
        let used = Bytes(node.total.0.saturating_sub(node.available.0));
        if self.peak.is_none_or(|(_, peak, _)| used > peak) {
            self.peak = Some((time, used, node.total));
        }
        self.node = Some((time, node.clone()));
    }

    /// Drops everything about one process; for the live judge.
    pub(super) fn forget(&mut self, key: ProcessKey) {
        let short = key.truncated();
        self.processes.forget(key);
        self.signals.remove(&short);
        self.delivered.remove(&short);
    }

    /// The exit of a process, if it was seen.
    pub(super) fn exit(&self, key: ProcessKey) -> Option<&ExitSeen> {
        self.exits.get(*self.exit_of.get(&key.truncated())?)
    }

    pub(super) fn signals_to(&self, key: ProcessKey) -> &[Seen<Signal>] {
        self.signals
            .get(&key.truncated())
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn cluster(&self, raylet: ProcessKey) -> Option<&Cluster> {
        self.clusters
            .iter()
            .find(|cluster| cluster.raylet.same(raylet))
    }

    /// What Ray's logs say about this process: by worker id, and by the pid that Ray prints within a cluster.
    pub(super) fn ray_about(&self, key: ProcessKey) -> Vec<&Seen<RayLog>> {
        let Some(state) = self.processes.get(key) else {
            return Vec::new();
        };
        let by_worker = state
            .worker_id
            .as_ref()
            .and_then(|worker| self.ray_by_worker.get(worker));
        let by_pid = state.cluster.and_then(|cluster| {
            self.ray_by_pid
                .get(&(cluster.truncated(), state.pid_for_ray()))
        });
        let mut found: Vec<usize> = by_worker
            .into_iter()
            .chain(by_pid)
            .flatten()
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        // Drivers of all clusters have the same ids.
        let of_its_cluster = |seen: &&Seen<RayLog>| match (seen.what.cluster, state.cluster) {
            (Some(one), Some(other)) => one.same(other),
            _ => true,
        };
        found
            .into_iter()
            .filter_map(|at| self.ray_log.get(at))
            .filter(of_its_cluster)
            .collect()
    }

    /// The job of a worker, by Ray's logs.
    pub(super) fn ray_job(&self, key: ProcessKey) -> Option<HexId> {
        let worker = self.processes.get(key)?.worker_id.clone();
        self.ray_about(key)
            .iter()
            .find_map(|record| match &record.what.fact {
                RayFact::MonitorKill(kill) => kill
                    .selected
                    .iter()
                    .find(|one| one.worker_id == worker)
                    .and_then(|one| one.job_id.clone()),
                RayFact::Marker { name, value, .. } if name == "job_id" => HexId::parse(value),
                RayFact::Disconnected { job_id, .. } => job_id.clone(),
                _ => None,
            })
    }

    /// What the logs of a cluster say about itself.
    pub(super) fn ray_of_cluster(
        &self,
        raylet: ProcessKey,
    ) -> impl DoubleEndedIterator<Item = &Seen<RayLog>> {
        self.ray_by_cluster
            .get(&raylet.truncated())
            .into_iter()
            .flatten()
            .filter_map(|at| self.ray_log.get(*at))
    }
}

fn replace<T: Clone>(list: &mut Vec<T>, new: &T, same: impl Fn(&T) -> bool) {
    match list.iter_mut().find(|known| same(known)) {
        Some(known) => *known = new.clone(),
        None => list.push(new.clone()),
    }
}

/// What a worker may say: its own end, its markers, its exceptions, and what became of the tasks that it owns.
fn of_the_worker_itself(fact: &RayFact) -> bool {
    matches!(
        fact,
        RayFact::SelfDisconnect { .. }
            | RayFact::RayletLost { .. }
            | RayFact::ForceKillActor { .. }
            | RayFact::Marker { .. }
            | RayFact::FailureSignal { .. }
            | RayFact::Exception { .. }
            | RayFact::TaskFailed { .. }
            | RayFact::ActorState { .. }
    )
}

/// Which workers and pids a record speaks of.
#[derive(Default)]
struct About {
    workers: Vec<HexId>,
    pids: Vec<Pid>,
}

impl About {
    fn of(record: &RayLog) -> Self {
        match &record.fact {
            RayFact::MonitorKill(kill) => Self {
                workers: kill
                    .selected
                    .iter()
                    .filter_map(|one| one.worker_id.clone())
                    .collect(),
                pids: kill.selected.iter().filter_map(|one| one.pid).collect(),
            },
            RayFact::MonitorEvicted { pid, worker_id }
            | RayFact::WorkerStarted { pid, worker_id, .. }
            | RayFact::DriverDisconnected { pid, worker_id, .. } => Self {
                workers: worker_id.iter().cloned().collect(),
                pids: vec![*pid],
            },
            RayFact::ForceKilled { pid } | RayFact::NotRegistered { pid } => Self {
                workers: Vec::new(),
                pids: vec![*pid],
            },
            RayFact::GroupTerminated {
                process_group,
                worker_id,
            }
            | RayFact::StopSignal {
                process_group,
                worker_id,
                ..
            } => Self {
                workers: worker_id.iter().cloned().collect(),
                pids: vec![*process_group],
            },
            RayFact::Disconnected { worker_id, .. }
            | RayFact::SelfDisconnect { worker_id, .. }
            | RayFact::RayletLost { worker_id, .. }
            | RayFact::ForceKillActor { worker_id, .. }
            | RayFact::Marker { worker_id, .. }
            | RayFact::FailureSignal { worker_id, .. }
            | RayFact::Exception { worker_id, .. }
            | RayFact::ActorState { worker_id, .. } => Self {
                workers: worker_id.iter().cloned().collect(),
                pids: Vec::new(),
            },
            RayFact::OwnerDied { worker_id, .. }
            | RayFact::JobFinished { worker_id }
            | RayFact::KillActorRequested { worker_id, .. }
            | RayFact::GcsWorkerExit { worker_id, .. } => Self {
                workers: vec![worker_id.clone()],
                pids: Vec::new(),
            },
            _ => Self::default(),
        }
    }
}
