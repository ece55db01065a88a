//! Two recordings side by side, as people read it.

use owo_colors::Style as Colour;

use crate::{
    ids::Bytes,
    judge::diff::{Diff, Fit, OwnerChange, OwnerSide, SettingChange, Side, Value},
    show::{
        Style,
        layout::{self, Page},
        sanitize::{self, columns},
        size::{of, percent, size},
        words,
    },
};

/// Rows of a table that are shown; JSON has them all.
const MOST: usize = 20;
/// Longest key and value of a table.
const KEY: usize = 46;
const VALUE: usize = 60;
/// Columns between two cells, before a row, and of the narrowest cell.
const GAP: usize = 2;
const INDENT: usize = 2;
const NARROWEST: usize = 15;

/// The whole comparison, coloured.
#[must_use]
pub fn render(diff: &Diff, style: &Style) -> String {
    let mut page = Page::new(style.width);
    for (name, side) in [("A ", &diff.a), ("B ", &diff.b)] {
        page.paragraph(name, Colour::new().bold(), &head(side, style), 2);
    }
    settings(&mut page, diff);
    memory(&mut page, diff);
    deaths(&mut page, diff);
    savings(&mut page, diff);
    fits(&mut page, diff);
    page.finish()
}

fn head(side: &Side, style: &Style) -> String {
    let mut parts = vec![sanitize::line(&side.file, sanitize::EVIDENCE)];
    parts.extend(side.host.as_deref().map(sanitize::name));
    parts.extend(side.memory_bytes.map(size));
    parts.extend(side.started.map(|started| {
        let began = style.zone.full(started);
        let seconds = side.seconds.unwrap_or_default();
        format!("{began}, {} s", words::thousands(seconds))
    }));
    parts.extend(side.peak.as_ref().map(|peak| {
        let share = percent(peak.used_bytes, peak.total_bytes);
        format!("peak {} ({share})", of(peak.used_bytes, peak.total_bytes))
    }));
    parts.join(" · ")
}

fn settings(page: &mut Page, diff: &Diff) {
    let same = words::count(diff.same_settings, "other is", "others are");
    let rows = diff.settings.iter().map(|change: &SettingChange| {
        let key = sanitize::line(&change.key, KEY);
        [
            key,
            value(change.a.as_ref()),
            value(change.b.as_ref()),
            source(change),
        ]
    });
    table(page, "SETTINGS", ["A", "B", ""], rows.collect());
    page.paragraph("  ", Colour::new(), &format!("{same} the same in both"), 2);
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
    let peaks = diff.owners.iter().map(|owner: &OwnerChange| {
        let class = sanitize::line(&owner.class, KEY);
        [
            class,
            held(owner.a),
            held(owner.b),
            signed(owner.peak_delta()),
        ]
    });
    table(
        page,
        "PEAK OF PRIVATE MEMORY",
        ["A", "B", "change"],
        peaks.collect(),
    );
    let per_call = |side: Option<OwnerSide>| side?.per_call_bytes;
    let grown = diff.owners.iter().filter_map(|owner| {
        let (a, b) = (per_call(owner.a), per_call(owner.b));
        (a.is_some() || b.is_some()).then(|| {
            let shown = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), Bytes::fine);
            let known = a.zip(b);
            let delta = known.map(|(a, b)| signed(i128::from(b.0) - i128::from(a.0)));
            let class = sanitize::line(&owner.class, KEY);
            [class, shown(a), shown(b), delta.unwrap_or_default()]
        })
    });
    table(
        page,
        "GROWTH PER CALL",
        ["A", "B", "change"],
        grown.collect(),
    );
}

/// `64.8 GiB in 8`: all of a class together, and how many they were.
fn held(side: Option<OwnerSide>) -> String {
    let Some(side) = side else {
        return "–".to_owned();
    };
    let peak = side.private_peak_bytes.map_or_else(|| "?".to_owned(), size);
    match side.processes {
        0 | 1 => peak,
        many => format!("{peak} in {many}"),
    }
}

fn signed(delta: i128) -> String {
    let bytes = Bytes(u64::try_from(delta.unsigned_abs()).unwrap_or(u64::MAX));
    match delta {
        0 => "0".to_owned(),
        1.. => format!("+{}", size(bytes)),
        _ => format!("−{}", size(bytes)),
    }
}

fn deaths(page: &mut Page, diff: &Diff) {
    let rows = diff.deaths.iter().map(|death| {
        let what = format!(
            "{} by {}",
            sanitize::name(&death.class),
            death.killer.name()
        );
        let delta = i64::from(death.b) - i64::from(death.a);
        let delta = if delta == 0 {
            "0".to_owned()
        } else {
            format!("{delta:+}")
        };
        [
            what,
            death.a.to_string(),
            death.b.to_string(),
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
    table(page, "DEATHS", ["A", "B", "change"], rows);
}

/// What findings of the first expected, beside what came.
fn savings(page: &mut Page, diff: &Diff) {
    if diff.savings.is_empty() {
        return;
    }
    page.blank();
    page.paragraph("WHAT WAS SAVED", Colour::new().bold(), "", 0);
    for saving in &diff.savings {
        let expected = signed(-i128::from(saving.expected_bytes.0));
        let text = format!(
            "{}: expected {expected}, seen {} at the peak of {}",
            sanitize::name(&saving.rule),
            signed(-i128::from(saving.seen_bytes)),
            sanitize::name(&saving.class)
        );
        page.paragraph("  ", Colour::new(), &text, 4);
    }
}

fn fits(page: &mut Page, diff: &Diff) {
    page.blank();
    page.paragraph("WHAT FITS THE CHANGE", Colour::new().bold(), "", 0);
    if diff.fits.is_empty() {
        let none = if diff.settings.is_empty() {
            "No setting that is known changed: look at the code, the data and the versions of the libraries."
        } else {
            "No setting that changed is known to move memory in this way or changed in proportion to it."
        };
        page.paragraph("  ", Colour::new(), none, 2);
    }
    let line = |fit: &Fit| {
        // It is copied from here.
        let key = sanitize::line(&fit.key, sanitize::EVIDENCE);
        format!("{key}: {}", sanitize::line(&fit.why, sanitize::EVIDENCE))
    };
    for (number, fit) in (1..).zip(&diff.fits) {
        let lead = format!("  {number} ");
        page.paragraph(
            &lead,
            Colour::new().bold(),
            &format!("{} (inferred)", line(fit)),
            4,
        );
    }
    for fit in &diff.cannot {
        page.paragraph(
            "  Cannot be the reason: ",
            Colour::new().dimmed(),
            &line(fit),
            4,
        );
    }
}

/// A heading and rows in columns; nothing where there are none. What is wider than the terminal goes on below, in its column.
fn table(page: &mut Page, title: &str, names: [&str; 3], mut rows: Vec<[String; 4]>) {
    if rows.is_empty() {
        return;
    }
    let left_out = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    let heading = [title, names[0], names[1], names[2]].map(str::to_owned);
    let mut widths = heading.clone().map(|cell| columns(&cell));
    // Rows stand further in than their heading.
    for row in &rows {
        for (at, cell) in row.iter().enumerate() {
            widths[at] = widths[at].max(columns(cell) + if at == 0 { INDENT } else { 0 });
        }
    }
    fit(&mut widths, page.width().saturating_sub(3 * GAP));
    page.blank();
    lines(page, &heading, widths, 0);
    for row in &rows {
        lines(page, row, widths, INDENT);
    }
    if left_out > 0 {
        let more = format!("{left_out} more: --format json");
        page.paragraph("  ", Colour::new(), &more, 2);
    }
}

/// Takes columns from the widest value, then from the keys, until all have room together.
fn fit(widths: &mut [usize; 4], room: usize) {
    while widths.iter().sum::<usize>() > room {
        let [key, values @ ..] = &mut *widths;
        let widest = values.iter_mut().max();
        let Some(column) = widest
            .filter(|widest| **widest > NARROWEST)
            .or_else(|| Some(key).filter(|key| **key > NARROWEST))
        else {
            return;
        };
        *column -= 1;
    }
}

/// One row: as many lines as its longest cell needs.
fn lines(page: &mut Page, cells: &[String; 4], widths: [usize; 4], indent: usize) {
    let mut at = 0;
    let wrapped = cells.each_ref().map(|cell| {
        let width = widths[at] - if at == 0 { indent } else { 0 };
        at += 1;
        layout::wrap(cell, width, 0, 0)
    });
    let count = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..count {
        let line = wrapped
            .each_ref()
            .map(|lines| lines.get(number).cloned().unwrap_or_default());
        page.paragraph("", Colour::new(), &aligned(&line, widths, indent), 0);
    }
}

/// Cells at their columns; padding is of no-break spaces, so that wrapping keeps it.
fn aligned(cells: &[String; 4], widths: [usize; 4], indent: usize) -> String {
    let mut line = "\u{a0}".repeat(indent);
    for (at, cell) in cells.iter().enumerate() {
        let used = if at == 0 { indent } else { 0 };
        line.push_str(&cell.replace(' ', "\u{a0}"));
        if at < 3 {
            let pad = widths[at].saturating_sub(columns(cell) + used);
            line.push_str(&"\u{a0}".repeat(pad + GAP));
        }
    }
    line
}

#[cfg(test)]
mod tests;
