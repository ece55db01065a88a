//! Replays golden recordings as the live half sees them: whom it names as settled is whom the report names later.

use crate::{
    collect::Deaths,
    event::{Event, Observation, Source},
    golden,
    ids::BootTime,
    judge::{
        self, Judge,
        report::{Death, Killer},
    },
};

/// Whether this was read in a log.
fn is_log(event: &Event) -> bool {
    matches!(
        event.source,
        Source::RayLog | Source::WorkerLog | Source::Gcs | Source::Kmsg | Source::Text
    )
}

/// The deaths of a recording as they were told, each when it was.
fn told(events: &[Event]) -> Vec<Death> {
    let (mut judge, mut deaths) = (Judge::default(), Deaths::default());
    let mut now = BootTime(0);
    let mut all = Vec::new();
    let next = events.iter().skip(1).map(Some).chain([None]);
    for (event, next) in events.iter().zip(next) {
        // A line of a log has the time that stands in it, which may be any.
        if !is_log(event) {
            now = now.max(event.time);
        }
        judge.observe(event);
        if let Observation::Exit(exit) = &event.what {
            deaths.add(event.id, exit.process, event.time);
        }
        // What logs say is read before a death is told.
        if next.is_some_and(is_log) {
            continue;
        }
        let (told, done) = deaths.tell(&judge, now);
        for process in done {
            judge.forget(process);
        }
        all.extend(told.into_iter().map(|told| told.death));
    }
    all
}

#[test]
fn who_ended_a_process_is_told_as_settled_as_the_report_has_it() {
    let listed = super::listed();
    let wrong = golden::for_each(|name| {
        let events = golden::read(name).events;
        let report = judge::judge(&events);
        let told = told(&events).into_iter();
        let told: Vec<Death> = told.filter(|death| death.verdict.settled).collect();
        // Nobody's death is whole in the recording of every row.
        let some = !told.is_empty() || name == "every-row";
        assert!(some, "{name}: no death was told as settled");
        let mut wrong = Vec::new();
        for death in told {
            let later = report.deaths.iter().find(|later| later.id == death.id);
            let later = later.expect("a death that was told is reported");
            let killers = [&death, later].map(|death| death.verdict.killer.name());
            let change = format!("settled.{}→{}", killers[0], killers[1]);
            let is_listed = listed.iter().any(|line| line.is(name, &change));
            if killers[0] != killers[1] && !is_listed {
                let summaries = [&death, later].map(crate::show::clause::summary);
                wrong.push(format!(
                    "{name} {change}: {} → {}",
                    summaries[0], summaries[1]
                ));
            }
        }
        wrong
    });
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_follows_another_death_is_told_when_that_one_is_known() {
    let early = golden::for_each(|name| {
        let told = told(&golden::read(name).events).into_iter();
        let early = told
            .filter(|death| death.verdict.killer == Killer::RayCollapse && !death.verdict.settled);
        early
            .map(|death| (name.to_owned(), death.id))
            .collect::<Vec<_>>()
    });
    assert_eq!(early.concat(), Vec::new());
}

#[test]
fn nothing_is_told_of_a_run_that_ended_well() {
    let told = told(&golden::read("verl-a").events);
    let listed: Vec<_> = told.iter().filter(|death| death.listed).collect();
    assert!(listed.is_empty(), "{listed:?}");
}
