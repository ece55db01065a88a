//! Selects one job, Slurm job or pod: its processes and its node's figures, and nothing about other
//! jobs or users.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
};

use super::{
    SliceError,
    log_facts::{self, JobIds},
};
use crate::{
    cgroup_path,
    event::{
        Cluster, Event, GpuState, KernelLog, Observation, OomVictim, Process, RayLog, Role,
        SharedFile, Signal, Worker,
    },
    ids::{BootTime, HexId, Pid, ProcessKey},
    judge::{is_system_program, pod_of_raylet, slurm_job},
    ray::{
        facts::RayFact,
        tool::{self, Installation},
    },
};

/// Replaces the name of a process that does not belong to the job.
const OTHER: &str = "another process";
/// The most generations of descendants that are followed.
const DEEPEST: usize = 32;

/// Where processes run, as a cluster's users name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The number of a Slurm job.
    SlurmJob(String),
    /// A pod: `NAMESPACE/NAME`, its name, or its uid.
    Pod(String),
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlurmJob(job) => write!(to, "Slurm job {job}"),
            Self::Pod(pod) => write!(to, "pod {pod}"),
        }
    }
}

/// The processes, ids and cgroups that belong to a job, or to a place.
#[derive(Default)]
pub struct Members {
    /// The job; `None` if everything in a place is wanted.
    job: Option<HexId>,
    /// The raylets of the job's cluster, or of the place.
    clusters: Vec<ProcessKey>,
    session: Option<String>,
    /// The job's processes.
    own: HashSet<ProcessKey>,
    /// Ray's own processes in the cluster.
    rays: HashSet<ProcessKey>,
    /// The process that hands signals on to the wrapped command.
    supervisor: Option<ProcessKey>,
    /// All processes with each pid, by start time.
    of_pid: HashMap<Pid, BTreeMap<BootTime, ProcessKey>>,
    /// Where the cluster's Ray is installed.
    installation: Option<Installation>,
    workers: HashSet<HexId>,
    /// The cgroups of the job's processes and all cgroups above them.
    cgroups: HashSet<String>,
}

impl Members {
    /// Finds the job's processes in its events. Memory samples are not needed.
    ///
    /// `session` names the cluster, if several have a job with this id.
    pub fn of(events: &[Event], job: &HexId, session: Option<&str>) -> Result<Self, SliceError> {
        let clusters = clusters_of(events, job);
        let named = |key: &ProcessKey| session_of(events, *key);
        let is_wanted = |key: &&ProcessKey| {
            let name = named(key);
            session.is_none_or(|part| name.is_some_and(|name| name.contains(part)))
        };
        let wanted: Vec<ProcessKey> = clusters.iter().filter(is_wanted).copied().collect();
        let cluster = match wanted.as_slice() {
            [] if !clusters.is_empty() => {
                return Err(SliceError::NoSuchCluster {
                    job: job.clone(),
                    sessions: clusters.iter().filter_map(named).collect(),
                });
            }
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
            job: Some(job.clone()),
            clusters: vec![cluster],
            session: named(&cluster),
            supervisor: supervisor_of(events),
            of_pid: by_pid(events),
            workers: log_facts::workers_of(events, cluster, job),
            ..Self::default()
        };
        members.find(events, cluster);
        Ok(members)
    }

    /// Finds the processes that ran in a place, and what they started. Memory samples are not
    /// needed.
    pub fn of_place(events: &[Event], place: &Place) -> Result<Self, SliceError> {
        let mut members = Self {
            supervisor: supervisor_of(events),
            of_pid: by_pid(events),
            own: in_place(events, place),
            ..Self::default()
        };
        if members.own.is_empty() {
            return Err(SliceError::NothingThere(place.clone()));
        }
        members.add_descendants(events, &HashSet::new());
        members.add_cgroups(events);
        let raylets = clusters(events).map(|cluster| cluster.raylet.truncated());
        members.clusters = raylets.filter(|raylet| members.is_own(*raylet)).collect();
        let mut own = processes(events).filter(|one| members.is_cluster(one.process));
        members.installation = own.find_map(|raylet| Installation::of_raylet(&raylet.argv));
        Ok(members)
    }

    /// Returns the session of the job's cluster, or its raylet if that is not known. A place may
    /// have several clusters.
    pub fn cluster_name(&self) -> Option<String> {
        self.job.as_ref()?;
        let raylet = || Some(format!("that of raylet {}", self.clusters.first()?.pid));
        self.session.clone().or_else(raylet)
    }

    fn find(&mut self, events: &[Event], own: ProcessKey) {
        // Processes of any Ray, and workers of other jobs. They are left out even if a process of
        // the job has started them: a driver may have started the raylet, which starts all workers.
        let mut others: HashSet<ProcessKey> = HashSet::new();
        let clusters = log_facts::clusters_of_processes(events);
        // Ray makes the worker id of a driver of its job's id, so that drivers of other clusters
        // have the same one.
        let is_here = |worker: &Worker| match clusters.get(&worker.process.truncated()) {
            Some(cluster) => cluster.same(own),
            None => !worker.driver,
        };
        for event in events {
            match &event.what {
                Observation::Worker(worker)
                    if self.workers.contains(&worker.worker_id) && is_here(worker) =>
                {
                    self.own.insert(worker.process.truncated());
                }
                Observation::Worker(worker) => {
                    others.insert(worker.process.truncated());
                }
                Observation::Cluster(cluster) => {
                    others.insert(cluster.raylet.truncated());
                }
                Observation::Process(process) if is_part_of_ray(process.role) => {
                    let key = process.process.truncated();
                    others.insert(key);
                    if process.cluster.is_some_and(|of| of.same(own)) {
                        self.rays.insert(key);
                    }
                    if key.same(own) {
                        self.installation = Installation::of_raylet(&process.argv);
                    }
                }
                _ => {}
            }
        }
        self.add_descendants(events, &others);
        self.add_cgroups(events);
    }

    fn add_descendants(&mut self, events: &[Event], others: &HashSet<ProcessKey>) {
        for _ in 0..DEEPEST {
            let before = self.own.len();
            self.add_children(events, others);
            if self.own.len() == before {
                break;
            }
        }
    }

    fn add_cgroups(&mut self, events: &[Event]) {
        for process in processes(events) {
            if self.is_own(process.process) {
                let path = process.cgroup.as_deref().unwrap_or_default();
                let levels = cgroup_path::with_those_above(path);
                self.cgroups.extend(levels.map(str::to_owned));
            }
        }
    }

    fn add_children(&mut self, events: &[Event], others: &HashSet<ProcessKey>) {
        for event in events {
            let (parent, child) = match &event.what {
                Observation::Fork { parent, child } => (Some(*parent), *child),
                // A process that started before the recorder has no fork event.
                Observation::Process(process) => {
                    let start = process.process.truncated().start;
                    let parent = process.parent.and_then(|pid| self.with_pid(pid, start));
                    (parent, process.process)
                }
                _ => continue,
            };
            let child = child.truncated();
            if parent.is_some_and(|parent| self.is_own(parent)) && !others.contains(&child) {
                self.own.insert(child);
            }
        }
    }

    /// Returns the process that had a pid at `time`: the last one that had started by then.
    fn with_pid(&self, pid: Pid, time: BootTime) -> Option<ProcessKey> {
        let mut until = self.of_pid.get(&pid)?.range(..=time);
        until.next_back().map(|(_, process)| *process)
    }

    fn is_own(&self, process: ProcessKey) -> bool {
        self.own.contains(&process.truncated())
    }

    fn is_part(&self, process: ProcessKey) -> bool {
        let key = process.truncated();
        self.own.contains(&key) || self.rays.contains(&key)
    }

    /// Returns the event as the job's owner may see it, or nothing.
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
            Observation::Kmsg(line) => Observation::Kmsg(self.kernel_log(line, event.time)?),
            Observation::RayLog(record) => Observation::RayLog(self.ray_log(record)?),
            Observation::Cgroup(state) => {
                let ours = self.cgroups.contains(&state.path);
                ours.then_some(Observation::Cgroup(state))?
            }
            Observation::SharedMemory(state) => Observation::SharedMemory(state),
            Observation::SharedFile(file) => Observation::SharedFile(self.shared_file(file)?),
            Observation::Gpu(state) => Observation::Gpu(self.gpu(state)),
            Observation::Monitor(count) if self.is_cluster(count.raylet) => {
                Observation::Monitor(count)
            }
            Observation::Outside(_) | Observation::Monitor(_) => return None,
            Observation::Exit(mut exit) if !self.is_own(exit.process) => {
                // The title of a Ray process is its command line.
                exit.title = None;
                self.is_part(exit.process)
                    .then_some(Observation::Exit(exit))?
            }
            what => {
                let process = what.subject()?;
                let rays = matches!(what, Observation::Memory(_));
                let kept = self.is_own(process) || rays && self.is_part(process);
                kept.then_some(what)?
            }
        };
        Some(Event { what, ..event })
    }

    fn is_cluster(&self, raylet: ProcessKey) -> bool {
        self.clusters.iter().any(|own| own.same(raylet))
    }

    /// Returns a cluster of the job or place. What started a job's cluster is not the job's.
    fn cluster(&self, cluster: Cluster) -> Option<Cluster> {
        if !self.is_cluster(cluster.raylet) {
            return None;
        }
        Some(match self.job {
            None => cluster,
            Some(_) => Cluster {
                commands: Vec::new(),
                pod: None,
                ..cluster
            },
        })
    }

    fn ray_log(&self, record: RayLog) -> Option<RayLog> {
        let cluster = record.cluster.filter(|of| self.is_cluster(*of))?;
        let Some(job) = &self.job else {
            return Some(record);
        };
        let own = JobIds {
            job,
            cluster,
            workers: &self.workers,
        };
        log_facts::keep(own, record)
    }

    /// Returns a process. Ray's own processes keep the script that says which part of Ray they are,
    /// and what memory and processors they offer. They lose the other arguments, which an
    /// administrator may have given them.
    fn process(&self, process: Process) -> Option<Process> {
        if self.is_own(process.process) {
            return Some(process);
        }
        self.is_part(process.process).then(|| Process {
            argv: of_rays_own(process.argv),
            exe: None,
            ..process
        })
    }

    /// Returns a signal to a process of the job or to Ray, with its sender.
    ///
    /// If the sender is neither, only these facts remain: pid and user, the name of a known system
    /// program, and that it was the cluster's own `ray`.
    fn signal(&self, signal: Signal) -> Option<Signal> {
        let is_for_command = self.supervisor.is_some_and(|own| own.same(signal.target));
        if !is_for_command && !self.is_part(signal.target) {
            return None;
        }
        let mut signal = signal;
        let sender = &mut signal.sender;
        sender.ancestors.retain(|ancestor| {
            let then = self.with_pid(ancestor.pid, sender.process.start);
            then.is_some_and(|process| self.is_part(process))
        });
        if self.is_own(sender.process) {
            return Some(signal);
        }
        let is_rays = self.is_part(sender.process);
        if is_rays {
            sender.argv.truncate(1);
            return Some(signal);
        }
        let verb = self.verb(&sender.argv);
        let is_known = sender.kernel_thread || is_system_program(&sender.comm);
        match (&verb, is_known) {
            (Some(_), _) => "ray".clone_into(&mut sender.comm),
            (None, true) => sender.file = None,
            (None, false) => {
                OTHER.clone_into(&mut sender.comm);
                sender.file = None;
            }
        }
        sender.exe = None;
        sender.argv = verb.unwrap_or_default();
        (sender.cgroup, sender.container_id) = (None, None);
        Some(signal)
    }

    /// Returns the command line of the cluster's own `ray`, up to its verb.
    fn verb(&self, argv: &[String]) -> Option<Vec<String>> {
        let run = tool::run(argv)?;
        let mut scripts = self.installation.as_ref()?.scripts();
        scripts.find(|script| script == run.script)?;
        let interpreter = argv.first()?.rsplit('/').next()?;
        let kept = [interpreter, run.script, run.verb?];
        Some(kept.map(str::to_owned).to_vec())
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

    /// Keeps kernel log lines about a process of the job.
    fn kernel_log(&self, line: KernelLog, time: BootTime) -> Option<KernelLog> {
        let is_own = |pid: Pid| {
            let process = self.with_pid(pid, time);
            process.is_some_and(|process| self.is_own(process))
        };
        let ours = match &line {
            KernelLog::OomKill { pid, .. }
            | KernelLog::Killed { pid, .. }
            | KernelLog::Fault { pid, .. } => is_own(*pid),
            KernelLog::OomGroup { cgroup } => self.cgroups.contains(cgroup),
            KernelLog::Xid { pid, .. } => pid.is_some_and(is_own),
            KernelLog::Invoked { .. } => false,
        };
        ours.then_some(line)
    }

    /// Keeps the object store and files that a process of the job has open, without other holders.
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

    /// Keeps the figures of the device. Of other holders, only how much they hold remains.
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

/// Resources that every node has. The others have names that an administrator chose.
const RESOURCES: [&str; 4] = ["CPU", "GPU", "memory", "object_store_memory"];

/// Returns the command line of a part of Ray up to its first option, and the options that say what
/// it offers.
fn of_rays_own(argv: Vec<String>) -> Vec<String> {
    let is_option = |argument: &String| argument.starts_with("--");
    let first = argv.iter().position(is_option).unwrap_or(argv.len());
    let offers = |argument: &String| {
        let (name, value) = argument.split_once('=')?;
        match name.trim_start_matches('-').replace('_', "-").as_str() {
            "object-store-memory" => Some(argument.clone()),
            "static-resource-list" => {
                let parts: Vec<&str> = value.split(',').collect();
                let pairs = parts.chunks_exact(2);
                let known = pairs.filter(|pair| RESOURCES.contains(&pair[0]));
                let known: Vec<String> = known.map(|pair| pair.join(",")).collect();
                Some(format!("{name}={}", known.join(",")))
            }
            _ => None,
        }
    };
    let kept: Vec<String> = argv[first..].iter().filter_map(offers).collect();
    argv.into_iter().take(first).chain(kept).collect()
}

fn clusters(events: &[Event]) -> impl Iterator<Item = &Cluster> {
    events.iter().filter_map(|event| match &event.what {
        Observation::Cluster(cluster) => Some(cluster),
        _ => None,
    })
}

fn processes(events: &[Event]) -> impl Iterator<Item = &Process> {
    events.iter().filter_map(|event| match &event.what {
        Observation::Process(process) => Some(process),
        _ => None,
    })
}

/// Returns the processes of each pid.
fn by_pid(events: &[Event]) -> HashMap<Pid, BTreeMap<BootTime, ProcessKey>> {
    let mut of_pid: HashMap<Pid, BTreeMap<BootTime, ProcessKey>> = HashMap::new();
    for process in events.iter().filter_map(|event| event.what.subject()) {
        let process = process.truncated();
        let same_pid = of_pid.entry(process.pid).or_default();
        same_pid.insert(process.start, process);
    }
    of_pid
}

/// Returns the processes that are known to have run in a place.
fn in_place(events: &[Event], place: &Place) -> HashSet<ProcessKey> {
    let pod_uid = |process: &Process| process.cgroup.as_deref().and_then(cgroup_path::pod_uid);
    // A pod has its name from its raylet, its other containers have its uid only.
    let named: HashSet<ProcessKey> = match place {
        Place::SlurmJob(_) => HashSet::new(),
        Place::Pod(name) => raylets_in(events, name),
    };
    let is_named = |raylet: ProcessKey| named.contains(&raylet.truncated());
    let of_raylets = processes(events).filter(|one| is_named(one.process));
    let uids: HashSet<String> = of_raylets.filter_map(pod_uid).collect();
    let is_there = |process: &&Process| match place {
        Place::SlurmJob(job) => {
            let found = slurm_job(process.cgroup.as_deref(), process.slurm.as_deref());
            found.is_some_and(|found| found.job == *job)
        }
        Place::Pod(name) => match pod_uid(process) {
            Some(uid) => uid == *name || uids.contains(&uid),
            // Inside a container the paths of cgroups do not name the pod.
            None => uids.is_empty() && process.cluster.is_some_and(is_named),
        },
    };
    let own = processes(events).filter(is_there);
    own.map(|process| process.process.truncated()).collect()
}

/// Returns the raylets of a pod.
fn raylets_in(events: &[Event], pod: &str) -> HashSet<ProcessKey> {
    let named = clusters(events).filter(|cluster| pod_of_raylet(cluster).is_called(pod));
    named.map(|cluster| cluster.raylet.truncated()).collect()
}

fn supervisor_of(events: &[Event]) -> Option<ProcessKey> {
    events.iter().find_map(|event| match &event.what {
        Observation::RecordingStarted(started) => started.supervisor,
        _ => None,
    })
}

fn is_part_of_ray(role: Role) -> bool {
    matches!(
        role,
        Role::Raylet | Role::Gcs | Role::Dashboard | Role::Agent
    )
}

/// Returns the clusters that have such a job, as far as workers and drivers are known.
fn clusters_of(events: &[Event], job: &HexId) -> BTreeSet<ProcessKey> {
    let mut clusters: BTreeSet<ProcessKey> = log_facts::clusters_of_processes(events)
        .into_values()
        .collect();
    clusters.extend(self::clusters(events).map(|cluster| cluster.raylet.truncated()));
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

#[cfg(test)]
mod tests {
    use super::of_rays_own;

    #[test]
    fn part_of_ray_keeps_its_script_and_what_it_offers() {
        let kept = |argv: &[&str]| {
            let argv = argv.iter().map(|one| (*one).to_owned()).collect();
            of_rays_own(argv).join(" ")
        };
        let raylet = [
            "/r/raylet",
            "--store_socket_name=/tmp/secret",
            "--static_resource_list=node:192.0.2.2,1.0,CPU,4,secret,1,object_store_memory,9",
            "--object_store_memory=9",
        ];
        assert_eq!(
            kept(&raylet),
            "/r/raylet --static_resource_list=CPU,4,object_store_memory,9 --object_store_memory=9"
        );
        let agent = ["python3", "-u", "/r/dashboard/agent.py", "--log-dir=/tmp/x"];
        assert_eq!(kept(&agent), "python3 -u /r/dashboard/agent.py");
        assert_eq!(kept(&["gcs_server"]), "gcs_server");
    }
}
