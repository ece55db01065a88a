//! Writes the series of one lane as flat numbers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::units::{kib, milliseconds};
use crate::{
    cgroup_path::is_below,
    event::Role,
    ids::Bytes,
    judge::{
        report::Utc,
        timeline::{CgroupSeries, ProcessSeries, Timeline},
    },
    show::{sanitize, words},
};

/// Maximum number of cgroups that have a line.
const MAX_CGROUPS: usize = 3;

/// The series of a lane, as flat numbers `[ms since the one before, figure, …]`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    /// Spans of time with a recording, each from start to end.
    spans: Vec<[i64; 2]>,
    /// The machine's memory, or the limit of the cgroup that is drawn.
    total_kib: u64,
    /// Memory in use, and how much of it is shared memory.
    node: Vec<u64>,
    /// Cgroups with a limit.
    cgroups: Vec<CgroupData>,
    processes: Vec<ProcessData>,
}

/// The scale of times and figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// The start of the page by the clock of this node.
    pub(super) began: Utc,
    /// Unit of a figure, in KiB.
    pub(super) unit_kib: u64,
    /// Whether there are several recordings. Then ids of deaths hold the number of their recording.
    pub(super) several: bool,
}

/// The memory in use in a cgroup, without page cache that the kernel would take back.
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
    /// Whether it is outside the cgroup that is drawn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    outside: bool,
    points: Vec<u64>,
}

impl Series {
    /// Makes the series of a machine with this much memory, to which recordings are added.
    pub(super) fn of_machine(total_kib: u64) -> Self {
        Self {
            total_kib,
            ..Self::default()
        }
    }

    /// Adds what recording `number` has of the lane, behind what is already there. With `scope`,
    /// memory in use is that of this cgroup.
    pub(super) fn add(
        &mut self,
        number: u32,
        timeline: &Timeline,
        scale: Scale,
        scope: Option<&str>,
        groups: &mut Groups,
    ) {
        let since = |time: Utc| milliseconds(time) - milliseconds(scale.began);
        let before = self.spans.last().map_or(0, |[_, until]| *until);
        let begins = since(timeline.began).max(before);
        self.spans.push([begins, since(timeline.ended).max(begins)]);
        let mut cgroups = timeline.cgroups.iter();
        match scope.and_then(|path| cgroups.find(|series| series.path == path)) {
            Some(cgroup) => {
                let samples = cgroup.samples.iter();
                let figures = samples.map(|(time, state)| {
                    let shared = state.shmem.unwrap_or_default();
                    (*time, [state.needed(), shared])
                });
                scale.write(&mut self.node, figures);
                let mut limits = cgroup.samples.iter().filter_map(|(_, state)| state.limit);
                self.total_kib = limits.next_back().map_or(self.total_kib, kib);
            }
            None => scale.write(
                &mut self.node,
                timeline
                    .node
                    .iter()
                    .map(|(time, node)| (*time, [node.used(), node.shmem])),
            ),
        }
        self.cgroups
            .extend(limited(timeline).into_iter().map(|one| scale.cgroup(one)));
        self.processes.extend(timeline.processes.iter().map(|one| {
            let group = groups.number(words::class_of_series(one));
            let own = one.cgroup.as_deref();
            let outside = scope
                .zip(own)
                .is_some_and(|(path, own)| !is_below(own, path));
            ProcessData {
                outside,
                ..scale.process(one, number, group)
            }
        }));
    }
}

/// Names of classes in the order of their first use. Processes refer to them by index.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) names: Vec<String>,
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

/// Returns the cgroups that came nearest to their limits.
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

impl Scale {
    fn cgroup(self, series: &CgroupSeries) -> CgroupData {
        let mut points = Vec::new();
        let samples = series.samples.iter();
        self.write(
            &mut points,
            samples.map(|(time, state)| (*time, [state.needed()])),
        );
        CgroupData {
            label: format!(
                "in cgroup {}, without page cache",
                words::cgroup(&series.path)
            ),
            points,
        }
    }

    fn process(self, process: &ProcessSeries, number: u32, group: usize) -> ProcessData {
        let since = |time: Utc| milliseconds(time) - milliseconds(self.began);
        let death = process.death.map(|id| {
            if self.several {
                id.in_recording(number)
            } else {
                id
            }
        });
        let mut points = Vec::new();
        self.write(
            &mut points,
            process
                .private
                .iter()
                .map(|(time, bytes)| (*time, [*bytes])),
        );
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
            death: death.map(|id| id.0),
            outside: false,
            points,
        }
    }

    /// Adds `[ms since the one before, figures …]` for each point. If the clock stepped back, the
    /// time since the one before is 0.
    fn write<const N: usize>(
        self,
        numbers: &mut Vec<u64>,
        points: impl Iterator<Item = (Utc, [Bytes; N])>,
    ) {
        let step = N + 1;
        let passed: u64 = numbers.iter().step_by(step).sum();
        let mut before = milliseconds(self.began) + i64::try_from(passed).unwrap_or(0);
        for (time, figures) in points {
            let now = milliseconds(time).max(before);
            numbers.push((now - before).unsigned_abs());
            numbers.extend(figures.map(|bytes| bytes.0 / 1024 / self.unit_kib));
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WallTime;

    #[test]
    fn clock_step_back_moves_no_point_back() {
        let at = |ms: i64| Utc(WallTime(ms * 1_000_000));
        let points = [
            (at(5), [Bytes(2048)]),
            (at(3), [Bytes(0)]),
            (at(9), [Bytes(1024)]),
        ];
        let scale = Scale {
            began: at(0),
            unit_kib: 1,
            several: false,
        };
        let mut written = Vec::new();
        scale.write(&mut written, points.into_iter());
        assert_eq!(written, [5, 2, 0, 0, 4, 1]);
        scale.write(&mut written, [(at(12), [Bytes(3072)])].into_iter());
        assert_eq!(written[6..], [3, 3], "a later recording of the node");
    }
}
