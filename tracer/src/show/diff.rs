//! Two recordings side by side, as people read it.

mod nodes;
mod table;

use owo_colors::Style as Colour;

use crate::{
    ids::Bytes,
    judge::diff::{Diff, Fit, OwnerChange, OwnerSide, SettingChange, Side, Value},
    show::{
        Style,
        layout::Page,
        sanitize,
        size::{of, percent, size},
        words,
    },
};
use table::{table, with_notes};

/// Longest key and value of a table.
const KEY: usize = 46;
const VALUE: usize = 60;

/// The whole comparison, coloured.
#[must_use]
pub fn render(diff: &Diff, style: &Style) -> String {
    let mut page = Page::new(style.width);
    for (name, side) in [("A ", &diff.a), ("B ", &diff.b)] {
        page.paragraph(name, Colour::new().bold(), &head(side, style), 2);
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
            "highest peak"
        } else {
            "peak"
        };
        format!(
            "{of_all} {} ({share})",
            of(peak.used_bytes, peak.total_bytes)
        )
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
    let rows: Vec<_> = rows.collect();
    with_notes(page, "SETTINGS", ["A", "B"], &rows);
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
    let several = diff.nodes.is_some();
    let peaks = diff.owners.iter().map(|owner: &OwnerChange| {
        let class = sanitize::line(&owner.class, KEY);
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
    let per_call = |side: Option<OwnerSide>| side?.per_call_bytes;
    let grown = diff.owners.iter().filter_map(|owner| {
        let (a, b) = (per_call(owner.a), per_call(owner.b));
        (a.is_some() || b.is_some()).then(|| {
            let shown = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), Bytes::fine);
            let known = a.zip(b);
            let delta = known.map(|(a, b)| signed_by(fine, i128::from(b.0) - i128::from(a.0)));
            let class = sanitize::line(&owner.class, KEY);
            [class, shown(a), shown(b), delta.unwrap_or_default()]
        })
    });
    table(
        page,
        "GROWTH PER CALL",
        ["A", "B", "change"],
        &grown.collect::<Vec<_>>(),
    );
}

/// `64.8 GiB in 8`: all of a class together, and how many they were; with `on 2 of 4 nodes` where it did not run on all.
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

/// As the figures beside it; less than their unit is in KiB.
fn fine(bytes: Bytes) -> String {
    match bytes.0 {
        ..0x10_0000 => size(bytes),
        _ => bytes.fine(),
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
    table(page, "DEATHS", ["A", "B", "change"], &rows);
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

#[cfg(test)]
mod tests;
