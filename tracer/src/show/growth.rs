//! Describes what grew, by owner and line of Python, in sentences that text and HTML share.

use std::collections::BTreeMap;

use crate::{
    event::Unsampled,
    ids::{Bytes, Pid},
    judge::report::{Growth, GrowthLine, NOT_SAMPLED, Owner, Report},
    path,
    phrase::when,
    show::{
        fleet, sanitize,
        size::{share, size},
        view::View,
        words,
    },
};

/// An owner has a line if it grew by at least this much, and by at least this share of all growth.
const SMALLEST: Bytes = Bytes(64 << 20);
const SMALLEST_OWNER: f64 = 0.05;
/// Maximum number of owners, and of lines of each, unless all are asked for.
const MAX_OWNERS: usize = 5;
const MAX_LINES: usize = 3;
/// A line is shown if it has at least this share of its owner's growth.
const SMALLEST_SHARE: f64 = 0.05;

/// Returns for each owner the sentence about its first line, and those about the next ones.
pub fn lines(view: &View<'_>) -> Vec<(String, Vec<String>)> {
    owners(view, |_| true)
}

/// Returns the same for these classes only.
pub fn lines_of(view: &View<'_>, classes: &[String]) -> Vec<(String, Vec<String>)> {
    owners(view, |growth| classes.contains(&growth.class))
}

fn owners(view: &View<'_>, wanted: impl Fn(&Growth) -> bool) -> Vec<(String, Vec<String>)> {
    let all = view.shown.all;
    let report = &view.shown.report;
    let growth = &report.growth;
    let whole = Bytes(growth.iter().map(|growth| growth.grown_bytes.0).sum());
    let growth = growth.iter().filter(|growth| {
        let part = share(growth.grown_bytes, whole) >= SMALLEST_OWNER;
        wanted(growth) && growth.grown_bytes >= SMALLEST && (all || part)
    });
    let told = growth.take(view.at_most(MAX_OWNERS));
    told.map(|growth| owner(growth, report, all)).collect()
}

/// Returns `WorkerDict (2 processes) took at least 8.7 GiB over the run (at most 3.7 GiB at once)`.
/// Memory that is freed and taken again counts each time, if it was seen. The peak is of private
/// memory.
fn taken(growth: &Growth, report: &Report) -> String {
    let class = sanitize::name(&growth.class);
    let count = usize::try_from(growth.processes).unwrap_or(usize::MAX);
    let number = match count {
        1 => String::new(),
        count => format!(" ({})", words::count(count, "process", "processes")),
    };
    let of_class = report.owners.iter();
    let its =
        |owner: &&Owner| owner.class == growth.class && owner.recording_id == growth.recording_id;
    let of_class = of_class.filter(its);
    let peak = of_class.filter_map(|owner| owner.private_peak_bytes).max();
    let peak = peak.filter(|peak| *peak < growth.grown_bytes);
    // The growth counts shared memory that was touched, the peak does not.
    let shared = growth.lines.iter().any(|line| line.shared_bytes.0 > 0);
    let private = if shared { " private" } else { "" };
    let peak = peak.map_or_else(String::new, |peak| {
        format!(" (at most {}{private} at once)", size(peak))
    });
    let grown = size(growth.grown_bytes);
    let node = growth.recording_id;
    let node = node.and_then(|id| fleet::node_of_recording(report, id));
    let on = node.map_or_else(String::new, |node| format!(" on {node}"));
    format!("{class}{number}{on} took at least {grown} over the run{peak}")
}

fn owner(growth: &Growth, report: &Report, all: bool) -> (String, Vec<String>) {
    let grown = growth.grown_bytes;
    let taken = taken(growth, report);
    let mut lines: Vec<&GrowthLine> = growth
        .lines
        .iter()
        .filter(|line| all || share(line.grown_bytes, grown) >= SMALLEST_SHARE)
        .collect();
    // Growth by unknown lines comes last, however much it is.
    lines.sort_by_key(|line| line.line.is_none());
    let mut lines = lines.into_iter();
    let Some(first) = lines.next() else {
        return (format!("{taken}, by many lines"), Vec::new());
    };
    let text = format!(
        "{taken}: {} of it by {}",
        percent(first.grown_bytes, grown),
        line(first)
    );
    let most = if all { usize::MAX } else { MAX_LINES - 1 };
    let next = lines
        .take(most)
        .map(|one| format!("{} by {}", percent(one.grown_bytes, grown), line(one)));
    (text, next.collect())
}

fn percent(part: Bytes, whole: Bytes) -> String {
    format!("{:.0}\u{a0}%", 100.0 * share(part, whole))
}

/// Returns `50 % of the growth that was seen; 33 % of it has no line`.
pub fn part_of_growth(line: &GrowthLine, of: &Growth) -> String {
    let lines = of.lines.iter().filter(|line| line.line.is_none());
    let unknown = Bytes(lines.map(|line| line.grown_bytes.0).sum());
    let part = percent(line.grown_bytes, of.grown_bytes);
    let without = percent(unknown, of.grown_bytes);
    let rest = format!("; {without} of it has no line");
    let rest = when(share(unknown, of.grown_bytes) >= 0.01, &rest);
    format!("{part} of the growth that was seen{rest}")
}

/// `fsdp_workers.py:612 save_checkpoint, in torch/serialization.py:849 _save (in libtorch_cpu.so:
/// at::detail::empty_cpu); 9.8 GiB still held`.
fn line(line: &GrowthLine) -> String {
    format!("{}; {}", place(line), fate(line))
}

/// Returns the user's own line, what it called, and the library in which that ran: `dp_actor.py:245
/// forward, in qwen2.py:463 forward (in libtorch_cpu.so: …)`.
pub fn place(line: &GrowthLine) -> String {
    if line.line.is_none() && line.function == NOT_SAMPLED {
        return "unknown lines (not sampled)".to_owned();
    }
    let file = path::short_code_path(&line.file);
    let number = line
        .line
        .map_or_else(String::new, |number| format!(":{number}"));
    let place = format!("{file}{number} {}", line.function);
    let mut text = sanitize::line(place.trim(), 2 * sanitize::NAME);
    if let Some(caller) = line.caller() {
        let caller = sanitize::line(caller, 2 * sanitize::NAME);
        text.push_str(&format!(" (called by {caller})"));
    } else if let Some(users) = &line.user_line {
        text = format!("{}, in {text}", sanitize::line(users, 2 * sanitize::NAME));
    }
    if let Some(inside) = &line.inside {
        text.push_str(&format!(
            ", in {}",
            sanitize::line(inside, 2 * sanitize::NAME)
        ));
    }
    if let Some(native) = &line.native {
        text.push_str(&format!(
            " (in {})",
            sanitize::line(native, 2 * sanitize::NAME)
        ));
    }
    text
}

/// Returns what became of the memory that a line took.
fn fate(line: &GrowthLine) -> String {
    let private = Bytes(line.grown_bytes.0.saturating_sub(line.shared_bytes.0));
    if share(line.shared_bytes, line.grown_bytes) >= 0.95 {
        return "shared memory".into();
    }
    let mut text = match line.held_bytes {
        None => "may have been freed since".to_owned(),
        Some(held) if share(held, private) >= 0.95 => "still held".into(),
        Some(held) if share(held, private) <= 0.05 => "all freed".into(),
        Some(held) => format!("{} still held", size(held)),
    };
    if share(line.shared_bytes, line.grown_bytes) > 0.05 {
        text.push_str(&format!(
            "; {} of the growth is shared memory",
            size(line.shared_bytes)
        ));
    }
    text
}

/// Returns a line for each reason why stacks of processes could not be read, and one about growth
/// of which no stack was seen.
pub fn unread(view: &View<'_>) -> Vec<String> {
    let unread = view.shown.report.unread_stacks.iter();
    let reasons = words::grouped(unread.map(|one| (one.reason.as_str(), one.pid)));
    let line = |(reason, pids): (&str, Vec<Pid>)| {
        let who = match pids.as_slice() {
            [pid] => format!("pid {pid}"),
            pids => words::count(pids.len(), "process", "processes"),
        };
        format!(
            "no Python stacks of {who}: {}",
            sanitize::line(reason, sanitize::EVIDENCE)
        )
    };
    reasons
        .into_iter()
        .map(line)
        .chain(unsampled(view))
        .collect()
}

/// Returns how much growth has no line of Python, and why, if that is much.
fn unsampled(view: &View<'_>) -> Option<String> {
    let growth = &view.shown.report.growth;
    let mut reasons: BTreeMap<Unsampled, u64> = BTreeMap::new();
    for one in growth.iter().flat_map(|growth| &growth.unsampled) {
        *reasons.entry(one.reason).or_default() += one.grown_bytes.0;
    }
    let all = Bytes(reasons.values().sum());
    if all < SMALLEST {
        return None;
    }
    let whole = Bytes(growth.iter().map(|growth| growth.grown_bytes.0).sum());
    let mut reasons: Vec<(Unsampled, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let reasons = reasons
        .into_iter()
        .map(|(reason, bytes)| format!("{} {}", size(Bytes(bytes)), because(reason)));
    let reasons: Vec<String> = reasons.collect();
    Some(format!(
        "{} of {} have no line of Python: {}",
        size(all),
        size(whole),
        reasons.join(", ")
    ))
}

fn because(reason: Unsampled) -> &'static str {
    match reason {
        Unsampled::NoTime => "because the time for stacks was spent",
        Unsampled::TooShort => "of lines that ended before their stack was read",
        Unsampled::TooSlow => "of growth too slow for a stack to be read",
        Unsampled::TooMany => "because too many lines grew at a time",
        Unsampled::Unreadable => "of processes without readable stacks",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::report::{Node, UnsampledGrowth},
        show::{
            sample,
            select::{Kill, SelectedReport, Selection, select},
        },
    };

    fn grew(line: u32, function: &str, grown: u64, held: Option<u64>) -> GrowthLine {
        GrowthLine {
            file: "/v/lib/python3.11/site-packages/verl/fsdp_workers.py".into(),
            line: Some(line),
            function: function.into(),
            user_line: None,
            inside: (line == 612).then(|| "torch/serialization.py:849 _save".into()),
            native: (line != 90).then(|| "libtorch_cpu.so: at::detail::empty_cpu".into()),
            grown_bytes: Bytes(grown << 20),
            shared_bytes: Bytes(0),
            held_bytes: held.map(|held| Bytes(held << 20)),
        }
    }

    #[test]
    fn growth_lines_say_what_was_freed() {
        let mut report = sample::verl();
        report.growth = vec![Growth {
            recording_id: None,
            class: "WorkerDict".into(),
            processes: 4,
            grown_bytes: Bytes(12_698 << 20),
            lines: vec![
                grew(612, "save_checkpoint", 9_904, Some(9_904)),
                grew(87, "step", 2_000, Some(0)),
                grew(90, "step", 700, None),
            ],
            functions: Vec::new(),
            unsampled: Vec::new(),
        }];
        let shown = SelectedReport::whole(&report);
        let style = sample::style();
        let found = lines(&View::new(&shown, &style));
        assert_eq!(
            found,
            [(
                "WorkerDict (4 processes) took at least 12.4 GiB over the run: 78\u{a0}% of it by verl/fsdp_workers.py:612 save_checkpoint, in torch/serialization.py:849 _save (in libtorch_cpu.so: at::detail::empty_cpu); still held".to_owned(),
                vec![
                    "16\u{a0}% by verl/fsdp_workers.py:87 step (in libtorch_cpu.so: at::detail::empty_cpu); all freed".to_owned(),
                    "6\u{a0}% by verl/fsdp_workers.py:90 step; may have been freed since".to_owned()
                ]
            )]
        );
    }

    #[test]
    fn share_of_a_line_is_of_what_was_seen() {
        let unknown = GrowthLine {
            line: None,
            ..grew(0, NOT_SAMPLED, 300, None)
        };
        let growth = Growth {
            recording_id: None,
            class: "load".into(),
            processes: 1,
            grown_bytes: Bytes(1000 << 20),
            lines: vec![grew(90, "step", 500, None), unknown],
            functions: Vec::new(),
            unsampled: Vec::new(),
        };
        assert_eq!(
            part_of_growth(&growth.lines[0], &growth),
            "50\u{a0}% of the growth that was seen; 30\u{a0}% of it has no line"
        );
    }

    /// Who gets what a line of the user's allocates may keep it.
    #[test]
    fn line_names_its_caller_in_another_file() {
        let line = GrowthLine {
            file: "/home/u/memory.py".into(),
            user_line: Some("main.py:25 Actor.step".into()),
            inside: Some("numpy/_core/numeric.py:330 full".into()),
            ..grew(8, "hold", 500, None)
        };
        assert!(
            place(&line).starts_with(
                "memory.py:8 hold (called by main.py:25 Actor.step), in numpy/_core/numeric.py"
            ),
            "{}",
            place(&line)
        );
    }

    #[test]
    fn unsampled_growth_is_told_with_its_reasons() {
        let mut report = sample::verl();
        let unsampled = |reason, mebibytes: u64| UnsampledGrowth {
            reason,
            grown_bytes: Bytes(mebibytes << 20),
        };
        let growth = |unsampled| Growth {
            recording_id: None,
            class: "WorkerDict".into(),
            processes: 4,
            grown_bytes: Bytes(1 << 30),
            lines: Vec::new(),
            functions: Vec::new(),
            unsampled,
        };
        let told = |report: &Report| {
            let (shown, style) = (SelectedReport::whole(report), sample::style());
            unread(&View::new(&shown, &style))
        };
        report.growth = vec![growth(vec![unsampled(Unsampled::TooSlow, 40)])];
        assert_eq!(told(&report), Vec::<String>::new());
        let no_time = unsampled(Unsampled::NoTime, 234);
        report.growth.push(growth(vec![no_time]));
        assert_eq!(
            told(&report),
            [
                "0.3 GiB of 2.0 GiB have no line of Python: 0.2 GiB because the time for stacks was spent, 40 MiB of growth too slow for a stack to be read"
            ]
        );
    }

    #[test]
    fn growth_of_several_recordings_names_its_node() {
        let mut report = sample::verl();
        let grown = |recording, node: &str| {
            let node = Node {
                name: node.into(),
                recordings: vec![recording],
                ..Node::default()
            };
            let growth = Growth {
                recording_id: Some(recording),
                class: "WorkerDict".into(),
                processes: 1,
                grown_bytes: Bytes(1 << 30),
                lines: Vec::new(),
                functions: Vec::new(),
                unsampled: Vec::new(),
            };
            (node, growth)
        };
        let all = [grown(0, "n0/31b53872"), grown(1, "n0/cf3f7bc4")];
        (report.nodes, report.growth) = all.into_iter().unzip();
        let selection = Selection {
            kill: Some(Kill::Number(1)),
            ..Selection::default()
        };
        let style = sample::style();
        let words = |shown: &SelectedReport| -> Vec<String> {
            let lines = lines(&View::new(shown, &style)).into_iter();
            lines.map(|(text, _)| text).collect()
        };
        let both = words(&SelectedReport::whole(&report));
        assert_eq!(
            both,
            [
                "WorkerDict on n0/31b53872 took at least 1.0 GiB over the run, by many lines",
                "WorkerDict on n0/cf3f7bc4 took at least 1.0 GiB over the run, by many lines",
            ]
        );
        // A recorder that saw both nodes does not know whose growth it is.
        let mut of_one = report.clone();
        of_one.nodes[1].recordings = vec![0];
        let host = &report.recordings[0].host.name;
        let words_of_one = words(&SelectedReport::whole(&of_one));
        assert_eq!(
            words_of_one[0],
            format!("WorkerDict on {host} took at least 1.0 GiB over the run, by many lines")
        );
        // All deaths are of recording 0.
        let mut other = report.deaths[0].clone();
        (other.id, other.recording_id) = (other.id.in_recording(1), Some(1));
        report.deaths.push(other);
        let one = words(&select(report.clone(), &selection));
        assert_eq!(one, both[..1]);
    }
}
