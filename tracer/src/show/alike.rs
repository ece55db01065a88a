//! Many first causes that are alike, in words: one headline, what holds for all, then a line each.

use crate::{
    judge::report::{Certainty, Death},
    show::{
        causes::Cause,
        facts::{self, Fact},
        jobs, sanitize,
        size::size,
        time::span,
        view::View,
        words,
    },
};

/// `KILLS 1, 3 and 5–9`.
#[must_use]
pub fn label(causes: &[Cause<'_>]) -> String {
    let numbers: Vec<u32> = causes.iter().map(|cause| cause.number).collect();
    let word = if words::is_kill(causes[0].death.verdict.killer) {
        "KILLS"
    } else {
        "DEATHS"
    };
    format!("{word} {}", words::ranges(&numbers))
}

/// Label, headline and the death with the least certain verdict, of one first cause or of several alike.
#[must_use]
pub fn heading<'a>(causes: &[Cause<'a>]) -> (String, String, &'a Death) {
    match causes {
        [cause] => (cause.label(), words::headline(cause.death), cause.death),
        causes => (label(causes), headline(causes), least_certain(causes)),
    }
}

/// The facts that hold for all.
#[must_use]
pub fn facts(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<Fact> {
    let mut facts = facts::shared(view, causes[0].death);
    facts.retain(|(label, _)| *label != "limit" || one_cgroup(causes));
    facts
}

/// A line for each of the first `most`, and how many are left.
#[must_use]
pub fn lines(view: &View<'_>, causes: &[Cause<'_>], most: usize) -> Vec<String> {
    let with_cgroup = !one_cgroup(causes);
    let shown = causes.iter().take(most);
    let mut lines: Vec<String> = shown.map(|cause| line(view, cause, with_cgroup)).collect();
    if causes.len() > most {
        lines.push(format!("… and {} more (--all)", causes.len() - most));
    }
    lines
}

fn one_cgroup(causes: &[Cause<'_>]) -> bool {
    let first = cgroup(causes[0].death);
    causes.iter().all(|cause| cgroup(cause.death) == first)
}

/// `the kernel killed 30 Rollout within 580 ms (largest 1.9 GiB): cgroup /job hit its limit of 2.0 GiB`.
#[must_use]
pub fn headline(causes: &[Cause<'_>]) -> String {
    let deaths: Vec<&Death> = causes.iter().map(|cause| cause.death).collect();
    let (first, last) = (deaths[0], deaths[deaths.len() - 1]);
    let within = last.act_time.since(first.act_time).unsigned_abs();
    let largest = deaths
        .iter()
        .filter_map(|death| death.memory.resident())
        .max()
        .filter(|bytes| bytes.0 > 0)
        .map_or_else(String::new, |bytes| {
            format!(", the largest {}", size(bytes))
        });
    let subject = format!(
        "{} {} (within {}{largest})",
        deaths.len(),
        words::class(first),
        span(within)
    );
    let clause = words::common_clause(&deaths)
        .unwrap_or_else(|| format!("ended alike; the first {}", words::clause(first)));
    words::headline_of(&subject, first, &clause)
}

/// The death whose certainty holds for all.
#[must_use]
pub fn least_certain<'a>(causes: &[Cause<'a>]) -> &'a Death {
    let rank = |death: &Death| match death.verdict.certainty {
        Certainty::Proven => 0,
        Certainty::Inferred => 1,
        Certainty::Unknown => 2,
    };
    let mut least = causes[0].death;
    for cause in causes {
        if rank(cause.death) > rank(least) {
            least = cause.death;
        }
    }
    least
}

fn cgroup(death: &Death) -> Option<&str> {
    death.oom.as_ref().and_then(|oom| oom.cgroup.as_deref())
}

fn line(view: &View<'_>, cause: &Cause<'_>, with_cgroup: bool) -> String {
    let death = cause.death;
    let time = view.death_time(death);
    let mut parts = vec![format!("{} {time} {}", cause.number, words::subject(death))];
    if let Some(cgroup) = cgroup(death).filter(|_| with_cgroup) {
        let limit = death.oom.as_ref().and_then(|oom| oom.limit_bytes);
        let limit = limit.map_or_else(String::new, |limit| format!(" {}", size(limit)));
        parts.push(format!("{}{limit}", words::cgroup(cgroup)));
    }
    if !cause.cascade.is_empty() {
        let count = words::count(cause.cascade.len(), "death", "deaths");
        parts.push(format!("{count} followed"));
    }
    if let Some(job) = jobs::ended_by(view, cause) {
        parts.push(format!("ended job {}", sanitize::name(&job.job_id.0)));
    }
    let then = death.then.as_deref();
    parts.extend(then.map(|then| sanitize::line(then, sanitize::NAME)));
    parts.join(" · ")
}
