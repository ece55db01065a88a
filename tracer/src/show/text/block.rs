//! Writes one first cause: its headline and its facts. What was not observed is left out.

use owo_colors::Style as Colour;

use crate::{
    judge::report::Certainty,
    show::{
        cascade, causes::Cause, clause, evidence, facts, jobs, layout::Page, sanitize, view::View,
        words,
    },
};

/// Writes the block of one first cause.
pub(super) fn write(view: &View<'_>, page: &mut Page, cause: &Cause<'_>) {
    let death = cause.death;
    let time = view.death_time(death);
    page.headline(
        &format!("{}  {time}  ", cause.label()),
        &words::headline(death),
        &words::certainty(death),
        colour(death.verdict.certainty),
    );
    if let Some(node) = &death.node {
        page.fact("node", &sanitize::name(node));
    }
    for (label, text) in facts::all(view, death) {
        page.fact(label, &text);
    }
    if view.shown.detail {
        for (label, text) in facts::identity(view, death) {
            page.fact(label, &text);
        }
    }
    items(page, "evidence", &evidence::lines(view, cause));
    items(page, "cascade", &cascade::lines(view, cause));
    if let Some(job) = jobs::ended_by(view, cause) {
        let (probably, name) = (jobs::probably(job), jobs::name(view, job));
        page.fact("ended", &format!("{probably}job {name}"));
    }
    if let Some(then) = &death.then {
        page.fact("then", &clause::recovery(then));
    }
    let stack = death
        .activity
        .stack_at_death
        .as_deref()
        .filter(|_| view.shown.detail);
    let frames = stack.unwrap_or_default().lines();
    let frames: Vec<String> = frames
        .map(|frame| sanitize::line(frame, sanitize::EVIDENCE))
        .collect();
    items(page, "stack", &frames);
}

/// Writes several texts under one label.
pub(super) fn items(page: &mut Page, label: &str, texts: &[String]) {
    for (number, text) in texts.iter().enumerate() {
        page.item(if number == 0 { label } else { "" }, text);
    }
}

/// Returns the colour of a certainty: green is proven, and yellow asks for care.
pub(super) fn colour(certainty: Certainty) -> Colour {
    match certainty {
        Certainty::Proven => Colour::new().green().bold(),
        Certainty::Inferred | Certainty::Unknown => Colour::new().yellow().bold(),
    }
}
