//! Renders the report as one HTML file that needs no other file and no network.
//!
//! It opens from a mail attachment. The most important part (a sentence for each first cause, the
//! jobs, the gaps) is HTML already, and can be read without JavaScript. The rest is data in a
//! script element, which the page shows as text only. The style and the scripts are plain files
//! beside this one.

mod calls;
mod chart_series;
mod data;
mod lanes;
mod limits;
mod series;
mod summary;
#[cfg(test)]
mod tests;
mod units;

use crate::show::{Style, redact::KnownNames, sanitize, select::SelectedReport, view::View};
pub use chart_series::ChartSeries;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 7] = [
    include_str!("model.js"),
    include_str!("draw.js"),
    include_str!("table.js"),
    include_str!("lanes.js"),
    include_str!("timeline.js"),
    include_str!("deaths.js"),
    include_str!("page.js"),
];

/// Renders the whole page, without the names that are `known` and must not be shown.
///
/// `charts` has what is drawn of each recording, at its number in the report. Without any, the page
/// has no chart of the memory.
pub fn render(
    mut shown: SelectedReport,
    style: &Style,
    charts: &[Option<ChartSeries>],
    known: &KnownNames,
) -> Result<String, serde_json::Error> {
    let view = View::new(&shown, style);
    let summary = summary::render(&view);
    // The page has room for all of the evidence.
    shown.detail = true;
    let data = serde_json::to_string(&data::of(&shown, style, charts))?;
    // The page is made from copies of the data, and a report may have a hundred megabytes.
    drop(shown);
    Ok(filled(&[
        (
            "{{title}}",
            &known.replace_in(&sanitize::html(&summary.title)),
        ),
        ("{{style}}", STYLE),
        ("{{summary}}", &known.replace_in(&summary.top)),
        ("{{sections}}", &known.replace_in(&summary.sections)),
        ("{{data}}", &inert(&known.replace_in(&data))),
        ("{{script}}", &SCRIPTS.concat()),
    ]))
}

/// Fills in the page: each mark is replaced once, in order. Inserted text is never searched for
/// marks.
fn filled(parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = PAGE;
    for (mark, content) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(content);
        rest = after;
    }
    page + rest
}

/// Escapes JSON, so that no HTML parser sees the end of the script element or a comment in it.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e")
}
