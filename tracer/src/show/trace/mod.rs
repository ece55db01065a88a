//! The recording as a Chrome trace, which the Perfetto UI opens, alone or merged with what `ray timeline` wrote.
//!
//! Ray's timeline shows what workers did, but a task whose worker was killed has no span there. Here each process has its
//! lifetime on Ray's own row for it, each death a slice with its evidence, and flows lead from killers and first causes
//! to victims. Ray's events stay as they are but for their ids: Perfetto wants integers with names.

mod events;
mod ray;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{
    ids::EventId,
    judge::{
        report::{Death, Report},
        timeline::{ProcessSeries, Timeline},
    },
    show::{causes, sanitize, thin::thin},
};
pub use ray::{RayTimeline, RayTimelineError};
use rows::{Place, Rows};

/// Points of all processes together, at about 150 bytes each.
const MAX_POINTS: usize = 300_000;
/// A thinned series keeps at least so many.
const FEWEST: usize = 8;

/// The trace, an event a line.
pub fn render(
    report: &Report,
    timeline: &Timeline,
    ray: Option<&RayTimeline>,
) -> Result<String, serde_json::Error> {
    let mut rows = Rows::new(report, timeline, ray);
    let mut events = ray.map_or_else(Vec::new, |ray| ray.events(&mut rows));
    let deaths: HashMap<EventId, &Death> = report
        .deaths
        .iter()
        .map(|death| (death.id, death))
        .collect();
    let places: Vec<Place> = timeline
        .processes
        .iter()
        .map(|process| rows.process(process))
        .collect();
    memory(&mut events, &mut rows, timeline, &places);
    for (process, place) in timeline.processes.iter().zip(&places) {
        let death = process.death.and_then(|id| deaths.get(&id)).copied();
        events.push(events::lifetime(timeline, process, death, *place));
        let titles = rows.titles(process, *place);
        events.extend(
            titles
                .map(|place| events::methods(timeline, process, place))
                .into_iter()
                .flatten(),
        );
    }
    let labels: HashMap<EventId, String> = causes::all(report)
        .iter()
        .map(|cause| (cause.death.id, cause.label()))
        .collect();
    for (process, place) in timeline.processes.iter().zip(&places) {
        let Some(death) = process
            .death
            .and_then(|id| deaths.get(&id))
            .filter(|death| death.listed)
        else {
            continue;
        };
        let label = labels.get(&death.id).map_or("DEATH", String::as_str);
        events.extend(events::death(death, process, *place, label));
        events.extend(flows(timeline, &places, &deaths, death, *place));
    }
    let mut all = rows.names();
    all.append(&mut events);
    lines(report, &all)
}

fn lines(report: &Report, events: &[Value]) -> Result<String, serde_json::Error> {
    let about = json!({"raytrace": sanitize::name(&report.raytrace)});
    let events: Result<Vec<String>, _> = events.iter().map(serde_json::to_string).collect();
    Ok(format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[\n{}\n]}}\n",
        events?.join(",\n")
    ))
}

/// Counters of the machine and of each process.
fn memory(events: &mut Vec<Value>, rows: &mut Rows, timeline: &Timeline, places: &[Place]) {
    let machine = rows.machine();
    for (time, node) in thin(&node_figures(timeline), MAX_POINTS / 10, |(_, figures)| {
        figures[0]
    }) {
        events.push(events::node(machine, time, node));
    }
    let all: usize = timeline
        .processes
        .iter()
        .map(|process| process.private.len())
        .sum();
    for (process, place) in timeline.processes.iter().zip(places) {
        let most = process.private.len() * MAX_POINTS / all.max(MAX_POINTS);
        let points = thin(&process.private, most.max(FEWEST), |(_, bytes)| bytes.0);
        events.extend(events::counter(process, *place, &points));
    }
}

/// In use, and of that shared memory.
fn node_figures(timeline: &Timeline) -> Vec<(crate::judge::report::Utc, [u64; 2])> {
    let samples = timeline.node.iter();
    samples
        .map(|(time, node)| {
            let used = node.used().0;
            (*time, [used, node.shmem.0])
        })
        .collect()
}

/// From the death that caused this one, and from the process that sent its signal.
fn flows(
    timeline: &Timeline,
    places: &[Place],
    deaths: &HashMap<EventId, &Death>,
    death: &Death,
    to: Place,
) -> Vec<Value> {
    let mut flows = Vec::new();
    let place_of = |wanted: &dyn Fn(&ProcessSeries) -> bool| {
        let found = timeline.processes.iter().position(wanted)?;
        places.get(found).copied()
    };
    let cause = death.verdict.cause_death_id;
    if let Some((id, from)) =
        cause.and_then(|id| Some((id, place_of(&|one| one.death == Some(id))?)))
        && let Some(cause) = deaths.get(&id)
    {
        flows.extend(events::flow(
            death.id.0 * 2,
            "caused",
            (cause.time, from),
            (death.time, to),
        ));
    }
    if let Some(sender) = &death.sender {
        let lived = |one: &ProcessSeries| {
            one.process.pid == sender.pid
                && one.started <= death.time
                && one.ended.is_none_or(|ended| Some(ended) >= death.time)
        };
        if let Some(from) = place_of(&lived) {
            flows.extend(events::flow(
                death.id.0 * 2 + 1,
                "signal",
                (death.time, from),
                (death.time, to),
            ));
        }
    }
    flows
}
