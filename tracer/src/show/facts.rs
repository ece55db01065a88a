//! The facts of one death, one labelled line each.

use crate::{
    ids::{Bytes, HexId},
    judge::report::{
        Death, GpuUse, Killer, MemoryReport, OomReport, Relation, SenderReport, TopProcess,
    },
    show::{
        gcs, minute, sanitize, shared_files,
        size::{of, percent, share, size},
        time::span,
        view::View,
        words,
    },
    signals,
};

/// An allocation on a GPU fails above this share: blocks are large.
const FULL_GPU: f64 = 0.95;

/// A victim that held less than this share of what the biggest process held was not what grew.
const SMALL_VICTIM: f64 = 0.5;

/// A label of at most eight letters, and what it says.
pub type Fact = (&'static str, String);

/// Who, why, which limit, whose memory, and what would settle what is not known.
#[must_use]
pub fn all(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let memory = view.shown.detail || words::is_memory_kill(death.verdict.killer);
    let own = [
        ("trigger", trigger(death)),
        ("memory", memory_line(&death.memory).filter(|_| memory)),
        ("biggest", biggest(death).filter(|_| memory)),
        (
            "shared",
            shared_files::at_death(death, view.shown.detail).filter(|_| memory),
        ),
        ("growth", calls(view, death)),
        (
            "before",
            death
                .last_minute
                .as_ref()
                .filter(|_| memory)
                .and_then(minute::line),
        ),
        ("doing", doing(death)),
        ("suspect", suspect(death)),
        ("GPU", gpu(death)),
        ("GCS", gcs::line(death)),
    ];
    let mut facts = shared(view, death);
    facts.extend(known(own));
    let minute = death.last_minute.as_ref().filter(|_| view.shown.detail);
    facts.extend(
        minute
            .into_iter()
            .flat_map(|minute| minute::table(minute, view.style.width))
            .map(|line| ("minute", line)),
    );
    facts
}

/// The line that ran last, and how long before its death that was seen.
fn doing(death: &Death) -> Option<String> {
    let line = death.stack_at_death.as_deref()?.lines().next()?;
    let line = sanitize::line(line, 2 * sanitize::NAME);
    let age = death.stack_age_ms?;
    Some(format!("{line} ({:.1} s before)", age as f64 / 1000.0))
}

fn known<const N: usize>(facts: [(&'static str, Option<String>); N]) -> impl Iterator<Item = Fact> {
    let facts = facts.into_iter();
    facts.filter_map(|(label, text)| Some((label, text?)))
}

/// The facts that hold for deaths that are alike.
#[must_use]
pub fn shared(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let sender = death.sender.as_ref();
    known([
        ("who", sender.map(who)),
        ("why", why(death)),
        ("cause", remote_cause(death)),
        ("settle", missing(death)),
        ("limit", death.oom.as_ref().and_then(limit)),
        ("monitor", late_monitor(view, death)),
    ])
    .collect()
}

/// Who sent which signal: not always the one that ended the process.
fn who(sender: &SenderReport) -> String {
    let signal = sender
        .signal
        .map_or_else(String::new, |signal| format!("{} ", signals::name(signal)));
    let how = words::mechanism(sender.mechanism);
    if sender.pid.0 == 0 {
        return format!("the kernel: {signal}{how}");
    }
    let mut text = format!("{} {}", sanitize::name(&sender.comm), sender.pid);
    let mut details: Vec<String> = Vec::new();
    details.extend(words::relation(sender.relation).map(str::to_owned));
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
    if !details.is_empty() {
        text.push_str(&format!(" ({})", details.join(", ")));
    }
    text.push_str(&format!(": {signal}{how}"));
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

/// What Ray's monitor counted.
fn why(death: &Death) -> Option<String> {
    if death.verdict.killer != Killer::RayMemoryMonitor {
        return None;
    }
    let at = death.at_death.as_ref()?;
    let used = size(at.ray_used_bytes?);
    Some(match at.ray_threshold_bytes {
        Some(threshold) => {
            format!(
                "Ray counted {used} in use; it kills above {}",
                size(threshold)
            )
        }
        None => format!("Ray counted {used} in use"),
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
        return match oom.constraint.as_deref() {
            Some("none") => charged.then(|| format!("none of a cgroup: the machine{charging}")),
            Some("memcg") => Some(format!(
                "a cgroup whose name was not seen{figures}{charging}"
            )),
            _ => charged.then(|| charging.trim_start_matches(", ").to_owned()),
        };
    };
    let own = oom.task_cgroup.as_deref().filter(|own| *own != cgroup);
    let own = own.map_or_else(String::new, |own| {
        format!("; the process was in {}", words::cgroup(own))
    });
    Some(format!("{}{figures}{charging}{own}", words::cgroup(cgroup)))
}

/// Who asked for the memory, where it was another process.
fn trigger(death: &Death) -> Option<String> {
    let oom = death.oom.as_ref()?;
    let pid = oom.invoker_pid.filter(|pid| *pid != death.pid)?;
    let comm = oom
        .invoker_comm
        .as_deref()
        .map_or_else(String::new, |comm| format!("{} ", sanitize::name(comm)));
    Some(format!("{comm}{pid} asked for the page; that is not guilt"))
}

/// The dead process's own memory.
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

/// Which call it died in, and what the calls before left behind.
fn calls(view: &View<'_>, death: &Death) -> Option<String> {
    let calls = death.calls.as_ref()?;
    let told = calls.per_call_bytes.is_some() || calls.complete > 0;
    let task = sanitize::name(&calls.task);
    let counted = if calls.from_start {
        ""
    } else {
        " since the recording began"
    };
    let died = calls.died_in.map(|number| {
        let into = calls.running_ms.map_or_else(
            || " in".to_owned(),
            |ms| format!(" {} into", milliseconds(ms)),
        );
        format!("died{into} call {number} of {task}{counted}")
    });
    let rose = match (calls.before_bytes, calls.peak_bytes) {
        (Some(before), Some(peak)) if peak.0 >= before.0 + (10 << 20) => {
            format!(", which had added {}", size(Bytes(peak.0 - before.0)))
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
        let plural = if complete == 1 { "" } else { "s" };
        format!(
            "+{} a call{whose} over {complete} call{plural}, never returned",
            each.fine()
        )
    });
    let parts: Vec<String> = [each, died].into_iter().flatten().collect();
    (!parts.is_empty() && (told || view.shown.detail)).then(|| parts.join("; "))
}

/// The biggest processes of the node, by class.
fn biggest(death: &Death) -> Option<String> {
    death.top.first().filter(|top| top.private_bytes.0 > 0)?;
    let age = death.top.iter().filter_map(|one| one.age_ms).max();
    let age = age
        .filter(|age| *age > 1000)
        .map_or_else(String::new, |age| {
            format!(" (sampled up to {} before)", milliseconds(age))
        });
    let shown = words::biggest(&death.top);
    // The biggest of the machine may lie outside the cgroup that was full.
    let memcg = death.verdict.killer == Killer::KernelOomMemcg;
    let scope = match (memcg, death.recording_id) {
        (true, Some(_)) => " on the whole node",
        // The kernel's report lists the tasks of the cgroup.
        (true, None) => " in the cgroup",
        (false, _) => "",
    };
    Some(format!("{shown} of private memory{scope}{age}"))
}

/// Who held the memory, where the victim did not. In a cgroup that was full said only of who was in it: the biggest process of the
/// machine may lie outside.
fn suspect(death: &Death) -> Option<String> {
    let biggest = death.top.first().filter(|top| !top.victim)?;
    let counts = match death.verdict.killer {
        Killer::RayMemoryMonitor | Killer::KernelOomGlobal => true,
        Killer::KernelOomMemcg => death.oom.as_ref().is_some_and(|oom| oom.counts(biggest)),
        _ => false,
    };
    if !counts {
        return None;
    }
    let own = own_private(death)?;
    if share(own, biggest.private_bytes) >= SMALL_VICTIM {
        return None;
    }
    let used = death.at_death.as_ref().and_then(|at| at.ray_used_bytes);
    let figures = |bytes: Bytes| match used {
        Some(used) => format!("{}, {}", size(bytes), percent(bytes, used)),
        None => size(bytes),
    };
    let of_what = used.map_or("", |_| " of what Ray counted");
    Some(format!(
        "not the victim ({}): {}, pid {}, held {}{of_what}",
        figures(own),
        words::class_of_top(biggest),
        biggest.pid,
        figures(biggest.private_bytes),
    ))
}

fn own_private(death: &Death) -> Option<Bytes> {
    let listed = death.top.iter().find(|top| top.victim);
    listed
        .map(|top: &TopProcess| top.private_bytes)
        .or(death.memory.anon_bytes)
}

/// What it held on GPUs; beside a kill for memory also that it was not the GPUs', where they had room.
fn gpu(death: &Death) -> Option<String> {
    let figures = |gpu: &GpuUse| of(gpu.used_bytes, gpu.total_bytes);
    let first = death.gpu.first()?;
    let even = death.gpu.iter().all(|gpu| figures(gpu) == figures(first));
    let text = match death.gpu.len() {
        1 => format!("{} on GPU {}", figures(first), first.device),
        many if even => format!("{} on each of {many}", figures(first)),
        _ => {
            let gpus = death.gpu.iter();
            let shown: Vec<String> = gpus
                .map(|gpu| format!("GPU {}: {}", gpu.device, figures(gpu)))
                .collect();
            shown.join(", ")
        }
    };
    let has_room = |gpu: &GpuUse| {
        let used = gpu.device_used_bytes;
        used.is_some_and(|used| share(used, gpu.total_bytes) < FULL_GPU)
    };
    let other = words::is_memory_kill(death.verdict.killer) && death.gpu.iter().all(has_room);
    Some(if other {
        format!("{text}: not a GPU OOM")
    } else {
        text
    })
}

fn remote_cause(death: &Death) -> Option<String> {
    let words = death.verdict.cause_remote.as_deref()?;
    Some(sanitize::line(words, sanitize::EVIDENCE))
}

fn missing(death: &Death) -> Option<String> {
    let missing = death.verdict.missing.as_deref()?;
    Some(sanitize::line(missing, sanitize::LONGEST))
}

/// A cgroup that was full before Ray's monitor could act.
fn late_monitor(view: &View<'_>, death: &Death) -> Option<String> {
    let limit = death.oom.as_ref()?.limit_bytes?;
    let clusters = &view.shown.report.clusters;
    let cluster = clusters
        .iter()
        .find(|cluster| Some(cluster.id) == death.cluster)?;
    let monitor = cluster.monitor.as_ref()?;
    if !monitor.enabled {
        return Some("Ray's memory monitor is off: only the kernel kills".to_owned());
    }
    let threshold = monitor.threshold_bytes.filter(|above| *above > limit)?;
    Some(format!(
        "Ray's monitor acts above {} only: this limit comes first",
        size(threshold)
    ))
}

/// Ids and origin, for one first cause that was asked for.
#[must_use]
pub fn identity(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let title = death.title.as_deref();
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
        ("worker", full(&death.worker_id)),
        ("actor", full(&death.actor_id)),
        ("job", full(&death.job_id)),
        ("death", Some(format!("#{}", death.id.0))),
    ];
    let ids: Vec<String> = known(ids)
        .map(|(what, id)| format!("{what} {id}"))
        .collect();
    ids.join(", ")
}

fn origin(view: &View<'_>, death: &Death) -> Option<String> {
    let score = death.oom.as_ref().and_then(|oom| oom.score_adj);
    let container = death.container_id.as_deref();
    let origin = [
        death
            .start_time
            .map(|time| format!("started {}", view.time(Some(time)))),
        death.ppid.map(|parent| format!("parent {parent}")),
        score.map(|score| format!("oom_score_adj {score}")),
        container.map(|id| format!("container {}", sanitize::line(id, 64))),
    ];
    let origin: Vec<String> = origin.into_iter().flatten().collect();
    (!origin.is_empty()).then(|| origin.join(", "))
}

fn milliseconds(age: u64) -> String {
    span(age.saturating_mul(1_000_000))
}
