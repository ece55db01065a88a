//! One first cause: its headline and the facts below it; what was not observed is left out.

use owo_colors::Style as Colour;

use super::{View, cascade, facts, jobs};
use crate::{
    judge::report::{Certainty, Death, Evidence},
    show::{causes::Cause, layout::Page, sanitize, time::relative, words},
};

/// Pieces of evidence that are shown unless one first cause was asked for.
const MAX_EVIDENCE: usize = 4;
/// Of these, lines of logs: they come before what the signals say already.
const MAX_LOG_LINES: usize = 2;
/// Length of one piece where space is short.
const SHORT_EVIDENCE: usize = 180;

/// The block of one first cause.
pub(super) fn write(view: &View<'_>, page: &mut Page, cause: &Cause<'_>) {
    let death = cause.death;
    headline(view, page, cause);
    facts::write(view, page, death);
    if view.shown.detail {
        facts::identity(view, page, death);
    }
    evidence(view, page, cause);
    cascade::write(view, page, cause);
    if let Some(job) = jobs::ended_by(view, cause) {
        let id = sanitize::name(&job.job_id.0);
        page.fact("ended", &format!("job {id}"));
    }
    if let Some(then) = &death.then {
        page.fact("then", &sanitize::line(then, sanitize::EVIDENCE));
    }
    if let Some(stack) = death.stack_at_death.as_ref().filter(|_| view.shown.detail) {
        for (number, frame) in stack.lines().enumerate() {
            let label = if number == 0 { "stack" } else { "" };
            page.item(label, &sanitize::line(frame, sanitize::EVIDENCE));
        }
    }
}

fn headline(view: &View<'_>, page: &mut Page, cause: &Cause<'_>) {
    let death = cause.death;
    let time = view.time(death.time.or(death.exit_time));
    let lead = format!("{}  {time}  ", cause.label());
    page.headline(
        &lead,
        &words::headline(death),
        &words::certainty(death),
        colour(death.verdict.certainty),
    );
}

/// Green is proven; yellow asks for care.
pub(super) fn colour(certainty: Certainty) -> Colour {
    match certainty {
        Certainty::Proven => Colour::new().green().bold(),
        Certainty::Inferred | Certainty::Unknown => Colour::new().yellow().bold(),
    }
}

fn evidence(view: &View<'_>, page: &mut Page, cause: &Cause<'_>) {
    let all = &cause.death.verdict.evidence;
    let full = view.shown.detail;
    let kept = if full {
        all.iter().collect()
    } else {
        telling(cause.death)
    };
    let limit = if full {
        sanitize::LONGEST
    } else {
        SHORT_EVIDENCE
    };
    for (number, piece) in kept.iter().enumerate() {
        let label = if number == 0 { "evidence" } else { "" };
        page.item(label, &piece_line(cause.death, piece, limit));
    }
    if kept.len() < all.len() {
        let more = words::count(all.len() - kept.len(), "more piece", "more pieces");
        page.item(
            "",
            &format!("… {more} of evidence (--kill {})", cause.number),
        );
    }
}

fn piece_line(death: &Death, piece: &Evidence, limit: usize) -> String {
    let source = sanitize::name(&piece.source);
    let what = sanitize::line(&piece.what, limit);
    let act = death.time.or(death.exit_time);
    match (piece.time, act) {
        (Some(time), Some(act)) => {
            let offset = time.0.0 - act.0.0;
            let moment = if offset == 0 {
                "0 ms".to_owned()
            } else {
                relative(offset)
            };
            format!("{moment} {source}: {what}")
        }
        _ => format!("{source}: {what}"),
    }
}

/// The pieces that say most where not all are shown: lines of logs, then what lies nearest to the act.
fn telling(death: &Death) -> Vec<&Evidence> {
    let all = &death.verdict.evidence;
    if all.len() <= MAX_EVIDENCE {
        return all.iter().collect();
    }
    let act = death.time.map_or(0, |time| time.0.0);
    let distance = |piece: &Evidence| piece.time.map(|time| (time.0.0 - act).unsigned_abs());
    let mut logs: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source != "kernel")
        .collect();
    logs.sort_by_key(|at| distance(&all[*at]));
    logs.truncate(MAX_LOG_LINES);
    let mut acts: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source == "kernel")
        .collect();
    acts.sort_by_key(|at| distance(&all[*at]));
    acts.truncate(MAX_EVIDENCE - logs.len());
    let mut kept: Vec<usize> = logs.into_iter().chain(acts).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| &all[at]).collect()
}
