//! One line per job: how it ended, by which death, and which deaths did not end it.

use std::collections::BTreeMap;

use crate::{
    judge::report::{Job, Outcome, Recovery, Survived},
    show::{
        causes::{self, Cause},
        clause, sanitize,
        view::View,
        words,
    },
};

/// One line for each job as its label and the rest, failed ones first where there are many.
#[must_use]
pub fn lines(view: &View<'_>, causes: &[Cause<'_>], most: usize) -> Vec<(String, String)> {
    let mut jobs: Vec<&Job> = view.shown.report.jobs.iter().collect();
    let many = jobs.len() > most;
    if many {
        jobs.sort_by_key(|job| job.outcome != Outcome::Failed);
    }
    let kept = if many { most } else { jobs.len() };
    let mut lines: Vec<(String, String)> = jobs[..kept]
        .iter()
        .map(|job| parts(label(view, job), line(view, job, causes)))
        .collect();
    if many {
        lines.push((
            String::new(),
            format!("… and {} (--all)", rest(&jobs[kept..])),
        ));
    }
    lines
}

/// A colon stands with the label where nothing comes between: `JOB 02000000 RUNNING:`.
fn parts(label: String, line: String) -> (String, String) {
    match line.strip_prefix(": ") {
        Some(rest) => (format!("{label}:"), rest.to_owned()),
        None => (label, line),
    }
}

/// `JOB 02000000 FAILED`; where a job of another cluster has the same id, with the session: each cluster counts its jobs from 1.
fn label(view: &View<'_>, job: &Job) -> String {
    let report = &view.shown.report;
    let session = |job: &Job| {
        let mut clusters = report.clusters.iter();
        let own = clusters.find(|cluster| Some(cluster.id) == job.cluster)?;
        own.session.as_deref()
    };
    let own = session(job);
    let same = |other: &Job| other.job_id == job.job_id && session(other) != own;
    let of = own.filter(|_| report.jobs.iter().any(same));
    let of = of.map_or_else(String::new, |session| {
        format!(" of {}", sanitize::name(session))
    });
    let id = sanitize::name(&job.job_id.0);
    format!("JOB {id}{of} {}", words::outcome(job.outcome))
}

fn rest(jobs: &[&Job]) -> String {
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs {
        *outcomes.entry(words::outcome(job.outcome)).or_default() += 1;
    }
    let parts: Vec<String> = outcomes
        .iter()
        .map(|(outcome, count)| format!("{count} {}", outcome.to_lowercase()))
        .collect();
    let jobs = words::count(jobs.len(), "more job", "more jobs");
    format!("{jobs}: {}", parts.join(", "))
}

fn line(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> String {
    let mut text = String::new();
    if let Some(ended) = job.ended {
        text.push_str(&view.style.zone.seconds(ended));
    }
    if let Some(entrypoint) = &job.entrypoint {
        text.push_str(&format!(" ({})", sanitize::name(entrypoint)));
    }
    let mut text = text.trim_start().to_owned();
    let because = sanitize::line(&clause::because(&job.because), sanitize::EVIDENCE);
    let because = because.trim_end_matches('.');
    match ended_by_label(view, job, causes) {
        Some(label) => text.push_str(&format!(": ended by {label}: {because}.")),
        None => text.push_str(&format!(": {because}.")),
    }
    text.push_str(&survived(view, job, causes));
    text
}

/// `KILL 2`, or `KILL 2 through its cascade`.
fn ended_by_label(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> Option<String> {
    let number = view.shown.number(job.ended_by_death_id?)?;
    let shown = causes.iter().find(|cause| cause.number == number);
    Some(match shown {
        Some(cause) => match &cause.death.node {
            Some(node) => format!("{} on {}", cause.label(), sanitize::name(node)),
            None => cause.label(),
        },
        None => format!("first cause {number} (not shown)"),
    })
}

/// ` KILL 1 did not end it: task retried.`
fn survived(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> String {
    let roots = causes::roots(&view.shown.report);
    let mut by_how: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    // Of several deaths of one first cause, what Ray did about one says more than that the job went on.
    let mut survived: Vec<&Survived> = job.survived.iter().collect();
    survived.sort_by_key(|one| one.how == Recovery::WentOn);
    for survived in survived {
        let root = roots.get(&survived.death_id).copied();
        let shown = root.and_then(|root| causes.iter().find(|cause| cause.death.id == root));
        if let Some(cause) = shown {
            let is_listed = by_how.values().flatten().any(|one| *one == cause.number);
            if is_listed && survived.how == Recovery::WentOn {
                continue;
            }
            let numbers = by_how.entry(clause::recovery(&survived.how)).or_default();
            if !numbers.contains(&cause.number) {
                numbers.push(cause.number);
            }
        }
    }
    let mut by_numbers: BTreeMap<Vec<u32>, Vec<String>> = BTreeMap::new();
    for (how, numbers) in by_how {
        by_numbers.entry(numbers).or_default().push(how);
    }
    let mut text = String::new();
    for (numbers, how) in by_numbers {
        let how = how.join(", ");
        let word = label_word(&numbers, causes);
        let numbers = words::ranges(&numbers);
        text.push_str(&format!(" {word}\u{a0}{numbers} did not end it: {how}."));
    }
    text
}

fn label_word(numbers: &[u32], causes: &[Cause<'_>]) -> &'static str {
    let kill = causes
        .iter()
        .filter(|cause| numbers.contains(&cause.number))
        .all(|cause| words::is_kill(cause.death.verdict.killer));
    match (kill, numbers.len()) {
        (true, 1) => "KILL",
        (true, _) => "KILLS",
        (false, 1) => "DEATH",
        (false, _) => "DEATHS",
    }
}

/// The job that a first cause ended, itself or through its cascade.
#[must_use]
pub fn ended_by<'a>(view: &View<'a>, cause: &Cause<'_>) -> Option<&'a Job> {
    view.shown.report.jobs.iter().find(|job| {
        job.ended_by_death_id.is_some_and(|death| {
            death == cause.death.id || cause.cascade.iter().any(|hit| hit.id == death)
        })
    })
}
