//! Identifies the sender of a signal by what the kernel observed.
//!
//! That is its process, parents, executable, users, and the exec that was seen. A name proves
//! nothing: anybody may call a program `ray` or `raylet`, and a process sets its own title. A
//! sender known by a name alone is never taken for a part of Ray.

use super::{Case, LATE_NS};
use crate::{
    event::{Role, Sender, Signal},
    ids::{Pid, ProcessKey, SECOND_NS},
    judge::{
        cause::{Cause, Command},
        programs,
        report::{Certainty, Relation},
        state::{processes::ProcessState, timestamped::Timestamped},
    },
    path,
    ray::{
        stopping,
        tool::{self, Installation},
    },
};

/// How many ancestors of a process are looked at.
const MAX_ANCESTORS: usize = 32;

/// Returns the raylet that the sender is, if it is the victim's own.
pub(super) fn raylet_of(case: &Case<'_>, sender: &Sender) -> Option<ProcessKey> {
    let state = case.world.processes.get(sender.process)?;
    let is_raylet = case.world.cluster(sender.process).is_some() || state.role == Role::Raylet;
    let itself = sender.process.same(case.key());
    if !is_raylet || itself {
        return None;
    }
    started_victim(case, state.key).map(|_| state.key)
}

/// Returns how sure it is that a raylet started the victim, itself or through what it had started.
///
/// A raylet signals nobody else. A process that only names the same session (a driver, the GCS) was
/// not started by it.
pub(super) fn started_victim(case: &Case<'_>, raylet: ProcessKey) -> Option<Certainty> {
    if descends(case, case.key(), raylet) {
        return Some(Certainty::Proven);
    }
    // The recorder may have come too late to see who started it. A worker in a container of its own
    // has another parent by then.
    let of_its_cluster = case.cluster().is_some_and(|cluster| cluster.same(raylet));
    let younger = raylet.truncated().start <= case.key().start;
    let may_be_its = matches!(case.role(), Role::Worker | Role::Descendant);
    (of_its_cluster && younger && may_be_its && !has_a_driver_above(case))
        .then_some(Certainty::Inferred)
}

/// Returns whether a driver is above the victim. Then no raylet started the victim, or it would
/// have started the driver too.
fn has_a_driver_above(case: &Case<'_>) -> bool {
    let mut above = std::iter::successors(Some(case.key()), |at| parent_of(case, *at));
    above.by_ref().take(MAX_ANCESTORS).any(|at| {
        let state = case.world.processes.get(at);
        state.is_some_and(|state| state.role == Role::Driver)
    })
}

/// Returns whether `parent` started `child`: by the fork if that was seen, else by the child's
/// parent pid.
pub(super) fn is_child(case: &Case<'_>, child: ProcessKey, parent: ProcessKey) -> bool {
    let Some(state) = case.world.processes.get(child) else {
        return false;
    };
    match state.parent_key {
        Some(key) => key.same(parent),
        // The pid may belong to another process now. A parent is older than its child.
        None => state.parent == Some(parent.pid) && parent.start <= state.key.start,
    }
}

/// Returns whether `process` descends from `ancestor`.
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

/// Returns the parent of a process, as far as it is known.
pub(super) fn parent_of(case: &Case<'_>, process: ProcessKey) -> Option<ProcessKey> {
    let state = case.world.processes.get(process)?;
    let by_pid = || {
        let parent = case.world.processes.latest(state.parent?)?;
        Some(parent.key).filter(|parent| parent.start <= state.key.start)
    };
    state.parent_key.or_else(by_pid)
}

/// Returns how sure it is that the sender is `ray start --block`. That command stays as the parent
/// of the raylet and the rest of the node that it started. The kernel says who started a raylet. A
/// driver may too, which is another case.
///
/// The name proves nothing: a user's program may start a node in its own process. The command line
/// shows whether it is Ray's command, and gives the certainty.
pub(super) fn ray_start_block(case: &Case<'_>, sender: &Sender) -> Option<Certainty> {
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

/// A tool of Ray's that sent a signal.
pub(super) struct Tool {
    command: Command,
    pid: Pid,
    /// How sure it is that this tool is the sender.
    pub(super) certainty: Certainty,
}

impl Tool {
    /// Whether it is `ray job stop`. Its title alone would be a guess, but the supervisor's own
    /// watcher and the descent of what it ended were observed.
    pub(super) fn is_job_stop(&self) -> bool {
        self.command == Command::RayJobStop
    }

    /// Returns the tool for a `ray start --block` that is ending.
    pub(super) fn leaving(pid: Pid) -> Self {
        Self {
            command: Command::RayStartBlock,
            pid,
            certainty: Certainty::Proven,
        }
    }

    /// Returns the cause of what this tool ends, directly or through the raylet.
    pub(super) fn cause(self, by_raylet: bool) -> Cause {
        Cause::RayCommand {
            command: self.command,
            pid: self.pid,
            by_raylet,
        }
    }
}

/// Returns the tool of Ray's that sent the signal, if it is one.
pub(super) fn tool(case: &Case<'_>, signal: &Signal) -> Option<Tool> {
    let sender = &signal.sender;
    if ray_start_block(case, sender).is_some() || !stopping::SIGNALS.contains(&signal.signal) {
        return None;
    }
    command_line_tool(case, sender).or_else(|| job_stop(case, sender))
}

/// Recognizes `ray stop` and the like, by the interpreter and the script of the installation that
/// the victim's cluster runs.
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
    // A process may rewrite its command line. Only the one of an exec that was seen counts.
    if !sender.exec_seen {
        return None;
    }
    let cluster = case.cluster().or_else(|| only_cluster(case))?;
    let (verb, by_path) = verb(case, cluster, sender)?;
    let by_program = interpreter(case, cluster, sender)?;
    let known = sender.same_root && one_user(sender);
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

/// Returns whether the recording is from a version that did not record these fields.
fn is_of_an_old_recording(sender: &Sender) -> bool {
    sender.effective_uid.is_none() && sender.file.is_none() && sender.argv.is_empty()
}

/// Returns whether the real, effective and saved user are one. A program that is set-uid acts with
/// the rights of somebody else.
fn one_user(sender: &Sender) -> bool {
    [sender.effective_uid, sender.saved_uid]
        .iter()
        .all(|uid| *uid == Some(sender.uid))
}

/// Returns the machine's only cluster, for a part of Ray that is not known to belong to one. `None`
/// if there are several.
fn only_cluster(case: &Case<'_>) -> Option<ProcessKey> {
    match case.world.clusters.as_slice() {
        [cluster] => Some(cluster.raylet),
        _ => None,
    }
}

/// Returns what a command line told the `ray` of this cluster's installation to do, and how sure it
/// is that it was that `ray`. `None` if it is another program.
fn verb(case: &Case<'_>, cluster: ProcessKey, sender: &Sender) -> Option<(String, Certainty)> {
    let run = tool::run(&sender.argv)?;
    let installation = installation(case, cluster)?;
    let certainty = if installation.scripts().any(|own| own == run.script) {
        Certainty::Proven
    } else {
        // A path that led to it when that was checked, a moment after the act.
        let led = &case.world.cluster(cluster)?.commands;
        let same = sender.same_root && led.iter().any(|path| path == run.script);
        same.then_some(Certainty::Inferred)?
    };
    Some((run.verb?.to_owned(), certainty))
}

/// Returns the installation of Ray that a raylet was started from.
fn installation(case: &Case<'_>, cluster: ProcessKey) -> Option<Installation> {
    Installation::of_raylet(&case.world.processes.get(cluster)?.argv)
}

/// Returns how sure it is that the sender runs the interpreter with which the cluster's raylet
/// starts Ray's own scripts.
fn interpreter(case: &Case<'_>, cluster: ProcessKey, sender: &Sender) -> Option<Certainty> {
    let own = installation(case, cluster)?;
    let runs_rays = |argv: &[String]| tool::run(argv).is_some_and(|run| own.holds(run.script));
    let states = case.world.processes.iter();
    let children = states.filter(|state| is_child(case, state.key, cluster));
    let mut by_path = false;
    for state in children {
        // The raylet does the first exec after the fork. Later ones are the process's own.
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

/// Recognizes `ray job stop`: the actor that runs the driver of a submitted job ends what it has
/// started. A process sets its own title, so the title is believed only for signals to its own
/// descendants.
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

/// Returns whether a shell runs Ray's own text. That waits until the supervisor of a submitted job
/// is gone, and then kills the driver's process group (`_exec_entrypoint`,
/// `python/ray/dashboard/modules/job/job_supervisor.py`; 2.9 to 2.60).
pub(super) fn is_watcher(argv: &[String], supervisor: Pid) -> bool {
    let text = format!("while kill -s 0 {supervisor}; do sleep 1; done; kill -9 ");
    argv.iter().any(|argument| argument.starts_with(&text))
}

/// Returns whether this is the actor that runs the driver of a submitted job.
pub(super) fn is_supervisor(state: &ProcessState) -> bool {
    state.role == Role::Worker
        && (state.label().starts_with("ray::JobSupervisor")
            || state.actor_class.as_deref() == Some("JobSupervisor"))
}

/// Recognizes the driver that started its own Ray (`ray.init()` without an address) and shuts it
/// down. That ends the raylet, the GCS and the rest one after the other, in the form
/// that [`stopping`] has. A driver that signals a part of its Ray in another form, or a single
/// part, does not shut it down: the same process can do either.
pub(super) fn own_driver(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    victim: ProcessKey,
) -> Option<Tool> {
    let driver = case.world.processes.get(signal.what.sender.process)?;
    let raylet = case.cluster()?;
    let started_it = driver.role == Role::Driver && is_child(case, raylet, driver.key);
    // It may still turn out to be a shutdown.
    let shuts_down = started_it
        && is_in_form(case, signal, victim, raylet)
        && (ends_the_rest(case, signal, victim) || case.is_within(LATE_NS));
    shuts_down.then_some(Tool {
        command: Command::RayShutdown,
        pid: driver.key.pid,
        certainty: Certainty::Proven,
    })
}

/// Returns whether a signal to `victim` has the form of a shutdown: the raylet came first, and each
/// process got a SIGTERM before anything else.
fn is_in_form(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    victim: ProcessKey,
    raylet: ProcessKey,
) -> bool {
    let driver = signal.what.sender.process;
    let asked = |key: ProcessKey| {
        let mut signals = case.world.signals_to(key).iter();
        let first = signals.find(|seen| seen.what.sender.process.same(driver))?;
        (first.what.signal == stopping::SHUTDOWN_ASKS && first.time <= signal.time)
            .then_some(first.time)
    };
    let raylet_was_gone = || {
        let end = case.world.exit(raylet);
        end.is_some_and(|end| end.time <= signal.time)
    };
    let raylet_first = victim.same(raylet) || asked(raylet).is_some() || raylet_was_gone();
    let waited = asked(victim).map(|first| signal.time.since(first));
    raylet_first
        && waited.is_some_and(|waited| stopping::may_be_of_shutdown(signal.what.signal, waited))
}

/// How long a driver may wait for one part of its Ray before it ends the next.
const SHUTDOWN_NS: i64 = 15 * SECOND_NS;

/// Returns whether the driver that signalled `victim` also asked another process that it had
/// started to end, at about that time.
pub(super) fn ends_the_rest(
    case: &Case<'_>,
    signal: &Timestamped<Signal>,
    victim: ProcessKey,
) -> bool {
    let driver = signal.what.sender.process;
    let world = case.world;
    let mut others = world.processes.iter().filter(|state| {
        state.role != Role::Descendant
            && !state.key.same(victim)
            && is_child(case, state.key, driver)
    });
    others.any(|state| {
        let mut signals = world.signals_to(state.key).iter();
        signals.any(|seen| {
            seen.what.sender.process.same(driver)
                && seen.what.signal == stopping::SHUTDOWN_ASKS
                && seen.time.since(signal.time).abs() < SHUTDOWN_NS
        })
    })
}

/// Returns what a sender is to its victim.
pub(super) fn relation(case: &Case<'_>, sender: &Sender) -> Relation {
    let program = by_program(case, sender);
    // slurmstepd starts the tasks that it signals.
    let child = is_child(case, case.key(), sender.process);
    if child && program != Some(Relation::WorkloadManager) {
        return Relation::Parent;
    }
    if let Some(relation) = program {
        return relation;
    }
    let Some(state) = case.world.processes.get(sender.process) else {
        return Relation::Other;
    };
    let same_cluster = match (state.cluster, case.cluster()) {
        (Some(one), Some(other)) => one.same(other),
        // Processes of a wrapped command, and those found without their raylet, have no cluster.
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

/// Returns whether a process that is called a part of Ray may be one. Its name alone does not show
/// that. Its command line must name the session as Ray's processes do, or the raylet must have
/// started it.
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

/// Returns whether sender and victim are known to belong to two jobs.
fn other_jobs(case: &Case<'_>, sender: &ProcessState) -> bool {
    let victim = case.world.processes.get(case.key());
    let jobs = sender.job().zip(victim.and_then(ProcessState::job));
    jobs.is_some_and(|(one, other)| one != other)
}

/// Returns the relation of a sender that runs one of the machine's known programs. Their names are
/// believed for root, and for a sender that may signal another user's process, but not within the
/// victim's own container.
fn by_program(case: &Case<'_>, sender: &Sender) -> Option<Relation> {
    let victim = case.world.processes.get(case.key());
    let container = victim.and_then(|state| state.container_id.as_ref());
    if container.is_some() && container == sender.container_id.as_ref() {
        return None;
    }
    let others = victim
        .and_then(|state| state.uid)
        .is_some_and(|uid| uid != sender.uid);
    if sender.uid != 0 && !others {
        return None;
    }
    let exe = sender.exe.as_deref().map_or("", path::base);
    programs::relation_of_program(exe, &sender.comm)
}
