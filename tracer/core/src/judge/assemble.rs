//! Assembles the report from verdicts: names, times, cause links, and what is listed.

use std::collections::{BTreeMap, HashSet};

use crate::{
    cgroup_path::{self, STEPD, is_within},
    event::{Cluster, Mode},
    ids::{Bytes, ProcessKey},
    judge::{
        cause::{Cause, slurm},
        death, findings, jobs, log_mentions, one_act, order, peers, pending,
        query::{gpus, message_times, monitor, owners, place, shared_files},
        ray_log_versions,
        report::{
            ClockState, ClusterReport, Death, Host, InUse, LimitPeak, LostProbe, Peak, Recording,
            Report, Utc,
        },
        settled::Settled,
        state::{lost_sources::LostSource, world::World},
        verdict::Verdicts,
    },
    ray::{facts::RayFact, identify},
};

/// The version of the JSON contract.
const SCHEMA: u32 = 1;

/// Returns the report of everything that was folded in. Some deaths are judged already.
pub(super) fn report(world: &World, settled: Settled) -> Report {
    let verdicts = Verdicts::new(world, None);
    let exits = world.exits.values().filter(|exit| !settled.has(exit));
    let left: Vec<Death> = exits.map(|exit| death::of(&verdicts, exit)).collect();
    drop(verdicts);
    let mut deaths = settled.deaths;
    deaths.extend(left);
    // Ids differ, and a stable sort would need half as much memory again.
    deaths.sort_unstable_by_key(|death| (death.when.act_time, death.id));
    report_of(world, deaths)
}

/// Returns the report of these deaths, in the order of their acts.
pub(super) fn report_of(world: &World, mut deaths: Vec<Death>) -> Report {
    for death in &mut deaths {
        death.then = jobs::survived(world, death).map(|survived| survived.how);
    }
    peers::link(world, &mut deaths);
    one_act::group(world, &mut deaths);
    let jobs = jobs::all(world, &deaths, |state| world.cluster_number(state.cluster));
    jobs::link_drivers(&jobs, &mut deaths);
    list_what_slurm_acted_on(&mut deaths);
    order::keep(&mut deaths);
    let mut report = Report {
        schema: SCHEMA,
        raytrace: env!("CARGO_PKG_VERSION").into(),
        recordings: recording(world, &deaths).into_iter().collect(),
        clusters: clusters(world),
        jobs,
        deaths,
        pending: pending::all(world),
        owners: owners::report(world),
        gpus: gpus::report(world),
        gpu_errors: world.gpu_errors.report(|time| world.clock.wall(time)),
        growth: world.growth(),
        unread_stacks: world.growth_attribution.unread(),
        peak: world
            .machine
            .peak
            .and_then(|(time, used_bytes, total_bytes)| {
                Some(Peak {
                    time: world.clock.wall(time)?,
                    used_bytes,
                    total_bytes,
                })
            }),
        limits: limits(world),
        in_use: in_use(world),
        shared_memory: shared_files::report(world),
        message_times: message_times::all(world, |cluster| world.cluster_number(cluster)),
        mentions: log_mentions::all(world, |cluster| world.cluster_number(cluster)),
        ..Report::default()
    };
    let facts = findings::of_recording(world, &report.deaths);
    findings::name_suspects(&facts, &mut report);
    report.settings = findings::settings(&facts, &report);
    report.findings = findings::all(&facts, &report);
    report.notes.extend(ray_log_versions::note(&report));
    report.notes.extend(unread_kills(world));
    report.notes.extend(asked_to_end(world));
    report.notes.extend(left_out(world));
    report
}

/// Lists the ends of tasks and scripts that Slurm ended listed processes for: they are first
/// causes.
fn list_what_slurm_acted_on(deaths: &mut [Death]) {
    let of_slurm = |death: &&Death| death.listed && matches!(death.verdict.cause, Cause::Slurm(_));
    let causes = deaths.iter().filter(of_slurm);
    let causes: HashSet<u64> = causes
        .filter_map(|death| Some(death.verdict.cause()?.0))
        .collect();
    for death in deaths {
        death.listed |= causes.contains(&death.id.0);
    }
}

/// Returns the cgroups with a limit, with the clusters whose memory counts against it.
fn limits(world: &World) -> Vec<LimitPeak> {
    let mut found = world.limits.report(&world.clock, machine_bytes(world));
    let states = world.processes.iter();
    let of_clusters: HashSet<(&str, u32)> = states
        .filter_map(|state| {
            let number = world.cluster_number(state.cluster)?;
            Some((state.cgroup.as_deref()?, number))
        })
        .collect();
    for peak in &mut found {
        let inside = of_clusters.iter();
        let inside = inside.filter(|(cgroup, _)| is_within(Some(cgroup), &peak.cgroup));
        peak.clusters = inside.map(|(_, number)| *number).collect();
        peak.clusters.sort_unstable();
        peak.clusters.dedup();
    }
    found
}

/// Returns notes on what a long recording, or one of a flood, says and this report leaves out.
fn left_out(world: &World) -> Vec<String> {
    let mut notes = Vec::new();
    for (cluster, left) in world.ray_log_records.left_out() {
        let logs = cluster.map_or_else(
            || "Ray's logs".to_owned(),
            |raylet| format!("the logs of raylet {}", raylet.pid),
        );
        if left.strays > 0 {
            notes.push(format!(
                "left out: {} records of {logs}, which name no process that was seen",
                left.strays
            ));
        }
        if left.oldest > 0 {
            notes.push(format!(
                "left out: the oldest {} records of {logs}; verdicts of their time may lack a reason",
                left.oldest
            ));
        }
    }
    let exits = world.exits.values();
    let dropped = exits.filter(|exit| exit.around.live_processes_dropped());
    match dropped.count() {
        0 => {}
        many => notes.push(format!(
            "left out: the processes beside {many} memory kills, which are later than others; findings do not count them"
        )),
    }
    notes
}

/// Returns a note on the first SIGTERM that reached the recorder of a wrapped command. Where the
/// kernel's hooks are missing, it is all that shows who ended the command.
fn asked_to_end(world: &World) -> Option<String> {
    let (_, started) = world.started.as_ref()?;
    let signals = world.signals_to(started.supervisor?);
    let asked = signals
        .iter()
        .find(|seen| seen.what.signal == libc::SIGTERM)?;
    let sender = &asked.what.sender;
    if started.mode != Mode::Procfs || sender.process.pid.0 == 0 {
        return None;
    }
    let at = world
        .clock
        .wall(asked.time)
        .map_or_else(String::new, |at| format!(" at {:.0}", at.0.timestamp()));
    let by = format!(
        "SIGTERM from {} (pid {}, uid {})",
        sender.comm, sender.process.pid, sender.uid
    );
    let job = cgroup_path::job_of_stepd(&sender.argv);
    let is_slurm = sender.comm == STEPD && sender.uid == 0;
    Some(match job.filter(|_| is_slurm) {
        Some(job) => format!(
            "Slurm asked job {}, step {} to end{at}: {by}; {}: {}",
            job.job,
            job.step.unwrap_or_default(),
            slurm::NOT_SHOWN,
            slurm::sacct(&job.job)
        ),
        None => format!("the wrapped command was asked to end{at}: {by}"),
    })
}

/// Returns a note for each version of Ray whose kill records no grammar reads.
fn unread_kills(world: &World) -> impl Iterator<Item = String> + '_ {
    let mut unread: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for cluster in &world.clusters {
        let records = world.ray_of_cluster(cluster.raylet);
        let records = records.filter(|record| match &record.what.fact {
            RayFact::MonitorKill(kill) => !kill.is_understood(),
            _ => false,
        });
        *unread.entry(cluster.ray_version.as_deref()).or_default() += records.count();
    }
    let notes = unread.into_iter();
    notes.filter_map(|(version, records)| ray_log_versions::unread(records, version))
}

fn clusters(world: &World) -> Vec<ClusterReport> {
    let numbered = (0u32..).zip(&world.clusters);
    numbered
        .map(|(id, cluster)| ClusterReport {
            id,
            recording_id: 0,
            session: cluster.session.clone(),
            ray_version: cluster.ray_version.clone(),
            node_id: cluster.node_id.clone(),
            raylet_pid: cluster.raylet.pid,
            container_id: cluster.container_id.clone(),
            node_ip: option(world, cluster.raylet, "node-ip-address"),
            place: place::of_raylet(world, cluster.raylet),
            monitor: monitor::of(world, cluster.raylet),
            object_store_bytes: cluster.object_store_bytes,
            log_utc_offset_s: cluster.log_utc_offset_s,
            gcs_address: cluster.gcs_address.clone(),
            cluster_id: option(world, cluster.raylet, "cluster-id"),
            head: cluster.head,
        })
        .collect()
}

/// Returns the clusters whose raylet is alive.
pub(super) fn clusters_alive(world: &World) -> Vec<ClusterReport> {
    let lives = |cluster: &&Cluster| world.exit(cluster.raylet).is_none();
    let alive: Vec<_> = world.clusters.iter().filter(lives).collect();
    let mut reports = clusters(world);
    reports.retain(|report| alive.iter().any(|one| one.raylet.pid == report.raylet_pid));
    reports
}

/// Returns an option of a raylet's command line.
fn option(world: &World, raylet: ProcessKey, key: &str) -> Option<String> {
    let state = world.processes.get(raylet)?;
    identify::option(&state.argv, key).map(str::to_owned)
}

/// Returns the total memory of the machine, or the maximum if it is not known.
fn machine_bytes(world: &World) -> Bytes {
    let sampled = world.machine.peak.map(|(_, _, total)| total);
    let started = world.started.as_ref();
    let told = started.map(|(_, started)| started.memory_bytes);
    sampled.or(told).unwrap_or(Bytes(u64::MAX))
}

fn in_use(world: &World) -> Option<InUse> {
    let full = world.machine.fullest.as_ref()?;
    let (node, holders) = (&full.node, &full.holders);
    let anon = node.anon?.0;
    let used = node.total.0.saturating_sub(node.free.0);
    let error = ((holders.processes as u64) << 20) + (holders.tracked.0 + used) / 100;
    // Files of earlier versions do not say what forked children share. There it counts for each of
    // them, and the kernel's count is the only bound.
    let twice = !world.records_shares() && holders.tracked.0 > anon + error;
    let tracked = if twice { anon } else { holders.tracked.0 };
    let others = full
        .others
        .map_or(anon.saturating_sub(tracked), |others| others.0);
    // Processes that just ended count with at most what nobody else has, because how much they had
    // given back by then is not known.
    let nobodys = anon.saturating_sub(tracked + others);
    let tracked = tracked + nobodys.min(full.ending.0);
    // The difference between the kernel's count and the sum over the processes.
    let unknown = anon.cast_signed() - (tracked + others).cast_signed();
    let kernel = node.kernel?.0 + node.huge?.0 + node.cpu_lists?.0;
    Some(InUse {
        time: world.clock.wall(full.time)?,
        used_bytes: Bytes(used),
        private_bytes: Bytes(tracked),
        others_private_bytes: Bytes(others),
        others_counted: full.others.is_some(),
        shared_bytes: node.shmem,
        shared_remainder_bytes: shared_files::remainder(node.shmem, &holders.shared),
        shared_files: holders.shared.clone(),
        cache_bytes: node.file?,
        kernel_bytes: Bytes(kernel),
        remainder_bytes: node.remainder()? + unknown,
        error_bytes: Bytes(error),
    })
}

fn recording(world: &World, deaths: &[Death]) -> Option<Recording> {
    let (time, started) = world.started.as_ref()?;
    let normal_exits = deaths.iter().filter(|death| !death.listed).count();
    let node = world.machine.node.as_ref();
    let waits = node.is_some_and(|(_, node)| node.stalled_us.is_some());
    let inferred = || world.limits.version(waits);
    Some(Recording {
        id: 0,
        host: Host {
            name: started.host.clone(),
            kernel: started.kernel.clone(),
            boot_id: started.boot_id.clone(),
            memory_bytes: started.memory_bytes,
            cgroup_version: started.cgroup_version.or_else(inferred),
        },
        mode: started.mode,
        started: world.clock.wall(*time)?,
        ended: world.clock.wall(world.last_time)?,
        clean_end: world.clean_end,
        still_recording: false,
        clock: world.clock.error().map(|error| ClockState {
            max_error_us: error.max_us,
            synchronised: error.synchronised,
        }),
        previous_ended: (started.previous.as_ref()).map(|previous| Utc(previous.ended)),
        probes: world.probes.clone(),
        lost_probes: lost_probes(world),
        lost_events: world.ledgers.iter().map(crate::event::Ledger::lost).sum(),
        ledgers: world.ledgers.clone(),
        normal_exits: normal_exits as u64,
    })
}

fn lost_probes(world: &World) -> Vec<LostProbe> {
    let told = |gone: &LostSource| {
        Some(LostProbe {
            name: gone.name.clone(),
            time: world.clock.wall(gone.time)?,
            back: gone.back.and_then(|back| world.clock.wall(back)),
            reason: gone.reason.clone(),
        })
    };
    world.lost_sources.iter().filter_map(told).collect()
}
