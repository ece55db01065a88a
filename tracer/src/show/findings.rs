//! Renders the findings: what to change, and the next commands to type.

use std::collections::BTreeSet;

use crate::{
    judge::report::{Certainty, Death, Finding, Report},
    phrase::when,
    show::{causes, fleet, sanitize, size::size, view::View, words},
};

/// The rule for a kill that no other rule explains.
const NO_RULE: &str = "nothing-fits";
/// The rule with findings that differ only in their cgroup.
const HIDDEN_LIMIT: &str = "hidden-limit";
/// Rules about what looks like a cause, or was meant as a remedy, and is neither.
const NO_CAUSES: [&str; 5] = [
    "object-store-not-reserved",
    "setting-does-not-help",
    "setting-without-effect",
    "after-effect",
    "teardown",
];
/// The rule for settings that take memory. A finding without a remedy says that it was not taken.
const TAKES_MEMORY: &str = "setting-takes-host-memory";

/// The text of a finding. Its parts are in the same order in every finding.
#[derive(Debug)]
pub struct FindingText<'a> {
    /// The finding.
    pub finding: &'a Finding,
    /// What was found.
    pub summary: String,
    /// Labelled texts: what to do, what that saves and costs, alternatives, and how to see that the
    /// finding is wrong.
    pub parts: Vec<(&'static str, String)>,
    /// What its first remedy is expected to save, if that is known: `at least −1.6 GiB`.
    saving: Option<String>,
}

impl FindingText<'_> {
    /// Returns the first part with a label.
    pub fn part(&self, label: &str) -> Option<&str> {
        let mut parts = self.parts.iter();
        let part = parts.find(|(known, _)| *known == label);
        part.map(|(_, text)| text.as_str())
    }

    /// Returns `: −1.6 GiB`, what its first remedy is expected to save, if that is known.
    pub fn saves(&self) -> String {
        let saving = self.saving.as_ref();
        saving.map_or_else(String::new, |saving| format!(": {saving}"))
    }

    /// Returns whether it names something to change, and not only what is no cause.
    pub fn matters(&self) -> bool {
        matters(self.finding)
    }
}

fn matters(finding: &Finding) -> bool {
    let rule = finding.rule.as_str();
    let was_not_taken = rule == TAKES_MEMORY && finding.remedy.is_empty();
    !NO_CAUSES.contains(&rule) && !was_not_taken
}

/// Returns the text of each finding, in the order of their numbers, from 1. Those about what is no
/// cause come last. Limits that Ray cannot see are shown once, however many cgroups have one, unless
/// all or details are asked for.
pub fn texts<'a>(view: &View<'a>) -> Vec<FindingText<'a>> {
    of(view, !view.shown.all && !view.shown.detail)
}

/// Returns the same, with each limit that Ray cannot see.
pub fn all<'a>(view: &View<'a>) -> Vec<FindingText<'a>> {
    of(view, false)
}

fn of<'a>(view: &View<'a>, folds: bool) -> Vec<FindingText<'a>> {
    let findings: &'a [Finding] = &view.shown.report.findings;
    let hidden = |finding: &&Finding| finding.rule == HIDDEN_LIMIT;
    let first = findings.iter().position(|finding| hidden(&finding));
    let kept = findings.iter().enumerate();
    let kept = kept.filter(|(_, finding)| finding.rule != NO_RULE);
    let kept = kept.filter(|(at, finding)| !folds || !hidden(finding) || Some(*at) == first);
    let more = findings.iter().filter(hidden).count().saturating_sub(1);
    let mut kept: Vec<(usize, &Finding)> = kept.collect();
    kept.sort_by_key(|(_, finding)| !matters(finding));
    let number = |rule: &str| kept.iter().position(|(_, one)| one.rule == rule);
    let found = kept.iter().map(|(at, finding)| FindingText {
        finding,
        summary: summary(
            view,
            finding,
            if folds && Some(*at) == first { more } else { 0 },
        ),
        parts: parts(&view.shown.report, finding, number),
        saving: expected_saving(&view.shown.report, finding),
    });
    found.collect()
}

/// Returns which kills no rule explains, and the notes of the report.
pub fn notes(view: &View<'_>) -> Vec<String> {
    let report = &view.shown.report;
    let unexplained = report.findings.iter().filter(|one| one.rule == NO_RULE);
    let unexplained = unexplained.map(|finding| unexplained_kills(view, finding));
    let notes = report.notes.iter();
    unexplained
        .chain(notes.map(|note| sanitize::line(note, sanitize::NOTE)))
        .collect()
}

/// `KILL 2: raytrace did not find what filled the memory at this kill; …`, and where to look next.
fn unexplained_kills(view: &View<'_>, finding: &Finding) -> String {
    let deaths = finding.deaths.iter();
    let mut numbers: Vec<u32> = deaths.filter_map(|id| view.shown.number(*id)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let label = match numbers.as_slice() {
        [] => String::new(),
        [number] => format!("KILL {number}: "),
        many => format!("KILLS {}: ", words::ranges(many)),
    };
    let next = match numbers.first() {
        _ if !view.shown.report.texts.is_empty() => {
            " The logs do not show what grew; a recording of the next run does."
        }
        Some(number) if !view.shown.detail => {
            &format!(" --kill {number} shows the minute before it.")
        }
        _ => "",
    };
    format!("{label}{}{next}", sentence(&finding.summary))
}

fn summary(view: &View<'_>, finding: &Finding, more: usize) -> String {
    let mut text = sentence(&finding.summary);
    if more > 0 {
        let cgroups = words::count(more, "more cgroup", "more cgroups");
        text.push_str(&format!(" The limits of {cgroups} are hidden too (--all)."));
    }
    let inferred = finding.certainty != Certainty::Proven;
    let inferred = inferred.then(|| "inferred".to_owned());
    let about = kills(view, finding).or_else(|| node(view, finding));
    let notes: Vec<String> = about.into_iter().chain(inferred).collect();
    if !notes.is_empty() {
        text.push_str(&format!(" ({})", notes.join("; ")));
    }
    text
}

/// Returns `KILLS 1 and 3`: the first causes that a finding is about, if others of their kind are
/// shown too. Memory kills are one kind.
fn kills(view: &View<'_>, finding: &Finding) -> Option<String> {
    let shown = view.shown;
    let deaths = || shown.report.deaths.iter();
    let by_memory = |death: &Death| death.verdict.killer.is_memory_kill();
    let of_finding: BTreeSet<_> = finding.deaths.iter().collect();
    let is_own = |death: &&Death| of_finding.contains(&death.id);
    let only_memory = deaths().filter(is_own).all(by_memory);
    let all: BTreeSet<u32> = deaths()
        .filter(|death| death.listed && (by_memory(death) || !only_memory))
        .filter_map(|death| shown.number(death.id))
        .collect();
    let own: BTreeSet<u32> = finding
        .deaths
        .iter()
        .filter_map(|id| shown.number(*id))
        .collect();
    if own.is_empty() || own == all {
        return None;
    }
    let has_a_death = shown
        .causes()
        .iter()
        .any(|cause| own.contains(&cause.number) && !cause.is_kill());
    let numbers: Vec<u32> = own.into_iter().collect();
    let word = causes::word(numbers.len(), !has_a_death);
    Some(format!("{word}\u{a0}{}", words::ranges(&numbers)))
}

/// Returns the node that a finding is about, in a report of several.
fn node(view: &View<'_>, finding: &Finding) -> Option<String> {
    let report = &view.shown.report;
    let recording = finding.recording_id?;
    let node = fleet::node_of_recording(report, recording)?;
    let is_one = report.nodes.len() == 1;
    (!is_one).then(|| format!("on {node}"))
}

/// Returns the labelled texts of a finding. `number` gives the place of another one by its rule.
fn parts(
    report: &Report,
    finding: &Finding,
    number: impl Fn(&str) -> Option<usize>,
) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    let remedies = finding.remedy.iter();
    let mut remedies = remedies.map(|remedy| {
        let text = sanitize::line(remedy, sanitize::ADVICE);
        // Hydra needs a `+` before a key that the configuration does not have. It looks like the
        // sign of a comparison.
        if remedy.contains("+actor_rollout_ref") || remedy.starts_with('+') {
            text + " (type the + too: it adds the key)"
        } else {
            text
        }
    });
    parts.extend(remedies.next().map(|first| ("Fix", first)));
    if let Some(saving) = &finding.saving {
        let whose = saving.task.as_ref().or(saving.class.as_ref());
        let whose = whose.map(|name| sanitize::name(name));
        let whose = whose.map_or_else(String::new, |class| format!(" of {class}"));
        let saves = expected_saving(report, finding).unwrap_or_default();
        parts.push(("Expected", format!("{saves} at the peak{whose}")));
    }
    parts.extend(finding.cost.clone().map(|cost| ("Cost", cost)));
    parts.extend(remedies.map(|other| ("Or", other)));
    let not_if = finding.not_if.as_deref();
    parts.extend(not_if.map(|text| ("Check", format!("not the cause if {text}"))));
    let others = finding.contradicts.iter();
    parts.extend(others.map(|other| {
        let (rule, why) = other.split_once(": ").unwrap_or(("", other));
        let text = match number(rule) {
            Some(at) => format!("number {}: {why}", at + 1),
            None => why.to_owned(),
        };
        ("Contradicts", text)
    }));
    let harmless = |text: String| sanitize::line(&text, sanitize::ADVICE);
    let parts = parts.into_iter();
    parts.map(|(label, text)| (label, harmless(text))).collect()
}

/// Returns `at least −1.6 GiB`: a call that had not ended may have added more, and a line may have
/// had more than was seen.
fn expected_saving(report: &Report, finding: &Finding) -> Option<String> {
    let bytes = size(finding.saving.as_ref()?.bytes);
    let ran = |one: &Death| {
        let calls = one.activity.calls.as_ref();
        finding.deaths.contains(&one.id) && calls.is_some_and(|calls| calls.died_in.is_some())
    };
    let open = finding.about.own_line && report.deaths.iter().any(ran);
    Some(format!("{}−{bytes}", when(open, "at least ")))
}

fn sentence(text: &str) -> String {
    let text = sanitize::line(text, sanitize::ADVICE);
    format!("{}.", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::{
        Style,
        sample::{self, burst, titled},
        select::{Kill, SelectedReport, Selection, select},
        summary,
    };
    use crate::{
        event::Role,
        judge::report::{Killer, Report},
    };

    fn style() -> Style {
        Style {
            file: Some("a.raytrace".into()),
            ..sample::style()
        }
    }

    /// Makes a report of two kills, with one finding that has two remedies and is about the second
    /// kill only.
    fn two_kills() -> Report {
        let mut report = burst();
        report.deaths.truncate(2);
        let second = report.deaths[1].clone();
        report.findings = vec![Finding {
            remedy: vec!["num_cpus=4: 2 at once".into(), "memory=1: 2 at once".into()],
            cost: Some("less parallelism".into()),
            deaths: vec![second.id],
            ..Finding::new("many-workers", Certainty::Inferred, "4 of 1 GiB each")
        }];
        report
    }

    #[test]
    fn finding_names_its_kills_and_alternatives() {
        let report = two_kills();
        let shown = SelectedReport::whole(&report);
        let style = style();
        let told = texts(&View::new(&shown, &style));
        assert_eq!(told[0].summary, "4 of 1 GiB each. (KILL\u{a0}2; inferred)");
        let parts: Vec<&str> = told[0].parts.iter().map(|(label, _)| *label).collect();
        assert_eq!(parts, ["Fix", "Cost", "Or"]);
        assert_eq!(told[0].parts[2].1, "memory=1: 2 at once");
    }

    /// A kill without a remedy of its own shows that of another memory kill of the same job.
    #[test]
    fn kill_borrows_a_remedy_from_its_job() {
        let report = two_kills();
        let first = Selection {
            kill: Some(Kill::Number(1)),
            ..Selection::default()
        };
        let shown = select(report.clone(), &first);
        assert_eq!(shown.report.findings.len(), 1);
        let style = style();
        let told = texts(&View::new(&shown, &style));
        assert!(told[0].summary.contains("KILL\u{a0}2"), "{:?}", told[0]);
        let told = summary::lines(&report, &report.deaths[0], summary::Disclosure::All, "");
        assert_eq!(
            told[2..4],
            [
                "fix     num_cpus=4: 2 at once (for another kill of this job)",
                "cost    less parallelism"
            ]
        );

        // A death for another reason, or in another job, does not get that finding.
        for change in [
            |report: &mut Report| report.deaths[0].verdict.killer = Killer::Exit,
            |report: &mut Report| report.deaths[0].work.job_id = None,
        ] {
            let mut other = report.clone();
            change(&mut other);
            assert_eq!(select(other.clone(), &first).report.findings, []);
            let fix = &summary::lines(&other, &other.deaths[0], summary::Disclosure::All, "")[2];
            assert_eq!(fix, "fix     unknown");
        }
        // A finding of its own comes first.
        let mut own = report.clone();
        own.deaths[0] = titled(own.deaths[0].clone(), Role::Worker, "ray::score");
        own.findings.push(Finding {
            remedy: vec!["another".into()],
            deaths: vec![own.deaths[0].id],
            ..Finding::new("leak", Certainty::Inferred, "it leaks")
        });
        assert_eq!(select(own.clone(), &first).report.findings.len(), 1);
    }
}
