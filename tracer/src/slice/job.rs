//! One job: its processes, its node's figures, and nothing of other jobs or users.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{SliceError, log_facts};
use crate::{
    event::{
        Cluster, Event, GpuState, KernelLog, Observation, OomVictim, Process, Role, SharedFile,
        Signal,
    },
    ids::{HexId, Pid, ProcessKey},
    ray::facts::RayFact,
};

/// What stands in place of a name that is somebody else's.
const OTHER: &str = "another process";
/// Generations of descendants.
const DEEPEST: usize = 32;

/// Whose events are kept.
pub struct Members {
    pub(super) job: HexId,
    /// The job's cluster.
    pub(super) cluster: ProcessKey,
    /// The job's processes.
    own: HashSet<ProcessKey>,
    /// Parts of Ray on the node.
    rays: HashSet<ProcessKey>,
    pids: HashSet<Pid>,
    users: HashSet<u32>,
    pub(super) workers: HashSet<HexId>,
    /// Cgroups on the way to the job's processes.
    cgroups: HashSet<String>,
}

impl Members {
    /// Finds the job's processes by its events, which need no samples of memory; `session` says which cluster's, where several have
    /// such a job.
    pub fn of(events: &[Event], job: &HexId, session: Option<&str>) -> Result<Self, SliceError> {
        let clusters = clusters_of(events, job);
        let named = |key: &ProcessKey| session_of(events, *key);
        let wanted: Vec<ProcessKey> = clusters
            .into_iter()
            .filter(|key| session.is_none_or(|session| named(key).as_deref() == Some(session)))
            .collect();
        let cluster = match wanted.as_slice() {
            [] => return Err(SliceError::NoSuchJob(job.clone())),
            [one] => *one,
            several => {
                return Err(SliceError::SeveralClusters {
                    job: job.clone(),
                    sessions: several.iter().filter_map(named).collect(),
                });
            }
        };
        let mut members = Self {
            job: job.clone(),
            cluster,
            own: HashSet::new(),
            rays: HashSet::new(),
            pids: HashSet::new(),
            users: HashSet::new(),
            workers: log_facts::workers_of(events, cluster, job),
            cgroups: HashSet::new(),
        };
        members.find(events);
        Ok(members)
    }

    fn find(&mut self, events: &[Event]) {
        for event in events {
            match &event.what {
                Observation::Worker(worker) if self.workers.contains(&worker.worker_id) => {
                    self.own.insert(worker.process.truncated());
                }
                Observation::Process(process) if self.is_rays(process) => {
                    self.rays.insert(process.process.truncated());
                }
                _ => {}
            }
        }
        for _ in 0..DEEPEST {
            let before = self.own.len();
            self.add_children(events);
            if self.own.len() == before {
                break;
            }
        }
        for event in events {
            if let Observation::Process(process) = &event.what
                && self.is_own(process.process)
            {
                self.users.extend(process.uid);
                let path = process.cgroup.as_deref().unwrap_or_default();
                self.cgroups.extend(ancestors(path));
            }
        }
        self.pids = self.own.iter().map(|key| key.pid).collect();
    }

    /// Whether a process is a part of Ray of this cluster that no job owns.
    fn is_rays(&self, process: &Process) -> bool {
        let part = matches!(
            process.role,
            Role::Raylet | Role::Gcs | Role::Dashboard | Role::Agent
        );
        part && process.cluster.is_some_and(|own| own.same(self.cluster))
    }

    fn add_children(&mut self, events: &[Event]) {
        let parents: HashMap<Pid, ProcessKey> =
            self.own.iter().map(|key| (key.pid, *key)).collect();
        for event in events {
            match &event.what {
                Observation::Fork { parent, child } if self.is_own(*parent) => {
                    self.own.insert(child.truncated());
                }
                // Who was there before the recorder has no fork.
                Observation::Process(process) if !self.is_part(process.process) => {
                    let parent = process.parent.and_then(|pid| parents.get(&pid));
                    if parent.is_some_and(|parent| parent.start <= process.process.start) {
                        self.own.insert(process.process.truncated());
                    }
                }
                _ => {}
            }
        }
    }

    fn is_own(&self, process: ProcessKey) -> bool {
        self.own.contains(&process.truncated())
    }

    fn is_part(&self, process: ProcessKey) -> bool {
        let key = process.truncated();
        self.own.contains(&key) || self.rays.contains(&key)
    }

    /// The event as the job's owner may see it.
    #[must_use]
    pub fn keep(&self, event: Event) -> Option<Event> {
        let what = match event.what {
            what @ (Observation::RecordingStarted(_)
            | Observation::RecordingEnded
            | Observation::Clock { .. }
            | Observation::Probe(_)
            | Observation::Ledger(_)
            | Observation::Node(_)) => what,
            Observation::Cluster(cluster) => Observation::Cluster(self.cluster(cluster)?),
            Observation::Process(process) => Observation::Process(self.process(process)?),
            Observation::Signal(signal) => Observation::Signal(self.signal(signal)?),
            Observation::OomVictim(victim) => Observation::OomVictim(self.victim(victim)?),
            Observation::Kmsg(line) => Observation::Kmsg(self.kernel_log(line)?),
            Observation::RayLog(record) => Observation::RayLog(log_facts::keep(self, record)?),
            Observation::Cgroup(state) => {
                let ours = self.cgroups.contains(&state.path);
                ours.then_some(Observation::Cgroup(state))?
            }
            Observation::SharedMemory(state) => Observation::SharedMemory(state),
            Observation::SharedFile(file) => Observation::SharedFile(self.shared_file(file)?),
            Observation::Gpu(state) => Observation::Gpu(self.gpu(state)),
            Observation::Outside(_) | Observation::Monitor(_) => return None,
            what => {
                let process = what.subject()?;
                let rays = matches!(what, Observation::Exit(_) | Observation::Memory(_));
                let kept = self.is_own(process) || rays && self.is_part(process);
                kept.then_some(what)?
            }
        };
        Some(Event { what, ..event })
    }

    fn cluster(&self, cluster: Cluster) -> Option<Cluster> {
        cluster.raylet.same(self.cluster).then_some(cluster)
    }

    /// Ray's own processes without what an administrator has written on their command lines.
    fn process(&self, process: Process) -> Option<Process> {
        if self.is_own(process.process) {
            return Some(process);
        }
        self.is_part(process.process).then(|| Process {
            argv: process.argv.into_iter().take(1).collect(),
            exe: None,
            ..process
        })
    }

    /// Who sent a signal to the job's processes is said; of another user's program only its pid and user.
    fn signal(&self, signal: Signal) -> Option<Signal> {
        if !self.is_part(signal.target) {
            return None;
        }
        let mut signal = signal;
        let sender = &mut signal.sender;
        let known = self.is_part(sender.process);
        if !known && !self.users.contains(&sender.uid) && sender.uid != 0 {
            OTHER.clone_into(&mut sender.comm);
            sender.exe = None;
            sender.argv.clear();
            sender.file = None;
        }
        if !known {
            sender.cgroup = None;
            sender.ancestors.clear();
        }
        Some(signal)
    }

    fn victim(&self, victim: OomVictim) -> Option<OomVictim> {
        if !self.is_part(victim.victim) {
            return None;
        }
        let known = self.is_part(victim.invoker);
        Some(OomVictim {
            invoker_comm: if known {
                victim.invoker_comm.clone()
            } else {
                OTHER.to_owned()
            },
            ..victim
        })
    }

    /// Lines about a process of the job.
    fn kernel_log(&self, line: KernelLog) -> Option<KernelLog> {
        let ours = match &line {
            KernelLog::OomKill { pid, .. }
            | KernelLog::Killed { pid, .. }
            | KernelLog::Fault { pid, .. } => self.pids.contains(pid),
            KernelLog::OomGroup { cgroup } => self.cgroups.contains(cgroup),
            KernelLog::Xid { pid, .. } => pid.is_some_and(|pid| self.pids.contains(&pid)),
            KernelLog::Invoked { .. } => false,
        };
        ours.then_some(line)
    }

    /// The object store, and what a process of the job has open; other holders are left out.
    fn shared_file(&self, file: SharedFile) -> Option<SharedFile> {
        if !file.holders.iter().any(|holder| self.is_part(*holder)) {
            return None;
        }
        let holders = file.holders.into_iter();
        Some(SharedFile {
            holders: holders.filter(|holder| self.is_part(*holder)).collect(),
            ..file
        })
    }

    /// The device's figures; of other holders how much they hold.
    fn gpu(&self, state: GpuState) -> GpuState {
        let mut state = state;
        for holder in &mut state.holders {
            if !holder.process.is_some_and(|process| self.is_part(process)) {
                (holder.name, holder.parent, holder.process) = (None, None, None);
            }
        }
        state
    }
}

/// A cgroup and all above it.
fn ancestors(path: &str) -> impl Iterator<Item = String> + '_ {
    let above = path
        .match_indices('/')
        .filter(|(at, _)| *at > 0)
        .map(|(at, _)| path[..at].to_owned());
    let root = path.starts_with('/').then(|| "/".to_owned());
    let own = (!path.is_empty()).then(|| path.to_owned());
    above.chain(root).chain(own)
}

/// The clusters that have such a job, by what is known of workers and drivers.
fn clusters_of(events: &[Event], job: &HexId) -> BTreeSet<ProcessKey> {
    let mut clusters: BTreeSet<ProcessKey> = log_facts::clusters_of_processes(events)
        .into_values()
        .collect();
    clusters.extend(events.iter().filter_map(|event| match &event.what {
        Observation::Cluster(cluster) => Some(cluster.raylet.truncated()),
        _ => None,
    }));
    let begins_in = |cluster: ProcessKey| {
        events.iter().any(|event| match &event.what {
            Observation::RayLog(record) => {
                let begins =
                    matches!(&record.fact, RayFact::JobStarted { job_id, .. } if job_id == job);
                begins && record.cluster.is_some_and(|of| of.same(cluster))
            }
            _ => false,
        })
    };
    clusters.retain(|cluster| {
        !log_facts::workers_of(events, *cluster, job).is_empty() || begins_in(*cluster)
    });
    clusters
}

fn session_of(events: &[Event], raylet: ProcessKey) -> Option<String> {
    events.iter().find_map(|event| match &event.what {
        Observation::Cluster(cluster) if cluster.raylet.same(raylet) => cluster.session.clone(),
        _ => None,
    })
}
