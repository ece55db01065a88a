//! The first screen: what ended each job, who killed and why, what was held, and what to change.
//!
//! It is the same in every view. What it leaves out stands below it, or in `--kill N`.

use std::ptr;

use crate::{
    ids::{Bytes, EventId},
    judge::report::{Certainty, Death, Job, Killer},
    show::{
        alike, brief,
        causes::{Cause, Entry},
        facts::Fact,
        fleet, header, jobs, rank, sanitize, size,
        view::View,
        words,
    },
};

/// The most first causes that are named in the command that shows all evidence.
const SEE: usize = 6;

/// The first screen.
#[derive(Debug)]
pub struct Answer {
    /// For each job, its label and how it ended.
    pub jobs: Vec<(String, String)>,
    /// The first causes, the most important first.
    pub causes: Vec<Told>,
    /// How many first causes there were and how many deaths followed, what the machine had in use,
    /// and what is missing.
    pub close: Vec<String>,
    /// What the recording missed, one line each.
    pub gaps: Vec<String>,
    /// Commands to type next, each with what it shows.
    pub see: Vec<(String, String)>,
}

/// A first cause in a line, or a group of similar ones.
#[derive(Debug)]
pub struct Told {
    /// `KILL 1`.
    pub label: String,
    /// Its time, and its node in a report of several recordings; empty where the text says when.
    pub when: String,
    /// Who ended what.
    pub text: String,
    /// How sure it is who did.
    pub sure: Certainty,
    /// That in words.
    pub certainty: String,
    /// The death that stands for it.
    pub death: EventId,
    /// Why, what was held, and what to change: of the most important one, and of those that ended
    /// another job.
    pub facts: Vec<Fact>,
}

/// How much of the first screen is shown.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Jobs.
    pub jobs: usize,
    /// First causes.
    pub causes: usize,
    /// First causes with facts.
    pub facts: usize,
    /// Further ones that ended another job, with why in the headline.
    pub short: usize,
    /// Lines about what is missing.
    pub gaps: usize,
}

impl Most {
    /// Everything.
    pub const ALL: Self = Self {
        jobs: usize::MAX,
        causes: usize::MAX,
        facts: usize::MAX,
        short: usize::MAX,
        gaps: usize::MAX,
    };
}

/// Returns the first causes that lead, by the first death of each: the most important one, those that
/// ended another job, and the memory kills of a job that was stopped. Facts of the first of them
/// stand on the first screen.
pub fn leading(view: &View<'_>, entries: &[Entry<'_>]) -> Vec<EventId> {
    let mut ended: Vec<&Job> = Vec::new();
    let stopped = kills_before_stop(entries);
    let leads = entries.iter().enumerate().filter_map(|(at, entry)| {
        let job = entry
            .causes
            .iter()
            .find_map(|one| jobs::ended_by(view, one));
        let new = job.filter(|job| !ended.iter().any(|seen| ptr::eq(*seen, *job)));
        ended.extend(new);
        (at == 0 || new.is_some() || stopped == Some(at)).then(|| entry.first().death.id)
    });
    leads.collect()
}

/// Returns the place of the first memory kill in a job that somebody stopped. The one who stopped it
/// is no reason for what the job had suffered before.
fn kills_before_stop(entries: &[Entry<'_>]) -> Option<usize> {
    let stopped = entries.first().map(|entry| entry.first().death);
    let stopped = stopped.filter(|one| one.verdict.killer == Killer::Signal)?;
    let of_job = |one: &Death| {
        one.is_memory_kill()
            && one.cluster == stopped.cluster
            && one.work.job_id == stopped.work.job_id
    };
    entries.iter().position(|entry| of_job(entry.first().death))
}

/// Makes the first screen. A first cause that is shown in full has no line, because its own block
/// says it.
pub fn of(
    view: &View<'_>,
    causes: &[Cause<'_>],
    entries: &[Entry<'_>],
    leading: &[EventId],
    most: Most,
) -> Answer {
    let jobs = if view.shown.detail {
        jobs::lines(view, causes, most.jobs)
    } else {
        jobs::short_lines(view, causes, most.jobs)
    };
    let shown: &[Entry<'_>] = match (view.shown.detail, view.shown.all) {
        (true, _) => &[],
        // Each has a block, unless their number is limited.
        (false, true) if most.causes == usize::MAX => &entries[..entries.len().min(1)],
        (false, _) => entries,
    };
    let told = shown.iter().take(most.causes);
    let has_job_lines = view.shown.report.jobs.len() <= most.jobs;
    let (full, others) = leading.split_at(most.facts.min(leading.len()));
    let short = &others[..most.short.min(others.len())];
    let told = told.map(|entry| tell(view, entries, entry, (full, short), has_job_lines));
    let told: Vec<Told> = told.collect();
    let mut close = close(view, causes);
    let left = shown.iter().skip(most.causes);
    let left: usize = left.map(|entry| entry.causes.len()).sum();
    if left > 0 {
        close.insert(0, rank::left_out(left));
    }
    Answer {
        jobs,
        causes: told,
        close,
        gaps: header::gaps_at_most(view, most.gaps),
        see: see(view, entries, leading),
    }
}

/// Tells one first cause or group.
fn tell(
    view: &View<'_>,
    entries: &[Entry<'_>],
    entry: &Entry<'_>,
    (full, short): (&[EventId], &[EventId]),
    has_job_lines: bool,
) -> Told {
    let death = entry.first().death;
    let leads = death.id == entries[0].first().death.id;
    let (label, headline, least) = alike::heading(&entry.causes);
    let mut above = entries.iter().take_while(|other| !ptr::eq(*other, entry));
    let again = above.find_map(|first| alike::same(first, entry));
    let is_short = short.contains(&death.id);
    let has_facts = again.is_none() && (is_short || full.contains(&death.id));
    let mut facts = if has_facts {
        brief::facts(view, entry)
    } else {
        Vec::new()
    };
    // Another way is told where there is one to read.
    facts.retain(|(label, _)| match *label {
        "or" => leads && full.len() + short.len() == 1,
        "why" => !is_short || !death.is_memory_kill(),
        _ => true,
    });
    let says_why = facts.iter().any(|(label, _)| *label == "why");
    let mut text = match (&again, has_facts, entry.causes.as_slice()) {
        (Some(text), ..) => text.clone(),
        (None, true, [_]) => brief::headline(view, death, says_why),
        _ => headline,
    };
    if is_short && death.is_memory_kill() && again.is_none() {
        text.push_str(&format!(": {}", brief::short_why(death)));
    }
    if !leads {
        text.push_str(&what_followed(view, entry));
        if !has_job_lines {
            text.push_str(&what_ended(view, entry));
        }
    }
    let when = match &death.node {
        _ if again.is_some() => String::new(),
        Some(node) => format!("{}  {}", view.death_second(death), sanitize::name(node)),
        None => view.death_second(death),
    };
    Told {
        label,
        when,
        text,
        sure: least.verdict.certainty,
        certainty: words::certainty(least),
        death: death.id,
        facts,
    }
}

/// `; 4 deaths followed`.
fn what_followed(view: &View<'_>, entry: &Entry<'_>) -> String {
    match entry.causes.as_slice() {
        [cause] if fleet::is_fleet_report(&view.shown.report) => fleet::followed(cause),
        causes => {
            let followed: usize = causes.iter().map(|cause| cause.followers().len()).sum();
            let deaths = words::count(followed, "death", "deaths");
            let some = (followed > 0).then(|| format!("; {deaths} followed"));
            some.unwrap_or_default()
        }
    }
}

/// `; ended job 01000000`.
fn what_ended(view: &View<'_>, entry: &Entry<'_>) -> String {
    let mut ended = entry.causes.iter();
    let job = ended.find_map(|cause| jobs::ended_by(view, cause));
    job.map_or_else(String::new, |job| {
        let (probably, name) = (jobs::probably(job), jobs::name(view, job));
        format!("; {probably}ended job {name}")
    })
}

/// Returns how many first causes there were and how many deaths followed, the most that was in use,
/// and that no event was lost.
fn close(view: &View<'_>, causes: &[Cause<'_>]) -> Vec<String> {
    let report = &view.shown.report;
    if fleet::is_fleet_report(report) {
        let quiet = fleet::quiet_nodes(report);
        let counts = std::iter::once(fleet::counts(view, causes));
        return counts.chain(quiet).collect();
    }
    if causes.is_empty() || !causes.iter().any(|cause| cause.death.is_memory_kill()) {
        return header::counts(view, causes);
    }
    let without_first = header::followed(view, causes);
    let followers: usize = causes.iter().map(|cause| cause.followers().len()).sum();
    let followed = followers + without_first;
    let mut parts = Vec::new();
    let own = causes.len() - without_first;
    let kills = || causes.iter().filter(|cause| cause.is_kill());
    let killed: usize = kills().map(|cause| 1 + cause.others_of_act()).sum();
    let first = words::count(own, "first cause", "first causes");
    // One decision may kill several.
    let first = if killed > kills().count() {
        format!("{first}, {killed} killed")
    } else {
        first
    };
    parts.push(match followed {
        // Texts name few of the processes that a kill takes along.
        0 if !report.texts.is_empty() => format!("{first}."),
        0 => format!("{first}; no death followed."),
        _ => format!(
            "{first}; {} followed.",
            words::count(followed, "death", "deaths")
        ),
    });
    if let Some(peak) = report.peak {
        let used: Bytes = peak.used_bytes;
        parts.push(format!(
            "Machine: at most {}.",
            size::of(used, peak.total_bytes)
        ));
    }
    let nothing_lost = header::gaps(view).is_empty() && !report.recordings.is_empty();
    parts.extend(nothing_lost.then(|| "No event was lost.".to_owned()));
    vec![parts.join(" ")]
}

/// Returns what to type next: all evidence of the first causes that lead, and the page.
fn see(view: &View<'_>, entries: &[Entry<'_>], leading: &[EventId]) -> Vec<(String, String)> {
    let several = fleet::is_fleet_report(&view.shown.report);
    let recorded = !view.shown.report.recordings.is_empty();
    let file = view.style.file.as_deref();
    let Some(file) = file.or((several && recorded).then_some("FILES")) else {
        let next = "record the next run: sudo raytrace record";
        let leaves_open = entries.is_empty() || entries.iter().any(leaves_open);
        let texts = &view.shown.report.texts;
        let next = (leaves_open && !texts.is_empty()).then(|| view.adapt_command(next));
        return next.map(|next| (next, String::new())).into_iter().collect();
    };
    let report = format!(
        "raytrace report {}{}",
        sanitize::quoted(file),
        view.style.span
    );
    let numbers = if view.shown.detail {
        Vec::new()
    } else {
        numbers(entries, leading.iter())
    };
    let all = numbers.split_first().map(|(first, others)| {
        let others = match others {
            [] => String::new(),
            others => format!("; also --kill {}", others.join(", ")),
        };
        (
            format!("{report} --kill {first}"),
            format!("all evidence{others}"),
        )
    });
    let own = view.style.file.as_deref().unwrap_or_default();
    let page = sanitize::quoted(&page_name(own));
    let page = (
        format!("{report} --format html -o {page}"),
        "the timeline, in a browser".to_owned(),
    );
    all.into_iter().chain([page]).collect()
}

/// Returns the numbers of first causes for `--kill`, of the first of those that lead.
pub fn numbers<'a>(
    entries: &[Entry<'_>],
    leading: impl Iterator<Item = &'a EventId>,
) -> Vec<String> {
    let number = |id: &EventId| {
        let mut all = entries.iter().map(Entry::first);
        all.find(|cause| cause.death.id == *id)
            .map(|cause| cause.number)
    };
    let numbers = leading.filter_map(number).take(SEE);
    numbers.map(|number| number.to_string()).collect()
}

/// Returns whether a recording would tell more of a first cause than logs do: who sent a signal, or
/// what filled the memory.
fn leaves_open(entry: &Entry<'_>) -> bool {
    let death = entry.first().death;
    match death.verdict.killer {
        Killer::Unknown => true,
        Killer::Signal => death.sender.is_none(),
        _ => death.is_memory_kill(),
    }
}

/// Returns the name of the page of a recording, in the folder where the command is typed.
fn page_name(file: &str) -> String {
    let base = crate::path::base(file.trim_end_matches('/'));
    let stem = base.strip_suffix(".raytrace").unwrap_or(base);
    if stem.is_empty() || stem.starts_with('.') {
        return "report.html".to_owned();
    }
    format!("{stem}.html")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{
        sample,
        select::{Kill, SelectedReport, Selection, select},
    };

    #[test]
    fn memory_kills_of_a_stopped_job_have_facts() {
        let report = sample::stopped();
        let shown = SelectedReport::whole(&report);
        let style = sample::style();
        let view = View::new(&shown, &style);
        let entries = rank::entries(&view, shown.causes());
        assert_eq!(leading(&view, &entries), [EventId(9), EventId(1)]);
    }

    #[test]
    fn job_names_the_kill_that_ended_it_although_another_is_shown() {
        let report = sample::verl();
        let whole = SelectedReport::whole(&report);
        let ended = report.jobs.iter().find_map(|job| job.ended_by_death_id);
        let label = ended.and_then(|id| whole.label(id)).expect("a kill");
        let mut numbers = (1..).take(whole.totals.causes).map(Kill::Number);
        let job = numbers.find_map(|kill| {
            let selection = Selection {
                kill: Some(kill),
                ..Selection::default()
            };
            let shown = select(report.clone(), &selection);
            let style = sample::style();
            let view = View::new(&shown, &style);
            let causes = shown.causes();
            let other = causes.iter().all(|cause| cause.label() != label);
            let (_, job) = jobs::lines(&view, &causes, 1).into_iter().next()?;
            other.then_some(job)
        });
        let job = job.expect("another first cause");
        assert!(job.contains(&format!("ended by {label}:")), "{job}");
    }

    /// Logs have seconds. The first of two kills in one keeps its reason.
    #[test]
    fn second_kill_at_one_time_is_told_by_the_first() {
        let mut report = sample::verl();
        let mut other = report.deaths[0].clone();
        (other.id, other.process.pid) = (EventId(4101), crate::ids::Pid(41_878));
        report.deaths.push(other);
        let shown = SelectedReport::whole(&report);
        let style = sample::style();
        let view = View::new(&shown, &style);
        let entries = rank::entries(&view, shown.causes());
        let leading = leading(&view, &entries);
        let answer = of(&view, &shown.causes(), &entries, &leading, Most::ALL);
        let of_class =
            |told: &&Told| told.text.contains("compute_score") || told.text.contains("41878");
        let told: Vec<&Told> = answer.causes.iter().filter(of_class).collect();
        assert!(told[0].text.contains("compute_score"), "{told:?}");
        assert!(told[1].text.ends_with("the same for pid 41878"), "{told:?}");
    }
}
