//! Who held what when the most important memory kill came: by class, by call and by line of the user's own code.
//!
//! How much each class held is what was sampled at the kill. Of its lines the figure is what they still held when their processes ended,
//! or at the end of the recording; a line of which that is not known has none.

use crate::{
    event::Role,
    ids::{Bytes, Pid},
    judge::report::{Death, Growth, GrowthLine, TopProcess},
    show::{
        causes::Entry,
        fleet, growth, rank, sanitize,
        size::{Unit, share, size},
        view::View,
        words,
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
    let by_class = words::by_class(&death.memory.top);
    let sum = |members: &[&TopProcess]| {
        let private = members.iter().map(|member| member.private_bytes.0);
        Bytes(private.sum())
    };
    let whole = Bytes(by_class.iter().map(|(_, members)| sum(members).0).sum());
    let matters = |bytes| bytes >= SMALLEST && share(bytes, whole) >= SMALLEST_SHARE;
    let mut found: Vec<(Bytes, (String, Vec<String>))> = by_class
        .iter()
        .map(|(name, members)| (sum(members), (name, members)))
        .filter(|(bytes, _)| view.shown.all || matters(*bytes))
        .map(|(bytes, (name, members))| (bytes, class(view, name, members, bytes)))
        .collect();
    found.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let most = if view.shown.all {
        usize::MAX
    } else {
        MAX_CLASSES
    };
    found.truncate(most);
    let rest = death.memory.top_rest;
    let rest = rest.filter(|rest| view.shown.all || rest.private_bytes >= SMALLEST);
    let rest = words::smaller(rest).map(|text| (text, Vec::new()));
    found
        .into_iter()
        .map(|(_, told)| told)
        .chain(rest)
        .collect()
}

/// `2 WorkerDict 5.9 GiB (2.9 each), in WorkerDict.compute_log_prob`, and its lines.
fn class(
    view: &View<'_>,
    name: &str,
    members: &[&TopProcess],
    held: Bytes,
) -> (String, Vec<String>) {
    let deaths: Vec<&Death> = members
        .iter()
        .filter_map(|member| death_of(view, member.pid))
        .collect();
    let mut text = match members.len() {
        1 => format!("{name} {}", size(held)),
        count => {
            let each = Bytes(held.0 / count as u64);
            let each = Unit::of(held).figure(each);
            format!("{count} {name} {} ({each} each)", size(held))
        }
    };
    let calls = calls(name, members, &deaths);
    if !calls.is_empty() {
        text.push_str(&format!(", in {}", words::join(&calls)));
    }
    let mut lines = lines(view, name, &deaths, members.len(), held);
    if lines.is_empty() {
        lines.extend(last_line(&deaths));
    }
    (text, lines)
}

/// The calls that its processes ran then: by number where they died in it, else by name.
fn calls(class: &str, members: &[&TopProcess], deaths: &[&Death]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for member in members {
        let death = deaths.iter().find(|death| death.process.pid == member.pid);
        let known = death.and_then(|death| death.activity.calls.as_ref());
        let title = || member.title.strip_prefix("ray::").map(sanitize::name);
        let told = match known.and_then(|calls| Some((calls, calls.died_in?))) {
            Some((calls, number)) => {
                Some(format!("call {number} of {}", sanitize::name(&calls.task)))
            }
            None => title().filter(|title| title != class && title.contains('.')),
        };
        if let Some(told) = told.filter(|told| !found.contains(told)) {
            found.push(told);
        }
    }
    let all = found.clone();
    let numbered = |one: &String| {
        all.iter()
            .any(|other| other.ends_with(&format!(" of {one}")))
    };
    found.retain(|one| !numbered(one));
    found.truncate(MAX_LINES);
    found
}

/// What its lines still held, the most first. Where more processes of the class grew than are listed, the figure is of them all.
fn lines(
    view: &View<'_>,
    class: &str,
    deaths: &[&Death],
    members: usize,
    held: Bytes,
) -> Vec<String> {
    let Some(growth) = growth_of(view, class, deaths) else {
        return Vec::new();
    };
    let known = growth.lines.iter();
    let mut known: Vec<(Bytes, &GrowthLine)> = known
        .filter(|line| line.line.is_some())
        .filter_map(|line| Some((line.held_bytes?, line)))
        .filter(|(bytes, _)| share(*bytes, held) >= SMALLEST_LINE)
        .collect();
    known.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let more = usize::try_from(growth.processes).is_ok_and(|grew| grew > members);
    if !more {
        fit(&mut known, held);
    }
    let of_all = if more {
        format!(" in {} processes", growth.processes)
    } else {
        String::new()
    };
    let most = if view.shown.all {
        usize::MAX
    } else {
        MAX_LINES
    };
    let told = known.into_iter().take(most);
    told.map(|(bytes, line)| format!("{}{of_all} by {}", size(bytes), growth::place(line)))
        .collect()
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
        .filter_map(|death| super::facts::running(death))
        .find(|line| line != "inside Ray")?;
    Some(format!("by which line is not known; it last ran {line}"))
}

fn growth_of<'a>(view: &View<'a>, class: &str, deaths: &[&Death]) -> Option<&'a Growth> {
    let drives = |death: &&Death| death.process.role == Role::Driver;
    let name = if deaths.iter().any(drives) {
        "driver"
    } else {
        class
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
    use crate::show::{Style, sample, select::Shown};

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

    fn told(lines: Vec<GrowthLine>) -> Option<Held> {
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
        let style = Style {
            width: 100,
            zone: crate::show::time::Zone::default(),
            file: None,
            program: "raytrace".into(),
        };
        at_kill(&View::new(&shown, &style))
    }

    #[test]
    fn each_class_is_told_with_its_call_and_what_its_lines_still_held() {
        let held = told(vec![
            line("score", Some(390)),
            line("freed", Some(0)),
            line("unknown", None),
        ]);
        insta::assert_snapshot!(format!("{held:#?}"));
    }

    #[test]
    fn no_line_holds_more_than_its_class_did_at_the_kill() {
        let held = told(vec![line("later", Some(500)), line("score", Some(300))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("score"), "{lines:?}");
    }

    #[test]
    fn a_figure_of_more_processes_than_are_listed_says_so() {
        let held = told_of(8, vec![line("score", Some(500))]);
        let lines = &held.expect("a kill").classes[0].1;
        assert_eq!(lines, &["500.0 GiB in 8 processes by reward.py:5 score"]);
    }
}
