//! Identifies a sender by what the kernel observed: its process, parents, executable, users and the exec that was seen.
//!
//! A name proves nothing: anybody may call a program `ray` or `raylet`, and a process its own title. What rests on a name alone is never
//! taken for a part of Ray.

use super::{Case, LATE_NS};
use crate::{
    event::{Role, Sender},
    ids::{BootTime, Pid, ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, Command},
        programs,
        report::{Certainty, Relation},
        state::processes::ProcessState,
    },
    path,
    ray::tool::{self, Installation},
};

/// How many ancestors of a process are looked at.
const MAX_ANCESTORS: usize = 32;

/// The raylet that a sender is, if it is the victim's own.
pub(super) fn raylet_of(case: &Case<'_>, sender: &Sender) -> Option<ProcessKey> {
    let state = case.world.processes.get(sender.process)?;
    let is_raylet = case.world.cluster(sender.process).is_some() || state.role == Role::Raylet;
    let itself = sender.process.same(case.key());
    if !is_raylet || itself {
        return None;
    }
    has_started(case, state.key).map(|_| state.key)
}

/// How sure it is that a raylet has started the victim, itself or by what it had started. It signals nobody else: a process that only names
/// the same session (a driver, the GCS) is none of its own.
pub(super) fn has_started(case: &Case<'_>, raylet: ProcessKey) -> Option<Certainty> {
    if descends(case, case.key(), raylet) {
        return Some(Certainty::Proven);
    }
    // The recorder may have come too late to see who started it: a worker in a container of its own has another parent by then.
    let of_its_cluster = case.cluster().is_some_and(|cluster| cluster.same(raylet));
    let younger = raylet.truncated().start <= case.key().start;
    let may_be_its = matches!(case.role(), Role::Worker | Role::Descendant);
    (of_its_cluster && younger && may_be_its && !has_a_driver_above(case))
        .then_some(Certainty::Inferred)
}

/// Whether a driver has started the victim: no raylet has then, or the driver would be its own.
fn has_a_driver_above(case: &Case<'_>) -> bool {
    let mut above = std::iter::successors(Some(case.key()), |at| parent_of(case, *at));
    above.by_ref().take(MAX_ANCESTORS).any(|at| {
        let state = case.world.processes.get(at);
        state.is_some_and(|state| state.role == Role::Driver)
    })
}

/// Whether `parent` started `child`: by its fork where that was seen, else by the parent that it shows.
pub(super) fn is_child(case: &Case<'_>, child: ProcessKey, parent: ProcessKey) -> bool {
    let Some(state) = case.world.processes.get(child) else {
        return false;
    };
    match state.parent_key {
        Some(key) => key.same(parent),
        // Who has the number now may be another one: a parent is older than its child.
        None => state.parent == Some(parent.pid) && parent.start <= state.key.start,
    }
}

/// Whether `ancestor` is above `process`.
pub(super) fn descends(case: &Case<'_>, process: ProcessKey, ancestor: ProcessKey) -> bool {
    let mut at = process;
    for _ in 0..MAX_ANCESTORS {
        if is_child(case, at, ancestor) {
            return true;
        }
        match parent_of(case, at) {
            Some(parent) => at = parent,
            None => return false,
        }
    }
    false
}

/// The parent of a process, as far as it is known which one that is.
pub(super) fn parent_of(case: &Case<'_>, process: ProcessKey) -> Option<ProcessKey> {
    let state = case.world.processes.get(process)?;
    let by_pid = || {
        let parent = case.world.processes.latest(state.parent?)?;
        Some(parent.key).filter(|parent| parent.start <= state.key.start)
    };
    state.parent_key.or_else(by_pid)
}

/// Whether this is `ray start --block`, which stays as the parent of the raylet and of the rest of the node that it has started. Who has
/// started a raylet is what the kernel says; a driver does so too, and is another case.
///
/// Its name proves nothing: a program of somebody's own may start a node in its own process. It is Ray's command by its command line, as
/// sure as that is.
pub(super) fn starter(case: &Case<'_>, sender: &Sender) -> Option<Certainty> {
    if !has_started_a_node(case, sender) {
        return None;
    }
    if is_of_an_old_recording(sender) {
        return Some(Certainty::Proven);
    }
    let run = tool::command(&sender.argv)?;
    let cluster = case.cluster().or_else(|| only_cluster(case));
    let installed = cluster.and_then(|cluster| verb(case, cluster, sender));
    if installed.is_some_and(|(_, by_path)| by_path == Certainty::Proven) && sender.exec_seen {
        return Some(Certainty::Proven);
    }
    let named = path::base(run.script) == "ray" && run.verb == Some("start");
    named.then_some(Certainty::Inferred)
}

fn has_started_a_node(case: &Case<'_>, sender: &Sender) -> bool {
    let role = case
        .world
        .processes
        .get(sender.process)
        .map_or(Role::Other, |state| state.role);
    let started_here = || {
        let of_node = |raylet: &ProcessKey| is_child(case, *raylet, sender.process);
        let raylets = case.world.clusters.iter().map(|cluster| cluster.raylet);
        let mut raylets = raylets.filter(of_node);
        let own = is_child(case, case.key(), sender.process);
        raylets.any(|raylet| own || case.cluster().is_some_and(|cluster| cluster.same(raylet)))
    };
    sender.comm == "ray" && role == Role::Other && started_here()
}

/// A tool of Ray's that a sender is.
pub(super) struct Tool {
    command: Command,
    pid: Pid,
    /// How sure that is.
    pub(super) certainty: Certainty,
}

impl Tool {
    /// `ray start --block`, which is ending.
    pub(super) fn leaving(pid: Pid) -> Self {
        Self {
            command: Command::RayStartBlock,
            pid,
            certainty: Certainty::Proven,
        }
    }

    /// What ends by it, by itself or by its raylet.
    pub(super) fn cause(self, by_raylet: bool) -> Cause {
        Cause::RayCommand {
            command: self.command,
            pid: self.pid,
            by_raylet,
        }
    }
}

/// The tool of Ray's that a sender is.
pub(super) fn tool(case: &Case<'_>, sender: &Sender) -> Option<Tool> {
    if starter(case, sender).is_some() {
        return None;
    }
    command_line_tool(case, sender).or_else(|| job_stop(case, sender))
}

/// `ray stop` and the like: the interpreter and the script of the installation that the victim's cluster runs.
fn command_line_tool(case: &Case<'_>, sender: &Sender) -> Option<Tool> {
    let pid = sender.process.pid;
    if is_of_an_old_recording(sender) {
        let is_python = path::base(sender.exe.as_deref()?).starts_with("python");
        return (sender.comm == "ray" && is_python).then(|| Tool {
            command: Command::Ray("stop".into()),
            pid,
            certainty: Certainty::Inferred,
        });
    }
    if is_fork(case, sender) {
        return None;
    }
    let cluster = case.cluster().or_else(|| only_cluster(case))?;
    let (verb, by_path) = verb(case, cluster, sender)?;
    let by_program = interpreter(case, cluster, sender)?;
    let known = sender.exec_seen && sender.same_root && one_user(sender);
    let certainty = if known && by_path == Certainty::Proven {
        by_program
    } else {
        Certainty::Inferred
    };
    Some(Tool {
        command: Command::Ray(verb),
        pid,
        certainty,
    })
}

/// Whether the sender has executed nothing since its fork: its command line is what it has made of its parent's. Each exec since the
/// recorder came was seen.
fn is_fork(case: &Case<'_>, sender: &Sender) -> bool {
    let started = case.world.started.as_ref();
    let since_then = started.is_some_and(|(time, _)| *time < sender.process.start);
    let state = case.world.processes.get(sender.process);
    !sender.exec_seen && (since_then || state.is_some_and(ProcessState::is_fork))
}

/// A recording from before these were observed.
fn is_of_an_old_recording(sender: &Sender) -> bool {
    sender.effective_uid.is_none() && sender.file.is_none() && sender.argv.is_empty()
}

/// Real, effective and saved user are one: a program that is set-uid acts with the rights of somebody else.
fn one_user(sender: &Sender) -> bool {
    [sender.effective_uid, sender.saved_uid]
        .iter()
        .all(|uid| *uid == Some(sender.uid))
}

/// The cluster of a part of Ray that is not known to belong to one, where the machine runs one alone.
fn only_cluster(case: &Case<'_>) -> Option<ProcessKey> {
    match case.world.clusters.as_slice() {
        [cluster] => Some(cluster.raylet),
        _ => None,
    }
}

/// What the `ray` of this cluster's installation was told to do by a command line, and how sure it is that
/// it was that `ray`; `None` where it is another program.
fn verb(case: &Case<'_>, cluster: ProcessKey, sender: &Sender) -> Option<(String, Certainty)> {
    let run = tool::run(&sender.argv)?;
    let installation = installation(case, cluster)?;
    let certainty = if installation.scripts().any(|own| own == run.script) {
        Certainty::Proven
    } else {
        // A path that led there when it was looked at, a moment after the act.
        let led = &case.world.cluster(cluster)?.commands;
        let same = sender.same_root && led.iter().any(|path| path == run.script);
        same.then_some(Certainty::Inferred)?
    };
    Some((run.verb?.to_owned(), certainty))
}

/// Where the Ray lies that a raylet was started from.
fn installation(case: &Case<'_>, cluster: ProcessKey) -> Option<Installation> {
    Installation::of_raylet(&case.world.processes.get(cluster)?.argv)
}

/// How sure it is that the sender runs the interpreter that the cluster's raylet starts Ray's own scripts with.
fn interpreter(case: &Case<'_>, cluster: ProcessKey, sender: &Sender) -> Option<Certainty> {
    let own = installation(case, cluster)?;
    let runs_rays = |argv: &[String]| tool::run(argv).is_some_and(|run| own.holds(run.script));
    let states = case.world.processes.iter();
    let children = states.filter(|state| is_child(case, state.key, cluster));
    let mut by_path = false;
    for state in children {
        // The first exec after the fork is the raylet's own doing; later ones are the process's.
        if let Some(first) = &state.first_exec
            && runs_rays(&first.argv)
            && first.file.is_some()
            && first.file == sender.file
        {
            return Some(Certainty::Proven);
        }
        let shown = || state.exe.as_deref().zip(sender.exe.as_deref());
        by_path |= state.role == Role::Agent
            && state.first_exec.is_none()
            && shown().is_some_and(|(shown, taken)| shown.ends_with(taken.trim_start_matches('…')));
    }
    by_path.then_some(Certainty::Inferred)
}

/// `ray job stop`: the actor that runs the driver of a submitted job ends what it has started. Its title is its own: it is believed of
/// its own descendants alone.
fn job_stop(case: &Case<'_>, sender: &Sender) -> Option<Tool> {
    let state = case.world.processes.get(sender.process)?;
    let own = is_supervisor(state) && descends(case, case.key(), sender.process);
    let mut all = case.world.processes.iter();
    let is_its_watcher = |child: &ProcessState| {
        is_child(case, child.key, state.key) && is_watcher(&child.argv, state.pid_for_ray())
    };
    (own && all.any(is_its_watcher)).then_some(Tool {
        command: Command::RayJobStop,
        pid: sender.process.pid,
        certainty: Certainty::Inferred,
    })
}

/// Whether a shell runs Ray's own text: that waits for the supervisor of a submitted job to be gone and then kills the driver's process
/// group (`_exec_entrypoint`, `python/ray/dashboard/modules/job/job_supervisor.py`; 2.9 to 2.60).
pub(super) fn is_watcher(argv: &[String], supervisor: Pid) -> bool {
    let text = format!("while kill -s 0 {supervisor}; do sleep 1; done; kill -9 ");
    argv.iter().any(|argument| argument.starts_with(&text))
}

/// Whether this is the actor that runs the driver of a submitted job.
pub(super) fn is_supervisor(state: &ProcessState) -> bool {
    state.role == Role::Worker
        && (state.label().starts_with("ray::JobSupervisor")
            || state.actor_class.as_deref() == Some("JobSupervisor"))
}

/// The driver that had started its own Ray (`ray.init()` without an address) and shuts it down: that ends the raylet, the GCS and the rest
/// one after the other (`kill_all_processes`, `python/ray/_private/node.py`). One that signals a single part of its Ray at `time` and goes
/// on does not shut it down.
pub(super) fn own_driver(
    case: &Case<'_>,
    sender: &Sender,
    victim: ProcessKey,
    time: BootTime,
) -> Option<Tool> {
    let driver = case.world.processes.get(sender.process)?;
    let started_it = driver.role == Role::Driver && is_child(case, case.cluster()?, driver.key);
    // Until it is over, it may be one.
    let shuts_down =
        started_it && (ends_the_rest(case, driver.key, victim, time) || case.is_within(LATE_NS));
    shuts_down.then_some(Tool {
        command: Command::RayShutdown,
        pid: driver.key.pid,
        certainty: Certainty::Proven,
    })
}

/// How long a driver may wait for one part of its Ray before it ends the next.
const SHUTDOWN_NS: i64 = 15 * SECOND_NS;

/// Whether a driver that signalled `victim` at `time` ended then, or signalled another process that it had started.
pub(super) fn ends_the_rest(
    case: &Case<'_>,
    driver: ProcessKey,
    victim: ProcessKey,
    time: BootTime,
) -> bool {
    let near = |other: BootTime| other.since(time).abs() < SHUTDOWN_NS;
    let world = case.world;
    if world.exit(driver).is_some_and(|exit| near(exit.time)) {
        return true;
    }
    let others = world.processes.iter().filter(|state| {
        state.role != Role::Descendant
            && !state.key.same(victim)
            && is_child(case, state.key, driver)
    });
    let signalled = |key: ProcessKey| {
        let mut signals = world.signals_to(key).iter();
        signals.any(|seen| seen.what.sender.process.same(driver) && near(seen.time))
    };
    others.map(|state| state.key).any(signalled)
}

/// What a sender is to its victim.
pub(super) fn relation(case: &Case<'_>, sender: &Sender) -> Relation {
    if is_child(case, case.key(), sender.process) {
        return Relation::Parent;
    }
    if let Some(relation) = by_program(case, sender) {
        return relation;
    }
    let Some(state) = case.world.processes.get(sender.process) else {
        return Relation::Other;
    };
    let same_cluster = match (state.cluster, case.cluster()) {
        (Some(one), Some(other)) => one.same(other),
        // Of a wrapped command, and of what was found without its raylet.
        (None, _) | (_, None) => true,
    };
    match state.role {
        _ if !same_cluster => Relation::Other,
        Role::Gcs | Role::Agent | Role::Dashboard if is_of_the_node(case, state) => Relation::Ray,
        Role::Worker | Role::Driver | Role::Descendant if !other_jobs(case, state) => {
            Relation::SameJob
        }
        _ => Relation::Other,
    }
}

/// Whether what is called a part of Ray may be one: no more than its name says so, unless it names the cluster as Ray has it do, or the
/// raylet started it.
fn is_of_the_node(case: &Case<'_>, state: &ProcessState) -> bool {
    let by_raylet = case
        .cluster()
        .is_some_and(|raylet| is_child(case, state.key, raylet));
    let address = case.cluster().and_then(|raylet| case.world.cluster(raylet));
    let session = address.and_then(|cluster| cluster.session.as_deref());
    let names_it =
        session.is_some_and(|session| state.argv.iter().any(|argument| argument.contains(session)));
    by_raylet || names_it
}

/// Whether sender and victim are known to belong to two jobs.
fn other_jobs(case: &Case<'_>, sender: &ProcessState) -> bool {
    let victim = case.world.processes.get(case.key());
    let jobs = sender.job().zip(victim.and_then(ProcessState::job));
    jobs.is_some_and(|(one, other)| one != other)
}

/// Whether the sender runs one of these programs of the machine's. Their names are believed of root, and of who may signal another user's
/// process.
fn by_program(case: &Case<'_>, sender: &Sender) -> Option<Relation> {
    let victim = case.world.processes.get(case.key());
    let others = victim
        .and_then(|state| state.uid)
        .is_some_and(|uid| uid != sender.uid);
    if sender.uid != 0 && !others {
        return None;
    }
    let exe = sender.exe.as_deref().map_or("", path::base);
    programs::relation(exe, &sender.comm)
}
