//! Renders one line per job: how it ended, by which death, and which deaths it survived.

use std::{collections::BTreeMap, path::Path};

use crate::{
    judge::report::{Job, Outcome, Recovery, Report, SurvivedDeath},
    path,
    phrase::{self, when},
    show::{
        causes::{self, Cause},
        clause, sanitize,
        time::span,
        view::View,
        words,
    },
};

/// Maximum number of first causes that are named because they hit a job without ending it.
const MAX_HIT: usize = 2;

/// Returns one line for each job, as its label and the rest. If there are more than `most`, failed
/// jobs come first.
pub fn lines(view: &View<'_>, causes: &[Cause<'_>], most: usize) -> Vec<(String, String)> {
    let label = |job: &Job| label(job, &name(view, job));
    told(view, most, |job| {
        parts(label(job), line(view, job, causes, false))
    })
}

/// Returns the same in short: without the arguments of its program, and without why a death ended
/// it, which that death's block says. A death on a node tells jobs of one id apart.
pub fn short_lines(view: &View<'_>, causes: &[Cause<'_>], most: usize) -> Vec<(String, String)> {
    let label = |job: &Job| match node_of_end(view, job, causes) {
        Some(_) => label(job, &sanitize::name(&job.job_id.0)),
        None => label(job, &name(view, job)),
    };
    told(view, most, |job| {
        parts(label(job), line(view, job, causes, true))
    })
}

fn told(
    view: &View<'_>,
    most: usize,
    line: impl Fn(&Job) -> (String, String),
) -> Vec<(String, String)> {
    let mut jobs: Vec<&Job> = view.shown.report.jobs.iter().collect();
    let many = jobs.len() > most;
    if many {
        jobs.sort_by_key(|job| job.outcome != Outcome::Failed);
    }
    let kept = if many { most } else { jobs.len() };
    let mut lines: Vec<(String, String)> = jobs[..kept].iter().map(|job| line(job)).collect();
    if many {
        lines.push((
            String::new(),
            format!("… and {} (--all)", rest(&jobs[kept..])),
        ));
    }
    lines
}

/// Moves a leading colon to the label: `JOB 02000000 RUNNING:`.
fn parts(label: String, line: String) -> (String, String) {
    match line.strip_prefix(": ") {
        Some(rest) => (format!("{label}:"), rest.to_owned()),
        None => (label, line),
    }
}

/// Returns `JOB 02000000 FAILED`.
fn label(job: &Job, name: &str) -> String {
    format!("JOB {name} {}", words::outcome(job.outcome))
}

/// Returns the id of a job, with the session if a job of another cluster has the same id. Each
/// cluster counts its jobs from 1.
pub fn name(view: &View<'_>, job: &Job) -> String {
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
        format!(" of {}", sanitize::name(short_session(report, session)))
    });
    format!("{}{of}", sanitize::name(&job.job_id.0))
}

/// Returns `session_2026-11-23_00-07-07` of a session's name, if no other one began in that second.
fn short_session<'a>(report: &Report, session: &'a str) -> &'a str {
    let short = session
        .match_indices('_')
        .nth(2)
        .map(|(end, _)| &session[..end]);
    let mut all = report
        .clusters
        .iter()
        .filter_map(|one| one.session.as_deref());
    let is_known = |short: &&str| !all.any(|other| other != session && other.starts_with(*short));
    short.filter(is_known).unwrap_or(session)
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

/// Returns `probably ` if only the order of deaths says which of them ended a job.
pub fn probably(job: &Job) -> &'static str {
    when(job.is_ended_by_order(), "probably ")
}

fn line(view: &View<'_>, job: &Job, causes: &[Cause<'_>], short: bool) -> String {
    let mut text = String::new();
    if let Some(ended) = job.ended {
        text.push_str(&view.style.zone.seconds(ended));
    }
    let entrypoint = job.entrypoint.as_deref();
    let ran = if short {
        phrase::known([run(job), entrypoint.map(program)], ", ")
    } else {
        phrase::known([run(job), entrypoint.map(sanitize::name)], ": ")
    };
    text.extend(ran.map(|ran| format!(" ({ran})")));
    let mut text = text.trim_start().to_owned();
    let because = why(job);
    match ended_by_label(view, job, causes) {
        Some(label) if short => {
            let probably = probably(job);
            text.push_str(&format!(": {probably}ended by {label}"));
        }
        Some(label) => {
            let probably = probably(job);
            text.push_str(&format!(": {probably}ended by {label}: {because}."));
        }
        None => text.push_str(&format!(": {because}.")),
    }
    let more = survived(view, job, causes) + &hit_too(view, job, causes);
    if !more.is_empty() && !text.ends_with('.') {
        text.push('.');
    }
    text + &more
}

/// Returns how it is known what ended a job.
pub fn why(job: &Job) -> String {
    let because = sanitize::line(&clause::because(&job.because), sanitize::EVIDENCE);
    because.trim_end_matches('.').to_owned()
}

/// Returns the module or script of a command line, and the name of its experiment: `main_ppo,
/// experiment gsm8k-7b`.
fn program(entrypoint: &str) -> String {
    let mut words = entrypoint.split_whitespace();
    let module = words.clone().skip_while(|word| *word != "-m").nth(1);
    let module = module.map(|name| name.rsplit('.').next().unwrap_or(name));
    let is_script = |word: &&str| Path::new(word).extension().is_some_and(|end| end == "py");
    let script = words.clone().find(is_script);
    let program = module
        .or_else(|| script.map(path::base))
        .or_else(|| words.next().map(path::base));
    let named = entrypoint.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        key.ends_with("experiment_name").then_some(value)
    });
    let mut text = sanitize::name(program.unwrap_or(entrypoint));
    if let Some(name) = named {
        let name = name.trim_matches(['\'', '"']);
        text.push_str(&format!(", experiment {}", sanitize::name(name)));
    }
    text
}

/// `verl 0.5.0, died after step 2 of 4`.
fn run(job: &Job) -> Option<String> {
    let framework = job.framework.as_ref().map(|one| {
        let version = one.version.as_deref().map(sanitize::name);
        let name = [Some(one.name.clone()), version];
        name.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    let step = job.last_step.map(|last| {
        let of = last.of.map_or_else(String::new, |of| format!(" of {of}"));
        let what = match job.ended_by_death_id {
            Some(_) => "died after",
            None => "last",
        };
        format!("{what} step {}{of}", last.step)
    });
    phrase::known([framework, step], ", ")
}

/// Returns `KILL 2`, or `KILL 2 on gpu-07` if it is shown.
fn ended_by_label(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> Option<String> {
    let label = view.shown.label(job.ended_by_death_id?)?;
    Some(match node_of_end(view, job, causes) {
        Some(node) => format!("{label} on {}", sanitize::name(node)),
        None => label,
    })
}

/// Returns the node of the death that ended a job, if that death is shown and nodes are named.
fn node_of_end<'a>(view: &View<'_>, job: &Job, causes: &[Cause<'a>]) -> Option<&'a str> {
    let number = view.shown.number(job.ended_by_death_id?)?;
    let mut shown = causes.iter();
    let cause = shown.find(|cause| cause.number == number)?;
    cause.death.node.as_deref()
}

/// ` KILL 1 did not end it: task retried.`
fn survived(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> String {
    let roots = causes::roots(&view.shown.report);
    let mut by_how: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    // If a first cause has several deaths, what Ray did about one of them says more than that the
    // job went on.
    let mut survived: Vec<&SurvivedDeath> = job.survived.iter().collect();
    survived.sort_by_key(|one| one.how == Recovery::WentOn);
    for survived in survived {
        let root = roots.get(&survived.death_id).copied();
        let shown = root.and_then(|root| causes.iter().find(|cause| cause.death.id == root));
        if let Some(cause) = shown {
            let is_listed = by_how.values().flatten().any(|one| *one == cause.number);
            if is_listed && survived.how == Recovery::WentOn {
                continue;
            }
            let numbers = by_how
                .entry(outlived(&view.shown.report, survived))
                .or_default();
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

/// `task retried`, `DatasetManager restarted`.
fn outlived(report: &Report, survived: &SurvivedDeath) -> String {
    let mut deaths = report.deaths.iter();
    let death = deaths.find(|death| death.id == survived.death_id);
    match (&survived.how, death) {
        (Recovery::ActorRestarted { .. }, Some(death)) => {
            format!("{} restarted", words::class(death))
        }
        (how, _) => clause::recovery(how),
    }
}

/// Returns ` KILL 1, 0.4 s before, hit WorkerDict of the same job.` for first causes that neither
/// ended the job nor were made good.
fn hit_too(view: &View<'_>, job: &Job, causes: &[Cause<'_>]) -> String {
    let roots = causes::roots(&view.shown.report);
    let root = |id| roots.get(&id).copied();
    let Some(end) = job.ended_by_death_id.and_then(root) else {
        return String::new();
    };
    let Some(end) = causes.iter().find(|cause| cause.death.id == end) else {
        return String::new();
    };
    let survived: Vec<_> = job.survived.iter().map(|one| root(one.death_id)).collect();
    let hit = causes.iter().filter(|cause| {
        let death = cause.death;
        let of_job =
            death.cluster == job.cluster && death.work.job_id.as_ref() == Some(&job.job_id);
        of_job && cause.number != end.number && !survived.contains(&Some(death.id))
    });
    let told = hit.filter_map(|cause| {
        let before = end.death.when.act_time.since(cause.death.when.act_time);
        let before = u64::try_from(before).ok()?;
        let class = words::class(cause.death);
        Some(format!(
            " {}, {} before, hit {class} of the same job.",
            cause.label(),
            span(before)
        ))
    });
    told.take(MAX_HIT).collect()
}

fn label_word(numbers: &[u32], causes: &[Cause<'_>]) -> &'static str {
    let own = || {
        causes
            .iter()
            .filter(|cause| numbers.contains(&cause.number))
    };
    let kills = own().all(Cause::is_kill);
    if kills || !own().any(Cause::is_kill) {
        return causes::word(numbers.len(), kills);
    }
    "First causes"
}

/// Returns the job that a first cause ended, by itself or through its cascade.
pub fn ended_by<'a>(view: &View<'a>, cause: &Cause<'_>) -> Option<&'a Job> {
    view.shown.report.jobs.iter().find(|job| {
        job.ended_by_death_id.is_some_and(|death| {
            death == cause.death.id || cause.cascade.iter().any(|hit| hit.id == death)
        })
    })
}
