//! Renders the comparison of two recordings as text.

mod nodes;
mod table;

use std::time::Duration;

use owo_colors::Style as Colour;

use crate::{
    ids::Bytes,
    judge::{
        diff::{
            Diff, Fit, JobEnd, OwnerChange, OwnerSide, SettingChange, Side, Value, WarnedKills,
        },
        report::{Killer, subprocess},
    },
    show::{
        Style, facts,
        layout::Page,
        live, sanitize,
        size::{of, percent, size},
        words,
    },
};
use table::{table, with_notes};

/// Longest key and value in a table, in characters.
const KEY: usize = 46;
const VALUE: usize = 60;
/// Stands for a growth that was not seen.
const NONE_SEEN: &str = "none seen";
/// Maximum number of jobs of each recording that have a line.
const MAX_JOBS: usize = 3;

/// Renders the whole comparison, with colours.
pub fn render(diff: &Diff, style: &Style) -> String {
    let mut page = Page::new(style.width);
    for (name, side) in [("A ", &diff.a), ("B ", &diff.b)] {
        page.paragraph(name, Colour::new().bold(), &head(side, style), 2);
        for job in jobs(side) {
            page.paragraph("  ", Colour::new(), &job, 4);
        }
    }
    settings(&mut page, diff);
    memory(&mut page, diff);
    nodes::section(&mut page, diff);
    deaths(&mut page, diff);
    savings(&mut page, diff);
    fits(&mut page, diff);
    page.finish()
}

fn head(side: &Side, style: &Style) -> String {
    let mut parts = vec![sanitize::line(&side.file, sanitize::EVIDENCE)];
    parts.extend(side.host.as_deref().map(sanitize::name));
    parts.extend((side.nodes > 1).then(|| format!("{} nodes", side.nodes)));
    parts.extend(side.memory_bytes.map(size));
    parts.extend(side.started.map(|started| {
        let began = style.zone.full(started);
        let seconds = side.seconds.unwrap_or_default();
        format!("{began}, {} s", words::thousands(seconds))
    }));
    parts.extend(side.peak.as_ref().map(|peak| {
        let share = percent(peak.used_bytes, peak.total_bytes);
        let of_all = if side.nodes > 1 {
            "highest peak of a machine"
        } else {
            "machine's peak"
        };
        format!(
            "{of_all} {} ({share})",
            of(peak.used_bytes, peak.total_bytes)
        )
    }));
    parts.join(" · ")
}

/// Returns a line for each of the first jobs, like `job 01000000 FAILED: WorkerDict by
/// Ray's memory monitor, above its threshold of 5.6 of 6.0 GiB`.
fn jobs(side: &Side) -> Vec<String> {
    let told = |job: &JobEnd| {
        let by = job.class.as_ref().zip(job.killer);
        let by = by.map_or_else(String::new, |(class, killer)| {
            let probably = if job.probable { "probably " } else { "" };
            let class = sanitize::name(class);
            format!(": {probably}{class} {}", killer.words().by)
        });
        let limit = job.limit_bytes.map_or_else(String::new, |limit| {
            let total = job.limit_of_bytes;
            let limit = total.map_or_else(|| size(limit), |total| of(limit, total));
            match job.killer {
                Some(Killer::RayMemoryMonitor) => format!(", above its threshold of {limit}"),
                Some(Killer::KernelOomMemcg) => format!(", at the limit of {limit} of its cgroup"),
                _ => format!(", at a limit of {limit}"),
            }
        });
        let id = sanitize::name(&job.job_id.0);
        format!("job {id} {}{by}{limit}", words::outcome(job.outcome))
    };
    let mut lines: Vec<String> = side.jobs.iter().take(MAX_JOBS).map(told).collect();
    let more = side.jobs.len().saturating_sub(MAX_JOBS);
    if more > 0 {
        lines.push(format!(
            "{} (--format json)",
            words::count(more, "more job", "more jobs")
        ));
    }
    lines
}

fn settings(page: &mut Page, diff: &Diff) {
    let mut last = String::new();
    let rows = diff.settings.iter().map(|change: &SettingChange| {
        // Users copy the key from here, so it gets more room. A source is not repeated in the next
        // row.
        let key = sanitize::line(&change.key, sanitize::EVIDENCE);
        let source = source(change);
        let note = if source == last {
            String::new()
        } else {
            last.clone_from(&source);
            source
        };
        [
            key,
            value(change.a.as_ref()),
            value(change.b.as_ref()),
            note,
        ]
    });
    let rows: Vec<_> = rows.collect();
    with_notes(page, "SETTINGS", ["A", "B"], &rows);
    match (rows.is_empty(), diff.same_settings) {
        (_, 0) => {}
        (true, same) => {
            let same = words::count(same, "is", "are");
            page.blank();
            let text = format!("none changed; {same} the same in both");
            page.paragraph("SETTINGS ", Colour::new().bold(), &text, 2);
        }
        (false, same) => {
            let same = words::count(same, "other is", "others are");
            page.paragraph("  ", Colour::new(), &format!("{same} the same in both"), 2);
        }
    }
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.effective => sanitize::line(&value.value, VALUE),
        Some(value) => format!("{} (no effect)", sanitize::line(&value.value, VALUE)),
    }
}

fn source(change: &SettingChange) -> String {
    let known = change.b.as_ref().or(change.a.as_ref());
    known.map_or_else(String::new, |value| sanitize::name(&value.source))
}

fn memory(page: &mut Page, diff: &Diff) {
    let several = diff.nodes.is_some();
    let folds = diff.owners.iter().any(has_changed);
    let (changed, alike): (Vec<_>, Vec<_>) =
        (diff.owners.iter()).partition(|owner| !folds || has_changed(owner));
    let shares = counts_shared_pages(diff);
    let peaks = changed.into_iter().map(|owner: &OwnerChange| {
        let class = sanitize::line(&owner.class, KEY);
        // What children made by fork share is never added up.
        if shares && is_of_children(owner) {
            let [a, b] = [owner.a, owner.b].map(one);
            let delta = i128::from(b.1.0) - i128::from(a.1.0);
            return [class, a.0, b.0, signed_by(words::size_of_one, delta)];
        }
        [
            class,
            held(owner.a, diff.a.nodes),
            held(owner.b, diff.b.nodes),
            signed(owner.peak_delta()),
        ]
    });
    let title = if several {
        "PEAKS ADDED OVER NODES"
    } else {
        "PEAK OF PRIVATE MEMORY"
    };
    table(
        page,
        title,
        ["A", "B", "change"],
        &peaks.collect::<Vec<_>>(),
    );
    if !alike.is_empty() {
        let others = words::count(alike.len(), "other class", "other classes");
        let text = format!("{others} changed by less than 1 % or 1 MiB");
        page.paragraph("  ", Colour::new(), &text, 2);
    }
    if shares {
        let text = format!("({})", facts::SHARED_BY_FORK);
        page.paragraph("  ", Colour::new(), &text, 2);
    }
    let per_call = |side: Option<OwnerSide>| side?.per_call_bytes;
    let grown = diff.owners.iter().filter_map(|owner| {
        let (a, b) = (per_call(owner.a), per_call(owner.b));
        (a.is_some() || b.is_some()).then(|| {
            let shown = |side: Option<OwnerSide>| match (side, per_call(side)) {
                (_, Some(bytes)) => bytes.finer_size(),
                (Some(_), None) => NONE_SEEN.to_owned(),
                (None, None) => "–".to_owned(),
            };
            let delta = match (a, b) {
                (Some(a), Some(b)) => signed_by(fine, i128::from(b.0) - i128::from(a.0)),
                _ => "–".to_owned(),
            };
            let class = sanitize::line(&owner.class, KEY);
            [class, shown(owner.a), shown(owner.b), delta]
        })
    });
    let grown: Vec<_> = grown.collect();
    table(page, "GROWTH PER CALL", ["A", "B", "change"], &grown);
    if grown
        .iter()
        .any(|[_, a, b, _]| a == NONE_SEEN || b == NONE_SEEN)
    {
        let text = format!("{NONE_SEEN}: no steady growth, or fewer than five complete calls");
        page.paragraph("  ", Colour::new(), &text, 2);
    }
}

/// Returns whether the classes of a run with subprocesses held more than its machine had in use.
fn counts_shared_pages(diff: &Diff) -> bool {
    let is_above = |side: &Side, of: fn(&OwnerChange) -> Option<OwnerSide>| {
        let held = diff
            .owners
            .iter()
            .filter_map(|owner| of(owner)?.private_peak_bytes);
        let held: u64 = held.map(|bytes| bytes.0).sum();
        side.peak.is_some_and(|peak| held > peak.used_bytes.0)
    };
    diff.nodes.is_none()
        && diff.owners.iter().any(is_of_children)
        && (is_above(&diff.a, |owner| owner.a) || is_above(&diff.b, |owner| owner.b))
}

fn is_of_children(owner: &OwnerChange) -> bool {
    owner.class.ends_with(&subprocess(""))
}

/// Returns `2 × 446 MiB`, and the size of one process.
fn one(side: Option<OwnerSide>) -> (String, Bytes) {
    let Some((processes, peak)) =
        side.and_then(|side| Some((side.processes, side.private_peak_bytes?)))
    else {
        return ("–".to_owned(), Bytes(0));
    };
    let each = Bytes(peak.0 / u64::from(processes.max(1)));
    let size = words::size_of_one(each);
    (format!("{processes} × {size}"), each)
}

/// Returns whether a peak changed by at least 1 MiB and 1 %.
fn has_changed(owner: &OwnerChange) -> bool {
    let peak = |side: Option<OwnerSide>| {
        let bytes = side.and_then(|side| side.private_peak_bytes);
        bytes.map_or(0, |bytes| bytes.0)
    };
    let delta = owner.peak_delta().unsigned_abs();
    let most = u128::from(peak(owner.a).max(peak(owner.b)));
    delta >= 1 << 20 && delta * 100 >= most
}

/// Returns `64.8 GiB in 8`: the memory of a class and the number of its processes. If it did not
/// run on all nodes, this ends in `on 2 of 4 nodes`.
fn held(side: Option<OwnerSide>, nodes: u32) -> String {
    let Some(side) = side else {
        return "–".to_owned();
    };
    let peak = side.private_peak_bytes.map_or_else(|| "?".to_owned(), size);
    match (side.processes, side.nodes) {
        (many, on) if on < nodes => format!("{peak} in {many} on {on} of {nodes} nodes"),
        (0 | 1, _) => peak,
        (many, _) => format!("{peak} in {many}"),
    }
}

fn signed(delta: i128) -> String {
    signed_by(size, delta)
}

fn signed_by(shown: fn(Bytes) -> String, delta: i128) -> String {
    let bytes = Bytes(u64::try_from(delta.unsigned_abs()).unwrap_or(u64::MAX));
    match delta {
        0 => "0".to_owned(),
        1.. => format!("+{}", shown(bytes)),
        _ => format!("−{}", shown(bytes)),
    }
}

/// Formats bytes like the figures beside them. Below 1 MiB the unit is KiB.
fn fine(bytes: Bytes) -> String {
    match bytes.0 {
        ..0x10_0000 => size(bytes),
        _ => bytes.finer_size(),
    }
}

/// Returns `3`, or `3 (2 warned, 74 s before or more)` if there were warnings.
fn count(deaths: u32, warned: Option<WarnedKills>) -> String {
    let Some(warned) = warned else {
        return deaths.to_string();
    };
    let before = live::duration(Duration::from_millis(warned.ms_before));
    match warned.kills {
        1 if deaths == 1 => format!("1 (warned {before} before)"),
        1 => format!("{deaths} (1 warned, {before} before)"),
        kills => format!("{deaths} ({kills} warned, {before} before or more)"),
    }
}

fn deaths(page: &mut Page, diff: &Diff) {
    let rows = diff.deaths.iter().map(|death| {
        let what = format!(
            "{} {}",
            sanitize::name(&death.class),
            death.killer.words().by
        );
        let delta = i64::from(death.b) - i64::from(death.a);
        let delta = if delta == 0 {
            "0".to_owned()
        } else {
            format!("{delta:+}")
        };
        [
            what,
            count(death.a, death.a_warned),
            count(death.b, death.b_warned),
            delta.replace('-', "−"),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        page.blank();
        page.paragraph(
            "DEATHS ",
            Colour::new().bold(),
            "no abnormal deaths in either",
            2,
        );
    }
    table(page, "DEATHS", ["A", "B", "change"], &rows);
}

/// Writes what findings of the first recording expected to save, and what was measured.
fn savings(page: &mut Page, diff: &Diff) {
    if diff.savings.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("WHAT WAS SAVED", Colour::new().bold(), "", 0);
    for saving in &diff.savings {
        let expected = signed(-i128::from(saving.expected_bytes.0));
        let class = sanitize::name(&saving.class);
        let measured = saving.seen_bytes.map_or_else(
            || {
                let (a, b) = (saving.a_calls, saving.b_calls);
                format!("not measured: B made {b} calls of it, A {a}")
            },
            |seen| format!("measured {}", signed(-i128::from(seen))),
        );
        let number = saving.finding;
        let text = format!(
            "finding {number} of A: expected {expected} at the peak of {class}, {measured}"
        );
        page.paragraph("  ", Colour::new(), &text, 4);
    }
}

fn fits(page: &mut Page, diff: &Diff) {
    page.blank();
    page.paragraph("WHAT EXPLAINS THE CHANGE", Colour::new().bold(), "", 0);
    if diff.explains.is_empty() {
        let none = if diff.settings.is_empty() {
            "No known setting changed: look at the code, the data and the versions of libraries."
        } else {
            "No changed setting is known to explain these changes, and none changed by the same factor as a figure above."
        };
        page.paragraph("  ", Colour::new(), none, 2);
    }
    for (number, text) in (1..).zip(reasons(&diff.explains)) {
        let lead = format!("  {number} ");
        let text = format!("{text} (inferred)");
        page.paragraph(&lead, Colour::new().bold(), &text, 4);
    }
    if !diff.may_explain.is_empty() {
        let keys = diff.may_explain.iter();
        let keys: Vec<String> = keys
            .map(|fit| sanitize::line(&fit.key, sanitize::EVIDENCE))
            .collect();
        let lead = "  Changed as well, and may matter; their effects cannot be told apart: ";
        page.paragraph(lead, Colour::new().dimmed(), &keys.join(", "), 4);
    }
    for text in reasons(&diff.cannot_explain) {
        let lead = "  Cannot be the reason: ";
        page.paragraph(lead, Colour::new().dimmed(), &text, 4);
    }
}

/// Returns `KEY, KEY: why`. Settings with the same reason are told together.
fn reasons(fits: &[Fit]) -> Vec<String> {
    // Users copy the key from here.
    let key = |fit: &Fit| sanitize::line(&fit.key, sanitize::EVIDENCE);
    let told = words::grouped(fits.iter().map(|fit| (&fit.why, key(fit))));
    let told = told.into_iter().map(|(why, keys)| {
        let why = sanitize::line(why, sanitize::EVIDENCE);
        format!("{}: {why}", keys.join(", "))
    });
    told.collect()
}

#[cfg(test)]
mod tests;
