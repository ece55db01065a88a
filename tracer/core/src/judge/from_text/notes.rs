//! Notes what texts say besides deaths and findings: after-effects, Ray's counts, what was dropped.

use std::collections::BTreeMap;

use super::{
    Made,
    claim::{Claim, NotedLine},
    silent_nodes,
    text_evidence::TextEvidence,
};
use crate::judge::{
    cause::Cause,
    ray_log_versions,
    report::{Death, Killer},
};

/// The page that Ray's own messages link to since 2.58.
const PAGE: &str =
    "https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-memory.html";

/// Returns the notes: after-effects, Ray's count compared with what was found, and what was
/// dropped.
pub(super) fn all(
    gathered: &TextEvidence,
    deaths: &[Death],
    first_lines: &FirstLines,
    version: Option<&str>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let nameless = gathered.claims.nameless.iter();
    let unread = nameless.filter(|one| matches!(one.claim, Claim::UnparsedKill));
    notes.extend(ray_log_versions::unread(unread.count(), version));
    notes.extend(errors_before(gathered, first_lines));
    notes.extend(after_effects(gathered, deaths, first_lines));
    notes.extend(gathered.remarks.unread.iter().map(|(place, line)| {
        let place = super::source(gathered, *place);
        format!("{place} looks like the report of a death, and raytrace does not know it: {line}")
    }));
    notes.extend(silent_nodes::note(gathered, deaths));
    notes.extend(resident_only(gathered, deaths));
    notes.extend(count(gathered, deaths));
    notes.extend(without_pid(deaths));
    notes.extend(counted_twice(deaths));
    let by_ray = |death: &Death| death.verdict.killer == Killer::RayMemoryMonitor;
    if gathered.remarks.old_page && !deaths.iter().any(by_ray) {
        notes.push("a message of Ray links to its page on memory, as one on a kill by its memory monitor does, but these logs lack the lines on such a kill".to_owned());
    }
    if gathered.remarks.old_page {
        notes.push(format!(
            "the page that Ray's message links to is the one of Ray up to 2.57; today: {PAGE}"
        ));
    }
    let repeated = gathered.remarks.repeated;
    if repeated > 0 {
        notes.push(format!(
            "Ray's driver folded {repeated} more {} into the shown ones (\"repeated across cluster\"): as many deaths may be missing; RAY_DEDUP_LOGS=0 shows them",
            if repeated == 1 { "line" } else { "lines" }
        ));
    }
    if gathered.claims.skipped > 0 {
        notes.push(format!(
            "{} claims were not kept: too many",
            gathered.claims.skipped
        ));
    }
    notes
}

/// Says that kills in the kernel's log and deaths of which Ray names no pid may be the same.
fn without_pid(deaths: &[Death]) -> Option<String> {
    let named = |death: &Death| death.work.worker_id.is_some() || death.work.actor_id.is_some();
    let of_kernel = |death: &&Death| death.verdict.killer.is_kernel_oom() && !named(death);
    let of_ray = |death: &&Death| {
        death.verdict.killer == Killer::Unknown && death.process.pid.0 == 0 && named(death)
    };
    let causes = || deaths.iter().filter(|death| is_first_cause(death));
    let kernel = causes().filter(of_kernel).count();
    let ray = causes().filter(of_ray).count();
    (kernel > 0 && ray > 0).then(|| {
        let deaths = if ray == 1 { "death" } else { "deaths" };
        let kills = if kernel == 1 { "kill" } else { "kills" };
        format!(
            "{ray} {deaths} of which Ray names no pid and {kernel} {kills} in the kernel's log may be the same, counted twice here"
        )
    })
}

/// Says that kills of which only the number is known and deaths without a known killer may be the
/// same.
fn counted_twice(deaths: &[Death]) -> Option<String> {
    let for_memory = |killer: Killer| killer == Killer::RayMemoryMonitor || killer.is_kernel_oom();
    let only_counted = |death: &&Death| for_memory(death.verdict.killer) && !is_named(death);
    let open = |death: &&Death| death.verdict.cause == Cause::SuddenEnd && is_named(death);
    let causes = || deaths.iter().filter(|death| is_first_cause(death));
    let (kills, ends) = (
        causes().filter(only_counted).count(),
        causes().filter(open).count(),
    );
    (kills > 0 && ends > 0).then(|| {
        format!(
            "{ends} sudden {} and {kills} {} for memory without a named victim may be the same, counted twice here",
            if ends == 1 { "end" } else { "ends" },
            if kills == 1 { "kill" } else { "kills" },
        )
    })
}

/// The line of the first death in each text.
pub(super) type FirstLines = BTreeMap<usize, u64>;

/// Returns the line of the first death in each text.
pub(super) fn first_lines(made: &[Made]) -> FirstLines {
    let mut lines = FirstLines::new();
    for made in made.iter().filter(|made| made.death.listed) {
        let line = lines.entry(made.place.text).or_insert(u64::MAX);
        *line = made.place.line.min(*line);
    }
    lines
}

/// Whether a time-out stands above all deaths of its text. Then it does not follow from them.
fn is_before(kind: &str, noted: &NotedLine, first_lines: &FirstLines) -> bool {
    let first = first_lines.get(&noted.place.text);
    // A collective waits for minutes; other errors may be printed before the death that they
    // follow.
    matches!(kind, "NCCL timeout" | "gloo timeout")
        && first.is_some_and(|line| noted.place.line < *line)
}

/// Quotes the time-outs that stand above the first death.
fn errors_before(gathered: &TextEvidence, first_lines: &FirstLines) -> Vec<String> {
    let effects = gathered.remarks.after_effects.iter();
    let before = effects.filter(|(kind, noted)| is_before(kind, noted, first_lines));
    let words = before.map(|(kind, noted)| {
        let place = super::source(gathered, noted.place);
        format!("{kind} before the first death, at {place}: {}", noted.quote)
    });
    words.collect()
}

fn after_effects(
    gathered: &TextEvidence,
    deaths: &[Death],
    first_lines: &FirstLines,
) -> Option<String> {
    let by_nccl = deaths.iter().any(|death| {
        death.listed && death.verdict.cause.is_of_collective() && is_first_cause(death)
    });
    // What ended a process is not an after-effect.
    let effects = gathered.remarks.after_effects.iter();
    let effects: Vec<_> = effects
        .filter(|(kind, _)| !(by_nccl && kind.starts_with("NCCL")))
        .filter(|(kind, noted)| !is_before(kind, noted, first_lines))
        .collect();
    let lines: u64 = effects.iter().map(|(_, noted)| noted.count).sum();
    if lines == 0 {
        return None;
    }
    let kinds: Vec<&str> = effects.iter().map(|(kind, _)| **kind).collect();
    // Each normal end has such lines too.
    if !deaths.iter().any(is_first_cause) {
        return None;
    }
    let lines = match lines {
        1 => "1 line".to_owned(),
        _ => format!("{lines} lines"),
    };
    Some(format!(
        "after-effects, not causes: {lines} ({})",
        kinds.join(", ")
    ))
}

/// Says that the sizes in a kernel's table were not used.
fn resident_only(gathered: &TextEvidence, deaths: &[Death]) -> Option<String> {
    let statements = gathered
        .claims
        .deaths()
        .flat_map(|claims| &claims.statements);
    let mut tasks = statements.flat_map(|one| match &one.claim {
        Claim::KernelOom(oom) => oom.tasks.as_slice(),
        _ => &[],
    });
    let of_kernel = |death: &Death| death.verdict.killer.is_kernel_oom();
    let unused = |death: &Death| of_kernel(death) && death.memory.top.is_empty();
    (tasks.any(|task| !task.private) && deaths.iter().any(unused)).then(|| {
        "who held the memory is not shown: before Linux 6.8 the kernel's table of processes counts what they share, such as the object store, with each of them".to_owned()
    })
}

/// Whether it is known which process it was.
pub(super) fn is_named(death: &Death) -> bool {
    let work = &death.work;
    death.process.pid.0 != 0 || work.worker_id.is_some() || work.actor_id.is_some()
}

fn is_first_cause(death: &Death) -> bool {
    death.listed && death.verdict.cause_death_id.is_none()
}

/// Returns a note like
/// `Ray counted 3 kills by its memory monitor and 0 other deaths; these logs show all of them`.
fn count(gathered: &TextEvidence, deaths: &[Death]) -> Option<String> {
    let summaries = &gathered.remarks.summaries;
    if summaries.is_empty() {
        return None;
    }
    let memory: u64 = summaries.values().map(|one| one.memory).sum();
    let other: u64 = summaries.values().map(|one| one.other).sum();
    let named = |death: &&Death| is_named(death);
    let by_ray = |death: &&Death| death.verdict.killer == Killer::RayMemoryMonitor;
    let found = deaths.iter().filter(named).filter(by_ray).count() as u64;
    let rest = deaths
        .iter()
        .filter(named)
        .filter(|death| !by_ray(death) && death.listed)
        .count() as u64;
    let counted = format!(
        "Ray counted {memory} {} by its memory monitor and {other} other {}",
        if memory == 1 { "kill" } else { "kills" },
        if other == 1 { "death" } else { "deaths" },
    );
    let compared = match (
        super::nameless::missing(gathered).values().sum::<u64>(),
        found > memory,
    ) {
        (0, false) if (found, rest) == (memory, other) => "these logs show all of them".to_owned(),
        (0, false) => format!("these logs show {found} and {rest}"),
        (0, true) => format!(
            "these logs show {found} and {rest}: the count lacks the last minute, or other nodes"
        ),
        (missing, _) => format!(
            "no line of these logs names the {} that it killed. On that node, run: raytrace explain /tmp/ray/session_latest/logs",
            match missing {
                1 => "worker".to_owned(),
                missing => format!("{missing} workers"),
            }
        ),
    };
    Some(format!("{counted}; {compared}"))
}
