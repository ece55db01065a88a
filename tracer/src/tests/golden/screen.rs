//! The first screens of real jobs: what readers see first is reviewed as a snapshot.

use anstream::adapter::strip_str;

use super::read;
use crate::{
    judge::judge,
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
        let more = screen.matches("later: the same").count();
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
