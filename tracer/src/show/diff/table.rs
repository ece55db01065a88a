//! Tables of a comparison: columns that fit the page, cells that go on below where they are wider.

use owo_colors::Style as Colour;

use crate::show::{
    layout::{self, Page},
    sanitize::columns,
};

/// Rows of a table that are shown; JSON has them all.
const MOST: usize = 20;
/// Columns between two cells, before a row, and of the narrowest cell.
const GAP: usize = 2;
const INDENT: usize = 2;
const NARROWEST: usize = 15;

/// A row's cells.
pub(super) type Row = [String; 4];

/// A heading and rows in columns; nothing where there are none. What is wider than the terminal goes on below, in its column.
pub(super) fn table(page: &mut Page, title: &str, names: [&str; 3], rows: Vec<Row>) {
    let heading = [title, names[0], names[1], names[2]].map(str::to_owned);
    print(page, &heading, rows, |_, _| {});
}

/// The same, with the last cell of each row on a line of its own below it where all four have no room side by side.
pub(super) fn with_notes(page: &mut Page, title: &str, names: [&str; 2], mut rows: Vec<Row>) {
    let heading = [title, names[0], names[1], ""].map(str::to_owned);
    if natural(&heading, &rows).iter().sum::<usize>() + 3 * GAP <= page.width() {
        return print(page, &heading, rows, |_, _| {});
    }
    let notes: Vec<String> = rows
        .iter_mut()
        .map(|row| std::mem::take(&mut row[3]))
        .collect();
    print(page, &heading, rows, |page, at| {
        if let Some(note) = notes.get(at).filter(|note| !note.is_empty()) {
            let indent = 2 * INDENT;
            let lead = " ".repeat(indent);
            page.paragraph(&lead, Colour::new(), note, indent);
        }
    });
}

/// `after` is called below each row, with its place.
fn print(page: &mut Page, heading: &Row, mut rows: Vec<Row>, after: impl Fn(&mut Page, usize)) {
    if rows.is_empty() {
        return;
    }
    let left_out = rows.len().saturating_sub(MOST);
    rows.truncate(MOST);
    let mut widths = natural(heading, &rows);
    let gaps = if widths[3] == 0 { 2 * GAP } else { 3 * GAP };
    fit(&mut widths, page.width().saturating_sub(gaps));
    page.blank();
    lines(page, heading, widths, 0);
    for (at, row) in rows.iter().enumerate() {
        lines(page, row, widths, INDENT);
        after(page, at);
    }
    if left_out > 0 {
        let more = format!("{left_out} more: --format json");
        page.paragraph("  ", Colour::new(), &more, 2);
    }
}

/// How wide each column is by its cells; rows stand further in than their heading.
fn natural(heading: &Row, rows: &[Row]) -> [usize; 4] {
    let mut widths = heading.each_ref().map(|cell| columns(cell));
    for row in rows.iter().take(MOST) {
        for (at, cell) in row.iter().enumerate() {
            widths[at] = widths[at].max(columns(cell) + if at == 0 { INDENT } else { 0 });
        }
    }
    widths
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
    line.trim_end_matches('\u{a0}').to_owned()
}
