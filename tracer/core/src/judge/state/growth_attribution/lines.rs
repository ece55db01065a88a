//! Sums stacks by line and by function of the job's code, and formats them for a flame graph.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    sync::Arc,
};

use super::{SiteGrowth, Sums, native};
use crate::{
    event::{PythonFrame, Unsampled},
    ids::{Bytes, ProcessKey},
    judge::report::{Growth, GrowthLine, NOT_SAMPLED, UnsampledGrowth},
    path, python,
};

/// At most this many lines and functions of one owner are in the report.
const MOST_LINES: usize = 50;

/// A line or function, and what grew through each library, under each line that it called, and
/// through each of the user's own lines.
#[derive(Default)]
struct Line {
    growth: GrowthLine,
    called: BTreeMap<String, u64>,
    inside: BTreeMap<String, u64>,
    users: BTreeMap<String, u64>,
}

/// What a stack has besides its line: the library's call, the running line, and the user's own
/// line.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    called: Option<&'a str>,
    inside: Option<&'a str>,
    users: Option<&'a str>,
}

/// Returns the growth by owner, the largest first.
pub(super) fn growth(named: &[Arc<str>], sums: &[(&SiteGrowth, Sums)]) -> Vec<Growth> {
    let mut owners: BTreeMap<&str, Vec<&(&SiteGrowth, Sums)>> = BTreeMap::new();
    for (name, one) in named.iter().zip(sums) {
        owners.entry(name).or_default().push(one);
    }
    let mut found: Vec<Growth> = owners
        .into_iter()
        .map(|(class, sites)| owner(class, &sites))
        .collect();
    found.sort_by_key(|growth| std::cmp::Reverse(growth.grown_bytes));
    found
}

fn owner(class: &str, sites: &[&(&SiteGrowth, Sums)]) -> Growth {
    let unseen = PythonFrame {
        file: String::new(),
        function: NOT_SAMPLED.into(),
        line: 0,
    };
    let mut lines = BTreeMap::new();
    let mut functions = BTreeMap::new();
    let mut unsampled = BTreeMap::new();
    let mut grown = 0;
    let mut processes: HashSet<ProcessKey> = HashSet::new();
    for (attributed, sums) in sites {
        grown += sums.private + sums.shared;
        if let Some(reason) = attributed.site.unsampled {
            *unsampled.entry(reason).or_default() += sums.private + sums.shared;
        }
        processes.extend(&attributed.growers);
        let frames = &attributed.site.frames;
        let user_frame = python::user_frame(frames).unwrap_or(&unseen);
        let inside = frames.first().filter(|running| *running != user_frame);
        let inside = inside.map(named);
        let users = python::user_or_framework_frame(frames).filter(|users| *users != user_frame);
        let users = users.or_else(|| python::user_caller(frames, user_frame));
        let users = users.map(named);
        let called = native::worth_saying(&attributed.site.called).map(native::named);
        let called = called.as_deref();
        let key = |line| (user_frame.file.as_str(), user_frame.function.as_str(), line);
        let line = Some(user_frame.line);
        let lines = lines.entry(key(user_frame.line));
        let beside = Beside {
            called,
            inside: inside.as_deref(),
            users: users.as_deref(),
        };
        add(lines, user_frame, line).count(*sums, beside);
        let functions = functions.entry(key(0));
        let beside = Beside {
            inside: None,
            ..beside
        };
        add(functions, user_frame, None).count(*sums, beside);
    }
    Growth {
        recording_id: None,
        class: class.to_owned(),
        processes: u32::try_from(processes.len()).unwrap_or(u32::MAX),
        grown_bytes: Bytes(grown),
        lines: largest(lines),
        functions: largest(functions),
        unsampled: by_reason(unsampled),
    }
}

fn by_reason(unsampled: BTreeMap<Unsampled, u64>) -> Vec<UnsampledGrowth> {
    let all = unsampled.into_iter();
    let mut all: Vec<UnsampledGrowth> = all
        .map(|(reason, bytes)| UnsampledGrowth {
            reason,
            grown_bytes: Bytes(bytes),
        })
        .collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.grown_bytes));
    all
}

fn add<'a>(
    entry: Entry<'a, (&str, &str, u32), Line>,
    attributed: &PythonFrame,
    line: Option<u32>,
) -> &'a mut Line {
    entry.or_insert_with(|| Line {
        growth: GrowthLine {
            file: attributed.file.clone(),
            line: line.filter(|line| *line > 0),
            function: attributed.function.clone(),
            held_bytes: Some(Bytes(0)),
            ..GrowthLine::default()
        },
        ..Line::default()
    })
}

impl Line {
    fn count(&mut self, sums: Sums, beside: Beside<'_>) {
        let known = &mut self.growth;
        let grown = sums.private + sums.shared;
        known.grown_bytes.0 += grown;
        known.shared_bytes.0 += sums.shared;
        let held = known.held_bytes.zip(sums.held);
        known.held_bytes = held.map(|(known, held)| Bytes(known.0 + held));
        let names = [
            (&mut self.called, beside.called),
            (&mut self.inside, beside.inside),
            (&mut self.users, beside.users),
        ];
        for (sums, name) in names {
            if let Some(name) = name {
                *sums.entry(name.to_owned()).or_default() += grown;
            }
        }
    }

    /// Adds the call through which most of it grew, the line that ran then, and the user's own
    /// line, each if it has at least half of the growth.
    fn into_growth_line(self) -> GrowthLine {
        let half = self.growth.grown_bytes.0.div_ceil(2);
        let most = |sums: BTreeMap<String, u64>| {
            let most = sums.into_iter().max_by_key(|(_, grown)| *grown);
            most.filter(|(_, grown)| *grown >= half)
                .map(|(name, _)| name)
        };
        GrowthLine {
            native: most(self.called),
            inside: most(self.inside),
            user_line: most(self.users),
            ..self.growth
        }
    }
}

fn largest<K>(lines: BTreeMap<K, Line>) -> Vec<GrowthLine> {
    let mut lines: Vec<GrowthLine> = lines.into_values().map(Line::into_growth_line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.grown_bytes));
    lines.truncate(MOST_LINES);
    lines
}

/// Formats stacks as `still held;Class;file:line function;…;library: function;… bytes`, the
/// outermost frame first.
pub(super) fn folded(named_owners: &[Arc<str>], sums: &[(&SiteGrowth, Sums)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, (attributed, sums)) in named_owners.iter().zip(sums) {
        let site = &attributed.site;
        let mut frames: Vec<String> = site.frames.iter().rev().map(named).collect();
        if frames.is_empty() {
            frames.push(NOT_SAMPLED.into());
        }
        let called = site.called.iter().rev().map(native::named);
        let stack: Vec<String> = std::iter::once(name.to_string())
            .chain(frames)
            .chain(called)
            .map(|frame| frame.replace(';', ","))
            .collect();
        let stack = stack.join(";");
        let private = match sums.held {
            Some(held) => vec![
                ("still held", held),
                ("given back", sums.private.saturating_sub(held)),
            ],
            None => vec![("held or given back", sums.private)],
        };
        for (what, bytes) in private.into_iter().chain([("shared memory", sums.shared)]) {
            if bytes > 0 {
                lines.push(format!("{what};{stack} {bytes}"));
            }
        }
    }
    lines.sort();
    lines
}

/// Formats a frame as `train.py:33 step`.
pub(super) fn named(frame: &PythonFrame) -> String {
    let file = path::short_code_path(&frame.file);
    match frame.line {
        0 => format!("{file} {}", frame.function),
        line => format!("{file}:{line} {}", frame.function),
    }
}
