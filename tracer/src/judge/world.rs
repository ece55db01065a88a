//! The world: all events folded into what the verdicts ask for. Facts only; opinions are in `verdict`.

use std::collections::{BTreeMap, HashMap};

use crate::{
    event::{
        CgroupState, Cluster, Event, Exit, KernelLog, Ledger, NodeMemory, Observation, OomVictim,
        Probe, RayLog, RecordingStarted, SharedMemory, Signal, Source,
    },
    ids::{BootTime, Bytes, EventId, HexId, ProcessKey},
    judge::{
        clock::Clock,
        memory::{self, Snapshot},
        processes::Processes,
        ray_words::RayWords,
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

/// Records of Ray's logs that a live judge keeps.
const MAX_RAY_WORDS: usize = 50_000;
/// Lines of the kernel log and OOM victims that a live judge keeps.
const MAX_KERNEL_WORDS: usize = 4_096;
/// Signals to one process that are kept: the first and the last half of this many.
const MAX_SIGNALS: usize = 64;

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
    /// In the order of being seen.
    pub(super) exits: BTreeMap<EventId, ExitSeen>,
    exit_of: HashMap<ProcessKey, EventId>,
    pub(super) kernel_log: Vec<Seen<KernelLog>>,
    pub(super) ray_words: RayWords,
    pub(super) cgroups: HashMap<String, Vec<Seen<CgroupState>>>,
    pub(super) node: Option<(BootTime, NodeMemory)>,
    pub(super) peak: Option<(BootTime, Bytes, Bytes)>,
    /// What drivers have set for Ray.
    pub(super) driver_settings: Vec<(ProcessKey, Vec<(String, String)>)>,
    pub(super) shared_memory: Vec<(BootTime, SharedMemory)>,
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
                let signals = self.signals.entry(signal.target.truncated()).or_default();
                if signals.len() >= MAX_SIGNALS {
                    signals.remove(MAX_SIGNALS / 2);
                }
                signals.push(Seen { time, what });
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
            Observation::DriverSettings { process, settings } => {
                self.driver_settings.push((*process, settings.clone()));
            }
            Observation::SharedMemory(state) => self.shared_memory.push((time, state.clone())),
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
        self.exit_of.insert(exit.process.truncated(), id);
        let seen = ExitSeen {
            id,
            time,
            source,
            exit: exit.clone(),
            around,
        };
        self.exits.insert(id, seen);
    }

    /// Text of a worker's own files is evidence about that worker alone: it cannot say what the raylet did.
    fn ray_said(&mut self, time: BootTime, source: Source, record: &RayLog) {
        if source == Source::WorkerLog && !of_the_worker_itself(&record.fact) {
            return;
        }
        if let Some(cluster) = record.cluster {
            let cluster = cluster.truncated();
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
        self.ray_words.push(Seen {
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
        if let Some(id) = self.exit_of.remove(&short) {
            self.exits.remove(&id);
        }
        self.ray_words.trim(MAX_RAY_WORDS);
        trim(&mut self.kernel_log);
        trim(&mut self.victims);
        trim(&mut self.driver_settings);
        trim(&mut self.shared_memory);
        self.cgroups.values_mut().for_each(trim);
    }

    /// The exit of a process, if it was seen.
    pub(super) fn exit(&self, key: ProcessKey) -> Option<&ExitSeen> {
        self.exits.get(self.exit_of.get(&key.truncated())?)
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
        let process = state
            .cluster
            .map(|cluster| (cluster.truncated(), state.pid_for_ray()));
        // Drivers of all clusters have the same ids.
        let of_its_cluster = |seen: &&Seen<RayLog>| match (seen.what.cluster, state.cluster) {
            (Some(one), Some(other)) => one.same(other),
            _ => true,
        };
        self.ray_words
            .about(state.worker_id.as_ref(), process)
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
        self.ray_words.of_cluster(raylet)
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

/// Drops the older half of what has become too much.
fn trim<T>(kept: &mut Vec<T>) {
    if kept.len() > MAX_KERNEL_WORDS {
        kept.drain(..MAX_KERNEL_WORDS / 2);
    }
}
