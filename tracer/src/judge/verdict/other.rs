//! A signal that another process sent and that killed.

use super::{Case, Draft, LATE_NS, SIGKILL, kernel, raylet, reasons};
use crate::{
    event::{Exit, Role, Sender, Signal},
    ids::ProcessKey,
    judge::{
        processes::ProcessState,
        report::{Certainty, Killer, Mechanism, Relation},
        world::{ExitSeen, Seen},
    },
    path, signals,
};

/// Programs that end containers.
const RUNTIMES: [&str; 12] = [
    "runc",
    "crun",
    "youki",
    "containerd",
    "containerd-shim",
    "dockerd",
    "docker-init",
    "kubelet",
    "podman",
    "conmon",
    "crio",
    "slurmstepd",
];

/// User-space OOM killers.
const OOM_DAEMONS: [&str; 5] = [
    "systemd-oomd",
    "earlyoom",
    "oomd",
    "nohang",
    "low-memory-mon",
];

pub(super) fn verdict(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    if parent_death(signal) {
        return parent_died(case, signal);
    }
    if let Some(raylet) = raylet_of(case, &signal.what.sender) {
        return raylet::verdict(case, raylet, signal, Certainty::Proven);
    }
    foreign(case, signal, Certainty::Proven)
}

/// A signal whose sender was not a raylet: a tool of Ray's, a relative, or a stranger. Also for a caught one, `inferred`.
pub(super) fn foreign(case: &Case<'_>, signal: &Seen<Signal>, certainty: Certainty) -> Draft {
    let relation = relation(case, &signal.what.sender);
    let mechanism = mechanism(signal);
    if is_starter(case, &signal.what.sender) && kernel::of_ray(case) {
        return by_starter(case, signal, certainty).sent(signal, Relation::Ray, mechanism);
    }
    let of_the_job = matches!(case.role(), Role::Worker | Role::Driver | Role::Descendant);
    let tool = tool(case, &signal.what.sender)
        .or_else(|| own_driver(case, &signal.what.sender).filter(|_| !of_the_job));
    if let Some(tool) = tool
        && kernel::of_ray(case)
    {
        return Draft::new(
            Killer::RayIntended,
            certainty,
            format!("was ended by {tool}"),
        )
        .sent(signal, Relation::Ray, mechanism);
    }
    if let Some(draft) = with_its_worker(case, signal, relation, certainty) {
        return draft;
    }
    if let Some(draft) = by_jobs_watcher(case, signal, certainty) {
        return draft.sent(signal, Relation::Ray, mechanism);
    }
    let sender = &signal.what.sender;
    let name = signals::name(signal.what.signal);
    let clause = format!(
        "was ended by {name} from {} (pid {}, uid {})",
        sender.comm, sender.process.pid, sender.uid
    );
    Draft::new(Killer::Signal, certainty, clause).sent(signal, relation, mechanism)
}

/// A worker that must end takes its children along: their death is the worker's.
fn with_its_worker(
    case: &Case<'_>,
    signal: &Seen<Signal>,
    relation: Relation,
    certainty: Certainty,
) -> Option<Draft> {
    let sender = signal.what.sender.process;
    if case.role() != Role::Descendant || !matches!(relation, Relation::Parent | Relation::SameJob)
    {
        return None;
    }
    let end = case.world.exit(sender)?;
    let ending = (0..2_000_000_000).contains(&end.time.since(signal.time));
    let worker = case
        .world
        .processes
        .get(sender)
        .is_some_and(|state| state.role == Role::Worker);
    if !(ending && worker) {
        return None;
    }
    let killer = match case.ended_well(sender) {
        Some(true) => Killer::RayIntended,
        _ => Killer::RayCollapse,
    };
    let clause = format!(
        "was ended by its worker (pid {}), which was ending",
        sender.pid
    );
    Some(
        Draft::new(killer, certainty, clause)
            .caused_by(Some(sender))
            .sent(signal, relation, mechanism(signal)),
    )
}

/// `prctl(PR_SET_PDEATHSIG)`: the kernel sends it in the name of the dying parent, with code 0.
pub(super) fn parent_death(signal: &Seen<Signal>) -> bool {
    signal.what.sender.exiting
        && signal.what.code == 0
        && signal.what.parent_death_signal == signal.what.signal
}

pub(super) fn parent_died(case: &Case<'_>, signal: &Seen<Signal>) -> Draft {
    let parent = signal.what.sender.process;
    // The signal comes when the thread that started the child ends: how a parent ends that lives on says nothing of that.
    let exit = case.world.exit(parent);
    let lived_on = exit.is_none_or(|exit| exit.time.since(signal.time) > LATE_NS);
    let killer = match (kernel::of_ray(case), case.ended_well(parent)) {
        (false, _) => Killer::Signal,
        (true, Some(true)) if !lived_on => Killer::RayIntended,
        (true, _) => Killer::RayCollapse,
    };
    let only_thread = exit.is_none_or(|exit| exit.time.since(signal.time) > 5_000_000_000);
    let what = if only_thread {
        "a thread of its parent"
    } else {
        "its parent"
    };
    let clause = format!(
        "was ended with {what} {} (pid {}) by its parent-death signal",
        signal.what.sender.comm, parent.pid
    );
    Draft::new(killer, Certainty::Proven, clause)
        .caused_by(Some(parent))
        .sent(signal, Relation::Parent, Mechanism::ParentDeath)
}

/// The sender, if it is a raylet that is tracked.
pub(super) fn raylet_of(case: &Case<'_>, sender: &Sender) -> Option<ProcessKey> {
    let state = case.world.processes.get(sender.process)?;
    let by_cluster = case.world.cluster(sender.process).is_some();
    (by_cluster || state.role == Role::Raylet).then_some(state.key)
}

/// Whether this is `ray start --block`, which stays as the parent of what it started.
fn is_starter(case: &Case<'_>, sender: &Sender) -> bool {
    let started = |key| is_child(case, key, sender);
    sender.comm == "ray" && (started(case.key()) || case.cluster().is_some_and(started))
}

fn is_child(case: &Case<'_>, process: ProcessKey, parent: &Sender) -> bool {
    let state = case.world.processes.get(process);
    state.and_then(|state| state.parent) == Some(parent.process.pid)
}

/// How far back the end of another process of its may lie: `ray start --block` looks once a second.
const STARTER_LOOKS_NS: i64 = 5_000_000_000;

/// `ray start --block` ends what it started when one of that has failed, else as it is told to end itself
/// (`python/ray/scripts/scripts.py`, 2.9 to 2.60).
fn by_starter(case: &Case<'_>, signal: &Seen<Signal>, certainty: Certainty) -> Draft {
    let starter = signal.what.sender.process.pid;
    let Some(first) = failed_beside(case, signal) else {
        let clause =
            format!("was ended by its `ray start --block` (pid {starter}), which was ending");
        return Draft::new(Killer::RayIntended, certainty, clause);
    };
    let clause = format!(
        "was ended by its `ray start --block` (pid {starter}), because {} (pid {}) of its node had died",
        first.exit.comm, first.exit.process.pid
    );
    Draft::new(Killer::RayCollapse, certainty, clause).caused_by(Some(first.exit.process))
}

/// The first process of the same `ray start --block` that had failed shortly before it sent this.
fn failed_beside<'a>(case: &Case<'a>, signal: &Seen<Signal>) -> Option<&'a ExitSeen> {
    // 0, SIGTERM, and what its Python programs exit with at a SIGTERM.
    let failed =
        |exit: &Exit| exit.signal() != Some(15) && !matches!(exit.code(), Some(0 | 15 | 143));
    case.world
        .exits
        .values()
        .filter(|seen| (0..STARTER_LOOKS_NS).contains(&signal.time.since(seen.time)))
        .filter(|seen| failed(&seen.exit) && is_child(case, seen.exit.process, &signal.what.sender))
        .min_by_key(|seen| seen.time)
}

/// `ray start --block` that sent this as it ended itself, in words.
pub(super) fn leaving_starter(case: &Case<'_>, signal: &Seen<Signal>) -> Option<String> {
    let sender = &signal.what.sender;
    let leaves = is_starter(case, sender) && failed_beside(case, signal).is_none();
    leaves.then(|| {
        let pid = sender.process.pid;
        format!("the end of its `ray start --block` (pid {pid})")
    })
}

/// The tool of Ray's that a sender is, in words.
pub(super) fn tool(case: &Case<'_>, sender: &Sender) -> Option<String> {
    if is_starter(case, sender) {
        return None;
    }
    if sender.comm == "ray" {
        return Some(format!("`ray stop` (pid {})", sender.process.pid));
    }
    let state = case.world.processes.get(sender.process)?;
    is_supervisor(state)
        .then(|| format!("`ray job stop` (JobSupervisor, pid {})", sender.process.pid))
}

/// Whether this is the actor that runs the driver of a submitted job.
fn is_supervisor(state: &ProcessState) -> bool {
    state.label().starts_with("ray::JobSupervisor")
        || state.actor_class.as_deref() == Some("JobSupervisor")
}

/// Each submitted job has a shell that waits for its supervisor to be gone and then kills the driver's process group
/// (`_exec_entrypoint`, `python/ray/dashboard/modules/job/job_supervisor.py`).
fn by_jobs_watcher(case: &Case<'_>, signal: &Seen<Signal>, certainty: Certainty) -> Option<Draft> {
    // By then the shell has another parent: its fork says who had started it.
    let processes = &case.world.processes;
    let parent = processes.get(signal.what.sender.process)?.parent_key?;
    let supervisor = processes.get(parent).filter(|state| is_supervisor(state))?;
    let before = reasons::act_time(case, parent).is_some_and(|died| died < signal.time);
    if !before || !kernel::of_ray(case) {
        return None;
    }
    let killer = reasons::killer_after(case, parent);
    let ended = if killer == Killer::RayCollapse {
        "died"
    } else {
        "ended"
    };
    let clause = format!(
        "was ended by its job's watcher because its JobSupervisor (pid {}) had {ended}",
        supervisor.key.pid
    );
    Some(Draft::new(killer, certainty, clause).caused_by(Some(parent)))
}

/// The driver that had started its own Ray (`ray.init()` without an address) and shuts it down, in words.
pub(super) fn own_driver(case: &Case<'_>, sender: &Sender) -> Option<String> {
    let driver = case.world.processes.get(sender.process)?;
    let raylet = case.world.processes.get(case.cluster()?)?;
    let started_it = driver.role == Role::Driver && raylet.parent == Some(driver.key.pid);
    started_it.then(|| format!("`ray.shutdown()` in its driver (pid {})", driver.key.pid))
}

fn relation(case: &Case<'_>, sender: &Sender) -> Relation {
    if is_child(case, case.key(), sender) {
        return Relation::Parent;
    }
    let exe = sender.exe.as_deref().map_or("", path::base);
    let is = |names: &[&str]| {
        names
            .iter()
            .any(|name| *name == exe || sender.comm.starts_with(&name[..name.len().min(15)]))
    };
    if is(&OOM_DAEMONS) {
        return Relation::OomDaemon;
    }
    if is(&RUNTIMES) {
        return Relation::ContainerRuntime;
    }
    match case.world.processes.get(sender.process) {
        Some(state) => match state.role {
            Role::Raylet | Role::Gcs | Role::Agent | Role::Dashboard => Relation::Ray,
            Role::Worker | Role::Driver | Role::Descendant => Relation::SameJob,
            Role::Other => Relation::Other,
        },
        None => Relation::Other,
    }
}

pub(super) fn mechanism(signal: &Seen<Signal>) -> Mechanism {
    match signal.what.code {
        0 if signal.what.signal == SIGKILL && !signal.what.group => Mechanism::CgroupKill,
        0 => Mechanism::Kill,
        -6 => Mechanism::Tgkill,
        -1 => Mechanism::Sigqueue,
        -2 => Mechanism::Timer,
        _ => Mechanism::Unknown,
    }
}
