//! Describes a group of similar first causes: a headline, the common facts, then a line for each.

use std::collections::{BTreeSet, HashMap};

use crate::{
    judge::report::{Certainty, Death, Killer},
    phrase,
    show::{
        causes::{self, Cause, Entry},
        clause,
        facts::{self, Fact},
        jobs, sanitize,
        size::size,
        time::span,
        view::View,
        words,
    },
};

/// Longest label of a group, in columns. A longer one would leave the headline no room, and each
/// line below has its own number.
const LONGEST_LABEL: usize = 30;
/// Kills of one class at one limit are told as one event if they are no further apart than this.
const SAME_EVENT_NS: i64 = 5_000_000_000;

/// Returns `KILLS 1, 3 and 5–9`, or `KILLS 2, 4, 6 and 53 more` if that would be too long.
pub fn label(causes: &[Cause<'_>]) -> String {
    let numbers: Vec<u32> = causes.iter().map(|cause| cause.number).collect();
    let word = causes::word(numbers.len(), causes[0].is_kill());
    let label = format!("{word} {}", words::ranges(&numbers));
    if sanitize::columns(&label) <= LONGEST_LABEL {
        return label;
    }
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{word} {}", phrase::first(&numbers, 3))
}

/// Returns the label, the headline and the death with the least certain verdict, for one first
/// cause or a group.
pub fn heading<'a>(causes: &[Cause<'a>]) -> (String, String, &'a Death) {
    match causes {
        [cause] => (cause.label(), words::headline(cause.death), cause.death),
        causes => (label(causes), headline(causes), least_certain(causes)),
    }
}

/// Returns the facts that read the same for every cause of the group.
pub fn facts(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<Fact> {
    let mut facts = facts::shared(view, causes[0].death);
    for cause in &causes[1..] {
        let own = facts::shared(view, cause.death);
        facts.retain(|fact| own.contains(fact));
    }
    facts
}

/// Returns a line for each of the first `most` causes, and one that counts the rest. Those that
/// did not end as most of them did are shown before others.
pub fn lines(view: &View<'_>, causes: &[Cause<'_>], most: usize) -> Vec<String> {
    if causes.iter().all(|cause| is_only_counted(cause.death)) {
        return Vec::new();
    }
    let said = facts(view, causes);
    let deaths: Vec<&Death> = causes.iter().map(|cause| cause.death).collect();
    let (typical, alike) = majority(&deaths);
    let typical = words::clause(typical);
    // The headline says how most of them ended.
    let most_are_alike = (2..deaths.len()).contains(&alike);
    let is_odd = |cause: &Cause<'_>| most_are_alike && words::clause(cause.death) != typical;
    let (odd, others): (Vec<&Cause<'_>>, Vec<&Cause<'_>>) =
        causes.iter().partition(|cause| is_odd(cause));
    let mut shown: Vec<&Cause<'_>> = odd.into_iter().chain(others).take(most).collect();
    shown.sort_by_key(|cause| cause.number);
    let line = |cause: &Cause<'_>| line(view, cause, is_odd(cause), &said);
    let mut lines: Vec<String> = shown.into_iter().map(line).collect();
    if causes.len() > most {
        lines.push(format!("… and {} more (--all)", causes.len() - most));
    }
    lines
}

/// Returns the headline of a group: `the kernel killed 30 Rollout processes (within 580 ms, the
/// largest 1.9 GiB): cgroup /job hit its limit of 2.0 GiB`.
pub fn headline(causes: &[Cause<'_>]) -> String {
    let deaths: Vec<&Death> = causes.iter().map(|cause| cause.death).collect();
    let (first, last) = (deaths[0], deaths[deaths.len() - 1]);
    let within = last.when.act_time.since(first.when.act_time).unsigned_abs();
    let dated = first.when.is_dated() && last.when.is_dated();
    let within = dated.then(|| format!("within {}", span(within)));
    let largest = deaths
        .iter()
        .filter_map(|death| death.memory.own_private())
        .max()
        .map(|bytes| format!("the largest {}", size(bytes)));
    let details: Vec<String> = within.into_iter().chain(largest).collect();
    let details = phrase::in_brackets(&details);
    let class = words::class(first);
    let count = deaths.len();
    let subject = match class.strip_prefix("a process") {
        // Nobody is named: `a process of pod train-0`.
        Some(whose) => format!("{count} processes{whose}{details}"),
        None if class == "process" => format!("{count} processes{details}"),
        // Nothing else is known of deaths that were only counted.
        None if deaths.iter().all(|death| is_only_counted(death)) => format!("{count} {class}s"),
        None => format!("{count} {class} processes{details}"),
    };
    let clause = words::common_clause(&deaths).unwrap_or_else(|| most_common(&deaths));
    words::headline_of(&subject, &deaths, &clause)
}

/// Returns whether a text only counted this death, without saying which process it was.
fn is_only_counted(death: &Death) -> bool {
    let work = &death.work;
    death.process.pid.0 == 0 && work.worker_id.is_none() && work.actor_id.is_none()
}

/// Returns how most of the deaths ended, or how the first did if no two ended alike.
fn most_common(deaths: &[&Death]) -> String {
    let (typical, alike) = majority(deaths);
    if alike == 1 {
        return format!(
            "died in similar ways; the first {}",
            words::clause(deaths[0])
        );
    }
    format!(
        "died: {alike} {}; {}",
        words::clause_of_many(typical),
        others(deaths, alike)
    )
}

/// Returns the first death that ended as most of them did, and how many did. There must be at least
/// one death.
pub fn majority<'a>(deaths: &[&'a Death]) -> (&'a Death, usize) {
    let by_limit = [Killer::RayMemoryMonitor, Killer::KernelOomMemcg];
    if by_limit.contains(&deaths[0].verdict.killer) {
        // They differ only in the limit.
        return (deaths[0], deaths.len());
    }
    let clauses: Vec<String> = deaths.iter().map(|death| words::clause(death)).collect();
    let mut counts: HashMap<&String, usize> = HashMap::new();
    for clause in &clauses {
        *counts.entry(clause).or_default() += 1;
    }
    let count = |clause: &String| counts.get(clause).copied().unwrap_or_default();
    // Of several with the highest count, `max_by_key` returns the last.
    let each = clauses.iter().zip(deaths).rev();
    let typical = each.max_by_key(|(clause, _)| count(clause));
    typical.map_or((deaths[0], 1), |(clause, death)| (*death, count(clause)))
}

/// Returns how many deaths did not end as `alike` of them did: `1 in another way`, `5 in 3 other
/// ways`.
pub fn others(deaths: &[&Death], alike: usize) -> String {
    let ways: BTreeSet<String> = deaths.iter().map(|death| words::clause(death)).collect();
    let left = deaths.len() - alike;
    match ways.len() - 1 {
        1 => format!("{left} in another way"),
        many => format!("{left} in {many} other ways"),
    }
}

/// Returns the death with the least certain verdict. Its certainty holds for the whole group.
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

/// Returns the line of one cause: its number, its process, how it ended if it is `odd`, and the
/// facts that are not in `said`.
fn line(view: &View<'_>, cause: &Cause<'_>, odd: bool, said: &[Fact]) -> String {
    let death = cause.death;
    let time = view.death_time(death);
    let mut text = format!("{} {time} {}", cause.number, words::subject(death));
    if odd {
        text = format!("{text} {}", words::clause(death));
    }
    let mut parts = vec![text];
    let own = facts::shared(view, death).into_iter();
    parts.extend(
        own.filter(|fact| !said.contains(fact))
            .map(|(label, text)| format!("{label} {text}")),
    );
    let followers = cause.followers().len();
    if followers > 0 {
        let count = words::count(followers, "death", "deaths");
        parts.push(format!("{count} followed"));
    }
    if let Some(job) = jobs::ended_by(view, cause) {
        let (probably, name) = (jobs::probably(job), jobs::name(view, job));
        parts.push(format!("{probably}ended job {name}"));
    }
    parts.extend(death.then.as_ref().map(clause::recovery));
    parts.join(" · ")
}

/// Returns `0.4 s after KILL 1: the same for pid 16135`, if a kill is the same event as the first
/// one: the same killer, class and limit, soon after it.
pub fn same(first: &Entry<'_>, entry: &Entry<'_>) -> Option<String> {
    let ([first], [cause]) = (first.causes.as_slice(), entry.causes.as_slice()) else {
        return None;
    };
    let (head, first, one) = (first, first.death, cause.death);
    let limit = |death: &Death| {
        let oom = death.memory.oom.as_ref();
        oom.and_then(|oom| oom.cgroup.clone())
    };
    let later = one.when.act_time.since(first.when.act_time);
    // The order of a text's lines is no interval.
    let timed = first.when.time.is_some() && one.when.time.is_some();
    let alike = timed
        && first.is_memory_kill()
        && one.process.pid.0 != 0
        && first.id != one.id
        && first.verdict.killer == one.verdict.killer
        && first.recording_id == one.recording_id
        && limit(first) == limit(one)
        && words::name(first) == words::name(one)
        && (0..=SAME_EVENT_NS).contains(&later);
    let later = span(u64::try_from(later).ok()?);
    alike.then(|| {
        let more = match cause.others_of_act() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let label = head.label();
        format!(
            "{later} after {label}: the same for pid {}{more}",
            one.process.pid
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{judge::cause::Cause as Why, show::sample};

    #[test]
    fn most_deaths_decide_the_headline() {
        let exit = |id, code| sample::death(id, 1, 0, Killer::Exit, Why::exit(code));
        let all = [exit(1, 7), exit(2, 3), exit(3, 3)];
        let deaths: Vec<&Death> = all.iter().collect();
        let (typical, alike) = majority(&deaths);
        assert_eq!((typical.id, alike), (all[1].id, 2));
        assert_eq!(
            most_common(&deaths),
            "died: 2 exited on their own with code 3; 1 in another way"
        );
        let all = [exit(1, 7), exit(2, 3), exit(3, 3), exit(4, 5), exit(5, 4)];
        let deaths: Vec<&Death> = all.iter().collect();
        assert_eq!(others(&deaths, 2), "3 in 3 other ways");
        assert_eq!(majority(&deaths[3..]).1, 1);
    }
}
