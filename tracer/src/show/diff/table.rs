//! Writes the tables of a comparison: columns fit the page, and long cells wrap in their column.

use owo_colors::Style as Colour;

use crate::show::{
    layout::{self, Page},
    sanitize::columns,
};

/// Maximum number of rows of a table. JSON has them all.
const MOST: usize = 20;
/// In columns: the gap between two cells, the indent of a row, and the narrowest cell.
const GAP: usize = 2;
const INDENT: usize = 2;
const NARROWEST: usize = 15;

/// The cells of a row.
pub(super) type Row = [String; 4];

/// Writes a heading and rows in columns, or nothing if there are no rows. Cells that are too wide
/// for the page wrap in their column.
pub(super) fn table(page: &mut Page, title: &str, names: [&str; 3], rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let heading = [title, names[0], names[1], names[2]].map(str::to_owned);
    let shown = shown(rows);
    let mut widths = natural(&heading, shown.iter());
    fit(&mut widths, page.width().saturating_sub(3 * GAP));
    page.blank();
    lines(page, &heading, widths, 0);
    for row in shown {
        lines(page, row, widths, INDENT);
    }
    more(page, rows);
}

/// Writes a table with notes in its last column.
///
/// If the notes do not fit beside the other cells, each is on a line below its row. A row that does
/// not fit even without its note is split into lines: its key, then its two values.
pub(super) fn with_notes(page: &mut Page, title: &str, names: [&str; 2], rows: &[Row]) {
    let heading = [title, names[0], names[1], ""].map(str::to_owned);
    let all: usize = natural(&heading, shown(rows).iter()).iter().sum();
    if rows.is_empty() || all + 3 * GAP <= page.width() {
        return table(page, title, [names[0], names[1], ""], rows);
    }
    let bare: Vec<Row> = shown(rows).iter().map(without_note).collect();
    let short = short(&heading, &bare, page.width().saturating_sub(2 * GAP));
    let in_columns = bare.iter().zip(&short).filter(|(_, short)| **short);
    let widths = natural(&heading, in_columns.map(|(row, _)| row));
    page.blank();
    lines(page, &heading, widths, 0);
    for ((row, bare), short) in rows.iter().zip(&bare).zip(short) {
        if short {
            lines(page, bare, widths, INDENT);
            below(page, "", &row[3]);
        } else {
            stacked(page, row, names);
        }
    }
    more(page, rows);
}

fn shown(rows: &[Row]) -> &[Row] {
    rows.get(..MOST).unwrap_or(rows)
}

fn more(page: &mut Page, rows: &[Row]) {
    let left_out = rows.len().saturating_sub(MOST);
    if left_out > 0 {
        let more = format!("{left_out} more: --format json");
        page.paragraph("  ", Colour::new(), &more, 2);
    }
}

fn without_note(row: &Row) -> Row {
    let [key, a, b, _] = row;
    [key.clone(), a.clone(), b.clone(), String::new()]
}

/// Returns which rows fit in columns together. The widest rows are left out until the others fit.
fn short(heading: &Row, rows: &[Row], room: usize) -> Vec<bool> {
    let mut short = vec![true; rows.len()];
    let wide = |row: &Row| row.iter().map(|cell| columns(cell)).sum::<usize>();
    loop {
        let kept = rows.iter().zip(&short).filter(|(_, short)| **short);
        let widths = natural(heading, kept.map(|(row, _)| row));
        let widest = (0..rows.len())
            .filter(|at| short[*at])
            .max_by_key(|at| wide(&rows[*at]));
        match widest {
            Some(widest) if widths.iter().sum::<usize>() > room => short[widest] = false,
            _ => return short,
        }
    }
}

/// Writes a key with its note, and a line for each of its two values.
fn stacked(page: &mut Page, row: &Row, names: [&str; 2]) {
    let [key, a, b, note] = row;
    let note = if note.is_empty() {
        String::new()
    } else {
        format!(" ({note})")
    };
    let lead = " ".repeat(INDENT);
    page.paragraph(&lead, Colour::new(), &format!("{key}{note}"), 2 * INDENT);
    for (name, value) in names.into_iter().zip([a, b]) {
        below(page, &format!("{name}  "), value);
    }
}

/// Writes a line below a row, with a larger indent.
fn below(page: &mut Page, name: &str, text: &str) {
    if !text.is_empty() {
        let lead = format!("{}{name}", " ".repeat(2 * INDENT));
        page.paragraph(&lead, Colour::new(), text, columns(&lead));
    }
}

/// Returns the width of each column by its widest cell. Rows have a larger indent than their
/// heading.
fn natural<'a>(heading: &Row, rows: impl Iterator<Item = &'a Row>) -> [usize; 4] {
    let mut widths = heading.each_ref().map(|cell| columns(cell));
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            widths[at] = widths[at].max(columns(cell) + if at == 0 { INDENT } else { 0 });
        }
    }
    widths
}

/// Narrows the widest values, then the keys, until all columns fit in `room`.
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

/// Writes one row, with as many lines as its longest cell needs.
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

/// Aligns cells to their columns. Padding is no-break spaces, because wrapping keeps those.
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
    line.trim_end_matches('\u{a0}').to_owned()
}
