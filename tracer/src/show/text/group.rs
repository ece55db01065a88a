//! Many first causes that are alike: one headline, what holds for all, then a line each.

use super::block;
use crate::{
    judge::report::{Certainty, Death},
    show::{
        causes::Cause, facts, jobs, layout::Page, sanitize, size::size, time::span, view::View,
        words,
    },
};

/// Lines of one group.
const MAX_LINES: usize = 20;

/// Several first causes that are alike.
pub(super) fn write(view: &View<'_>, page: &mut Page, causes: &[Cause<'_>]) {
    let first = causes[0].death;
    let numbers: Vec<u32> = causes.iter().map(|cause| cause.number).collect();
    let word = if words::is_kill(first.verdict.killer) {
        "KILLS"
    } else {
        "DEATHS"
    };
    let lead = format!(
        "{word} {}  {}  ",
        words::ranges(&numbers),
        view.death_time(first)
    );
    let least = least_certain(causes);
    page.headline(
        &lead,
        &headline(causes),
        &words::certainty(least),
        block::colour(least.verdict.certainty),
    );
    let one_cgroup = causes
        .iter()
        .all(|cause| cgroup(cause.death) == cgroup(first));
    for (label, text) in facts::shared(view, first) {
        if one_cgroup || label != "limit" {
            page.fact(label, &text);
        }
    }
    for (number, cause) in causes.iter().take(MAX_LINES).enumerate() {
        let label = if number == 0 { "each" } else { "" };
        page.item(label, &line(view, cause, !one_cgroup));
    }
    if causes.len() > MAX_LINES {
        page.item(
            "",
            &format!("… and {} more (--all)", causes.len() - MAX_LINES),
        );
    }
}

/// `the kernel killed 30 Rollout within 580 ms (largest 1.9 GiB): cgroup /job hit its limit of 2.0 GiB`.
fn headline(causes: &[Cause<'_>]) -> String {
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
fn least_certain<'a>(causes: &[Cause<'a>]) -> &'a Death {
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

/// Deaths that are not listed by default, one line each (`--all`).
pub(super) fn normal_exits(view: &View<'_>, page: &mut Page) {
    let mut first = true;
    for death in &view.shown.report.deaths {
        if death.listed {
            continue;
        }
        if first {
            page.blank();
            page.paragraph("NORMAL EXITS", owo_colors::Style::new().bold(), "", 0);
            first = false;
        }
        let time = view.death_time(death);
        let text = format!("{time} {} {}", words::subject(death), words::clause(death));
        page.paragraph("  ", owo_colors::Style::new(), &text, 4);
    }
}
