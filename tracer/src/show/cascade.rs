//! Summarizes a cascade in a few lines: how many deaths, of which classes, how soon, and why.

use crate::{
    event::Role,
    judge::report::{Death, Job, Killer, LinkRule, Report},
    phrase::when,
    show::{causes::Cause, clause, fleet, jobs, sanitize, time::relative, view::View, words},
};

/// Maximum number of lines of a cascade, unless one first cause or all deaths were asked for.
const MAX_LINES: usize = 5;
/// Maximum number of classes that one line names.
const MAX_CLASSES: usize = 6;

/// Returns the cascade of `cause`: one line if all its deaths are of one kind, else a count and a
/// line for each kind.
pub fn lines(view: &View<'_>, cause: &Cause<'_>) -> Vec<String> {
    let mut lines = followed(view, cause);
    lines.extend(stopped_meanwhile(view, cause));
    lines
}

/// Returns `Ray stopped 2 more workers of the job on purpose as it ended: normal exits (--all)`.
///
/// Ray reports such an exit as the death of the owner or as a request, depending on which of the
/// two processes ended first.
fn stopped_meanwhile(view: &View<'_>, cause: &Cause<'_>) -> Option<String> {
    let job = jobs::ended_by(view, cause)?;
    let number = meanwhile(&view.shown.report, job, cause).count();
    let workers = words::count(number, "more worker", "more workers");
    (number > 0).then(|| {
        format!("Ray stopped {workers} of the job on purpose as it ended: normal exits (--all)")
    })
}

/// Returns the unlisted workers of a job that Ray stopped on purpose after the first cause.
fn meanwhile<'a>(
    report: &'a Report,
    job: &'a Job,
    cause: &'a Cause<'_>,
) -> impl Iterator<Item = &'a Death> {
    report.deaths.iter().filter(|death| {
        let of_job =
            death.cluster == job.cluster && death.work.job_id.as_ref() == Some(&job.job_id);
        let since = death.when.act_time >= cause.death.when.act_time;
        let intended = death.verdict.killer == Killer::RayIntended;
        of_job && since && intended && !death.listed && death.process.role == Role::Worker
    })
}

fn followed(view: &View<'_>, cause: &Cause<'_>) -> Vec<String> {
    if cause.cascade.is_empty() {
        return Vec::new();
    }
    let full = view.shown.detail || view.shown.all;
    let kinds: Vec<Vec<&Death>> = if full {
        cause.cascade.iter().map(|death| vec![*death]).collect()
    } else {
        folded(cause)
    };
    if let [only] = kinds.as_slice() {
        let count = words::count(only.len(), "death", "deaths");
        let together = when(cause.is_of_act(only[0]), " in the same act");
        return vec![format!("{count}{together}: {}", line(cause, only))];
    }
    let mut lines = vec![counted(cause)];
    let shown = if full { kinds.len() } else { MAX_LINES };
    lines.extend(kinds.iter().take(shown).map(|members| line(cause, members)));
    let left: usize = kinds.iter().skip(shown).map(Vec::len).sum();
    if left > 0 {
        lines.push(format!("… and {left} more (--kill {})", cause.number));
    }
    lines
}

/// Returns `8 deaths followed from it`, or `3 deaths in the same act, 5 followed from it`.
pub(super) fn counted(cause: &Cause<'_>) -> String {
    let followed = cause.followers().len();
    let deaths = |count| words::count(count, "death", "deaths");
    match cause.cascade.len() - followed {
        0 => format!("{} followed from it", deaths(followed)),
        together if followed == 0 => format!("{} in the same act", deaths(together)),
        together => format!(
            "{} in the same act, {followed} followed from it",
            deaths(together)
        ),
    }
}

/// What makes deaths one kind: role, killer, rule of the link between nodes, and whether the act of
/// the first cause also ended them.
type Kind = (Role, Killer, Option<LinkRule>, bool);

/// Groups deaths by kind. The groups are in the order of their first deaths.
fn folded<'a>(cause: &Cause<'a>) -> Vec<Vec<&'a Death>> {
    let kind = |death: &Death| -> Kind {
        let rule = death.verdict.cause_link.as_ref().map(|link| link.rule);
        let together = cause.is_of_act(death);
        (death.process.role, death.verdict.killer, rule, together)
    };
    let kinds = words::grouped(cause.cascade.iter().map(|death| (kind(death), *death)));
    kinds.into_iter().map(|(_, members)| members).collect()
}

/// `+18 ms to +21 ms 14 workers (8 WorkerDict, TaskRunner, 4 compute_score) were stopped by …`
fn line(cause: &Cause<'_>, members: &[&Death]) -> String {
    let when = |death: &Death| after(cause.death, death);
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return String::new();
    };
    if members.len() == 1 {
        let subject = words::subject(first);
        return format!(
            "{}{subject} {}{}",
            prefix(&when(first), members),
            words::clause(first),
            link(first)
        );
    }
    let mut span = vec![when(first), when(last)];
    span.retain(|time| !time.is_empty());
    span.dedup();
    let span = span.join(" to ");
    let kind = kinds(first.process.role);
    let clause = words::common_clause(members);
    let clause = clause.unwrap_or_else(|| "followed: some were killed, some exited".to_owned());
    format!(
        "{}{} {kind}{} {clause}{}",
        prefix(&span, members),
        members.len(),
        named_classes(kind, members),
        link(first)
    )
}

/// Returns `+18 ms on gpu-01 `, as far as there is a time and a node.
fn prefix(when: &str, members: &[&Death]) -> String {
    let prefix = format!("{when}{}", fleet::on_nodes(members));
    match prefix.trim_start() {
        "" => String::new(),
        prefix => format!("{prefix} "),
    }
}

/// Returns how long after its cause a process died: `+18 ms`; nothing where a log has no times.
fn after(cause: &Death, death: &Death) -> String {
    if !cause.when.is_dated() || !death.when.is_dated() {
        return String::new();
    }
    let elapsed = death.when.act_time.since(cause.when.act_time);
    relative(elapsed)
}

/// Returns the link of a death to its cause on another node: how certain it is, and the reason.
fn link(death: &Death) -> String {
    let link = death.verdict.cause_link.as_ref();
    link.map_or_else(String::new, |link| {
        format!(
            " · link {}: {}",
            link.link_certainty.name(),
            sanitize::line(&clause::link_reason(&link.because), sanitize::EVIDENCE)
        )
    })
}

fn kinds(role: Role) -> &'static str {
    match role {
        Role::Worker => "workers",
        Role::Driver => "drivers",
        Role::Raylet => "raylets",
        Role::Agent => "agents",
        Role::Descendant => "subprocesses",
        Role::Gcs | Role::Dashboard | Role::Other => "processes",
    }
}

/// Returns ` (8 WorkerDict, TaskRunner)`. Empty if they have no names but that of their kind.
fn named_classes(kind: &str, members: &[&Death]) -> String {
    let nameless = format!("{} {}", members.len(), kind.trim_end_matches('s'));
    match classes(members) {
        classes if classes == nameless => String::new(),
        classes => format!(" ({classes})"),
    }
}

/// `8 WorkerDict, TaskRunner, 4 compute_score`.
pub(super) fn classes(members: &[&Death]) -> String {
    let mut classes = words::grouped(members.iter().map(|death| (words::class(death), death)));
    classes.sort_by_key(|(_, of_class)| std::cmp::Reverse(of_class.len()));
    let others: usize = classes
        .iter()
        .skip(MAX_CLASSES)
        .map(|one| one.1.len())
        .sum();
    let named = classes.into_iter().take(MAX_CLASSES);
    let named = named.map(|(class, of_class)| match of_class.len() {
        1 => class,
        count => format!("{count} {class}"),
    });
    let mut shown: Vec<String> = named.collect();
    if others > 0 {
        shown.push(words::count(others, "other", "others"));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample::burst;

    #[test]
    fn workers_without_names_are_only_counted() {
        let named = |class: &str| {
            let mut report = burst();
            report.deaths.truncate(2);
            for death in &mut report.deaths {
                death.work.actor_class = Some(class.to_owned());
            }
            let members: Vec<&Death> = report.deaths.iter().collect();
            named_classes("workers", &members)
        };
        assert_eq!(named("Rollout"), " (2 Rollout)");
        assert_eq!(named("worker"), "");
    }
}
