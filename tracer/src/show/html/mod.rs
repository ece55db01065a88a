//! The report as one HTML file that needs nothing else: it opens from a mail attachment, without a network.
//!
//! What matters first (a sentence for each first cause, the jobs, the gaps) is HTML already and reads without
//! JavaScript. The rest is data in a script element, which the page shows as text only. The style and the scripts are
//! plain files beside this one.

mod data;
mod drawn;
mod lanes;
mod limits;
mod series;
mod summary;
#[cfg(test)]
mod tests;
mod units;

use crate::show::{Style, redact::Known, sanitize, select::Shown, view::View};
pub use drawn::Drawn;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 7] = [
    include_str!("model.js"),
    include_str!("stack.js"),
    include_str!("table.js"),
    include_str!("lanes.js"),
    include_str!("chart.js"),
    include_str!("deaths.js"),
    include_str!("page.js"),
];

/// The whole page, without what is `known` and must not be shown. `drawn` has what is drawn of each recording, at its
/// number in the report; without any there is no picture of the memory.
pub fn render(
    shown: &Shown,
    style: &Style,
    drawn: &[Option<Drawn>],
    known: &Known,
) -> Result<String, serde_json::Error> {
    let view = View::new(shown, style);
    let data = serde_json::to_string(&data::of(shown, style, drawn))?;
    Ok(filled(&[
        (
            "{{title}}",
            &known.take_out(&sanitize::html(&summary::title(&view))),
        ),
        ("{{style}}", STYLE),
        ("{{summary}}", &known.take_out(&summary::render(&view))),
        ("{{data}}", &inert(&known.take_out(&data))),
        ("{{script}}", &SCRIPTS.concat()),
    ]))
}

/// The page with each mark replaced once, in its order: what is put in is never searched for marks.
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

/// JSON that no HTML parser takes for an end of its script element, or for a comment.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e")
}
