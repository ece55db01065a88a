//! Lists who held memory at the most important memory kill: by class, by call and by line of the user's own code.
//!
//! How much each class held is what was sampled at the kill. Of its lines the figure is what they still held when their processes ended,
//! or at the end of the recording; a line of which that is not known has none.

use crate::{
    event::Role,
    ids::{Bytes, Pid},
    judge::report::{Death, Growth, GrowthLine, subprocess},
    show::{
        causes::Entry,
        facts, fleet, growth, rank, sanitize,
        size::{share, size},
        view::View,
        words::{self, HeldByClass},
    },
};

/// A class that held less, or less than this share of all that is listed, is not worth a line.
const SMALLEST: Bytes = Bytes(64 << 20);
const SMALLEST_SHARE: f64 = 0.05;
/// Classes, and lines of each, unless all are asked for.
const MAX_CLASSES: usize = 5;
const MAX_LINES: usize = 3;
/// A line that holds less of its class is not told.
const SMALLEST_LINE: f64 = 0.05;

/// What was held at one kill.
#[derive(Debug)]
pub(super) struct Held {
    /// `KILL 1`.
    pub(super) kill: String,
    /// For each class the sentence about it, and those about its lines.
    pub(super) classes: Vec<(String, Vec<String>)>,
}

/// `WHAT WAS HELD` at the first of the memory kills, as the report orders them; `None` without one, without stacks, and for several
/// recordings, whose growth is one sum.
#[must_use]
pub(super) fn at_kill(view: &View<'_>) -> Option<Held> {
    let report = &view.shown.report;
    if report.growth.is_empty() || fleet::is_one(report) {
        return None;
    }
    let entries = rank::entries(view, view.shown.causes());
    let mut causes = entries.iter().map(Entry::first);
    let cause = causes.find(|cause| {
        let death = cause.death;
        words::is_memory_kill(death.verdict.killer) && !death.memory.top.is_empty()
    })?;
    let classes = classes(view, cause.death);
    (!classes.is_empty()).then(|| Held {
        kill: cause.label(),
        classes,
    })
}

fn classes(view: &View<'_>, death: &Death) -> Vec<(String, Vec<String>)> {
    let mut found = words::by_class(&death.memory);
    let whole = Bytes(found.iter().map(|class| class.private.0).sum());
    let matters = |bytes| bytes >= SMALLEST && share(bytes, whole) >= SMALLEST_SHARE;
    found.retain(|class| view.shown.all || matters(class.private));
    found.sort_by_key(|class| std::cmp::Reverse(class.private));
    let most = if view.shown.all {
        usize::MAX
    } else {
        MAX_CLASSES
    };
    found.truncate(most);
    let rest = death.memory.top_rest.as_ref();
    let rest = rest.filter(|rest| view.shown.all || rest.private_bytes >= SMALLEST);
    let rest = words::smaller(rest).map(|text| (text, Vec::new()));
    found
        .iter()
        .map(|one| class(view, one, death))
        .chain(rest)
        .collect()
}

/// `2 WorkerDict 5.9 GiB (2.9 each), in WorkerDict.compute_log_prob`, and its lines.
fn class(view: &View<'_>, held: &HeldByClass<'_>, victim: &Death) -> (String, Vec<String>) {
    let of_class = words::class(victim) == held.class;
    let mut deaths: Vec<&Death> = of_class.then_some(victim).into_iter().collect();
    deaths.extend((held.top.iter()).filter_map(|member| death_of(view, member.pid)));
    let mut text = held.amount();
    let calls = calls(held, &deaths);
    if !calls.is_empty() {
        text.push_str(&format!(", in {}", words::join(&calls)));
    }
    let mut lines = if has_larger(victim, held) {
        Vec::new()
    } else {
        lines(view, held, &deaths)
    };
    if lines.is_empty() {
        lines.extend(last_line(&deaths));
    }
    (text, lines)
}

/// Whether the subprocesses of a class held more than its workers, or these more: what lines of the class took is told there.
fn has_larger(victim: &Death, held: &HeldByClass<'_>) -> bool {
    let plain = |class: &str| class.trim_end_matches(&subprocess("")).to_owned();
    let classes = words::by_class(&victim.memory);
    classes.iter().any(|other| {
        let same = plain(&other.class) == plain(&held.class) && other.class != held.class;
        same && other.private > held.private
    })
}

/// The calls that its processes ran then: by number where they died in it, else by name.
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

/// What its lines still held, the most first; where that is known of none, what they took. Where more processes of the class grew than
/// were alive, the figure is of them all; more than what was held is no part of that.
fn lines(view: &View<'_>, held: &HeldByClass<'_>, deaths: &[&Death]) -> Vec<String> {
    let Some(growth) = growth_of(view, &held.class, deaths) else {
        return Vec::new();
    };
    let lines = || growth.lines.iter().filter(|line| line.line.is_some());
    let more = u64::from(growth.processes) > held.processes;
    let mut known = largest(
        lines().filter_map(|line| Some((line.held_bytes?, line))),
        held,
    );
    if !more {
        fit(&mut known, held.private);
    }
    let mut freed = "";
    let mut was_taken = false;
    if known.is_empty() {
        let taken = lines().filter(|line| line.held_bytes.is_none());
        known = largest(taken.map(|line| (line.grown_bytes, line)), held);
        known.retain(|(bytes, _)| *bytes <= held.private);
        was_taken = true;
        // What each call adds and none frees is still there.
        let kept = deaths.iter().any(|death| keeps_what_it_takes(death));
        freed = if kept {
            ""
        } else {
            " (may have been freed since)"
        };
    }
    let most = if view.shown.all {
        usize::MAX
    } else {
        MAX_LINES
    };
    let told = known.into_iter().take(most);
    told.map(|(bytes, line)| {
        let (figure, place) = (size(bytes), growth::place(line));
        // What may be freed was taken, and is not known to have been held.
        let (by, when) = if was_taken {
            ("taken by", "over the run")
        } else {
            ("by", "at their ends")
        };
        let whose = match growth.processes {
            2 if more => format!(" in both processes together, {when}"),
            all if more => format!(" in all {all} processes together, {when}"),
            _ => String::new(),
        };
        format!("{figure} {by} {place}{whose}{freed}")
    })
    .collect()
}

fn keeps_what_it_takes(death: &Death) -> bool {
    let calls = death.activity.calls.as_ref();
    calls.is_some_and(|calls| calls.per_call_bytes.is_some())
}

/// Those that matter of what the class held, the most first.
fn largest<'a>(
    lines: impl Iterator<Item = (Bytes, &'a GrowthLine)>,
    held: &HeldByClass<'_>,
) -> Vec<(Bytes, &'a GrowthLine)> {
    let matters = |(bytes, _): &(Bytes, _)| share(*bytes, held.private) >= SMALLEST_LINE;
    let mut found: Vec<_> = lines.filter(matters).collect();
    found.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    found
}

/// What lines held at their ends may be more than all held at the kill: such a figure is not of then.
fn fit(known: &mut Vec<(Bytes, &GrowthLine)>, held: Bytes) {
    let mut left = held.0;
    known.retain(|(bytes, _)| {
        let fits = bytes.0 <= left;
        left -= if fits { bytes.0 } else { 0 };
        fits
    });
}

/// Where no line is known to hold it: the one that ran last.
fn last_line(deaths: &[&Death]) -> Option<String> {
    let line = deaths
        .iter()
        .filter(|death| facts::runs_own_code(death))
        .find_map(|death| facts::running(death))?;
    Some(format!(
        "the line that holds it is unknown; it last ran {line}"
    ))
}

fn growth_of<'a>(view: &View<'a>, class: &str, deaths: &[&Death]) -> Option<&'a Growth> {
    let drives = |death: &&Death| death.process.role == Role::Driver;
    let name = if deaths.iter().any(drives) {
        "driver"
    } else {
        class.trim_end_matches(&subprocess(""))
    };
    let mut growth = view.shown.report.growth.iter();
    growth.find(|growth| growth.class == name)
}

fn death_of<'a>(view: &View<'a>, pid: Pid) -> Option<&'a Death> {
    let mut deaths = view.shown.report.deaths.iter();
    deaths.find(|death| death.process.pid == pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{sample, select::Shown};

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
            class: "TaskRunner".into(),
            processes,
            grown_bytes: Bytes(600 << 30),
            lines,
            functions: Vec::new(),
        }];
        let shown = Shown::whole(&report);
        let style = sample::style();
        at_kill(&View::new(&shown, &style))
    }

    #[test]
    fn each_class_is_told_with_its_call_and_what_its_lines_still_held() {
        let held = held(vec![
            line("score", Some(390)),
            line("freed", Some(0)),
            line("unknown", None),
        ]);
        insta::assert_snapshot!(format!("{held:#?}"));
    }

    #[test]
    fn no_line_holds_more_than_its_class_did_at_the_kill() {
        let held = held(vec![line("later", Some(500)), line("score", Some(300))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("score"), "{lines:?}");
    }

    #[test]
    fn what_each_held_has_the_unit_of_the_sum_or_its_own() {
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
    fn a_figure_of_more_processes_than_are_listed_says_so() {
        let held = told_of(8, vec![line("score", Some(500))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(
            lines,
            &["500.0 GiB by reward.py:5 score in all 8 processes together, at their ends"]
        );
        let held = told_of(8, vec![line("score", Some(300))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(
            lines,
            &["300.0 GiB by reward.py:5 score in all 8 processes together, at their ends"]
        );
    }
}
