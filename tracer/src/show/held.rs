//! Lists who held memory at the most important memory kill: by class, call and line of code.
//!
//! The figure of a class was sampled at the kill. The figure of a line is what it still held when
//! its processes ended, or at the end of the recording. If that is known for no line of a class,
//! its lines have what they took. If more processes of a class grew than lived at the kill, the
//! figures of its lines are sums over all of them, and belong to `WHAT GREW`.

use crate::{
    event::Role,
    ids::{Bytes, Pid},
    judge::report::{Death, Growth, GrowthLine, Killer, PROGRAM, subprocess},
    path,
    show::{
        causes::{Cause, Entry},
        facts, fleet, growth, jobs, rank, sanitize,
        size::{share, size},
        view::View,
        words::{self, HeldByClass},
    },
};

/// A class has a line if it held at least this much, and at least this share of all that is listed.
const SMALLEST: Bytes = Bytes(64 << 20);
const SMALLEST_SHARE: f64 = 0.05;
/// Maximum number of classes, and of lines of each, unless all are asked for.
const MAX_CLASSES: usize = 5;
const MAX_LINES: usize = 3;
/// Maximum number of kills in a report of several recordings.
const MAX_KILLS: usize = 3;
/// Said of memory that was taken, where it is not known whether it was still held.
const MAY_BE_FREED: &str = " (may have been freed since)";
/// A line is shown if it has at least this share of its class.
const SMALLEST_LINE: f64 = 0.05;

/// A line stands for a class on the first screen if it has at least this share of its growth.
const SMALLEST_MAIN_LINE: f64 = 0.25;

/// What was held at one kill.
#[derive(Debug)]
pub(super) struct Held {
    /// `KILL 1`.
    pub(super) kill: String,
    /// For each class, the sentence about it and those about its lines.
    pub(super) classes: Vec<(String, Vec<String>)>,
    /// Classes of which more processes grew than lived at the kill.
    pub(super) more: Vec<String>,
}

/// Returns `WHAT WAS HELD` at the first memory kill in the order of the report. In a report of
/// several recordings, returns it for the first memory kill that ended each job.
pub(super) fn at_kills(view: &View<'_>) -> Vec<Held> {
    let report = &view.shown.report;
    if report.growth.is_empty() {
        return Vec::new();
    }
    let several = fleet::is_fleet_report(report);
    let entries = rank::entries(view, view.shown.causes());
    let causes = entries.iter().map(Entry::first);
    let causes = causes.filter(|cause| {
        let death = cause.death;
        death.is_memory_kill() && !death.memory.top.is_empty()
    });
    let ended_a_job = |cause: &Cause<'_>| jobs::ended_by(view, cause).is_some();
    let wanted = causes.enumerate();
    let wanted = wanted.filter(|(at, cause)| *at == 0 || several && ended_a_job(cause));
    let most = if several { MAX_KILLS } else { 1 };
    let held = wanted.take(most).filter_map(|(_, cause)| {
        let death = cause.death;
        let mut more = Vec::new();
        let classes = classes(view, death, &mut more);
        let node = death.node.as_deref().map(sanitize::name);
        let on = node.map_or_else(String::new, |node| format!(" ON {node}"));
        (!classes.is_empty()).then(|| Held {
            kill: format!("{}{on}", cause.label()),
            classes,
            more,
        })
    });
    held.collect()
}

/// What the class that held most had at a kill.
#[derive(Debug)]
pub(super) struct Largest {
    /// `2 WorkerDict 6.4 GiB`.
    pub(super) amount: String,
    /// `3.0 GiB by dp_actor.py:470 update_policy`.
    pub(super) line: Option<String>,
}

/// Returns what held most at a kill, and the line that holds most of that, in short: with its
/// figure if `figure` says so.
pub(super) fn largest(view: &View<'_>, death: &Death, figure: bool) -> Option<Largest> {
    let found = found(death).into_iter().next()?;
    let oom = death.memory.oom.as_ref();
    let limit = oom.and_then(|oom| oom.limit_bytes);
    // Recordings of earlier versions do not say which processes were in the full cgroup.
    let is_outside = death.verdict.killer == Killer::KernelOomMemcg
        && limit.is_some_and(|limit| found.private > limit);
    if found.private.0 == 0 || is_outside {
        return None;
    }
    let (_, lines) = class(view, &found, death, &mut Vec::new());
    let line = lines.into_iter().next();
    let line = line.or_else(|| of_more(view, &found, death));
    let line = line.or_else(|| facts::running(death).filter(|_| facts::runs_own_code(death)));
    let line = line.map(|line| in_short(&line, figure));
    let amount = found.amount();
    let amount = amount.split(" (").next().unwrap_or_default().to_owned();
    Some(Largest { amount, line })
}

/// Returns whether the victim alone is the class that held most.
pub(super) fn is_victim(death: &Death) -> bool {
    let first = found(death).into_iter().next();
    first.is_none_or(|first| {
        let mut top = first.top.iter();
        first.processes == 1 && top.any(|one| one.pid == death.process.pid)
    })
}

/// Returns the line that took most in a class of which more processes grew than lived at the kill.
fn of_more(view: &View<'_>, held: &HeldByClass<'_>, victim: &Death) -> Option<String> {
    let growth = growth_of(view, &held.class, &[victim], victim.recording_id)?;
    let own = growth
        .lines
        .iter()
        .filter(|line| line.line.is_some() && !view.shown.report.is_import(&growth.class, line));
    let most = own.max_by_key(|line| line.grown_bytes)?;
    if share(most.grown_bytes, growth.grown_bytes) < SMALLEST_MAIN_LINE {
        return None;
    }
    let place = growth::place(most);
    let own = place.split(", in ").next().unwrap_or(&place);
    // WHAT GREW names who called it.
    let own = sanitize::without_remarks(own);
    Some(format!("{own} ({})", growth::part_of_growth(most, growth)))
}

/// Shortens `1.0 GiB by a.py:5 C.f, in b.py:7 g (in lib.so: h)` to the job's own line, with or
/// without its figure.
fn in_short(line: &str, figure: bool) -> String {
    let (line, remark) = match line.split_once(MAY_BE_FREED) {
        Some((line, _)) => (line, MAY_BE_FREED),
        None => (line, ""),
    };
    let line = line.split(" (in ").next().unwrap_or(line);
    let own = line.split(", in ").next().unwrap_or(line);
    let own = path::without_class(own);
    let own = match own.split_once("by ") {
        Some((figures, place)) if !figure && !figures.contains('(') => place,
        _ => &own,
    };
    format!("{own}{remark}")
}

/// Returns the classes at a kill, the largest first. A class of forked children that count what they
/// share with their parent comes last.
fn found(death: &Death) -> Vec<HeldByClass<'_>> {
    let mut found = words::by_class(&death.memory);
    found.sort_by_cached_key(|class| (is_again(class, death), std::cmp::Reverse(class.private)));
    found
}

/// Returns whether a class is of forked children that count what they share with their parent.
fn is_again(held: &HeldByClass<'_>, death: &Death) -> bool {
    held.class.ends_with(&subprocess("")) && facts::counted_twice(death).is_some()
}

fn classes(view: &View<'_>, death: &Death, more: &mut Vec<String>) -> Vec<(String, Vec<String>)> {
    let mut found = found(death);
    let whole = Bytes(found.iter().map(|class| class.private.0).sum());
    let matters = |bytes| bytes >= SMALLEST && share(bytes, whole) >= SMALLEST_SHARE;
    found.retain(|class| view.shown.all || matters(class.private));
    found.truncate(view.at_most(MAX_CLASSES));
    let (processes, bytes) = words::smaller_than(&found, &death.memory);
    let rest = (processes > 0 && (view.shown.all || bytes >= SMALLEST))
        .then(|| (words::smaller_processes(processes, bytes), Vec::new()));
    let twice = facts::counted_twice(death).map(|text| (words::capitalized(&text), Vec::new()));
    found
        .iter()
        .map(|one| class(view, one, death, more))
        .chain(rest)
        .chain(twice)
        .collect()
}

/// Returns `2 WorkerDict 5.9 GiB (2.9 each), in WorkerDict.compute_log_prob`, and the lines of the
/// class. A class of which more processes grew is added to `more`.
fn class(
    view: &View<'_>,
    held: &HeldByClass<'_>,
    victim: &Death,
    more: &mut Vec<String>,
) -> (String, Vec<String>) {
    let of_class = words::class(victim) == held.class;
    let mut deaths: Vec<&Death> = of_class.then_some(victim).into_iter().collect();
    let of = victim.recording_id;
    deaths.extend((held.top.iter()).filter_map(|member| death_of(view, member.pid, of)));
    let mut text = if is_again(held, victim) {
        held.amount_with_shared()
    } else {
        held.amount()
    };
    let calls = calls(held, &deaths);
    if !calls.is_empty() {
        text.push_str(&format!(", in {}", words::join(&calls)));
    }
    let growth = growth_of(view, &held.class, &deaths, victim.recording_id);
    let growth = growth.filter(|growth| !are_of_others(growth, victim, held));
    let mut lines = match growth {
        Some(growth) if u64::from(growth.processes) > held.processes => {
            if !more.contains(&growth.class) {
                more.push(growth.class.clone());
            }
            return (text, Vec::new());
        }
        Some(growth) => lines(view, growth, held, &deaths),
        None => Vec::new(),
    };
    if lines.is_empty() {
        lines.extend(last_line(&deaths));
    }
    (text, lines)
}

/// Returns whether the lines of a class are listed with its subprocesses rather than its workers,
/// or the reverse: with those of which as many grew, else with those that held more.
fn are_of_others(growth: &Growth, victim: &Death, held: &HeldByClass<'_>) -> bool {
    let plain = |class: &str| class.trim_end_matches(&subprocess("")).to_owned();
    let classes = words::by_class(&victim.memory);
    let other = classes
        .iter()
        .find(|other| plain(&other.class) == plain(&held.class) && other.class != held.class);
    let fits = |one: &HeldByClass<'_>| (one.processes == u64::from(growth.processes), one.private);
    other.is_some_and(|other| fits(other) > fits(held))
}

/// Returns the calls that the processes ran then: with its number if a process died in the call,
/// else by name.
fn calls(held: &HeldByClass<'_>, deaths: &[&Death]) -> Vec<String> {
    let mut found: Vec<(Option<u32>, String)> = Vec::new();
    let numbered = deaths.iter().filter_map(|death| {
        let calls = death.activity.calls.as_ref()?;
        Some((Some(calls.died_in?), sanitize::name(&calls.task)))
    });
    let named = held.top.iter().filter_map(|member| {
        let title = sanitize::name(member.title.strip_prefix("ray::")?);
        (title != held.class && title.contains('.')).then_some((None, title))
    });
    for (number, task) in numbered.chain(named) {
        let mut same = found.iter().filter(|(_, known)| *known == task);
        if !same.any(|(known, _)| number.is_none() || *known == number) {
            found.push((number, task));
        }
    }
    let found = found.into_iter().take(MAX_LINES);
    let told = found.map(|(number, task)| match number {
        Some(number) => format!("call {number} of {task}"),
        None => task,
    });
    told.collect()
}

/// Returns what the lines of a class still held, the largest first, or what they took if that is
/// known for none. A figure above what was held at the kill is left out.
fn lines(
    view: &View<'_>,
    growth: &Growth,
    held: &HeldByClass<'_>,
    deaths: &[&Death],
) -> Vec<String> {
    let full = view.shown.all || view.shown.detail;
    let lines = growth.lines.iter().filter(|line| line.line.is_some());
    let lines: Vec<&GrowthLine> = lines
        .filter(|line| full || !view.shown.report.is_import(&growth.class, line))
        .collect();
    let lines = || lines.iter().copied();
    let mut known = sorted(
        lines().filter_map(|line| Some((line.held_bytes?, line))),
        held,
    );
    fit(&mut known, held.private);
    let mut freed = "";
    let mut by = "by";
    if known.is_empty() {
        let taken = lines().filter(|line| line.held_bytes.is_none());
        known = sorted(taken.map(|line| (line.grown_bytes, line)), held);
        known.retain(|(bytes, _)| *bytes <= held.private);
        // Such memory was taken. Whether it was still held is not known.
        by = "taken by";
        // Memory that each call adds and none frees is still there.
        let kept = deaths.iter().any(|death| keeps_what_it_takes(death));
        freed = if kept { "" } else { MAY_BE_FREED };
    }
    let told = known.into_iter().take(view.at_most(MAX_LINES));
    told.map(|(bytes, line)| {
        let (figure, place) = (size(bytes), growth::place(line));
        format!("{figure} {by} {place}{freed}")
    })
    .collect()
}

fn keeps_what_it_takes(death: &Death) -> bool {
    let calls = death.activity.calls.as_ref();
    calls.is_some_and(|calls| calls.per_call_bytes.is_some())
}

/// Returns the lines with a large enough share of what the class held, the largest first.
fn sorted<'a>(
    lines: impl Iterator<Item = (Bytes, &'a GrowthLine)>,
    held: &HeldByClass<'_>,
) -> Vec<(Bytes, &'a GrowthLine)> {
    let matters = |(bytes, _): &(Bytes, _)| share(*bytes, held.private) >= SMALLEST_LINE;
    let mut found: Vec<_> = lines.filter(matters).collect();
    found.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    found
}

/// Removes figures that do not fit into what was held at the kill. A line may have held more when
/// its processes ended, so such a figure is of a later time.
fn fit(known: &mut Vec<(Bytes, &GrowthLine)>, held: Bytes) {
    let mut left = held.0;
    known.retain(|(bytes, _)| {
        let fits = bytes.0 <= left;
        left -= if fits { bytes.0 } else { 0 };
        fits
    });
}

/// Returns the line that ran last, if it is not known which line holds the memory.
fn last_line(deaths: &[&Death]) -> Option<String> {
    let line = deaths
        .iter()
        .filter(|death| facts::runs_own_code(death))
        .find_map(|death| facts::running(death))?;
    Some(format!(
        "the line that holds it is unknown; it last ran {line}"
    ))
}

fn growth_of<'a>(
    view: &View<'a>,
    class: &str,
    deaths: &[&Death],
    recording: Option<u32>,
) -> Option<&'a Growth> {
    let drives = |death: &&Death| death.process.role == Role::Driver;
    let name = if deaths.iter().any(drives) {
        "driver"
    } else {
        class.trim_end_matches(&subprocess(""))
    };
    let mut growth = view.shown.report.growth.iter();
    let is_own = |growth: &&Growth| {
        growth.class == name && (growth.recording_id.is_none() || growth.recording_id == recording)
    };
    growth.find(is_own).or_else(|| {
        let program = class.ends_with(&subprocess("")) && view.shown.report.grew_alone(PROGRAM);
        let mut growth = view.shown.report.growth.iter();
        growth.find(|growth| program && growth.class == PROGRAM)
    })
}

fn death_of<'a>(view: &View<'a>, pid: Pid, recording: Option<u32>) -> Option<&'a Death> {
    let mut deaths = view.shown.report.deaths.iter();
    deaths.find(|death| death.process.pid == pid && death.recording_id == recording)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{sample, select::SelectedReport};

    fn line(function: &str, held: Option<u64>) -> GrowthLine {
        GrowthLine {
            file: "/home/u/reward.py".into(),
            line: Some(5),
            function: function.into(),
            user_line: None,
            inside: None,
            native: None,
            grown_bytes: Bytes(600 << 30),
            shared_bytes: Bytes(0),
            held_bytes: held.map(|held| Bytes(held << 30)),
        }
    }

    fn held(lines: Vec<GrowthLine>) -> Option<Held> {
        told_of(1, lines)
    }

    fn told_of(processes: u32, lines: Vec<GrowthLine>) -> Option<Held> {
        let mut report = sample::verl();
        report.growth = vec![Growth {
            recording_id: None,
            class: "TaskRunner".into(),
            processes,
            grown_bytes: Bytes(600 << 30),
            lines,
            functions: Vec::new(),
            unsampled: Vec::new(),
        }];
        let shown = SelectedReport::whole(&report);
        let style = sample::style();
        at_kills(&View::new(&shown, &style)).pop()
    }

    #[test]
    fn classes_have_calls_and_held_lines() {
        let held = held(vec![
            line("score", Some(390)),
            line("freed", Some(0)),
            line("unknown", None),
        ]);
        insta::assert_snapshot!(format!("{held:#?}"));
    }

    #[test]
    fn line_holds_no_more_than_its_class() {
        let held = held(vec![line("later", Some(500)), line("score", Some(300))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("score"), "{lines:?}");
    }

    #[test]
    fn average_omits_the_unit_of_the_sum() {
        let of = |gib: f64, processes| {
            let held = HeldByClass {
                class: "WorkerDict".into(),
                top: Vec::new(),
                processes,
                private: sample::gib(gib),
            };
            held.amount()
        };
        assert_eq!(of(0.9, 1), "WorkerDict 0.9 GiB");
        assert_eq!(of(6.4, 2), "2 WorkerDict 6.4 GiB (3.2 each)");
        assert_eq!(of(0.9, 2), "2 WorkerDict 0.9 GiB (461 MiB each)");
        assert_eq!(of(0.9, 12), "12 WorkerDict 0.9 GiB (77 MiB each)");
    }

    #[test]
    fn sum_over_more_processes_is_left_out() {
        for gib in [500, 300] {
            let held = told_of(8, vec![line("score", Some(gib))]).expect("a kill");
            assert!(held.classes[0].1.is_empty(), "{:?}", held.classes);
            assert_eq!(held.more, ["TaskRunner"]);
        }
    }
}
