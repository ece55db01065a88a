//! Lists the facts of one death, each with a label.

use std::time::Duration;

use crate::{
    event::Role,
    ids::{Bytes, HexId},
    judge::{
        cause::Scope,
        report::{
            Certainty, Death, GpuUse, Killer, Kubernetes, Mechanism, MemoryReport, Monitor,
            OomReport, Relation, SenderReport, Setting, TopProcess, subprocess,
        },
    },
    phrase::{self, when},
    ray::{log::monitor_kill, memory_monitor::THRESHOLD},
    show::{
        clause, clocks, gcs, live, minute, sanitize, shared_files,
        size::{of, percent, size, use_above},
        time::span,
        view::View,
        words,
    },
    signals,
};

/// A label of at most eight letters, and its text.
pub type Fact = (&'static str, String);

/// Returns all facts of a death: who ended it and why, the limit, the memory of processes, and what
/// evidence is missing.
pub fn all(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let memory = view.shown.detail || death.is_memory_kill();
    let own = [
        ("trigger", trigger(death)),
        ("memory", memory_line(&death.memory.own).filter(|_| memory)),
        ("largest", biggest(death).filter(|_| memory)),
        ("outside", outside(death).filter(|_| memory)),
        (
            "shared",
            shared_files::at_death(death, view.shown.detail).filter(|_| memory),
        ),
        ("growth", calls(view, death)),
        (
            "before",
            death
                .memory
                .last_minute
                .as_deref()
                .filter(|_| memory)
                .and_then(minute::line),
        ),
        ("warning", warning(death)),
        ("doing", doing(death)),
        ("bigger", suspect(death)),
        ("GPU", gpu(death)),
        ("GCS", gcs::line(death)),
        ("where", place(death)),
        ("clock", clocks::of_death(view, death)),
    ];
    let mut facts = shared(view, death);
    facts.extend(known(own));
    let minute = death
        .memory
        .last_minute
        .as_deref()
        .filter(|_| view.shown.detail);
    let rows = minute.into_iter();
    let rows = rows.flat_map(|minute| minute::table(minute, view.style.width));
    facts.extend(rows.enumerate().map(|(at, row)| match at {
        0 => ("minute", row),
        _ => (minute::ROW, row),
    }));
    facts
}

/// Returns what the first screen and `--kill` leave to a short block: how the memory rose, and
/// where the process ran.
pub fn short(view: &View<'_>, death: &Death, has_facts: bool) -> Vec<Fact> {
    let memory = death.is_memory_kill();
    // The first screen has what the running calls had added.
    let leaks =
        || (death.activity.calls.as_ref()).is_some_and(|calls| calls.per_call_bytes.is_some());
    let minute = death.memory.last_minute.as_deref().filter(|_| memory);
    let told = known([
        (
            "growth",
            calls(view, death).filter(|_| !has_facts || leaks()),
        ),
        ("before", minute.and_then(minute::line)),
        ("warning", warning(death)),
        ("doing", doing(death).filter(|_| !has_facts)),
        ("bigger", suspect(death).filter(|_| !has_facts)),
        ("GPU", gpu(death)),
        ("GCS", gcs::line(death)),
        ("where", place(death)),
        ("clock", clocks::of_death(view, death)),
    ]);
    told.collect()
}

/// `74 s before the kill; the forecast was 60 s to 110 s, TaskRunner growing`.
fn warning(death: &Death) -> Option<String> {
    let warning = death.memory.warning.as_ref()?;
    let told = |ms| live::duration(Duration::from_millis(ms));
    let grower = warning.grower.as_deref();
    let grower = grower.map_or_else(String::new, |name| {
        format!(", {} growing", sanitize::name(name))
    });
    let forecast = match warning.latest_ms {
        ..1000 => "less than 1 s".to_owned(),
        latest => format!("{} to {}", told(warning.soonest_ms), told(latest)),
    };
    Some(format!(
        "{} before the kill; the forecast was {forecast}{grower}",
        told(warning.ms_before)
    ))
}

/// Returns the line that ran last, and how long before the death it was seen.
fn doing(death: &Death) -> Option<String> {
    let line = running(death)?;
    let age = death.activity.stack_age_ms?;
    // A stack from before the call says nothing of it.
    let calls = death.activity.calls.as_ref();
    let running = calls.and_then(|calls| calls.running_ms);
    if running.is_some_and(|running| age > running) {
        return None;
    }
    Some(format!("{line} ({:.1} s before)", age as f64 / 1000.0))
}

/// Stands for a line of Ray, whose lines are not named.
pub(super) const RAYS_OWN: &str = "Ray's own code";

/// Returns the line of the user's own code, and the line that it had called: `reward.py:5 score, in
/// numpy/_core/numeric.py:330 full`.
pub(super) fn running(death: &Death) -> Option<String> {
    let first = first_line(death)?;
    let first = if is_rays(first) {
        RAYS_OWN.to_owned()
    } else {
        sanitize::line(first, 2 * sanitize::NAME)
    };
    let own = death.activity.line_at_death.as_deref();
    let own = own.map(|own| sanitize::line(own, 2 * sanitize::NAME));
    Some(match own.filter(|own| *own != first) {
        Some(own) => format!("{own}, in {first}"),
        None => first,
    })
}

fn first_line(death: &Death) -> Option<&str> {
    let stack = death.activity.stack_at_death.as_deref()?;
    stack.lines().next().map(str::trim)
}

/// Returns whether a line only counts frames of Ray. A stack without a line of the job has one such
/// line.
fn is_rays(line: &str) -> bool {
    line.starts_with('(')
}

/// Returns whether a line of the job's own code is known to have run.
pub(super) fn runs_own_code(death: &Death) -> bool {
    death.activity.line_at_death.is_some() || first_line(death).is_some_and(|line| !is_rays(line))
}

/// Returns the pod and the Slurm job, as `kubectl` and `squeue` name them.
fn place(death: &Death) -> Option<String> {
    let pod = death.process.place.kubernetes.as_deref().map(pod);
    let job = death.process.place.slurm.as_ref().map(|slurm| {
        let step = slurm.step_id.as_deref();
        let step = step.map_or_else(String::new, |step| format!(".{}", sanitize::name(step)));
        format!("Slurm job {}{step}", sanitize::name(&slurm.job_id))
    });
    phrase::known([pod, job], ", ")
}

fn pod(pod: &Kubernetes) -> String {
    let name = pod.pod.as_deref().map(sanitize::name);
    let namespace = pod.namespace.as_deref().map(sanitize::name);
    let name = match (namespace, name) {
        (Some(namespace), Some(name)) => format!("pod {namespace}/{name}"),
        (Some(namespace), None) => format!("namespace {namespace}"),
        (None, Some(name)) => format!("pod {name}"),
        (None, None) => "a pod".to_owned(),
    };
    let details = known([
        ("cluster", pod.cluster.as_deref().map(sanitize::name)),
        ("group", pod.group.as_deref().map(sanitize::name)),
        (
            "uid",
            pod.pod_uid.as_deref().map(|uid| sanitize::line(uid, 36)),
        ),
        ("container", container(pod)),
    ]);
    let details: Vec<String> = details
        .map(|(what, name)| format!("{what} {name}"))
        .collect();
    format!("{name}{}", phrase::in_brackets(&details))
}

/// Returns the name of a container and the begin of its id.
fn container(pod: &Kubernetes) -> Option<String> {
    let name = pod.container.as_deref().map(sanitize::name);
    let id = pod.container_id.as_deref();
    let id = id.map(|id| sanitize::line(id, 12));
    phrase::known([name, id], " ")
}

fn known<const N: usize>(facts: [(&'static str, Option<String>); N]) -> impl Iterator<Item = Fact> {
    let facts = facts.into_iter();
    facts.filter_map(|(label, text)| Some((label, text?)))
}

/// Returns the facts that similar deaths can have in common.
pub fn shared(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let sender = death.sender.as_ref();
    known([
        ("who", sender.map(who)),
        ("why", why(view, death)),
        ("cause", remote_cause(death)),
        ("missing", missing(view, death)),
        ("limit", death.memory.oom.as_deref().and_then(limit)),
        ("monitor", late_monitor(view, death)),
    ])
    .collect()
}

/// Returns who sent which signal. It is not always the signal that ended the process.
fn who(sender: &SenderReport) -> String {
    let signal = sender
        .signal
        .map_or_else(String::new, |signal| format!("{} ", signals::name(signal)));
    // Logs name a program and its signal, and seldom its pid.
    let from_logs = sender.mechanism == Mechanism::Unknown && sender.uid.is_none();
    let is_program = matches!(
        sender.relation,
        Relation::OomDaemon | Relation::ContainerRuntime | Relation::WorkloadManager
    );
    let how = if from_logs && is_program {
        ""
    } else {
        words::mechanism(sender.mechanism)
    };
    let mut text = match sender.pid.0 {
        0 if is_program => sanitize::name(&sender.comm),
        0 => return format!("the kernel: {signal}{how}"),
        pid => format!("{} {pid}", sanitize::name(&sender.comm)),
    };
    let mut details: Vec<String> = Vec::new();
    // Logs name the kubelet and batch systems too.
    let relation = words::relation(sender.relation)
        .filter(|_| !from_logs || !is_program || sender.relation == Relation::OomDaemon);
    details.extend(relation.map(str::to_owned));
    if sender.relation != Relation::Ray {
        details.extend(sender.uid.map(|uid| format!("uid {uid}")));
        details.extend(sender.exe.as_deref().map(|exe| sanitize::line(exe, 80)));
    }
    details.extend(
        sender
            .container_id
            .as_deref()
            .map(|id| format!("container {}", sanitize::line(id, 12))),
    );
    text.push_str(&phrase::in_brackets(&details));
    let signalled = format!(": {signal}{how}");
    text.push_str(signalled.trim_end_matches([':', ' ']));
    if !sender.ancestors.is_empty() {
        let above: Vec<String> = sender
            .ancestors
            .iter()
            .map(|one| format!("{} {}", sanitize::name(&one.comm), one.pid))
            .collect();
        text.push_str(&format!("; started by {}", above.join(" ← ")));
    }
    text
}

/// Returns what Ray's memory monitor counted, and how far that was above its threshold; why Slurm
/// ended a job, which the headline of several deaths has not. For other killers, returns where the
/// reason comes from, if that is less certain than who acted.
pub(super) fn why(view: &View<'_>, death: &Death) -> Option<String> {
    let stands = death
        .verdict
        .act
        .is_some_and(|act| act.death_id == death.id);
    if let Some(end) = words::slurm_end(death).filter(|_| stands) {
        return Some(clause::slurm_reason(end));
    }
    if death.verdict.killer != Killer::RayMemoryMonitor {
        let reason = death.verdict.reason_certainty;
        let differs = reason != death.verdict.certainty && !death.is_memory_kill();
        return differs.then(|| source_of_reason_alone(reason).to_owned());
    }
    let at = death.memory.at_death.as_ref()?;
    let used = at.ray_used_bytes?;
    let message = Some(printed(death, used)).filter(|_| view.shown.detail);
    let message = message.unwrap_or_default();
    let place = match (counted_cgroup(view, death), counted_limit(view, death)) {
        (Some(path), _) => format!(" in cgroup {}", sanitize::name(&words::cgroup(path))),
        (None, Some(limit)) => format!(" in its cgroup of {}", size(limit)),
        (None, None) => String::new(),
    };
    let source = format!("{}{}", set_by(view, death), source_of_reason(death));
    Some(match at.ray_threshold_bytes {
        Some(threshold) if threshold < used => {
            let above = above(Bytes(used.0 - threshold.0));
            let (counted, limit) = (used.finer_size(), threshold.finer_size());
            format!(
                "Ray counted {counted}{place}, {above} above its threshold of {limit}{message}{source}"
            )
        }
        Some(threshold) => {
            let (used, threshold) = use_above(used, threshold);
            format!("Ray counted {used}{place}; it kills above {threshold}{message}{source}")
        }
        None => format!("Ray counted {}{place}{message}{source}", size(used)),
    })
}

/// Returns `, set by RAY_memory_usage_threshold=0.36` where that variable of the raylet has made the
/// threshold of a kill low, and no remedy of this kill names it.
fn set_by(view: &View<'_>, death: &Death) -> String {
    let report = &view.shown.report;
    let named = report.findings.iter().any(|one| {
        let mut remedies = one.remedy.iter();
        one.deaths.contains(&death.id) && remedies.any(|text| text.starts_with(THRESHOLD))
    });
    let of_raylet = |one: &&Setting| {
        let own = one.cluster == death.cluster && one.effective;
        own && one.source.starts_with("environment of raylet")
    };
    let settings = || report.settings.iter().filter(of_raylet);
    // That variable raises the threshold.
    let raised = settings().any(|one| one.key == "RAY_min_memory_free_bytes");
    let set = settings().find(|one| one.key == THRESHOLD && !raised);
    set.filter(|_| !named).map_or_else(String::new, |one| {
        format!(", set by {THRESHOLD}={}", sanitize::name(&one.value))
    })
}

/// Below this, a difference has a decimal in MiB.
const SMALL: u64 = 10 << 20;

/// `0.5 MiB`, `17 MiB`, `1.2 GiB`.
fn above(difference: Bytes) -> String {
    match difference.0 {
        ..SMALL => format!("{:.1} MiB", difference.gib() * 1024.0),
        _ => difference.finer_size(),
    }
}

/// Returns ` (by Ray's log)` if who acted was seen, and the reason is known from the log alone.
pub(super) fn source_of_reason(death: &Death) -> &'static str {
    let verdict = &death.verdict;
    match (verdict.certainty, verdict.reason_certainty) {
        (Certainty::Proven, Certainty::Inferred) => " (by Ray's log)",
        (Certainty::Proven, Certainty::Unknown) => " (the reason is not certain)",
        _ => "",
    }
}

/// Says the same for a death whose headline has the reason.
fn source_of_reason_alone(reason: Certainty) -> &'static str {
    match reason {
        Certainty::Proven => "the reason was seen; who acted was not",
        Certainty::Inferred => "the reason is by a log, or by the order of events",
        Certainty::Unknown => "unknown: who acted was seen, the reason was not",
    }
}

/// Returns the memory monitor of the raylet that the process belonged to.
fn monitor<'a>(view: &View<'a>, death: &Death) -> Option<&'a Monitor> {
    view.shown.report.cluster_of(death)?.monitor.as_ref()
}

/// Returns what Ray's memory monitor takes for the node's memory, if that is less than the machine
/// has.
fn counted_limit(view: &View<'_>, death: &Death) -> Option<Bytes> {
    let total = monitor(view, death)?.total_bytes?;
    let report = &view.shown.report;
    let mut machines = report.machines.iter();
    let own = machines.find(|machine| Some(machine.recording_id) == death.recording_id);
    let peak = own.map_or(report.peak, |machine| machine.peak);
    let machine = peak?.total_bytes;
    (total.gib() < LESS_THAN_ALL * machine.gib()).then_some(total)
}

/// Returns the cgroup that Ray's memory monitor counts instead of the machine: its limit is what
/// the monitor takes for the node's memory.
fn counted_cgroup<'a>(view: &View<'a>, death: &'a Death) -> Option<&'a str> {
    let total = monitor(view, death)?.total_bytes?;
    let limits = &death.memory.at_death.as_ref()?.limits;
    let its = limits.iter().find(|one| one.limit_bytes == Some(total));
    its.map(|one| one.cgroup.as_str())
}

/// ` (counted again for its message: 5.72 GiB, which Ray calls GB)`.
fn printed(death: &Death, decided: Bytes) -> String {
    let mut evidence = death.verdict.evidence.iter();
    let figure = evidence.find_map(|piece| monitor_kill::rounded(&piece.what));
    // Ray prints two decimals.
    let another = figure.filter(|figure| (figure.gib() - decided.gib()).abs() > 0.01);
    another.map_or_else(String::new, |figure| {
        let gib = figure.gib();
        format!(" (counted again for its message: {gib:.2} GiB, which Ray calls GB)")
    })
}

fn limit(oom: &OomReport) -> Option<String> {
    let charging = oom
        .charging
        .as_deref()
        .map_or_else(String::new, |charging| {
            format!(", while charging {}", sanitize::name(charging))
        });
    let figures = match (oom.usage_bytes, oom.limit_bytes) {
        (Some(usage), Some(limit)) => format!(" {}", of(usage, limit)),
        (None, Some(limit)) => format!(" {}", size(limit)),
        _ => String::new(),
    };
    let Some(cgroup) = oom.cgroup.as_deref() else {
        let charged = oom.charging.is_some();
        return match oom.constraint {
            Some(Scope::Global) => charged.then(|| {
                format!("the whole machine's memory, not the limit of a cgroup{charging}")
            }),
            Some(Scope::Memcg) if figures.is_empty() => Some(format!(
                "that of a cgroup; which one is not known{charging}"
            )),
            Some(Scope::Memcg) => Some(format!("a cgroup with an unknown name{figures}{charging}")),
            _ => charged.then(|| charging.trim_start_matches(", ").to_owned()),
        };
    };
    let own = oom.task_cgroup.as_deref().filter(|own| *own != cgroup);
    let own = own.map_or_else(String::new, |own| {
        format!("; the process was in {}", words::cgroup(own))
    });
    Some(format!("{}{figures}{charging}{own}", words::cgroup(cgroup)))
}

/// Returns which process asked for the memory, if it was not the one that died. No process did if
/// the kill was invoked by hand.
fn trigger(death: &Death) -> Option<String> {
    let oom = death.memory.oom.as_ref();
    let oom = oom.filter(|oom| oom.constraint != Some(Scope::Sysrq))?;
    let pid = oom.invoker_pid.filter(|pid| *pid != death.process.pid)?;
    let comm = oom
        .invoker_comm
        .as_deref()
        .map_or_else(String::new, |comm| format!("{} ", sanitize::name(comm)));
    let top = &death.memory.top;
    let most = top.first().map_or(0, |top| top.private_bytes.0);
    let mut large = top
        .iter()
        .filter(|top| top.private_bytes.0 * SHARE_OF_LARGEST >= most);
    let what = if large.any(|top| top.pid == pid) {
        "that alone does not make it the cause"
    } else {
        "not the cause"
    };
    Some(format!(
        "{comm}{pid} happened to allocate when the limit was hit; {what}"
    ))
}

/// Returns the memory of the process that died.
fn memory_line(memory: &MemoryReport) -> Option<String> {
    let resident = memory.resident()?;
    let parts = [
        (memory.anon_bytes, "anonymous"),
        (memory.shmem_bytes, "shared memory"),
        (memory.file_bytes, "file"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter_map(|(bytes, name)| Some((bytes.filter(|bytes| bytes.0 >= 1 << 20)?, name)))
        .map(|(bytes, name)| format!("{} {name}", size(bytes)))
        .collect();
    let mut text = format!("{} resident", size(resident));
    if parts.len() > 1 {
        text.push_str(&format!(" = {}", parts.join(" + ")));
    }
    if let Some(own) = memory
        .own_bytes
        .filter(|_| memory.shared_by_fork().is_some())
    {
        let own = size(own);
        text.push_str(&format!(
            ", of the anonymous {own} private: a fork shares the rest with its parent"
        ));
    }
    if let Some(swap) = memory.swap_bytes.filter(|swap| swap.0 > 0) {
        text.push_str(&format!(", {} in swap", size(swap)));
    }
    if let Some(peak) = memory.peak_bytes.filter(|peak| peak.0 > resident.0) {
        text.push_str(&format!(", peak {}", size(peak)));
    }
    if let Some(age) = memory.age_ms.filter(|age| *age > 0) {
        text.push_str(&format!(
            " (sampled {} before the death)",
            milliseconds(age)
        ));
    }
    Some(text)
}

/// Returns which call the process died in, and the memory that earlier calls left behind.
fn calls(view: &View<'_>, death: &Death) -> Option<String> {
    let calls = death.activity.calls.as_ref()?;
    let told = calls.per_call_bytes.is_some() || calls.complete > 0;
    let task = sanitize::name(&calls.task);
    let counted = when(!calls.from_start, " since the recording began");
    let died = calls.died_in.map(|number| {
        let into = calls.running_ms.map_or_else(
            || " in".to_owned(),
            |ms| format!(" {} into", milliseconds(ms)),
        );
        format!("died{into} call {number} of {task}{counted}")
    });
    let end = death.memory.own.private();
    let rose = match (calls.before_bytes, calls.peak_bytes) {
        (Some(before), Some(peak)) if peak.0 >= before.0 + (10 << 20) => {
            let added = |bytes: Bytes| size(Bytes(bytes.0.saturating_sub(before.0)));
            let highest = added(peak);
            match end.map(added).filter(|end| *end != highest) {
                Some(end) => {
                    format!(", which had added {highest} at its highest, {end} at the end")
                }
                None => format!(", which had added {highest}"),
            }
        }
        _ => String::new(),
    };
    let died = died.map(|died| format!("{died}{rose}"));
    let each = calls.per_call_bytes.map(|each| {
        let whose = if died.is_some() {
            String::new()
        } else {
            format!(" of {task}")
        };
        let complete = calls.complete;
        let plural = when(complete != 1, "s");
        format!(
            "grows {} per call{whose}, {complete} call{plural}, never freed",
            each.finer_size()
        )
    });
    let grew = death.verdict.killer.is_memory_kill() && !rose.is_empty();
    phrase::known([each, died], "; ").filter(|_| told || grew || view.shown.detail)
}

/// A total below this share of the machine's memory is another one's.
const LESS_THAN_ALL: f64 = 0.98;

/// A process counts for the age of the samples if it held at least the largest figure divided by
/// this.
const SHARE_OF_LARGEST: u64 = 4;

/// Returns the biggest processes of the node, by class.
fn biggest(death: &Death) -> Option<String> {
    death
        .memory
        .top
        .first()
        .filter(|top| top.private_bytes.0 > 0)?;
    let most = death.memory.top.first()?.private_bytes.0;
    let matters = |one: &&TopProcess| one.private_bytes.0 * SHARE_OF_LARGEST >= most;
    let aged = death.memory.top.iter().filter(matters);
    let age = aged.filter_map(|one| one.age_ms).max();
    let age = age
        .filter(|age| *age > 1000)
        .map_or_else(String::new, |age| {
            format!(" (sampled up to {} before)", milliseconds(age))
        });
    let (shown, smaller) = words::biggest(&death.memory);
    if shown.is_empty() {
        return None;
    }
    let memcg = death.verdict.killer == Killer::KernelOomMemcg;
    // The kernel's report, which texts have, lists the tasks of the cgroup.
    let inside = death.memory.top_outside.is_some() || death.recording_id.is_none();
    let scope = match (memcg, inside) {
        (true, true) => " in the cgroup",
        (true, false) => " of all recorded processes",
        (false, _) => "",
    };
    // Ray's logs list what it counts for each process.
    let by_ray = death.recording_id.is_none() && !memcg;
    let measure = if by_ray {
        "by Ray's count (USS, which leaves out what forked children share)"
    } else {
        "of private memory"
    };
    let smaller = smaller.map_or_else(String::new, |text| format!("; {text}"));
    let more = counted_twice(death).map_or_else(String::new, |text| format!(" ({text})"));
    Some(format!("{shown} {measure}{scope}{age}{smaller}{more}"))
}

/// Returns what the processes outside the cgroup at its limit held.
fn outside(death: &Death) -> Option<String> {
    let outside = death.memory.top_outside.as_ref()?;
    let held = size(outside.private_bytes);
    let many = usize::try_from(outside.processes).unwrap_or(usize::MAX);
    let processes = words::count(many, "process", "processes");
    (many > 0).then(|| {
        format!("{held} in {processes} outside the cgroup, which does not count against its limit")
    })
}

/// Why figures of processes add up to more than was in use.
pub(super) const SHARED_BY_FORK: &str =
    "each child made by fork counts what it shares with its parent";

/// Returns a remark if what forked children share counts for them too. Recordings of earlier
/// versions have no figures of that.
pub(super) fn counted_twice(death: &Death) -> Option<String> {
    if is_more_than_was_in_use(death) {
        return Some(format!("together more than was in use: {SHARED_BY_FORK}"));
    }
    has_child_like_its_parent(&death.memory.top).then(|| SHARED_BY_FORK.to_owned())
}

/// Returns whether a child has the title of its worker and as much private memory.
fn has_child_like_its_parent(top: &[TopProcess]) -> bool {
    let of_worker = |child: &TopProcess| {
        top.iter().any(|worker| {
            worker.role == Some(Role::Worker)
                && worker.title == child.title
                && worker.private_bytes.0.abs_diff(child.private_bytes.0)
                    <= worker.private_bytes.0 / 100
        })
    };
    top.iter()
        .filter(|one| one.role == Some(Role::Descendant) && one.title.starts_with("ray::"))
        .any(of_worker)
}

/// Returns whether the private memory of the processes adds up to more than was in use.
fn is_more_than_was_in_use(death: &Death) -> bool {
    let at_death = death.memory.at_death.as_ref();
    let Some(used) = at_death.and_then(|at| at.ray_used_bytes) else {
        return false;
    };
    let (_, all) = words::smaller_than(&[], &death.memory);
    let has_children = words::by_class(&death.memory)
        .iter()
        .any(|class| class.class.ends_with(&subprocess("")));
    has_children && all.0 > used.0 + used.0 / 20
}

/// Returns the process that held the memory, if the victim did not.
pub fn suspect(death: &Death) -> Option<String> {
    let suspect = death.memory.suspect.as_ref()?;
    let at_death = death.memory.at_death.as_ref();
    let used = at_death.and_then(|at| at.ray_used_bytes);
    let figures = |bytes: Bytes| match used {
        Some(used) => format!("{}, {}", size(bytes), percent(bytes, used)),
        None => size(bytes),
    };
    let of_what = used.map_or("", |_| " of what Ray counted");
    Some(format!(
        "{}, pid {}, held {}{of_what}; the victim held {}",
        words::class_of_suspect(suspect),
        suspect.pid,
        figures(suspect.private_bytes),
        figures(suspect.victim_private_bytes),
    ))
}

/// Returns what the process held on GPUs. For a memory kill while all GPUs had room, this adds that
/// it was not an OOM of a GPU.
fn gpu(death: &Death) -> Option<String> {
    let figures = |gpu: &GpuUse| of(gpu.used_bytes, gpu.total_bytes);
    let first = death.memory.gpu.first()?;
    let even = death
        .memory
        .gpu
        .iter()
        .all(|gpu| figures(gpu) == figures(first));
    let text = match death.memory.gpu.len() {
        1 => format!("{} on GPU {}", figures(first), first.device),
        many if even => format!("{} on each of {many}", figures(first)),
        _ => {
            let gpus = death.memory.gpu.iter();
            let shown: Vec<String> = gpus
                .map(|gpu| format!("GPU {}: {}", gpu.device, figures(gpu)))
                .collect();
            shown.join(", ")
        }
    };
    let other =
        death.verdict.killer.is_memory_kill() && death.memory.gpu.iter().all(GpuUse::has_room);
    Some(if other {
        format!("{text}: not a GPU OOM")
    } else {
        text
    })
}

fn remote_cause(death: &Death) -> Option<String> {
    let remote = death.verdict.cause_remote.as_ref()?;
    Some(sanitize::line(&clause::remote(remote), sanitize::EVIDENCE))
}

fn missing(view: &View<'_>, death: &Death) -> Option<String> {
    let missing = clause::missing(death.verdict.missing.as_ref()?);
    Some(sanitize::line(
        &view.adapt_command(&missing),
        sanitize::LONGEST,
    ))
}

/// Returns why Ray's memory monitor did not act before the kernel did in a full cgroup.
pub(super) fn late_monitor(view: &View<'_>, death: &Death) -> Option<String> {
    let limit = death.memory.oom.as_ref()?.limit_bytes?;
    let monitor = monitor(view, death)?;
    if !monitor.enabled {
        return Some("Ray's memory monitor is off: only the kernel kills".to_owned());
    }
    let threshold = monitor.threshold_bytes?;
    if threshold > limit {
        let threshold = match counted_limit(view, death) {
            Some(total) => format!("{}, in its cgroup", of(threshold, total)),
            None => size(threshold),
        };
        return Some(format!("Ray would have acted only above {threshold}"));
    }
    // The monitor counts the memory that this limit bounds.
    let every = monitor
        .refresh_ms
        .map_or_else(String::new, |every| format!(" and checks every {every} ms"));
    (monitor.total_bytes == Some(limit)).then(|| {
        format!(
            "Ray's monitor acts above {}{every}; it had not acted yet when this limit was hit",
            size(threshold)
        )
    })
}

/// Returns ids and origin, for one first cause that was asked for.
pub fn identity(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let title = death.process.title.as_deref();
    known([
        ("ids", Some(ids(death))),
        (
            "title",
            title.map(|title| sanitize::line(title, sanitize::EVIDENCE)),
        ),
        ("process", origin(view, death)),
    ])
    .collect()
}

fn ids(death: &Death) -> String {
    let full = |id: &Option<HexId>| id.as_ref().map(|id| sanitize::line(&id.0, 64));
    let ids = [
        ("worker", full(&death.work.worker_id)),
        ("actor", full(&death.work.actor_id)),
        ("job", full(&death.work.job_id)),
        ("death", Some(words::death_id(death.id))),
    ];
    let ids: Vec<String> = known(ids)
        .map(|(what, id)| format!("{what} {id}"))
        .collect();
    ids.join(", ")
}

fn origin(view: &View<'_>, death: &Death) -> Option<String> {
    let score = death.memory.oom.as_ref().and_then(|oom| oom.score_adj);
    let container = death.process.container_id.as_deref();
    let origin = [
        death
            .process
            .start_time
            .map(|time| format!("started {}", view.time(Some(time)))),
        death.process.ppid.map(|parent| format!("parent {parent}")),
        score.map(|score| format!("oom_score_adj {score}")),
        container.map(|id| format!("container {}", sanitize::line(id, 64))),
    ];
    phrase::known(origin, ", ")
}

fn milliseconds(age: u64) -> String {
    span(age.saturating_mul(1_000_000))
}
