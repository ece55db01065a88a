//! The words for processes, killers and outcomes that all views share.

use std::{borrow::Cow, collections::HashSet};

use crate::{
    event::{LimitOwner, Role},
    ids::{Bytes, EventId, Pid},
    judge::{
        cause::{Scope, SlurmEnd, SlurmReason},
        live::LiveProcess,
        report::{
            Death, GroupKill, Killer, Mechanism, Memory, Missed, Outcome, Place, Relation, Suspect,
            TopProcess, subprocess,
        },
        timeline::ProcessSeries,
    },
    path,
    phrase::{self, when},
    show::{
        clause::{self, IDLE},
        sanitize,
        size::{Unit, size},
    },
    signals,
};

/// The most bytes of a container's name with that of its pod. Kubernetes allows 63 for a namespace
/// and a container, and 253 for a pod, which a line has no room for.
const CONTAINER: usize = 120;

pub use crate::phrase::{count, join, ranges, thousands};

/// Groups values by their keys, in the order in which the keys come first.
pub fn grouped<K: PartialEq, V>(all: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Returns the text with a capital first letter.
pub fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Returns the name of a process: `TaskRunner.run`, `compute_score`, `python3 train.py`.
pub fn name(death: &Death) -> String {
    let title = death
        .process
        .title
        .as_deref()
        .filter(|title| !title.is_empty());
    let ray_title = title.and_then(|title| title.strip_prefix("ray::"));
    let known = match death.process.role {
        Role::Worker | Role::Agent => ray_title.map(str::to_owned),
        Role::Raylet => Some("raylet".to_owned()),
        Role::Gcs => Some("gcs_server".to_owned()),
        Role::Dashboard => Some("dashboard".to_owned()),
        Role::Driver | Role::Descendant | Role::Other => None,
    };
    let known = known
        .or_else(|| death.work.task_name.clone())
        .or_else(|| death.work.actor_class.clone())
        .or_else(|| title.map(program));
    let comm = || death.process.comm.trim_start_matches("ray::").to_owned();
    let shown = known.filter(|known| !known.is_empty()).unwrap_or_else(comm);
    sanitize::name(idle(&shown))
}

/// Returns the class of a process: its name without the method.
pub fn class(death: &Death) -> String {
    match &death.work.actor_class {
        Some(class) => sanitize::name(class),
        None => name(death),
    }
}

/// Returns the class of one of the biggest processes.
pub fn class_of_top(process: &TopProcess) -> String {
    class_of_role(process.role, &process.title, process.pid)
}

/// Returns the class of the process that held more than the victim.
pub fn class_of_suspect(suspect: &Suspect) -> String {
    class_of_role(suspect.role, &suspect.title, suspect.pid)
}

/// Returns the class of a process by its title. A subprocess may have the title of its worker, and
/// is not that worker.
fn class_of_role(role: Option<Role>, title: &str, pid: Pid) -> String {
    let class = class_of_title(title, pid);
    if role == Some(Role::Descendant) {
        subprocess(&class)
    } else {
        class
    }
}

/// Returns the class of a process by its title or command line.
pub fn class_of_title(title: &str, pid: Pid) -> String {
    let shown = match title.strip_prefix("ray::") {
        None if title.is_empty() => format!("pid {pid}"),
        Some(title) => {
            let title = title.rsplit("<locals>.").next().unwrap_or(title);
            title.split('.').next().unwrap_or(title).to_owned()
        }
        None => program(title),
    };
    sanitize::name(idle(&shown))
}

/// Returns the class of a process of a timeline.
pub fn class_of_series(process: &ProcessSeries) -> String {
    let class = process.actor_class.as_deref();
    class_of(process.role, class, &ran(process), process.process.pid)
}

/// Returns what a worker ran last, by its titles or its calls, if it has been idle since.
fn ran(process: &ProcessSeries) -> Cow<'_, str> {
    let works = |title: &str| {
        title.starts_with("ray::") && !matches!(title, "ray::IDLE" | "ray::start_worker")
    };
    let label = process.label.as_str();
    if process.role != Role::Worker || works(label) {
        return label.into();
    }
    let titles = process.titles.iter().rev().map(|(_, title)| title.as_str());
    let call = process.calls.last();
    let call = call.map(|call| format!("ray::{}", call.task).into());
    let title = titles.map(Cow::from).find(|title| works(title));
    title.or(call).unwrap_or_else(|| label.into())
}

/// Returns the class of a living process.
pub fn class_of_live(process: &LiveProcess) -> String {
    let class = process.actor_class.as_deref();
    class_of(process.role, class, &process.label, process.process.pid)
}

fn class_of(role: Role, actor_class: Option<&str>, label: &str, pid: Pid) -> String {
    match (role, actor_class) {
        (Role::Raylet, _) => "raylet".to_owned(),
        (Role::Gcs, _) => "gcs_server".to_owned(),
        (Role::Dashboard, _) => "dashboard".to_owned(),
        (_, Some(class)) => sanitize::name(class),
        // A worker has Ray's command line until it runs something.
        (Role::Worker, None) if !label.starts_with("ray::") => IDLE.to_owned(),
        _ => class_of_title(label, pid),
    }
}

/// Returns the name of a living process: what it runs, else its program.
pub fn name_of_live(process: &LiveProcess) -> String {
    match process.label.strip_prefix("ray::") {
        Some(title) => sanitize::name(idle(title)),
        None => class_of_live(process),
    }
}

/// Returns who kills at a limit: `Ray's monitor`, `kernel, .../system`.
pub fn who_kills(owner: &LimitOwner) -> String {
    match owner {
        LimitOwner::RayMonitor => "Ray's monitor".to_owned(),
        LimitOwner::Cgroup(path) => format!("kernel, {}", cgroup(path)),
        LimitOwner::Machine => "kernel, machine full".to_owned(),
    }
}

/// Returns the name of a process of a timeline: what it ran last, else its program.
pub fn name_of_series(process: &ProcessSeries) -> String {
    match ran(process).strip_prefix("ray::") {
        Some(title) => sanitize::name(idle(title)),
        None => class_of_series(process),
    }
}

/// Replaces the title of a worker that waits for a lease.
fn idle(name: &str) -> &str {
    let waits = name.strip_prefix("ray::").unwrap_or(name) == "IDLE";
    if waits { IDLE } else { name }
}

/// Returns the program of a command line, and its script if an interpreter runs one. Other
/// arguments are left out.
fn program(command: &str) -> String {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or(command);
    let program = path::base(first);
    let interpreter = ["python", "bash", "sh"]
        .iter()
        .any(|known| program.starts_with(known));
    // Ray starts its own scripts with `python -u`.
    let mut rest = words.skip_while(|word| *word == "-u");
    match (interpreter, rest.next(), rest.next()) {
        (true, Some("-m"), Some(module)) => format!("{program} -m {module}"),
        (true, Some(script), _) if !script.starts_with('-') => {
            format!("{program} {}", path::base(script))
        }
        _ => program.to_owned(),
    }
}

/// Returns the kind of a process, if its name does not say so.
pub fn kind(death: &Death) -> Option<&'static str> {
    match death.process.role {
        Role::Worker if name(death) == IDLE || name(death) == "worker" => None,
        Role::Worker if death.work.actor_class.is_some() || death.work.actor_id.is_some() => {
            Some("actor")
        }
        Role::Worker if death.work.task_name.is_some() => Some("task"),
        Role::Worker => Some("worker"),
        Role::Driver => Some("driver"),
        Role::Agent => Some("agent"),
        Role::Descendant => Some("subprocess"),
        Role::Raylet | Role::Gcs | Role::Dashboard | Role::Other => None,
    }
}

/// Returns a process with what people know it by: `compute_score (task, pid 41877, 3.4 GiB)`.
pub fn subject(death: &Death) -> String {
    let mut details: Vec<String> = Vec::new();
    details.extend(kind(death).map(str::to_owned));
    details.extend((death.process.pid.0 != 0).then(|| format!("pid {}", death.process.pid)));
    if let Some(inside) = death
        .process
        .ns_pid
        .filter(|inside| *inside != death.process.pid)
    {
        let pod = death.process.place.kubernetes.as_ref();
        let named = pod.filter(|_| inside.0 == 1);
        let named = named.and_then(|pod| pod.container_name());
        let place = named.map_or_else(
            || "its container".to_owned(),
            |named| sanitize::line(&named, CONTAINER),
        );
        details.push(format!("pid {inside} in {place}"));
    }
    details.extend(
        death
            .work
            .attempt
            .map(|attempt| format!("attempt {attempt}")),
    );
    details.extend(death.memory.own_private().map(size));
    format!("{}{}", name(death), phrase::in_brackets(&details))
}

/// Returns one line on who ended what. The killer comes first if memory was the reason.
pub fn headline(death: &Death) -> String {
    let alone = headline_of(&subject(death), &[death], &clause(death));
    match death.verdict.act {
        Some(act) if act.death_id == death.id => with_others(death, &alone, act),
        _ => alone,
    }
}

/// Returns the headline of an act that ended several processes. It names the death that stands for
/// the act.
fn with_others(death: &Death, alone: &str, act: GroupKill) -> String {
    let others = act.victims.saturating_sub(1);
    let sender = death.sender.as_ref();
    let sent = sender.and_then(|sender| Some((sender, sender.signal?)));
    match (death.verdict.killer, sent) {
        (Killer::Signal, Some(_)) if let Some(end) = slurm_end(death) => format!(
            "{}: {} processes died; the first: {}",
            sanitize::line(&end.act(), sanitize::EVIDENCE),
            act.victims,
            subject(death)
        ),
        (Killer::Signal, Some((sender, signal))) => {
            let name = sanitize::name(&sender.comm);
            let sender = match sender.pid.0 {
                // Logs seldom have it.
                0 => name,
                pid => format!("{name} {pid}"),
            };
            let (signal, victims) = (signals::name(signal), act.victims);
            let did = if victims == act.signalled {
                format!("{sender} killed {victims} processes with {signal}")
            } else {
                format!(
                    "{sender} sent {signal} to {} processes and killed {victims} of them",
                    act.signalled
                )
            };
            format!("{did}; the first: {}", subject(death))
        }
        _ => format!("{alone} and {others} more in one decision"),
    }
}

/// Returns the headline of several deaths by one killer, from their subject and the clause that
/// holds for all.
pub fn headline_of(subject: &str, deaths: &[&Death], clause: &str) -> String {
    let killer = deaths.first().map(|death| death.verdict.killer);
    match killer {
        Some(Killer::RayMemoryMonitor) => format!("Ray's memory monitor killed {subject}"),
        Some(Killer::KernelOomMemcg) => {
            format!("the kernel killed {subject}{}", full_cgroup(deaths))
        }
        Some(Killer::KernelOomGlobal) if deaths.iter().all(|death| is_machine_oom(death)) => {
            format!("the kernel killed {subject}: the machine was out of memory")
        }
        _ => format!("{subject} {clause}"),
    }
}

/// Returns how Slurm ended a step, but not that somebody asked it to send a signal.
pub(super) fn slurm_end(death: &Death) -> Option<&SlurmEnd> {
    let end = death.verdict.cause.by_slurm();
    end.filter(|end| end.reason != SlurmReason::Requested)
}

fn is_machine_oom(death: &Death) -> bool {
    let oom = death.memory.oom.as_ref();
    let scope = oom.and_then(|oom| oom.constraint);
    scope.is_none_or(|scope| scope == Scope::Global)
}

/// Returns the cgroup that was full and its limit, as far as they are the same for all deaths.
/// Otherwise returns in how many cgroups the processes died.
fn full_cgroup(deaths: &[&Death]) -> String {
    let ooms = deaths.iter().map(|death| death.memory.oom.as_ref());
    let limits = ooms.map(|oom| Some((oom?.cgroup.as_deref()?, oom?.limit_bytes)));
    let limits: Option<HashSet<(&str, Option<Bytes>)>> = limits.collect();
    let Some(limits) = limits else {
        return ": a memory cgroup hit its limit".to_owned();
    };
    let paths: HashSet<&str> = limits.iter().map(|(path, _)| *path).collect();
    let one = paths.iter().next().filter(|_| paths.len() == 1);
    let limit = limits.iter().next().filter(|_| limits.len() == 1);
    let one = one.map(|path| {
        let places = deaths.iter().map(|death| &death.process.place);
        cgroup_name(places, path)
    });
    match (one, limit.and_then(|(_, limit)| *limit)) {
        (Some(name), Some(limit)) => format!(": {name} hit its limit of {}", size(limit)),
        (Some(name), None) => format!(": {name} hit its limit"),
        (None, _) => format!(" in {} memory cgroups, each at its limit", paths.len()),
    }
}

/// Returns what happened to a process, as it follows the name: `was killed by SIGKILL from bash
/// (pid 7)`.
pub fn clause(death: &Death) -> String {
    sanitize::line(&clause::of(death), sanitize::EVIDENCE)
}

/// Returns the same for several that ended like this one: `were ended by SIGKILL from bash (pid
/// 7)`.
pub fn clause_of_many(death: &Death) -> String {
    sanitize::line(&clause::of_many(death), sanitize::EVIDENCE)
}

/// Returns the clause that holds for several deaths, in the plural. `None` if they differ.
pub fn common_clause(deaths: &[&Death]) -> Option<String> {
    let first = clause(deaths.first()?);
    if deaths.iter().any(|death| clause(death) != first) {
        return None;
    }
    Some(clause_of_many(deaths[0]))
}

/// Returns what a cgroup is in Kubernetes, `container ray-head of pod team-a/raycluster-x`, if it is
/// one of these places, else `cgroup` and its path.
pub fn cgroup_name<'a>(mut places: impl Iterator<Item = &'a Place>, path: &str) -> String {
    let named = places.find_map(|place| place.kubernetes.as_ref()?.cgroup_name(path));
    let named = named.unwrap_or_else(|| format!("cgroup {}", cgroup(path)));
    sanitize::line(&named, CONTAINER)
}

/// Shortens a cgroup path to its last two names: `.../ray-node_550e/system`.
pub fn cgroup(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    match names.as_slice() {
        [] => "/".to_owned(),
        [.., parent, own] if names.len() > 2 => format!(
            ".../{}/{}",
            sanitize::line(parent, 30),
            sanitize::line(own, 40)
        ),
        _ => sanitize::line(path, 80),
    }
}

/// Returns how certain it is who ended the process: `PROVEN`, `INFERRED` or `UNKNOWN`, with a mark
/// while evidence may still come. Where the reason is less certain, the text about it says so.
pub fn certainty(death: &Death) -> String {
    let word = death.verdict.certainty.name().to_uppercase();
    let open = when(!death.verdict.settled, ", NOT FINAL");
    format!("{word}{open}")
}

/// Returns `#4711`, or `#2:4711` for a death of the report's recording 2, as `--kill` takes it.
pub fn death_id(id: EventId) -> String {
    match id.recording() {
        0 => format!("#{}", id.row()),
        recording => format!("#{recording}:{}", id.row()),
    }
}

/// Returns the word for how a job ended.
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "SUCCEEDED",
        Outcome::Failed => "FAILED",
        Outcome::Stopped => "STOPPED",
        Outcome::Running => "RUNNING",
        Outcome::Unknown => "UNKNOWN",
    }
}

/// Returns how a signal came about, as a clause.
pub fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Kill => "by kill(2)",
        Mechanism::Tgkill => "by tgkill(2)",
        Mechanism::Sigqueue => "by sigqueue(3)",
        Mechanism::Pidfd => "by pidfd_send_signal(2)",
        Mechanism::CgroupKill => "by writing cgroup.kill",
        Mechanism::ParentDeath => "as its parent-death signal (PR_SET_PDEATHSIG)",
        Mechanism::PidNamespaceExit => "because the init of its pid namespace ended",
        Mechanism::TracerExit => "because its tracer ended (PTRACE_O_EXITKILL)",
        Mechanism::OrphanedGroup => "because it was stopped and no process was left to continue it",
        Mechanism::RlimitCpu => "at its CPU time limit (RLIMIT_CPU)",
        Mechanism::RlimitFsize => "at its limit on the size of a file (RLIMIT_FSIZE)",
        Mechanism::MessageQueue => "for a message in a queue (mq_notify)",
        Mechanism::FileDescriptor => "for a file that became ready (F_SETSIG)",
        Mechanism::Timer => "by an expired timer",
        Mechanism::Tty => "from its terminal",
        Mechanism::Fault => "for its own fault",
        Mechanism::Hwpoison => "for a hardware memory error",
        Mechanism::Oom => "by the OOM killer",
        Mechanism::Unknown => "in an unknown way",
    }
}

/// Returns what a sender is to its victim, if that says more than its name.
pub fn relation(relation: Relation) -> Option<&'static str> {
    match relation {
        Relation::Parent => Some("its parent"),
        Relation::SameJob => Some("a process of the same job"),
        Relation::ContainerRuntime => Some("a container runtime"),
        Relation::WorkloadManager => Some("a workload manager"),
        Relation::OomDaemon => Some("an OOM daemon"),
        Relation::Ray | Relation::Other => None,
    }
}

/// Returns the biggest processes by class: `TaskRunner 402.6 GiB + 4 WorkerDict 32.4 GiB (8.1
/// each); 9 smaller processes held 0.6 GiB`.
///
/// If one of them held a GiB or more, those that would be 0 in GiB are counted with the smaller
/// ones. The text without these comes first.
pub fn biggest(memory: &Memory) -> (String, Option<String>) {
    let mut top = memory.top.iter();
    let large = top.any(|process| process.private_bytes.0 >= 1 << 30);
    let unit = if large { Unit::Gib } else { Unit::Mib };
    let zero = unit.figure(Bytes(0));
    let mut shown = by_class(memory);
    shown.retain(|class| unit.figure(class.average()) != zero);
    let (processes, bytes) = smaller_than(&shown, memory);
    let shown: Vec<String> = shown.iter().map(HeldByClass::amount).collect();
    let smaller = (processes > 0).then(|| smaller_processes(processes, bytes));
    (shown.join(" + "), smaller)
}

/// Returns `9 smaller processes held 0.6 GiB`.
pub fn smaller_processes(processes: u64, private: Bytes) -> String {
    let number = usize::try_from(processes).unwrap_or(usize::MAX);
    let processes = count(number, "smaller process", "smaller processes");
    format!("{processes} held {}", size(private))
}

/// Returns how many processes are in none of the classes that are shown, and what they held.
pub fn smaller_than(shown: &[HeldByClass<'_>], memory: &Memory) -> (u64, Bytes) {
    let top = memory.top.iter().map(|top| top.private_bytes.0);
    let rest = memory.top_rest.as_ref();
    let processes = memory.top.len() as u64 + rest.map_or(0, |rest| u64::from(rest.processes));
    let private = top.sum::<u64>() + rest.map_or(0, |rest| rest.private_bytes.0);
    let of_shown: u64 = shown.iter().map(|class| class.processes).sum();
    let held: u64 = shown.iter().map(|class| class.private.0).sum();
    let left = Bytes(private.saturating_sub(held));
    (processes.saturating_sub(of_shown), left)
}

/// Sizes of a class are alike if the largest is no more than this times their mean.
const UNEVEN: f64 = 1.03;

/// Formats the size of one of several processes of a class. Below a GiB it is in MiB, so that it
/// fits the sum when it is multiplied by their number.
pub fn size_of_one(bytes: Bytes) -> String {
    if bytes.0 < 1 << 30 {
        bytes.finer_size()
    } else {
        size(bytes)
    }
}

/// What the processes of one class held at a death.
#[derive(Debug, Default)]
pub struct HeldByClass<'a> {
    /// The class.
    pub class: String,
    /// The processes of the class that are among the biggest.
    pub top: Vec<&'a TopProcess>,
    /// Number of processes of the class, including the smaller ones.
    pub processes: u64,
    /// Private memory of all of them.
    pub private: Bytes,
}

impl HeldByClass<'_> {
    /// Returns what one of them held on average.
    pub fn average(&self) -> Bytes {
        Bytes(self.private.0 / self.processes.max(1))
    }

    /// Returns `2 WorkerDict 5.9 GiB (2.9 each)`. If the sizes differ, gives the largest instead.
    pub fn amount(&self) -> String {
        let (name, private) = (&self.class, size(self.private));
        if self.processes == 1 {
            return format!("{name} {private}");
        }
        let largest = self.top.iter().map(|process| process.private_bytes).max();
        let uneven = largest.filter(|largest| is_uneven(*largest, self.average()));
        let (one, what) =
            uneven.map_or((self.average(), "each"), |largest| (largest, "the largest"));
        let each = size_of_one(one);
        // The unit is not repeated if it is that of the sum.
        let unit = private.rsplit(' ').next().unwrap_or_default();
        let each = each.strip_suffix(unit).map_or(each.as_str(), str::trim_end);
        match uneven {
            Some(_) => format!("{} {name} {private} ({what} {each})", self.processes),
            None => format!("{} {name} {private} ({each} {what})", self.processes),
        }
    }

    /// Returns `2 WorkerDict (subprocess), 2.9 GiB each with what they share with their parent`.
    pub fn amount_with_shared(&self) -> String {
        let (name, one) = (&self.class, size_of_one(self.average()));
        match self.processes {
            1 => format!("{name} {one}, with what it shares with its parent"),
            many => format!("{many} {name}, {one} each with what they share with their parent"),
        }
    }
}

/// Returns whether the largest process of a class stands out from the mean.
pub fn is_uneven(largest: Bytes, mean: Bytes) -> bool {
    largest.gib() > UNEVEN * mean.gib()
}

/// Returns the biggest processes by class, with the smaller ones of these classes. A class comes
/// where its first process does.
pub fn by_class(memory: &Memory) -> Vec<HeldByClass<'_>> {
    let mut classes: Vec<HeldByClass<'_>> = Vec::new();
    for process in &memory.top {
        let class = class_of_top(process);
        let at = classes.iter().position(|known| known.class == class);
        let at = at.unwrap_or_else(|| {
            classes.push(HeldByClass {
                class,
                ..HeldByClass::default()
            });
            classes.len() - 1
        });
        classes[at].top.push(process);
        classes[at].processes += 1;
        classes[at].private.0 += process.private_bytes.0;
    }
    let rest = memory.top_rest.iter().flat_map(|rest| &rest.classes);
    for more in rest {
        let class = class_of_title(&format!("ray::{}", more.class), Pid(0));
        if let Some(known) = classes.iter_mut().find(|known| known.class == class) {
            known.processes += u64::from(more.processes);
            known.private.0 += more.private_bytes.0;
        }
    }
    classes
}

/// Returns what a report lacks if events were lost.
pub fn what_is_missing(missed: Missed) -> &'static str {
    match missed {
        Missed::Deaths => "deaths may be missing or judged on less evidence",
        Missed::Acts => "who signalled or changed a process may be missing, no death is",
        Missed::CallsAndMemory => "calls and memory may be incomplete, no death is missing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{judge::report::Kubernetes, show::sample};

    /// A container whose pod has a name is called by it, not by its cgroup.
    #[test]
    fn headline_names_the_container() {
        let uid = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
        let id = "a".repeat(64);
        let mut death = sample::burst().deaths.remove(0);
        let named = "container ray-head of pod team-a/head\\e";
        death.process.ns_pid = Some(Pid(1));
        death.process.place.kubernetes = Some(Box::new(Kubernetes {
            namespace: Some("team-a".into()),
            pod: Some("head\u{1b}".into()),
            container: Some("ray-head".into()),
            pod_uid: Some(uid.into()),
            container_id: Some(id.clone()),
            ..Kubernetes::default()
        }));
        let oom = death.memory.oom.as_mut().expect("an OOM kill");
        oom.cgroup = Some(format!("/kubepods/pod{uid}/{id}"));
        let said = headline(&death);
        assert!(said.contains(&format!("pid 1 in {named}")), "{said}");
        let full = format!(": {named} hit its limit of 2.0 GiB");
        assert!(said.ends_with(&full), "{said}");
        death.process.place.kubernetes = None;
        let said = headline(&death);
        assert!(said.contains("pid 1 in its container"), "{said}");
        assert!(said.contains(": cgroup ..."), "{said}");
    }
}
