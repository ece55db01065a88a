//! Says what is alive at one moment and how near each limit is. Facts only.
//!
//! `top` and the recorder's status line use it.

use std::collections::{HashMap, HashSet};

use crate::{
    cgroup_path::{is_below, is_within},
    event::{
        CgroupState, Cluster, LimitOwner, LimitWarning, MemorySplit, Mode, NodeMemory, ProbeState,
        Role, SharedMemory,
    },
    ids::{BootTime, Bytes, HexId, MINUTE_NS, Pid, ProcessKey},
    judge::{
        killers::{self, LimitMargin},
        query::{gpus, monitor},
        report::{GpuError, GpuReport, Utc},
        state::{processes::ProcessState, world::World},
        time_to_limit::{self, MonitorHeadroom, Points},
    },
    ray::memory_monitor::Config,
};

/// A process lives until its exit. If the exit was not seen, it counts as alive for this long after
/// its last sample. At rest, the recorder writes a sample every ten minutes.
const STALE_NS: i64 = 21 * MINUTE_NS;

/// A rate is taken from at most this many rows of a cgroup.
const MAX_POINTS: usize = 1_200;

/// The state at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The moment.
    pub now: BootTime,
    /// The same moment by the wall clock, if that is known.
    pub wall: Option<Utc>,
    /// The last event.
    pub last_event: BootTime,
    /// Name of the machine.
    pub host: String,
    /// How it is observed.
    pub mode: Option<Mode>,
    /// The number of probes that work, and of all probes.
    pub probes: (usize, usize),
    /// Events known to be lost.
    pub lost: u64,
    /// Whether the recording ended as requested.
    pub ended: bool,
    /// Ray's version in each cluster whose raylet lives.
    pub clusters: Vec<Option<String>>,
    /// The machine's memory.
    pub node: Option<NodeMemory>,
    /// The fullest `/dev/shm`, as it was last looked at.
    pub shared_memory: Option<SharedMemory>,
    /// The limits that kill, the one that is hit first at the front.
    pub threats: Vec<LimitMargin>,
    /// Active warnings, each with the time at which it was given.
    pub warnings: Vec<(BootTime, LimitWarning)>,
    /// Whether Ray's monitor can act before the kernel.
    pub monitor_headroom: Option<MonitorHeadroom>,
    /// The machine's GPUs, if NVML is available.
    pub gpus: Vec<GpuReport>,
    /// Errors of NVIDIA's GPUs, by the kernel log.
    pub gpu_errors: Vec<GpuError>,
    /// Every process that is tracked and alive.
    pub processes: Vec<LiveProcess>,
}

/// One process that is alive.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveProcess {
    /// The process.
    pub process: ProcessKey,
    /// Its pid in its own namespace, if that is a different one.
    pub ns_pid: Option<Pid>,
    /// The parent that forked it, if that was seen.
    pub parent: Option<Pid>,
    /// Its title, else its command line, else its name.
    pub label: String,
    /// Its role in Ray.
    pub role: Role,
    /// The class of its actor.
    pub actor_class: Option<String>,
    /// Its worker id.
    pub worker_id: Option<HexId>,
    /// Its job.
    pub job_id: Option<HexId>,
    /// Path of its memory cgroup.
    pub cgroup: Option<String>,
    /// The last sample of its memory.
    pub memory: MemorySplit,
}

impl LiveProcess {
    /// Its private memory.
    pub fn private(&self) -> Bytes {
        self.memory.private().unwrap_or_default()
    }

    /// Whether it is in this cgroup or below it.
    pub fn is_in(&self, cgroup: &str) -> bool {
        is_below(self.cgroup.as_deref().unwrap_or("/"), cgroup)
    }
}

/// Whether a process is alive, as far as was seen lately.
pub(super) fn is_alive(state: &ProcessState, now: BootTime) -> bool {
    let sampled = state.memory.map(|(sampled, _)| now.since(sampled));
    state.exit.is_none() && sampled.is_some_and(|age| age < STALE_NS)
}

/// Returns who kills at `now`, and how near each is.
pub(super) fn limits(world: &World, now: BootTime) -> Vec<LimitMargin> {
    let alive = world.processes.iter().filter(|state| is_alive(state, now));
    let paths = alive.map(|state| state.cgroup.as_deref().unwrap_or("/"));
    threats(world, now, &paths.collect()).0
}

/// Returns the state of `world` at `now`.
pub(super) fn of(world: &World, now: BootTime) -> Live {
    let alive = world.processes.iter().filter(|state| is_alive(state, now));
    let mut processes: Vec<LiveProcess> = alive.map(process).collect();
    processes.sort_by_key(|one| one.process);
    let paths = processes
        .iter()
        .map(|one| one.cgroup.as_deref().unwrap_or("/"));
    let (threats, monitor_headroom) = threats(world, now, &paths.collect());
    let started = world.started.as_ref().map(|(_, started)| started);
    let working = |probe: &&crate::event::Probe| {
        !matches!(probe.state, ProbeState::Missing | ProbeState::Gone)
    };
    Live {
        now,
        wall: world.clock.wall(now),
        last_event: world.last_time,
        host: started.map_or_else(String::new, |started| started.host.clone()),
        mode: started.map(|started| started.mode),
        probes: (
            world.probes.iter().filter(working).count(),
            world.probes.len(),
        ),
        lost: world.ledgers.iter().map(crate::event::Ledger::lost).sum(),
        ended: world.clean_end,
        clusters: clusters(world)
            .map(|cluster| cluster.ray_version.clone())
            .collect(),
        node: world.machine.node.as_ref().map(|(_, node)| node.clone()),
        shared_memory: shared_memory(world),
        threats,
        warnings: if world.clean_end {
            Vec::new()
        } else {
            world.limit_warnings.active()
        },
        monitor_headroom,
        gpus: gpus::report(world),
        gpu_errors: world.gpu_errors.report(|time| world.clock.wall(time)),
        processes,
    }
}

/// Returns the clusters whose raylet is alive.
pub(super) fn clusters(world: &World) -> impl Iterator<Item = &Cluster> {
    let lives = |cluster: &&Cluster| world.exit(cluster.raylet).is_none();
    world.clusters.iter().filter(lives)
}

fn shared_memory(world: &World) -> Option<SharedMemory> {
    let last = clusters(world).filter_map(|cluster| {
        let mut looks = world.shared_memory.iter().rev();
        looks.find(|(_, look)| look.raylet.same(cluster.raylet))
    });
    let fullest = last.max_by_key(|(_, look)| look.used.0 * 100 / look.total.0.max(1));
    fullest.map(|(_, look)| look.clone())
}

fn process(state: &ProcessState) -> LiveProcess {
    LiveProcess {
        process: state.key.truncated(),
        ns_pid: state.ns_pid.filter(|inside| *inside != state.key.pid),
        parent: state.parent_key.map(|parent| parent.pid),
        label: state.label(),
        role: state.role,
        actor_class: state.class(),
        worker_id: state.worker_id.clone(),
        job_id: state.job(),
        cgroup: state.cgroup.clone(),
        memory: state
            .memory
            .map_or_else(MemorySplit::default, |(_, split)| split),
    }
}

/// Returns the limits in the order in which they are hit at the present rates, and whether Ray can
/// act in time.
fn threats(
    world: &World,
    now: BootTime,
    paths: &HashSet<&str>,
) -> (Vec<LimitMargin>, Option<MonitorHeadroom>) {
    let Some((_, node)) = &world.machine.node else {
        return (Vec::new(), None);
    };
    let levels = levels(world, paths);
    // With several clusters on one machine, the nearest monitor counts.
    let monitor = monitors(world, node, &levels)
        .min_by_key(|monitor| monitor.threshold.0.saturating_sub(monitor.used.0));
    let figures = monitor
        .as_ref()
        .map(|monitor| (monitor.threshold, monitor.used));
    let mut threats = killers::in_order(figures, &levels, node);
    let rate = |limit_owner: &LimitOwner| {
        let cgroup = match limit_owner {
            LimitOwner::RayMonitor => monitor
                .as_ref()
                .and_then(|monitor| monitor.cgroup.as_deref()),
            LimitOwner::Cgroup(path) => Some(path.as_str()),
            LimitOwner::Machine => None,
        };
        time_to_limit::rate(points(world, cgroup), now)
    };
    for threat in &mut threats {
        threat.left = time_to_limit::left(threat.at, threat.margin, rate(&threat.limit_owner));
    }
    time_to_limit::sort(&mut threats);
    let refresh = monitor.as_ref().map(|monitor| monitor.refresh_ms);
    let monitor_headroom =
        refresh.and_then(|refresh| time_to_limit::monitor_headroom(&threats, refresh, rate));
    (threats, monitor_headroom)
}

/// Returns what a cgroup, or the machine, has been charged with over time.
fn points(world: &World, cgroup: Option<&str>) -> Points {
    let Some(path) = cgroup else {
        return world.machine.whole.points();
    };
    let states = world.cgroups.get(path).map_or(&[][..], Vec::as_slice);
    states
        .iter()
        .rev()
        .take(MAX_POINTS)
        .rev()
        .map(|seen| (seen.time, seen.what.needed().0 as f64))
        .collect()
}

/// Returns the last figures of each cgroup that a living process is in or below.
fn levels(world: &World, paths: &HashSet<&str>) -> Vec<CgroupState> {
    let last: HashMap<&str, &CgroupState> = world
        .cgroups
        .iter()
        .filter_map(|(path, states)| Some((path.as_str(), &states.last()?.what)))
        .collect();
    let mut levels: Vec<CgroupState> = last
        .into_iter()
        .filter(|(path, state)| {
            state.limit.is_some() && paths.iter().any(|own| is_below(own, path))
        })
        .map(|(_, state)| state.clone())
        .collect();
    levels.sort_by(|one, other| one.path.cmp(&other.path));
    levels
}

/// A cluster's monitor that is on.
struct MonitorNow {
    threshold: Bytes,
    used: Bytes,
    /// The cgroup that the monitor takes for all memory.
    cgroup: Option<String>,
    refresh_ms: u64,
}

/// Returns each cluster's monitor that is on.
fn monitors<'a>(
    world: &'a World,
    node: &'a NodeMemory,
    levels: &'a [CgroupState],
) -> impl Iterator<Item = MonitorNow> + 'a {
    let machine = node.used();
    clusters(world).filter_map(move |cluster| {
        let config = Config::of(&cluster.settings);
        let logged = monitor::of(world, cluster.raylet);
        let on = logged
            .as_ref()
            .map_or(config.refresh_ms > 0, |monitor| monitor.enabled);
        let total = logged.as_ref().and_then(|monitor| monitor.total_bytes);
        let total = total.unwrap_or(node.total);
        let refresh = logged.as_ref().and_then(|monitor| monitor.refresh_ms);
        let threshold = logged.and_then(|monitor| monitor.threshold_bytes);
        // A monitor that takes a cgroup for all memory counts what is charged there. Other pods may
        // have the same limit.
        let raylet = world.processes.get(cluster.raylet);
        let own = raylet.and_then(|raylet| raylet.cgroup.as_deref());
        let on_path = |level: &&CgroupState| own.is_none() || is_within(own, &level.path);
        let mut on_path = levels.iter().filter(on_path);
        let cgroup = on_path.find(|level| level.limit == Some(total));
        on.then(|| MonitorNow {
            threshold: threshold.unwrap_or_else(|| config.threshold(total)),
            used: cgroup.map_or(machine, CgroupState::needed),
            cgroup: cgroup.map(|level| level.path.clone()),
            refresh_ms: refresh.unwrap_or(config.refresh_ms),
        })
    })
}
