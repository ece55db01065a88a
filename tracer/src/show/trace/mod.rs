//! Writes the recording as a Chrome trace.
//!
//! The Perfetto UI opens it, alone or merged with what `ray timeline` wrote.
//!
//! Ray's timeline shows what workers did, but has no span for a task if its worker was killed. Here
//! each process has its lifetime on Ray's own row for it, each death is a slice with its evidence,
//! and flows lead from killers and first causes to victims. Ray's events stay as they are, except
//! for their ids: Perfetto wants integers with names.

mod events;
mod ray;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io::{self, Write},
};

use serde_json::{Value, json};

use crate::{
    ids::{EventId, Pid, WallTime},
    judge::{
        fleet,
        report::{Death, Report, Utc},
        timeline::Timeline,
    },
    show::{causes, downsample::downsample, sanitize},
};
pub use ray::{RayTimeline, RayTimelineError};
use rows::{Place, Rows};

/// Maximum number of points of all processes together, at about 150 bytes each.
const MAX_POINTS: usize = 300_000;
/// Maximum number of calls of all processes together, at about 300 bytes each. Perfetto opens some
/// 100 MB well.
const MAX_CALLS: usize = 100_000;
/// Minimum number of points of a downsampled series.
const FEWEST: usize = 8;

/// The list of events, one per line. Each is written as it is made, because a long recording has
/// millions of them.
struct Events<'a, W> {
    output: &'a mut W,
    empty: bool,
    /// How far the clock of the node that is being written is ahead, in µs.
    ahead_us: i64,
}

impl<W: Write> Events<'_, W> {
    fn push(&mut self, event: &Value) -> io::Result<()> {
        if let Some(time) = event["ts"].as_i64().filter(|_| self.ahead_us != 0) {
            let mut corrected = event.clone();
            corrected["ts"] = time.saturating_sub(self.ahead_us).into();
            return self.write(&corrected);
        }
        self.write(event)
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        if !std::mem::take(&mut self.empty) {
            self.output.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut *self.output, event)?)
    }

    /// Converts a time of the node that is being written to the clock of the node with the GCS.
    fn corrected(&self, time: Utc) -> Utc {
        Utc(WallTime(time.0.0.saturating_sub(self.ahead_us * 1000)))
    }

    fn extend(&mut self, events: impl IntoIterator<Item = Value>) -> io::Result<()> {
        events.into_iter().try_for_each(|event| self.push(&event))
    }
}

/// For each death, when it happened and its place in the trace.
type Places = HashMap<EventId, (Option<Utc>, Place)>;

/// Writes the trace of recordings. Each has rows of its own, and flows lead from one to another
/// where Ray's messages say so.
pub fn write(
    parts: &[(Report, Timeline)],
    ray: Option<&RayTimeline>,
    output: &mut impl Write,
) -> io::Result<()> {
    let version = parts.first().map_or("", |(report, _)| &report.raytrace);
    let about = json!({"raytrace": sanitize::name(version)});
    writeln!(
        output,
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":["
    )?;
    let mut events = Events {
        output: &mut *output,
        empty: true,
        ahead_us: 0,
    };
    let joined = (parts.len() > 1).then(|| {
        let reports = parts.iter().map(|(report, _)| report.clone());
        fleet::join(reports.collect())
    });
    let mut rows = Rows::new(ray);
    if let Some(ray) = ray {
        events.extend(rows.events(ray))?;
    }
    let mut placed = Places::new();
    for (number, (report, timeline)) in (0..).zip(parts) {
        rows.turn_to(report, timeline, ray, parts.len() > 1);
        // The times of Ray's own spans are those of their nodes' clocks.
        let clocks = joined.as_ref().filter(|_| ray.is_none());
        events.ahead_us = clocks.map_or(0, |joined| ahead_us(joined, number));
        let part = Part {
            number,
            of: parts.len(),
            report,
            timeline,
        };
        part.push_all(&mut rows, &mut events, &mut placed)?;
    }
    events.ahead_us = 0;
    if let Some(joined) = &joined {
        across(joined, &placed, &mut events)?;
    }
    events.extend(rows.names())?;
    writeln!(output, "\n]}}")
}

/// Returns how far a recording's clock is ahead of that of the node with the GCS, in µs.
fn ahead_us(joined: &Report, recording: u32) -> i64 {
    let mut nodes = joined.nodes.iter();
    let node = nodes.find(|node| node.recordings.contains(&recording));
    let clock = node.and_then(|node| node.clock);
    clock.map_or(0, |clock| clock.corrected_by_ms * 1000)
}

/// Writes flows from deaths to the deaths that they caused on other nodes.
fn across(joined: &Report, placed: &Places, events: &mut Events<'_, impl Write>) -> io::Result<()> {
    for death in &joined.deaths {
        let Some(link) = &death.verdict.cause_link else {
            continue;
        };
        if let (Some(from), Some(to)) = (placed.get(&link.death_id), placed.get(&death.id)) {
            events.extend(events::flow(death.id.0 * 2, "caused", *from, *to))?;
        }
    }
    Ok(())
}

/// One recording of the trace.
struct Part<'a> {
    number: u32,
    of: usize,
    report: &'a Report,
    timeline: &'a Timeline,
}

impl Part<'_> {
    /// Returns the id of a death among those of all recordings.
    fn id(&self, id: EventId) -> EventId {
        if self.of > 1 {
            id.in_recording(self.number)
        } else {
            id
        }
    }

    fn push_all(
        &self,
        rows: &mut Rows,
        events: &mut Events<'_, impl Write>,
        placed: &mut Places,
    ) -> io::Result<()> {
        let (report, timeline) = (self.report, self.timeline);
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
        memory(events, rows, timeline, &places, self.of)?;
        let calls: usize = timeline.processes.iter().map(|one| one.calls.len()).sum();
        for (process, place) in timeline.processes.iter().zip(&places) {
            let death = process.death.and_then(|id| deaths.get(&id)).copied();
            let most = part_of(MAX_CALLS / self.of, process.calls.len(), calls);
            events.push(&events::lifetime(timeline, process, death, most, *place))?;
            if let Some(place) = rows.titles(process, *place) {
                events.extend(events::methods(timeline, process, most, place))?;
            }
        }
        let labels: HashMap<EventId, String> = causes::all(report)
            .iter()
            .map(|cause| (cause.death.id, cause.label()))
            .collect();
        let whereabouts = Whereabouts::of(timeline);
        for (process, place) in timeline.processes.iter().zip(&places) {
            let Some(death) = process.death.and_then(|id| deaths.get(&id)) else {
                continue;
            };
            let time = death.when.time.map(|time| events.corrected(time));
            placed.insert(self.id(death.id), (time, *place));
            if !death.listed {
                continue;
            }
            let label = labels.get(&death.id).map_or("DEATH", String::as_str);
            events.extend(events::death(death, process, *place, label))?;
            let number = self.id(death.id).0;
            let places = (&whereabouts, places.as_slice());
            events.extend(flows(timeline, places, &deaths, death, (number, *place)))?;
        }
        Ok(())
    }
}

/// Returns the share of `most` that `own` of `all` get.
fn part_of(most: usize, own: usize, all: usize) -> usize {
    (own * most / all.max(most)).max(FEWEST)
}

/// Writes counters of the machine and of each process.
fn memory(
    events: &mut Events<'_, impl Write>,
    rows: &mut Rows,
    timeline: &Timeline,
    places: &[Place],
    parts: usize,
) -> io::Result<()> {
    let machine = rows.machine();
    for (time, node) in downsample(
        &node_figures(timeline),
        MAX_POINTS / 10 / parts,
        |(_, figures)| figures[0],
    ) {
        events.push(&events::node(machine, time, node))?;
    }
    let all: usize = timeline
        .processes
        .iter()
        .map(|process| process.private.len())
        .sum();
    for (process, place) in timeline.processes.iter().zip(places) {
        let most = part_of(MAX_POINTS / parts, process.private.len(), all);
        let points = downsample(&process.private, most, |(_, bytes)| bytes.0);
        events.extend(events::counter(process, *place, &points))?;
    }
    Ok(())
}

/// Returns memory in use, and how much of it is shared memory.
fn node_figures(timeline: &Timeline) -> Vec<(Utc, [u64; 2])> {
    let samples = timeline.node.iter();
    samples
        .map(|(time, node)| {
            let used = node.used().0;
            (*time, [used, node.shmem.0])
        })
        .collect()
}

/// Where processes are in the list of series. A long recording has thousands.
struct Whereabouts {
    by_death: HashMap<EventId, usize>,
    by_pid: HashMap<Pid, Vec<usize>>,
}

impl Whereabouts {
    fn of(timeline: &Timeline) -> Self {
        let mut found = Self {
            by_death: HashMap::new(),
            by_pid: HashMap::new(),
        };
        for (at, process) in timeline.processes.iter().enumerate() {
            found
                .by_pid
                .entry(process.process.pid)
                .or_default()
                .push(at);
            if let Some(death) = process.death {
                found.by_death.entry(death).or_insert(at);
            }
        }
        found
    }
}

/// Makes flows to a death: from the death that caused it, and from the process that sent its
/// signal.
fn flows(
    timeline: &Timeline,
    (whereabouts, places): (&Whereabouts, &[Place]),
    deaths: &HashMap<EventId, &Death>,
    death: &Death,
    (number, to): (u64, Place),
) -> Vec<Value> {
    let mut flows = Vec::new();
    let cause = death.verdict.cause_death_id;
    let from = |id: EventId| Some((id, *places.get(*whereabouts.by_death.get(&id)?)?));
    if let Some((id, from)) = cause.and_then(from)
        && let Some(cause) = deaths.get(&id)
    {
        flows.extend(events::flow(
            number * 2,
            "caused",
            (cause.when.time, from),
            (death.when.time, to),
        ));
    }
    if let Some(sender) = &death.sender {
        let lived = |at: &&usize| {
            let one = &timeline.processes[**at];
            one.started <= death.when.time
                && one.ended.is_none_or(|ended| Some(ended) >= death.when.time)
        };
        let mut named = whereabouts.by_pid.get(&sender.pid).into_iter().flatten();
        if let Some(from) = named.find(lived).and_then(|at| places.get(*at)) {
            flows.extend(events::flow(
                number * 2 + 1,
                "signal",
                (death.when.time, *from),
                (death.when.time, to),
            ));
        }
    }
    flows
}
