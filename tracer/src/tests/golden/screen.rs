//! The first screens of real jobs: what readers see first is reviewed as a snapshot.

use anstream::adapter::strip_str;

use super::read;
use crate::{
    judge::{fleet, judge},
    show::{Style, sample, select::SelectedReport, summary, text},
};

/// Runs of verl, of which `a` ended well, and the jobs of `examples/`.
const JOBS: [&str; 8] = [
    "verl-a",
    "verl-b",
    "verl-c",
    "verl-d",
    "verl-e",
    "gallery-verl",
    "gallery-simplerl",
    "gallery-ray-guide",
];
/// Maximum number of lines of the answer at 100 columns, for a job that died of one kill.
const LINES: usize = 14;

#[test]
fn first_screen_and_summary_of_each_job() {
    let mut all = String::new();
    for name in JOBS {
        let report = judge(&read(name).events);
        let shown = SelectedReport::whole(&report);
        let style = Style {
            width: 100,
            file: Some(format!("{name}.raytrace")),
            ..sample::style()
        };
        let text = strip_str(&text::render(&shown, &style)).to_string();
        let screen = text.split("\n\n").next().unwrap_or_default();
        let more = screen.matches(": the same for pid").count();
        // An option that can be set in two places takes one line more.
        let more = more + usize::from(screen.contains(".options()"));
        assert!(screen.lines().count() <= LINES + more, "{screen}");
        let summary = summary::text(&shown, &style);
        assert!(
            summary.lines().all(|line| line.chars().count() <= 100),
            "{summary}"
        );
        all.push_str(&format!("{screen}\n\n{summary}\n"));
    }
    insta::assert_snapshot!("first_screens", all);
}

/// Four jobs of four clusters, each ended by a death of its own.
const FLEET: [&str; 4] = [
    "gallery-verl",
    "gallery-easyr1",
    "gallery-simplerl",
    "gallery-openrlhf",
];

#[test]
fn first_screen_of_four_jobs_has_what_to_change_for_each() {
    let reports = FLEET.map(|name| judge(&read(name).events));
    let report = fleet::join(reports.into());
    let style = Style {
        width: 100,
        ..sample::style()
    };
    let text = text::render(&SelectedReport::whole(&report), &style);
    let text = strip_str(&text).to_string();
    let screen = text.split("\n\n").next().unwrap_or_default();
    assert_eq!(screen.matches("\n  fix ").count(), FLEET.len(), "{screen}");
    insta::assert_snapshot!("first_screen_of_four_jobs", screen);
    let summary = summary::text(&SelectedReport::whole(&report), &style);
    let fixes = summary.matches("fix ").count();
    assert_eq!(fixes, FLEET.len(), "{summary}");
    insta::assert_snapshot!("summary_of_four_jobs", summary);
    // Where not all facts fit, the later ones have why in the headline.
    let lines = |width: usize| {
        let style = Style {
            width,
            ..sample::style()
        };
        let text = text::render(&SelectedReport::whole(&report), &style);
        let text = strip_str(&text).to_string();
        let screen = text.split("\n\n").next().unwrap_or_default();
        ["cost", "why", "fix"].map(|label| screen.matches(&format!("\n  {label} ")).count())
    };
    let mut narrower = (60..100).rev().map(lines);
    let first = narrower.find(|[_, why, _]| *why < 4);
    assert!(matches!(first, Some([4, 2 | 3, 4])), "{first:?}");
}
