//! Replays golden recordings as the live half sees them.
//!
//! A verdict that is reported as settled must be the one in the later report.

use crate::{
    deaths::Deaths,
    event::{Event, Observation, Role, Source},
    golden,
    ids::{BootTime, EventId},
    judge::{
        self, Details, Judge,
        cause::Cause,
        report::{Death, Killer, Report},
    },
    show::{markdown, sample, select::SelectedReport, summary, text},
};

/// Returns whether an event was read from a log.
fn is_log(event: &Event) -> bool {
    matches!(
        event.source,
        Source::RayLog | Source::WorkerLog | Source::Gcs | Source::Kmsg
    )
}

/// Returns the deaths of a recording as they are reported live, each time that they are.
fn live_deaths(events: &[Event]) -> Vec<Death> {
    let (mut judge, mut deaths) = (Judge::default(), Deaths::default());
    let mut now = BootTime(0);
    let mut all = Vec::new();
    let next = events.iter().skip(1).map(Some).chain([None]);
    for (event, next) in events.iter().zip(next) {
        // The time of a log line is the one that it contains, which may be any.
        if !is_log(event) {
            now = now.max(event.time);
        }
        judge.observe(event);
        if let Observation::Exit(exit) = &event.what {
            deaths.add(event.id, exit.process, event.time);
        }
        // Log lines are read before a death is reported.
        if next.is_some_and(is_log) {
            continue;
        }
        let (told, done) = deaths.take_due(&judge, now);
        for process in done {
            judge.forget(process);
        }
        all.extend(told.into_iter().map(|told| told.death));
    }
    all
}

/// Returns what differs in a later verdict. Two things are not compared: the act, which groups
/// deaths once all are known, and the evidence, which grows with what is read later.
fn differences(told: &Death, later: &Death) -> impl Iterator<Item = String> {
    let fields = |death: &Death| {
        let verdict = &death.verdict;
        [
            format!("killer {:?}", verdict.killer),
            format!("certainty {:?}", verdict.certainty),
            format!("certainty of the reason {:?}", verdict.reason_certainty),
            format!("cause {:?}", verdict.cause),
            format!("death that is the cause {:?}", verdict.cause_death_id),
            format!("cause elsewhere {:?}", verdict.cause_remote),
            format!("missing {:?}", verdict.missing),
            format!("sender {:?}", death.sender),
            format!("end {:?}", death.end),
            format!("act {:?}", death.when.act_time),
            format!("listed {:?}", death.listed),
        ]
    };
    let mut later = later.clone();
    if is_joined_later(told, &later) {
        later.verdict.cause_death_id = None;
    }
    let both = fields(told).into_iter().zip(fields(&later));
    both.filter(|(told, later)| told != later)
        .map(|(told, later)| format!("{told} → {later}"))
}

/// Returns whether the cause is found only once all deaths are known: what a driver failed of among
/// the deaths of its job (`judge/jobs.rs`), and the first of several deaths that other processes
/// noticed (`judge/peers.rs`). Live, such a death is reported as an exit or a crash.
fn is_joined_later(told: &Death, later: &Death) -> bool {
    let none_yet = told.verdict.cause_death_id.is_none();
    let by_itself = matches!(later.verdict.killer, Killer::Exit | Killer::Crash);
    none_yet && (later.process.role == Role::Driver || by_itself)
}

#[test]
fn live_settled_verdicts_match_the_report() {
    let wrong = golden::for_each(|name| {
        let events = golden::read(name).events;
        let report = judge::judge(&events);
        let told = live_deaths(&events).into_iter();
        let told: Vec<Death> = told.filter(|death| death.verdict.settled).collect();
        // The recording `every-row` has no complete death.
        let some = !told.is_empty() || name == "every-row";
        assert!(some, "{name}: no death was told as settled");
        let mut wrong = Vec::new();
        for death in told {
            let later = report.deaths.iter().find(|later| later.id == death.id);
            let later = later.expect("a death that was told is reported");
            let moved = differences(&death, later);
            wrong.extend(moved.map(|moved| format!("{name} {:?} {moved}", death.id)));
        }
        wrong
    });
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns what is printed of a report that shows no death alone.
fn printed(report: &Report) -> String {
    let (shown, style) = (SelectedReport::whole(report), sample::style());
    let text = text::render(&shown, &style) + &markdown::render(&shown, &style);
    text + &summary::text(&shown, &style)
}

fn judged_early(events: &[Event], details: Details) -> Judge {
    let mut judge = Judge::with_details(details);
    for event in events {
        judge.observe(event);
        judge.settle(0);
    }
    judge
}

/// The deaths of a long recording are judged before its end, which must not change verdicts. These
/// recordings are short, so each ends with an event ten minutes later.
#[test]
fn deaths_judged_before_the_end_are_the_same() {
    let judged = golden::for_each(|name| {
        let mut events = golden::read(name).events;
        let mut late = events.last().expect("an event").clone();
        late.id = EventId(late.id.0 + 1);
        late.time = late.time.plus(600_000_000_000);
        events.push(late);
        let judge = judged_early(&events, Details::All);
        let early = judge.settled();
        let (now, then) = (judge.into_report(), judge::judge(&events));
        assert_eq!(now.deaths.len(), then.deaths.len(), "{name}");
        for (one, other) in now.deaths.iter().zip(&then.deaths) {
            let moved: Vec<String> = differences(one, other).collect();
            assert_eq!((one.id, moved), (other.id, Vec::new()), "{name}");
        }
        let brief = judged_early(&events, Details::none()).into_report();
        assert_eq!(printed(&brief), printed(&now), "{name}");
        early
    });
    assert!(judged.iter().sum::<usize>() > 100, "{judged:?}");
}

#[test]
fn cascade_is_reported_once_cause_is_known() {
    let early = golden::for_each(|name| {
        let told = live_deaths(&golden::read(name).events).into_iter();
        let early = told
            .filter(|death| death.verdict.killer == Killer::RayCollapse && !death.verdict.settled);
        early
            .map(|death| (name.to_owned(), death.id))
            .collect::<Vec<_>>()
    });
    assert_eq!(early.concat(), Vec::new());
}

#[test]
fn run_that_ended_well_reports_no_death() {
    let told = live_deaths(&golden::read("verl-a").events);
    let listed: Vec<_> = told.iter().filter(|death| death.listed).collect();
    assert!(listed.is_empty(), "{listed:?}");
}

#[test]
fn valid_verdicts_do_not_change() {
    for name in ["nodes-2.60.0", "verl-b", "unprivileged-2.60.0"] {
        let events = golden::read(name).events;
        let (mut judge, mut now, mut validity) = (Judge::default(), BootTime(0), None);
        let mut open: Vec<(EventId, Killer, Cause)> = Vec::new();
        for (place, event) in events.iter().enumerate() {
            if !is_log(event) {
                now = now.max(event.time);
            }
            judge.observe(event);
            let verdict = |id| judge.death(id, now).expect("a death").verdict;
            if validity.is_some_and(|validity| judge.is_still_valid(validity, now)) {
                for (id, killer, cause) in open.iter().filter(|_| place % 16 == 0) {
                    let verdict = verdict(*id);
                    let stays = !verdict.settled && verdict.killer == *killer;
                    assert!(stays && verdict.cause == *cause, "{name} {id:?} {event:?}");
                }
                continue;
            }
            validity = Some(judge.validity(now));
            let ended = matches!(event.what, Observation::Exit(_)).then_some(event.id);
            let ended = ended.filter(|id| judge.death(*id, now).is_some());
            let all = open.iter().map(|(id, ..)| *id).chain(ended);
            let verdicts = all.map(|id| (id, verdict(id)));
            let unsettled = verdicts.filter(|(_, verdict)| !verdict.settled);
            open = unsettled
                .map(|(id, verdict)| (id, verdict.killer, verdict.cause))
                .collect();
        }
    }
}
