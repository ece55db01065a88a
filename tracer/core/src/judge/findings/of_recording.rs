//! Collects from a recording the facts that rules read.

use std::collections::BTreeMap;

use super::{
    advice,
    facts::{
        Driver, Effect, Facts, GpuOrphan, IdleCluster, LeftOverProcess, LimitMembers, LogWarning,
        Node, Offload, PrintedConfiguration,
    },
    growing, log_warnings, offload,
};
use crate::{
    cgroup_path::is_within,
    event::{Cluster, RayLog, Role},
    ids::{Bytes, HexId, Pid, ProcessKey, SECOND_NS, size},
    judge::{
        one_act,
        query::{headroom, live_processes},
        report::{Death, Killer},
        state::{
            gpus::GpuOffload,
            processes::ProcessState,
            snapshot::{LiveProcesses, Member},
            world::World,
        },
        warning::Warning,
    },
    ray::{
        facts::{GpuMoved, RayFact},
        identify,
        log::after_effects,
        start::Traces,
    },
};

/// How many lines are kept for one warning.
const MAX_LINES: usize = 3;
/// A process that outlives its raylet by less than this may still be exiting.
const GRACE_NS: i64 = 30 * SECOND_NS;
/// Leftover processes with less memory than this are not reported.
const SMALL: Bytes = Bytes(64 << 20);

/// Returns all facts that concern `deaths`.
pub(crate) fn facts(world: &World, deaths: &[Death]) -> Facts {
    let first_ends = one_act::first_ends(deaths);
    let kills = deaths
        .iter()
        .filter(|death| death.verdict.killer.is_memory_kill());
    let at_first_end = |death: &Death| {
        let first = first_ends.get(&death.id).copied().unwrap_or(death);
        Some((death.id, limit_members(world, first)?))
    };
    let not_kept = |death: &&Death| {
        let exit = world.exits.get(&death.id);
        exit.is_some_and(|exit| exit.around.live_processes_dropped())
    };
    let not_kept = deaths.iter().filter(not_kept).map(|death| death.id);
    Facts {
        not_kept: not_kept.collect(),
        limit_members: kills.filter_map(at_first_end).collect(),
        used_before: world.machine.used_first,
        nodes: world
            .clusters
            .iter()
            .map(|cluster| node(world, Node::of(cluster)))
            .collect(),
        drivers: drivers(world),
        printed: printed(world),
        log_warnings: warnings(world),
        effects: effects(world),
        offloads: offloads(world),
        growing: growing::methods(world),
        idle: world
            .clusters
            .iter()
            .map(|cluster| idle(world, cluster))
            .collect(),
        shared_memory: world.shared_memory.clone(),
        left_over: left_over(world),
        gpu_orphans: gpu_orphans(world),
        lines: lines(world),
    }
}

fn limit_members(world: &World, death: &Death) -> Option<LimitMembers> {
    let around = &world.exits.get(&death.id)?.around;
    let nobody = LiveProcesses::default();
    let live = around.live_processes.as_deref().unwrap_or(&nobody);
    let cluster = usize::try_from(death.cluster?).ok()?;
    let raylet = world.clusters.get(cluster)?.raylet;
    let limit = death
        .memory
        .full_cgroup()
        .filter(|_| death.verdict.killer == Killer::KernelOomMemcg);
    if death.verdict.killer == Killer::KernelOomMemcg && limit.is_none() {
        return None;
    }
    let counts = |member: &&Member| {
        member.cluster.is_some_and(|own| own.same(raylet))
            && limit.is_none_or(|limit| is_within(member.cgroup.as_deref(), limit))
    };
    Some(LimitMembers {
        inside: live.members.iter().filter(counts).cloned().collect(),
        shared: live.shared,
        sums: live.node.clone().map(|node| (live.tracked, node)),
    })
}

fn idle(world: &World, cluster: &Cluster) -> IdleCluster {
    let mine = |state: &&ProcessState| state.exit.is_none() && state.belongs_to(cluster.raylet);
    let alive = world.processes.iter().filter(mine);
    let workers = alive.filter_map(|state| {
        let private = state.memory?.1.private()?;
        Some((state.key.pid, private, live_processes::idle(world, state)?))
    });
    IdleCluster {
        workers: workers.collect(),
        headroom: headroom::of(world, cluster),
    }
}

fn node(world: &World, node: Node) -> Node {
    let Some(raylet) = node.raylet.and_then(|raylet| world.processes.get(raylet)) else {
        return node;
    };
    let parent = world.processes.parent_of(raylet);
    let traces = Traces {
        settings: &node.settings,
        cgroup: raylet.cgroup.as_deref(),
        contained: raylet.container_id.is_some(),
        by_driver: parent.is_some_and(|parent| parent.role == Role::Driver),
    };
    let isolated = world
        .ray_of_cluster(raylet.key)
        .rev()
        .find_map(|seen| match seen.what.fact {
            RayFact::MonitorStarted {
                user_slice_only, ..
            } => Some(user_slice_only),
            _ => None,
        });
    Node {
        started: traces.start(),
        argv: raylet.argv.clone(),
        cgroup: raylet.cgroup.clone(),
        ended: world.exit(raylet.key).map(|exit| exit.time),
        isolated: isolated.unwrap_or(false),
        uid: raylet.uid,
        slurm_job: raylet.slurm().map(|slurm| slurm.job),
        ..node
    }
}

fn drivers(world: &World) -> Vec<Driver> {
    let states = world.processes.iter();
    let mut found: Vec<&ProcessState> = states.filter(|state| state.role == Role::Driver).collect();
    found.sort_by_key(|state| (state.key.start, state.key.pid));
    let driver = |state: &ProcessState| {
        let of = |(key, _): &&(ProcessKey, _)| key.same(state.key);
        let settings = world.driver_settings.iter().find(of);
        Driver {
            source: format!("command line of driver {}", state.key.pid),
            pid: Some(state.key.pid),
            cluster: world.cluster_number(state.cluster),
            job: state.job(),
            argv: state.argv.clone(),
            settings: settings.map_or_else(Vec::new, |(_, settings)| settings.clone()),
        }
    };
    found.into_iter().map(driver).collect()
}

/// Returns the worker that wrote a log.
fn printer<'a>(world: &'a World, log: &RayLog, worker: Option<&HexId>) -> Option<&'a ProcessState> {
    world.processes.by_worker(log.cluster?, worker?)
}

/// Names the worker that wrote a log, as far as it is known: `TaskRunner (pid 7)`.
fn writer(world: &World, log: &RayLog, worker: Option<&HexId>) -> String {
    let Some(state) = printer(world, log, worker) else {
        return "a worker".into();
    };
    let class = live_processes::class(state);
    format!(
        "{} (pid {})",
        class.as_deref().unwrap_or("a worker"),
        state.key.pid
    )
}

fn printed(world: &World) -> Vec<PrintedConfiguration> {
    let mut found: Vec<PrintedConfiguration> = Vec::new();
    for seen in world.ray_log_records.iter() {
        let RayFact::Configuration {
            settings,
            worker_id,
        } = &seen.what.fact
        else {
            continue;
        };
        let cluster = world.cluster_number(seen.what.cluster);
        let same =
            |known: &PrintedConfiguration| known.cluster == cluster && known.settings == *settings;
        if found.iter().any(same) {
            continue;
        }
        let by = writer(world, &seen.what, worker_id.as_ref());
        found.push(PrintedConfiguration {
            source: format!("printed by {by}, {}", seen.what.file),
            cluster,
            job: printer(world, &seen.what, worker_id.as_ref()).and_then(ProcessState::job),
            settings: settings.clone(),
        });
    }
    found
}

fn warnings(world: &World) -> Vec<LogWarning> {
    let mut all: BTreeMap<Warning, LogWarning> = BTreeMap::new();
    for seen in world.ray_log_records.iter() {
        let file = &seen.what.file;
        let (warning, bytes, line) = match &seen.what.fact {
            RayFact::Exception { class, message, .. } => {
                let Some(warning) = log_warnings::of_exception(class, message) else {
                    continue;
                };
                (warning, None, format!("{file}: {class}: {message}"))
            }
            RayFact::ObjectStorePressure { spilled } => (
                Warning::ObjectStore,
                *spilled,
                format!("{file}: {}", seen.what.text),
            ),
            _ => continue,
        };
        let known = all.entry(warning).or_insert_with(|| LogWarning {
            warning,
            count: 0,
            bytes: None,
            lines: Vec::new(),
            first_hand: true,
        });
        known.count += 1;
        known.bytes = bytes.max(known.bytes);
        if known.lines.len() < MAX_LINES {
            known.lines.push(line);
        }
    }
    all.into_values().collect()
}

fn effects(world: &World) -> Vec<Effect> {
    let found = world.ray_log_records.iter().filter_map(|seen| {
        let RayFact::Exception {
            class,
            message,
            worker_id,
        } = &seen.what.fact
        else {
            return None;
        };
        let line = format!("{class}: {message}");
        Some(Effect {
            time: seen.time,
            cluster: world.cluster_number(seen.what.cluster),
            worker: worker_id.clone(),
            kind: after_effects::kind(&line)?,
            line: format!("{}: {line}", seen.what.file),
        })
    });
    found.collect()
}

fn offloads(world: &World) -> Vec<Offload> {
    let points: Vec<(String, &GpuMoved, String)> = world
        .ray_log_records
        .iter()
        .filter_map(|seen| match &seen.what.fact {
            RayFact::GpuMoved { moved, worker_id } => {
                let who = writer(world, &seen.what, worker_id.as_ref());
                let line = format!("{}: {}", seen.what.file, seen.what.text);
                Some((who, moved, line))
            }
            _ => None,
        })
        .collect();
    let mut found = offload::find_offloads(&points);
    found.extend(
        world
            .gpus
            .offloads
            .iter()
            .map(|swing| seen_offload(world, swing)),
    );
    found
}

/// Returns an offload that NVML and `/proc` measured, whether or not the process logged it.
fn seen_offload(world: &World, swing: &GpuOffload) -> Offload {
    let pid = swing.process.pid;
    let state = world.processes.get(swing.process);
    let class = state.and_then(live_processes::class);
    let program = state.map(|state| format!("{} {}", state.comm, state.argv.join(" ")));
    let names = [class.as_deref(), program.as_deref()];
    let freed = Bytes(swing.from.0 - swing.to.0);
    Offload {
        who: format!("{} (pid {pid})", class.as_deref().unwrap_or("a process")),
        by_engine: names.into_iter().flatten().any(offload::is_engine),
        what: "an offload (measured by NVML)".to_owned(),
        freed,
        to_host: Some(swing.host.min(freed)),
        lines: vec![format!(
            "pid {pid}: GPU memory fell from {} to {}, private memory rose by {}",
            size(swing.from),
            size(swing.to),
            size(swing.host)
        )],
    }
}

fn gpu_orphans(world: &World) -> Vec<GpuOrphan> {
    let devices = world.gpus.devices.values();
    let mut found = Vec::new();
    for state in devices.map(|device| &device.last) {
        let orphans = state.holders.iter().filter_map(|holder| {
            let name = holder
                .name
                .as_ref()
                .filter(|name| identify::is_engine(name))?;
            let alone = holder.process.is_none() && holder.parent == Some(Pid(1));
            alone.then(|| GpuOrphan {
                device: state.device,
                pid: holder.pid,
                name: name.clone(),
                used: holder.used.unwrap_or_default(),
            })
        });
        found.extend(orphans);
    }
    found
}

fn left_over(world: &World) -> Vec<LeftOverProcess> {
    let found = world.processes.iter().filter_map(|state| {
        let raylet = state.cluster?;
        let alive = state.exit.is_none() && matches!(state.role, Role::Worker | Role::Descendant);
        let (sampled, split) = state.memory.filter(|_| alive)?;
        let ended = world.exit(raylet)?.time;
        let after = sampled.since(ended);
        let private = split.private().filter(|private| *private >= SMALL)?;
        (after > GRACE_NS).then(|| LeftOverProcess {
            pid: state.key.pid,
            title: state.label(),
            uid: state.uid,
            private,
            raylet: raylet.pid,
            seconds: after / SECOND_NS,
        })
    });
    let mut found: Vec<LeftOverProcess> = found.collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.private), one.pid));
    found
}

fn lines(world: &World) -> Vec<(Pid, String)> {
    let states = world.processes.iter();
    let lines = states.map(|state| (state.key.pid, state.argv.join(" ")));
    let mut found: Vec<(Pid, String)> = lines.filter(|(_, line)| advice::is_bad(line)).collect();
    found.sort();
    found
}
