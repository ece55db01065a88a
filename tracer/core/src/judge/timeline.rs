//! Collects the series over time that the HTML and the trace draw. Facts only, in event order.
//!
//! [`TimelineBuilder`] takes the events while the judge sees them.

use std::collections::BTreeMap;

use crate::{
    event::{Call, CgroupState, Event, NodeMemory, Observation, Process, Role},
    ids::{BootTime, ByProcess, Bytes, EventId, HexId, ProcessKey},
    judge::{
        report::Utc,
        state::{processes::ProcessState, shares::Shares, world::World},
    },
    ray::identify,
};

/// All series of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// The first event.
    pub began: Utc,
    /// The last event.
    pub ended: Utc,
    /// The machine's memory.
    pub node: Vec<(Utc, NodeMemory)>,
    /// Memory cgroups, by path.
    pub cgroups: Vec<CgroupSeries>,
    /// Every process that was seen, in the order of their starts.
    pub processes: Vec<ProcessSeries>,
    /// The address of the node in Ray, for each cluster of the report, from its raylet's command
    /// line.
    pub addresses: Vec<Option<String>>,
}

/// One memory cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupSeries {
    /// Path from the root of the memory hierarchy.
    pub path: String,
    /// Its figures, without the path.
    pub samples: Vec<(Utc, CgroupState)>,
}

/// One process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSeries {
    /// The process.
    pub process: ProcessKey,
    /// Its last title, else its command line, else its name.
    pub label: String,
    /// Its role in Ray.
    pub role: Role,
    /// The class of its actor.
    pub actor_class: Option<String>,
    /// Its worker id.
    pub worker_id: Option<HexId>,
    /// Path of its memory cgroup.
    pub cgroup: Option<String>,
    /// The cluster's number in the report.
    pub cluster: Option<u32>,
    /// When it started.
    pub started: Option<Utc>,
    /// When it ended; `None` if it outlived the recording.
    pub ended: Option<Utc>,
    /// Its death.
    pub death: Option<EventId>,
    /// Private memory when it moved.
    pub private: Vec<(Utc, Bytes)>,
    /// Titles, and when each was first seen. They say what a worker runs.
    pub titles: Vec<(Utc, String)>,
    /// What a worker ran, if the kernel reported it.
    pub calls: Vec<CallSeries>,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSeries {
    /// `Class.method` or the task.
    pub task: String,
    /// The number of the call among those of its task.
    pub nth: u32,
    /// When it began.
    pub began: Utc,
    /// When it ended; `None` for one that a death or the end of the recording cut off.
    pub ended: Option<Utc>,
    /// Private memory when it began.
    pub before: Option<Bytes>,
    /// Private memory when it ended.
    pub after: Option<Bytes>,
}

/// What the events say of one process over time.
#[derive(Debug, Default)]
struct Moves {
    private: Vec<(BootTime, Bytes)>,
    titles: Vec<(BootTime, String)>,
    calls: Vec<Call>,
}

/// Collects the series as the events come. It keeps only what is drawn, so a long recording need
/// not be held as a whole.
#[derive(Debug, Default)]
pub struct TimelineBuilder {
    node: Vec<(BootTime, NodeMemory)>,
    cgroups: BTreeMap<String, Vec<(BootTime, CgroupState)>>,
    moves: ByProcess<Moves>,
    shares: Shares,
}

impl TimelineBuilder {
    /// Takes one event, which the judge sees too.
    pub fn observe(&mut self, event: &Event) {
        match &event.what {
            Observation::Node(node) => self.node.push((event.time, node.clone())),
            Observation::Cgroup(state) => self.cgroup_sampled(event.time, state),
            what => moved(&mut self.moves, &mut self.shares, event.time, what),
        }
    }

    fn cgroup_sampled(&mut self, time: BootTime, state: &CgroupState) {
        // The series has the path, so samples do without.
        let sample = CgroupState {
            path: String::new(),
            ..*state
        };
        match self.cgroups.get_mut(&state.path) {
            Some(samples) => samples.push((time, sample)),
            None => {
                self.cgroups
                    .insert(state.path.clone(), vec![(time, sample)]);
            }
        }
    }

    /// Returns the series of the events that were taken, all of which `world` has seen; `None` if
    /// no wall clock is known.
    pub(super) fn finish(self, world: &World) -> Option<Timeline> {
        let (began, _) = world.started.as_ref()?;
        let mut moves = self.moves;
        let named = |(path, samples)| CgroupSeries {
            path,
            samples: on_the_wall(world, samples),
        };
        let states = world.processes.iter();
        let processes =
            states.map(|state| series(world, state, moves.remove(&state.key.truncated())));
        let mut timeline = Timeline {
            began: world.clock.wall(*began)?,
            ended: world.clock.wall(world.last_time)?,
            processes: processes.collect(),
            node: on_the_wall(world, self.node),
            cgroups: self.cgroups.into_iter().map(named).collect(),
            addresses: addresses(world),
        };
        let order = |one: &ProcessSeries| (one.process.start, one.process.pid);
        timeline.processes.sort_by_key(order);
        Some(timeline)
    }
}

/// Returns the samples with wall times.
fn on_the_wall<T>(world: &World, samples: Vec<(BootTime, T)>) -> Vec<(Utc, T)> {
    let samples = samples.into_iter();
    samples
        .filter_map(|(time, sample)| Some((world.clock.wall(time)?, sample)))
        .collect()
}

fn moved(moves: &mut ByProcess<Moves>, shares: &mut Shares, time: BootTime, what: &Observation) {
    match what {
        Observation::Memory(sample) => {
            let of = moves.entry(sample.process.truncated()).or_default();
            let private = shares.sampled(sample.process, &sample.memory).private();
            of.private.extend(private.map(|private| (time, private)));
        }
        Observation::Fork { parent, child } => shares.forked(*parent, *child),
        Observation::Exec(exec) => shares.executed(exec.process),
        Observation::Call(call) => {
            let calls = &mut moves.entry(call.process.truncated()).or_default().calls;
            // A call that was reported while it ran is reported again when it ends.
            calls.pop_if(|last| last.ended.is_none());
            calls.push(call.clone());
        }
        Observation::Title { process, title, .. } => titled(moves, *process, time, title),
        Observation::Process(Process { process, argv, .. }) => {
            if let [title] = argv.as_slice()
                && title.starts_with("ray::")
            {
                titled(moves, *process, time, title);
            }
        }
        Observation::Exit(exit) => {
            let of = moves.entry(exit.process.truncated()).or_default();
            let private = shares.at_end(exit.process, &exit.memory).private();
            shares.forget(exit.process);
            let private = private.filter(|private| private.0 > 0);
            of.private.extend(private.map(|private| (time, private)));
            if let Some(title) = &exit.title {
                titled(moves, exit.process, time, title);
            }
        }
        Observation::RecordingStarted(_)
        | Observation::RecordingEnded
        | Observation::Clock { .. }
        | Observation::Probe(_)
        | Observation::Ledger(_)
        | Observation::Cluster(_)
        | Observation::Worker(_)
        | Observation::Signal(_)
        | Observation::Delivered { .. }
        | Observation::Interference(_)
        | Observation::OomVictim(_)
        | Observation::Kmsg(_)
        | Observation::RayLog(_)
        | Observation::Cgroup(_)
        | Observation::DriverSettings { .. }
        | Observation::SharedMemory(_)
        | Observation::SharedFile(_)
        | Observation::Mapped(_)
        | Observation::Steps { .. }
        | Observation::Outside(_)
        | Observation::Node(_)
        | Observation::Monitor(_)
        | Observation::LimitWarning(_)
        | Observation::Gpu(_)
        | Observation::Stack(_)
        | Observation::Freed { .. }
        | Observation::NoStack { .. } => {}
    }
}

fn titled(moves: &mut ByProcess<Moves>, process: ProcessKey, time: BootTime, title: &str) {
    let titles = &mut moves.entry(process.truncated()).or_default().titles;
    if titles.last().is_none_or(|(_, last)| last != title) {
        titles.push((time, title.to_owned()));
    }
}

fn series(world: &World, state: &ProcessState, moves: Option<Moves>) -> ProcessSeries {
    let moves = moves.unwrap_or_default();
    let mut private = on_the_wall(world, moves.private);
    // Events come in the order in which they were received.
    private.sort_by_key(|(time, _)| *time);
    let exit = world.exit(state.key);
    ProcessSeries {
        process: state.key,
        label: state.label(),
        role: state.role,
        actor_class: state.class(),
        worker_id: state.worker_id.clone(),
        cgroup: state.cgroup.clone(),
        cluster: world.cluster_number(state.cluster),
        // A start before the first tick of the boot was not reported.
        started: world
            .clock
            .wall(state.key.start)
            .filter(|_| state.key.start != BootTime(0)),
        ended: exit.and_then(|exit| world.clock.wall(exit.time)),
        death: exit.map(|exit| exit.id),
        private,
        titles: on_the_wall(world, moves.titles),
        calls: moves
            .calls
            .iter()
            .filter_map(|one| call(world, one))
            .collect(),
    }
}

fn call(world: &World, call: &Call) -> Option<CallSeries> {
    Some(CallSeries {
        task: identify::title(&call.title)?.task?,
        nth: call.nth,
        began: world.clock.wall(call.began)?,
        ended: call.ended.and_then(|ended| world.clock.wall(ended)),
        before: call.before,
        after: call.after,
    })
}

fn addresses(world: &World) -> Vec<Option<String>> {
    let clusters = world.clusters.iter();
    let raylets = clusters.map(|cluster| world.processes.get(cluster.raylet));
    raylets
        .map(|raylet| identify::option(&raylet?.argv, "node-ip-address").map(str::to_owned))
        .collect()
}
