//! Tests of the Markdown that is pasted into issues and chats.

use super::{MAX_LINES, render};
use crate::{
    event::{Probe, ProbeState},
    ids::HexId,
    judge::report::{Outcome, OutcomeReason, Report},
    show::{
        Style, redact, sample,
        sanitize::is_harmless,
        select::{Kill, SelectedReport, Selection, select},
    },
};

fn markdown(shown: &SelectedReport) -> String {
    let style = Style {
        file: Some("a.raytrace".into()),
        ..sample::style()
    };
    render(shown, &style)
}

fn whole(report: &Report) -> String {
    markdown(&SelectedReport::whole(report))
}

#[test]
fn verl_job_in_markdown() {
    insta::assert_snapshot!(whole(&sample::verl()));
}

#[test]
fn verl_job_redacted() {
    insta::assert_snapshot!(whole(&redact::redact(&sample::verl())));
}

#[test]
fn one_kill_in_full() {
    let selection = Selection {
        kill: Some(Kill::Number(2)),
        ..Selection::default()
    };
    insta::assert_snapshot!(markdown(&select(sample::verl(), &selection)));
}

#[test]
fn run_without_kills() {
    insta::assert_snapshot!(whole(&sample::quiet()));
}

#[test]
fn thirty_kills_in_a_second() {
    insta::assert_snapshot!(whole(&sample::burst()));
}

#[test]
fn other_deaths_and_a_recording_with_gaps() {
    insta::assert_snapshot!(whole(&sample::others()));
}

#[test]
fn hostile_name_stays_text() {
    insta::assert_snapshot!(whole(&sample::hostile()));
}

/// Makes a report with many jobs, gaps, first causes of different kinds, findings and notes.
fn many_kills() -> Report {
    let mut report = sample::others();
    let template = report.deaths[0].clone();
    for number in 0..200u32 {
        let mut death = template.clone();
        death.id.0 = 1000 + u64::from(number);
        death.when.act_time.0 += u64::from(number);
        death.process.title = Some(format!("ray::task_{number}"));
        death.work.actor_class = None;
        report.deaths.push(death);
        let mut job = sample::job(Outcome::Failed, None, OutcomeReason::Running);
        job.job_id = HexId(format!("{number:08x}"));
        report.jobs.push(job);
        report.recordings[0].probes.push(Probe {
            name: format!("probe{number}"),
            state: ProbeState::Missing,
            reason: None,
            required: false,
        });
        report.notes.push(format!("note {number}"));
        let mut finding = sample::verl().findings.remove(0);
        finding.deaths.clear();
        report.findings.push(finding);
    }
    report
}

#[test]
fn at_most_sixty_lines_of_visible_characters() {
    let reports = [
        sample::verl(),
        sample::quiet(),
        sample::burst(),
        sample::others(),
        sample::hostile(),
        sample::flood(),
        many_kills(),
    ];
    for report in &reports {
        for (all, kill) in [(false, None), (true, None), (false, Some(Kill::Number(1)))] {
            let selection = Selection {
                kill,
                all,
                ..Selection::default()
            };
            let text = markdown(&select(report.clone(), &selection));
            assert!(text.lines().count() <= MAX_LINES, "{text}");
            let shown = text.replace("@\u{200b}", "@").replace("#\u{200b}", "#");
            assert!(shown.chars().all(|one| is_harmless(one) || one == '\n'));
        }
    }
}

#[test]
fn long_report_counts_what_it_leaves_out() {
    let text = whole(&many_kills());
    assert!(
        text.contains("more first causes (--all lists them)"),
        "{text}"
    );
    assert!(text.contains("… and 196 more jobs"), "{text}");
    assert!(text.contains("### What to change"), "{text}");
}
