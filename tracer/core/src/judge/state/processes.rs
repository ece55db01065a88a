//! Keeps the process table: what is known of each process of the recording.

use std::collections::HashMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    cgroup_path,
    event::{Call, Exec, FileId, MemorySplit, Process, Role, SlurmJob, Worker},
    ids::{BootTime, ByProcess, Bytes, EventId, HexId, Pid, ProcessKey},
    judge::report::PROGRAM,
    ray::identify,
};

/// One process.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessState {
    pub(crate) key: ProcessKey,
    pub(crate) parent: Option<Pid>,
    /// The parent's identity, if the fork was seen.
    pub(crate) parent_key: Option<ProcessKey>,
    pub(crate) ns_pid: Option<Pid>,
    pub(crate) comm: String,
    pub(crate) argv: Vec<String>,
    pub(crate) uid: Option<u32>,
    pub(crate) cgroup: Option<String>,
    pub(crate) container_id: Option<String>,
    /// Its Slurm job, where `cgroup` does not name it.
    slurm: Option<Box<SlurmJob>>,
    pub(crate) cluster: Option<ProcessKey>,
    pub(crate) role: Role,
    pub(crate) worker_id: Option<HexId>,
    pub(crate) job_id: Option<HexId>,
    pub(crate) actor_class: Option<String>,
    /// What it runs, or ran last.
    pub(crate) title: Option<String>,
    /// Whether the call that its title names has ended. What has run since is reported after a
    /// second, or when it has ended.
    call_ended: bool,
    /// The last sample and its time.
    pub(crate) memory: Option<(BootTime, MemorySplit)>,
    /// Its private memory when its title last changed, as sampled.
    pub(crate) before: Option<Bytes>,
    /// Its exit event.
    pub(crate) exit: Option<EventId>,
    /// Path of its executable, as /proc showed it.
    pub(crate) exe: Option<String>,
    /// Its first exec after its fork, if a raylet forked it and both were seen. That exec is the
    /// raylet's doing.
    pub(crate) first_exec: Option<FirstExec>,
    /// Whether its fork was seen and no exec since then.
    just_forked: bool,
}

/// What was seen of a process's first exec.
#[derive(Debug, Clone)]
pub(crate) struct FirstExec {
    pub(crate) argv: Vec<String>,
    pub(crate) file: Option<FileId>,
}

impl ProcessState {
    /// Returns a process of which nothing is known.
    pub(crate) fn unknown(key: ProcessKey) -> Self {
        Self {
            key,
            ..Self::default()
        }
    }

    /// Records that it runs something else from now on.
    pub(crate) fn retitle(&mut self, title: &str) {
        if self.title.as_deref() != Some(title) {
            self.before = self.memory.and_then(|(_, split)| split.private());
            self.title = Some(title.to_owned());
        }
        self.call_ended = false;
    }

    /// Records a call that it runs or has run. A short call is reported only when it has ended.
    pub(crate) fn called(&mut self, call: &Call) {
        if call.ended.is_none() {
            self.retitle(&call.title);
            self.before = call.before;
        } else {
            self.title = Some(call.title.clone());
            self.before = None;
            self.call_ended = true;
        }
    }

    /// Records its title when it ended.
    pub(crate) fn ended_as(&mut self, title: &str) {
        // If a title is seen only now, it is not known when it was set.
        if self.call_ended || self.title.as_deref() != Some(title) {
            self.before = None;
        }
        self.title = Some(title.to_owned());
        self.call_ended = false;
    }

    /// Returns the method or task that it runs now; `None` between two calls.
    pub(crate) fn doing(&self) -> Option<String> {
        let title = self.title.as_deref().filter(|_| !self.call_ended)?;
        identify::title(title)?.task
    }

    /// Returns its title now. Between two calls, that is the class alone.
    pub(crate) fn title_now(&self) -> Option<String> {
        if !self.call_ended {
            return self.title.clone();
        }
        let last = identify::title(self.title.as_deref()?)?;
        Some(format!("ray::{}", last.class()?))
    }

    /// Returns the pid that Ray's logs print for it.
    pub(crate) fn pid_for_ray(&self) -> Pid {
        self.ns_pid.unwrap_or(self.key.pid)
    }

    /// Returns its Slurm job: by the path of its cgroup, else by what else was found.
    pub(crate) fn slurm(&self) -> Option<SlurmJob> {
        slurm_job(self.cgroup.as_deref(), self.slurm.as_deref())
    }

    /// Returns its job. A driver's worker id begins with it.
    pub(crate) fn job(&self) -> Option<HexId> {
        let of_id = || HexId::parse(self.worker_id.as_ref()?.0.get(..8)?);
        let driver = self.role == Role::Driver;
        self.job_id.clone().or_else(|| of_id().filter(|_| driver))
    }

    /// Whether it is part of this cluster.
    pub(crate) fn belongs_to(&self, cluster: ProcessKey) -> bool {
        self.cluster.is_some_and(|own| own.same(cluster))
    }

    /// Returns its actor class, by its title or else by what Ray's logs said of it.
    pub(crate) fn class(&self) -> Option<String> {
        let titled = self.title.as_deref().and_then(identify::title);
        titled
            .and_then(|title| title.actor_class)
            .or_else(|| self.actor_class.clone())
    }

    /// Returns the task that it runs or ran last, if it is no actor.
    pub(crate) fn task(&self) -> Option<String> {
        let titled = self.title.as_deref().and_then(identify::title)?;
        titled.task.filter(|_| self.class().is_none())
    }

    /// Returns the owner of its memory: the actor's class, else the task that runs or ran last,
    /// else its role.
    pub(crate) fn owner(&self) -> String {
        self.class().or_else(|| self.task()).unwrap_or_else(|| {
            let part = match self.role {
                Role::Worker => "idle worker",
                Role::Driver => "driver",
                Role::Descendant => PROGRAM,
                _ => self.comm.as_str(),
            };
            part.to_owned()
        })
    }

    /// Returns what a person would call it: its title, else its command line, else its name.
    pub(crate) fn label(&self) -> String {
        match self.title_now() {
            Some(title) if !title.is_empty() => title,
            _ if self.argv.iter().any(|argument| !argument.is_empty()) => self.argv.join(" "),
            _ => self.comm.clone(),
        }
    }
}

/// At most this many forks may lie between a worker and a process that it started.
const DEEPEST: usize = 16;

/// The options of an interpreter and its script are among this many first arguments.
const FIRST_ARGUMENTS: usize = 6;

/// All processes, by pid and truncated start.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// In boxes: a table has room for twice as many.
    known: ByProcess<Box<ProcessState>>,
    /// Processes whose end was not seen. Even a long recording has few of them at each death.
    alive: FxHashSet<ProcessKey>,
    /// Processes whose parent is not known, by that parent's pid. Init is left out.
    roots: FxHashMap<Pid, Vec<ProcessKey>>,
    /// The latest process with each pid.
    by_pid: FxHashMap<Pid, ProcessKey>,
    /// The latest process with each pid of Ray's own namespace, by cluster.
    by_ray_pid: HashMap<(ProcessKey, Pid), ProcessKey>,
    /// Drivers of all clusters have the same ids, so an id may stand for several processes.
    by_worker: HashMap<HexId, Vec<ProcessKey>>,
}

impl Processes {
    pub(crate) fn get(&self, key: ProcessKey) -> Option<&ProcessState> {
        self.known.get(&key.truncated()).map(|state| &**state)
    }

    /// Returns the latest process with this pid.
    pub(crate) fn latest(&self, pid: Pid) -> Option<&ProcessState> {
        self.get(*self.by_pid.get(&pid)?)
    }

    pub(crate) fn by_ray_pid(&self, cluster: ProcessKey, pid: Pid) -> Option<&ProcessState> {
        self.get(*self.by_ray_pid.get(&(cluster.truncated(), pid))?)
    }

    /// Returns the worker or driver of a cluster with this id.
    pub(crate) fn by_worker(&self, cluster: ProcessKey, worker: &HexId) -> Option<&ProcessState> {
        let found = self.by_worker.get(worker)?;
        let mut states = found.iter().rev().filter_map(|key| self.get(*key));
        states.find(|state| state.belongs_to(cluster))
    }

    /// Returns the parent of a process: by its fork if that was seen, else by its parent's pid.
    pub(crate) fn parent_of(&self, state: &ProcessState) -> Option<&ProcessState> {
        match state.parent_key {
            Some(key) => self.get(key),
            None => self.latest(state.parent?),
        }
    }

    /// Returns a process itself, or if other processes of a job started it, the worker or driver
    /// above them.
    pub(crate) fn worker_above(&self, key: ProcessKey) -> Option<&ProcessState> {
        let mut state = self.get(key)?;
        for _ in 0..DEEPEST {
            if state.role != Role::Descendant {
                return Some(state);
            }
            let parent = state.parent_key.and_then(|key| self.get(key));
            state = parent.or_else(|| self.latest(state.parent?))?;
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProcessState> {
        self.known.values().map(|state| &**state)
    }

    /// Returns the processes whose end was not seen.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &ProcessState> {
        self.alive.iter().filter_map(|key| self.get(*key))
    }

    /// Returns the process, and makes it if it is new. An exact start replaces a truncated one.
    pub(crate) fn touch(&mut self, key: ProcessKey) -> &mut ProcessState {
        let short = key.truncated();
        self.by_pid.insert(key.pid, short);
        let state = self.known.entry(short).or_insert_with(|| {
            self.alive.insert(short);
            Box::new(ProcessState::unknown(key))
        });
        if key.start > state.key.start {
            state.key = key;
        }
        state
    }

    /// Records that the end of a process was seen.
    pub(crate) fn ended(&mut self, key: ProcessKey, exit: EventId) -> &mut ProcessState {
        self.touch(key).exit = Some(exit);
        self.alive.remove(&key.truncated());
        self.touch(key)
    }

    pub(crate) fn forked(&mut self, parent: ProcessKey, child: ProcessKey) {
        let inherited = self.touch(parent).clone();
        let state = self.touch(child);
        state.parent = Some(parent.pid);
        state.parent_key = Some(inherited.key);
        state.just_forked = true;
        state.comm = inherited.comm;
        state.argv = inherited.argv;
        state.uid = inherited.uid;
        state.cgroup = inherited.cgroup;
        state.container_id = inherited.container_id;
        state.slurm = inherited.slurm;
        state.cluster = inherited.cluster;
        state.role = child_role(inherited.role);
        state.job_id = inherited.job_id;
    }

    /// Records that a process took a new title. For some, what they held then is known.
    pub(crate) fn titled(&mut self, process: ProcessKey, title: &str, anon: Option<Bytes>) {
        let state = self.touch(process);
        state.retitle(title);
        state.before = anon.or(state.before);
    }

    pub(crate) fn executed(&mut self, exec: &Exec) {
        let parent_role = self.role_of_parent(exec.process, exec.parent);
        let state = self.touch(exec.process);
        state.parent = exec.parent.or(state.parent);
        state.ns_pid = exec.ns_pid.or(state.ns_pid);
        state.comm.clone_from(&exec.comm);
        state.argv.clone_from(&exec.argv);
        state.title = None;
        state.uid = exec.uid.or(state.uid);
        state.exe = None;
        if std::mem::take(&mut state.just_forked) && parent_role == Some(Role::Raylet) {
            state.first_exec = Some(FirstExec {
                argv: exec.argv.iter().take(FIRST_ARGUMENTS).cloned().collect(),
                file: exec.file,
            });
        }
        if let Some(role) = identify::role(&exec.comm, &exec.argv) {
            state.role = below(parent_role, role);
        } else if let Some(parent_role) = parent_role {
            state.role = child_role(parent_role);
        }
        if state.role == Role::Raylet {
            state.cluster = Some(exec.process);
        }
        let worker_id = identify::worker_id(&exec.argv);
        self.index(exec.process, worker_id);
    }

    fn role_of_parent(&self, process: ProcessKey, parent: Option<Pid>) -> Option<Role> {
        let known = self.get(process).and_then(|state| state.parent_key);
        let state = match known {
            Some(key) => self.get(key),
            // A parent lives while it is one. If the known process has exited, its pid is used
            // again.
            None => self.latest(parent?).filter(|state| state.exit.is_none()),
        };
        state.map(|parent| parent.role)
    }

    pub(crate) fn described(&mut self, process: &Process) {
        let parent = self.role_of_parent(process.process, process.parent);
        let role = below(parent, process.role);
        let state = self.touch(process.process);
        state.parent = process.parent.or(state.parent);
        state.ns_pid = process.ns_pid.or(state.ns_pid);
        if !process.comm.is_empty() {
            state.comm.clone_from(&process.comm);
        }
        if !process.argv.is_empty() {
            state.argv.clone_from(&process.argv);
        }
        state.uid = process.uid.or(state.uid);
        state.exe = process.exe.clone().or(state.exe.take());
        state.cgroup = process.cgroup.clone().or(state.cgroup.take());
        state.container_id = process.container_id.clone().or(state.container_id.take());
        // Its environment is read once.
        let told = state.slurm.take();
        state.slurm = match (process.slurm.clone(), told) {
            (Some(new), Some(told)) if new.memory.is_none() && new.job == told.job => Some(told),
            (new, told) => new.or(told),
        };
        state.cluster = process.cluster.or(state.cluster);
        // A worker stays a worker, whatever its rewritten command line says later.
        if role != Role::Other && !matches!(state.role, Role::Worker | Role::Driver) {
            state.role = role;
        }
        if let [title] = process.argv.as_slice()
            && title.starts_with("ray::")
        {
            state.retitle(title);
        }
        self.note_root(process);
        let worker_id = identify::worker_id(&process.argv);
        self.index(process.process, worker_id);
    }

    fn note_root(&mut self, process: &Process) {
        let parent = process.parent.filter(|parent| parent.0 > 1);
        if let Some(parent) = parent.filter(|parent| self.latest(*parent).is_none()) {
            let roots = self.roots.entry(parent).or_default();
            let key = process.process.truncated();
            if !roots.contains(&key) {
                roots.push(key);
            }
        }
    }

    /// Returns the processes that a process started which is not known itself.
    pub(crate) fn started_by_stranger(&self, parent: ProcessKey) -> Vec<&ProcessState> {
        let roots = self.roots.get(&parent.pid).map_or(&[][..], Vec::as_slice);
        let roots = roots.iter().filter_map(|key| self.get(*key));
        let younger = |state: &&ProcessState| parent.truncated().start <= state.key.start;
        roots.filter(younger).collect()
    }

    /// Returns all processes whose parent is not known.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &ProcessState> {
        let roots = self.roots.values().flatten();
        roots.filter_map(|key| self.get(*key))
    }

    pub(crate) fn identified(&mut self, worker: &Worker) {
        let state = self.touch(worker.process);
        state.role = if worker.driver {
            Role::Driver
        } else {
            Role::Worker
        };
        state.job_id = worker.job_id.clone().or(state.job_id.take());
        state.actor_class = worker.actor_class.clone().or(state.actor_class.take());
        self.index(worker.process, Some(worker.worker_id.clone()));
    }

    /// Sets the worker id. The process can then be found by it and by the pid that Ray prints.
    pub(crate) fn index(&mut self, key: ProcessKey, worker_id: Option<HexId>) {
        let short = key.truncated();
        let Some(state) = self.known.get_mut(&short) else {
            return;
        };
        if let Some(worker) = worker_id {
            let answering = self.by_worker.entry(worker.clone()).or_default();
            if !answering.contains(&short) {
                answering.push(short);
            }
            state.worker_id = Some(worker);
        }
        if let Some(cluster) = state.cluster {
            self.by_ray_pid
                .insert((cluster.truncated(), state.pid_for_ray()), short);
        }
    }

    /// Drops a process that no later event can concern. This bounds the memory of the live
    /// recorder.
    pub(crate) fn forget(&mut self, key: ProcessKey) {
        let short = key.truncated();
        self.alive.remove(&short);
        let Some(state) = self.known.remove(&short) else {
            return;
        };
        if let Some(parent) = state.parent
            && let Some(roots) = self.roots.get_mut(&parent)
        {
            roots.retain(|key| *key != short);
            if roots.is_empty() {
                self.roots.remove(&parent);
            }
        }
        if self.by_pid.get(&key.pid) == Some(&short) {
            self.by_pid.remove(&key.pid);
        }
        if let Some(worker) = &state.worker_id
            && let Some(answering) = self.by_worker.get_mut(worker)
        {
            answering.retain(|key| *key != short);
            if answering.is_empty() {
                self.by_worker.remove(worker);
            }
        }
        if let Some(cluster) = state.cluster {
            self.by_ray_pid
                .remove(&(cluster.truncated(), state.pid_for_ray()));
        }
    }
}

/// Returns the role of a process by that of its parent, as long as its command line says nothing
/// else.
fn child_role(parent: Role) -> Role {
    match parent {
        Role::Worker | Role::Driver | Role::Descendant => Role::Descendant,
        _ => Role::Other,
    }
}

/// Returns the role of a process that has `role` by its name alone.
///
/// A name proves nothing, and a worker starts no part of Ray. Such a process is a fork that still
/// has its parent's title, or a program of the job's own. Only a raylet keeps its role wherever it
/// was started: it is that of a cluster of its own.
fn below(parent: Option<Role>, role: Role) -> Role {
    let named = matches!(
        role,
        Role::Worker | Role::Gcs | Role::Agent | Role::Dashboard
    );
    match parent {
        Some(Role::Worker | Role::Descendant) if named => Role::Descendant,
        _ => role,
    }
}

/// Returns the Slurm job of a process with this cgroup, of which `told` was found elsewhere.
pub fn slurm_job(cgroup: Option<&str>, told: Option<&SlurmJob>) -> Option<SlurmJob> {
    let Some(found) = cgroup.and_then(cgroup_path::slurm) else {
        return told.cloned();
    };
    let told = told.filter(|told| told.job == found.job);
    Some(SlurmJob {
        job: found.job,
        step: found.step,
        ..told.cloned().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(title: &str, ended: Option<u64>) -> Call {
        Call {
            process: ProcessKey::new(7, 1),
            title: title.into(),
            nth: 1,
            began: BootTime(1),
            ended: ended.map(BootTime),
            before: Some(Bytes(1)),
            after: None,
            peak: None,
        }
    }

    #[test]
    fn ended_call_is_not_what_a_process_does() {
        let mut state = ProcessState::unknown(ProcessKey::new(7, 1));
        state.called(&call("ray::WorkerDict.load_checkpoint", None));
        let does = Some("WorkerDict.load_checkpoint".to_owned());
        assert_eq!((state.doing(), state.before), (does, Some(Bytes(1))));
        state.called(&call("ray::WorkerDict.load_checkpoint", Some(2)));
        assert_eq!((state.doing(), state.before), (None, None));
        assert_eq!(state.label(), "ray::WorkerDict");
        // Short calls are reported when they have ended.
        state.called(&call("ray::WorkerDict.step", Some(3)));
        assert_eq!(state.doing(), None);
        state.ended_as("ray::WorkerDict.step");
        assert_eq!(state.doing().as_deref(), Some("WorkerDict.step"));
        assert_eq!(state.before, None);
    }

    #[test]
    fn worker_counts_for_its_last_task() {
        let mut state = ProcessState::unknown(ProcessKey::new(7, 1));
        state.called(&call("ray::load", None));
        state.called(&call("ray::load", Some(2)));
        state.called(&call("ray::train", Some(3)));
        assert_eq!(
            (state.doing(), state.task().as_deref()),
            (None, Some("train"))
        );
    }

    /// The pid of a job's process that has ended may be the next `ray start`'s.
    #[test]
    fn reused_parent_pid_gives_no_role() {
        let mut processes = Processes::default();
        let exec = |pid: u32, parent: u32, name: &str| Exec {
            process: ProcessKey::new(pid, u64::from(pid)),
            parent: Some(Pid(parent)),
            ns_pid: None,
            comm: name.into(),
            argv: vec![name.into()],
            uid: None,
            file: None,
        };
        processes.executed(&exec(5, 1, "ray::hog"));
        let child = ProcessKey::new(6, 6);
        processes.forked(ProcessKey::new(5, 5), child);
        let role = |processes: &mut Processes, pid: u32| {
            processes.executed(&exec(pid, 6, "gcs_server"));
            processes
                .get(ProcessKey::new(pid, u64::from(pid)))
                .map(|state| state.role)
        };
        assert_eq!(role(&mut processes, 7), Some(Role::Descendant));
        processes.ended(child, EventId(1));
        assert_eq!(role(&mut processes, 8), Some(Role::Gcs));
    }
}
