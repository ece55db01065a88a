//! Replays one shape as the recorder sees a machine, until Ray's monitor kills.
//!
//! A row is written when a figure moved, and the forecast looks once a second.

use std::time::Duration;

use raytrace::{
    event::{
        Call, Cluster, Event, LimitOwner, MemorySplit, NodeMemory, Observation, Process,
        ProcessMemory, Role, Source,
    },
    ids::{BootTime, Bytes, EventId, ProcessKey},
    judge::{Judge, forecast::LimitForecaster},
};

use super::shapes::Shape;

const SECOND: u64 = 1_000_000_000;
/// The machine booted this long before.
const BOOTED: u64 = 1000 * SECOND;
/// The machine's memory. Ray's monitor kills at 0.95 of it.
const TOTAL: u64 = 256 << 30;
const LIMIT: f64 = 0.95 * TOTAL as f64;
/// A row is written when a figure moved. At rest it is written as often as by the recorder: every
/// so many seconds.
const NODE_AT_LEAST: u32 = 60;
const PROCESS_AT_LEAST: u32 = 600;
/// Memory of everything but the one process that grows.
const OTHERS: u64 = 4 << 30;
/// The naive forecast: a straight line through the last seconds. It warns if the line meets the
/// limit within the same horizon as the forecast's.
const NAIVE_S: usize = 10;
const HORIZON_S: f64 = 120.0;

/// The result of a replay.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Seconds until the kill, if there was one.
    pub killed: Option<f64>,
    /// Seconds of growth before the kill.
    pub grew: f64,
    /// How long before the kill the active warning was given, and the ends of its interval.
    pub lead: Option<(f64, f64, f64)>,
    /// How long before the kill the naive forecast warned.
    pub naive_lead: f64,
    /// Warnings of this limit, including those that were withdrawn.
    pub warnings: u32,
    /// Warnings of the naive forecast.
    pub naive_warnings: u32,
    /// Seconds that were replayed.
    pub seconds: u32,
}

/// A machine with one cluster and one worker.
struct Machine {
    judge: Judge,
    forecaster: LimitForecaster,
    next: u64,
    node: Row,
    raylet: Row,
    worker: Row,
}

/// The last row of a figure: when it was written, and its value.
#[derive(Default)]
struct Row(Option<(u32, u64)>);

impl Row {
    /// Returns whether a row is due: the figure moved by a mebibyte and a percent, or rested for
    /// `at_least` seconds.
    fn is_due(&mut self, second: u32, figure: u64, at_least: u32) -> bool {
        let due = self.0.is_none_or(|(since, last)| {
            second - since >= at_least || figure.abs_diff(last) >= (last / 100).max(1 << 20)
        });
        if due {
            self.0 = Some((second, figure));
        }
        due
    }
}

fn raylet() -> ProcessKey {
    ProcessKey::new(10, 50 * SECOND)
}

fn worker() -> ProcessKey {
    ProcessKey::new(20, 60 * SECOND)
}

fn at(second: f64) -> BootTime {
    let since = Duration::from_secs_f64(second.max(0.0)).as_nanos();
    BootTime(BOOTED + u64::try_from(since).unwrap_or(u64::MAX))
}

fn process(process: ProcessKey, role: Role, title: &str) -> Observation {
    Observation::Process(Process {
        process,
        parent: None,
        process_group: None,
        slurm: None,
        ns_pid: None,
        comm: title.chars().take(15).collect(),
        argv: vec![title.to_owned()],
        exe: None,
        uid: Some(0),
        cgroup: None,
        container_id: None,
        role,
        cluster: Some(raylet()),
    })
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self {
            judge: Judge::default(),
            forecaster: LimitForecaster::default(),
            next: 1,
            node: Row::default(),
            raylet: Row::default(),
            worker: Row::default(),
        };
        let began = at(0.0);
        let cluster = Cluster {
            ray_version: Some("2.60.0".into()),
            head: true,
            ..Cluster::new(raylet())
        };
        machine.observe(began, Observation::Cluster(cluster));
        machine.observe(began, process(raylet(), Role::Raylet, "raylet"));
        machine.observe(began, process(worker(), Role::Worker, "ray::Trainer.fit"));
        machine
    }

    fn observe(&mut self, time: BootTime, what: Observation) {
        let id = EventId(self.next);
        self.next += 1;
        if let Observation::Call(call) = &what {
            self.forecaster.called(call);
        }
        let source = Source::Proc;
        let event = Event {
            id,
            time,
            source,
            what,
        };
        self.judge.observe(&event);
    }

    /// Writes the rows of a second.
    fn sample(&mut self, second: u32, level: f64) {
        let (used, time) = (Bytes(1).times(level * LIMIT).0, at(f64::from(second)));
        let (raylets, workers) = (1 << 27, used.saturating_sub(OTHERS));
        let due = |row: &mut Row, figure| row.is_due(second, figure, PROCESS_AT_LEAST);
        let rows = [
            (raylet(), raylets, due(&mut self.raylet, raylets)),
            (worker(), workers, due(&mut self.worker, workers)),
        ];
        for (process, anon, _) in rows.into_iter().filter(|(.., due)| *due) {
            let memory = MemorySplit {
                anon: Some(Bytes(anon)),
                ..MemorySplit::default()
            };
            self.observe(time, Observation::Memory(ProcessMemory { process, memory }));
        }
        let available = TOTAL - used.min(TOTAL);
        if !self.node.is_due(second, available, NODE_AT_LEAST) {
            return;
        }
        let node = NodeMemory {
            total: Bytes(TOTAL),
            available: Bytes(available),
            free: Bytes(available),
            ..NodeMemory::default()
        };
        self.observe(time, Observation::Node(node));
    }
}

/// Returns when a straight line through the last seconds meets the limit.
fn naive(last: &[f64]) -> Option<f64> {
    let from = last.len().checked_sub(NAIVE_S)?;
    let points = &last[from..];
    let middle = (NAIVE_S as f64 - 1.0) / 2.0;
    let mean = points.iter().sum::<f64>() / NAIVE_S as f64;
    let (mut both, mut square) = (0.0, 0.0);
    for (second, level) in points.iter().enumerate() {
        let x = second as f64 - middle;
        both += x * (level - mean);
        square += x * x;
    }
    let left = (1.0 - points.last()?) / (both / square);
    (0.0..HORIZON_S).contains(&left).then_some(left)
}

/// Runs a shape to its end, or until it is killed.
pub fn replay(shape: &mut Shape) -> Outcome {
    let mut machine = Machine::new();
    let mut outcome = Outcome::default();
    let mut levels: Vec<f64> = Vec::new();
    let (mut active, mut naive_since) = (None, None);
    for second in 0..shape.seconds {
        let (now, level) = (f64::from(second), shape.level(second));
        outcome.seconds = second;
        if level >= 1.0 {
            outcome.killed = Some(now);
            outcome.grew = now - shape.grows_from;
            break;
        }
        machine.sample(second, level);
        for warning in machine.forecaster.look(at(now), &machine.judge) {
            // The machine's own limit is above Ray's threshold, which kills here.
            if warning.limit != LimitOwner::RayMonitor {
                continue;
            }
            outcome.warnings += u32::from(warning.within.is_some());
            let Some(within) = warning.within else {
                active = None;
                continue;
            };
            let told = [within.soonest_ms, within.latest_ms].map(|ms| ms as f64 / 1e3);
            active = Some((now, told[0], told[1]));
        }
        if let Some((title, began, ended)) = shape.ended_call(second) {
            machine.observe(at(now), Observation::Call(call(title, began, ended)));
        }
        levels.push(level);
        if levels.len() > 4 * NAIVE_S {
            levels.drain(..2 * NAIVE_S);
        }
        let is_near = naive(&levels).is_some();
        outcome.naive_warnings += u32::from(is_near && naive_since.is_none());
        naive_since = naive_since.or(Some(now)).filter(|_| is_near);
        if second % 600 == 0 {
            machine.judge.drop_old_log_records();
        }
    }
    if let Some(killed) = outcome.killed {
        outcome.lead = active.map(|(since, low, high)| (killed - since, low, high));
        outcome.naive_lead = naive_since.map_or(0.0, |since| killed - since);
    }
    outcome
}

fn call(title: &str, began: f64, ended: f64) -> Call {
    Call {
        process: worker(),
        title: format!("ray::{title}"),
        nth: 1,
        began: at(began),
        ended: Some(at(ended)),
        before: None,
        after: None,
        peak: None,
    }
}
