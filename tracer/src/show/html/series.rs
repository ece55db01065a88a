//! The series of the page, downsampled so that a day of many workers is a file that opens at once.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::data::{kib, milliseconds};
use crate::{
    event::Role,
    ids::{Bytes, EventId, MINUTE_NS},
    judge::{
        report::{Report, Utc},
        timeline::{CgroupSeries, ProcessSeries, Timeline},
    },
    show::{downsample::downsample, sanitize, words},
};

/// Points of all processes together, at about 12 bytes each.
const MAX_POINTS: usize = 300_000;
/// Points of the machine.
const MAX_NODE_POINTS: usize = 30_000;
/// Cgroups with a line.
const MAX_CGROUPS: usize = 3;
/// Processes with a row.
const MAX_PROCESSES: usize = 4000;
/// A downsampled series keeps at least so many.
const FEWEST: usize = 8;
/// Before a listed death its process's points are kept as they are: people look there.
const LAST_NS: i64 = MINUTE_NS;
/// But no more than these of them.
const LAST_POINTS: usize = 300;

/// The series: flat numbers `[ms since the one before, KiB, …]`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    /// In use, and of that shared memory.
    node: Vec<u64>,
    /// Cgroups with a limit.
    cgroups: Vec<CgroupData>,
    /// Names of classes, to which processes refer.
    groups: Vec<String>,
    processes: Vec<ProcessData>,
    /// Processes without a row.
    left_out: usize,
}

/// A cgroup's use, page cache that the kernel would take back left out.
#[derive(Debug, Serialize)]
struct CgroupData {
    label: String,
    points: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct ProcessData {
    pid: u32,
    name: String,
    group: usize,
    role: Role,
    worker: Option<String>,
    start: Option<i64>,
    end: Option<i64>,
    death: Option<u64>,
    points: Vec<u64>,
}

/// The downsampled series of `timeline`.
pub(super) fn of(report: &Report, timeline: &Timeline) -> Series {
    let listed: HashSet<EventId> = report
        .deaths
        .iter()
        .filter(|death| death.listed)
        .map(|death| death.id)
        .collect();
    let (kept, left_out) = choose(&timeline.processes, &listed);
    let all: usize = kept.iter().map(|process| process.private.len()).sum();
    let mut groups = Groups::default();
    let processes = kept
        .iter()
        .map(|process| {
            let most = process.private.len() * MAX_POINTS / all.max(MAX_POINTS);
            let died = process.death.filter(|death| listed.contains(death));
            let group = groups.number(words::class_of_series(process));
            row(process, timeline.began, died, group, most.max(FEWEST))
        })
        .collect();
    Series {
        node: node(timeline),
        cgroups: limited(timeline)
            .into_iter()
            .map(|one| cgroup(timeline.began, one))
            .collect(),
        groups: groups.names,
        processes,
        left_out,
    }
}

/// Names by the order in which they came up.
#[derive(Default)]
struct Groups {
    names: Vec<String>,
    known: BTreeMap<String, usize>,
}

impl Groups {
    fn number(&mut self, name: String) -> usize {
        let next = self.names.len();
        let number = *self.known.entry(name.clone()).or_insert(next);
        if number == next {
            self.names.push(name);
        }
        number
    }
}

/// Those that died or held most, in the order of their starts.
fn choose<'a>(
    all: &'a [ProcessSeries],
    listed: &HashSet<EventId>,
) -> (Vec<&'a ProcessSeries>, usize) {
    let worth = |process: &&ProcessSeries| {
        let rays = process.role.is_rays();
        rays || !process.private.is_empty() || process.death.is_some_and(|id| listed.contains(&id))
    };
    let mut kept: Vec<&ProcessSeries> = all.iter().filter(worth).collect();
    if kept.len() > MAX_PROCESSES {
        kept.sort_by_cached_key(|process| {
            let died = process.death.is_some_and(|id| listed.contains(&id));
            let peak = process.private.iter().map(|(_, bytes)| *bytes).max();
            std::cmp::Reverse((died, peak))
        });
        kept.truncate(MAX_PROCESSES);
        kept.sort_by_key(|process| (process.process.start, process.process.pid));
    }
    let left_out = all.len() - kept.len();
    (kept, left_out)
}

fn row(
    process: &ProcessSeries,
    began: Utc,
    died: Option<EventId>,
    group: usize,
    most: usize,
) -> ProcessData {
    let since = |time: Utc| milliseconds(time) - milliseconds(began);
    let private = &process.private;
    let last = match (died, process.ended) {
        (Some(_), Some(ended)) => {
            private.partition_point(|(time, _)| ended.0.0 - time.0.0 > LAST_NS)
        }
        _ => private.len(),
    };
    let mut points = downsample(&private[..last], most, |(_, bytes)| bytes.0);
    points.extend(downsample(&private[last..], LAST_POINTS, |(_, bytes)| {
        bytes.0
    }));
    ProcessData {
        pid: process.process.pid.0,
        name: words::name_of_series(process),
        group,
        role: process.role,
        worker: process
            .worker_id
            .as_ref()
            .map(|id| sanitize::line(id.short(), 8)),
        start: process.started.map(since),
        end: process.ended.map(since),
        death: process.death.map(|id| id.0),
        points: flat(began, points.iter().map(|(time, bytes)| (*time, [*bytes]))),
    }
}

/// The cgroups with a limit that came nearest to it.
pub(super) fn limited(timeline: &Timeline) -> Vec<&CgroupSeries> {
    let fullest = |series: &CgroupSeries| {
        let samples = series.samples.iter();
        let shares =
            samples.filter_map(|(_, state)| Some(state.needed().gib() / state.limit?.gib()));
        shares.reduce(f64::max)
    };
    let mut found: Vec<(f64, &CgroupSeries)> = timeline
        .cgroups
        .iter()
        .filter_map(|series| Some((fullest(series)?, series)))
        .collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.truncate(MAX_CGROUPS);
    found.into_iter().map(|(_, series)| series).collect()
}

fn cgroup(began: Utc, series: &CgroupSeries) -> CgroupData {
    let figures: Vec<(Utc, [Bytes; 1])> = series
        .samples
        .iter()
        .map(|(time, state)| (*time, [state.needed()]))
        .collect();
    let kept = downsample(&figures, MAX_NODE_POINTS, |(_, [used])| used.0);
    CgroupData {
        label: format!(
            "in cgroup {}, without page cache",
            words::cgroup(&series.path)
        ),
        points: flat(began, kept.into_iter()),
    }
}

fn node(timeline: &Timeline) -> Vec<u64> {
    let figures: Vec<(Utc, [Bytes; 2])> = timeline
        .node
        .iter()
        .map(|(time, node)| {
            let used = node.used().0;
            (*time, [Bytes(used), node.shmem])
        })
        .collect();
    let kept = downsample(&figures, MAX_NODE_POINTS, |(_, [used, _])| used.0);
    flat(timeline.began, kept.into_iter())
}

/// `[ms since the one before, KiB, …]`; a clock that stepped back counts as no time.
fn flat<const N: usize>(began: Utc, points: impl Iterator<Item = (Utc, [Bytes; N])>) -> Vec<u64> {
    let mut before = milliseconds(began);
    let mut numbers = Vec::new();
    for (time, figures) in points {
        let now = milliseconds(time).max(before);
        numbers.push((now - before).unsigned_abs());
        numbers.extend(figures.map(kib));
        before = now;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WallTime;

    #[test]
    fn a_clock_that_steps_back_moves_nothing_back() {
        let at = |ms: i64| Utc(WallTime(ms * 1_000_000));
        let points = [
            (at(5), [Bytes(2048)]),
            (at(3), [Bytes(0)]),
            (at(9), [Bytes(1024)]),
        ];
        assert_eq!(flat(at(0), points.into_iter()), [5, 2, 0, 0, 4, 1]);
    }
}
