//! The verdict from logs alone: from what texts say to the same report that a recording gives. Pure.
//!
//! Nothing here is ever `proven`. Claims without a name (`WorkerCrashedError`, Ray's own counts) make deaths only where no named death
//! accounts for them.

pub mod claim;
pub mod dossier;
mod findings;
mod join;
mod nameless;
mod settle;
mod verdict;
mod zone;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

use crate::{
    event::Role,
    ids::{BootTime, EventId, Pid},
    judge::report::{
        AtDeath, ClusterReport, Death, Evidence, Mechanism, MemoryReport, Monitor, OomReport,
        Relation, Report, SenderReport, TextSource, TopProcess,
    },
};
use claim::{
    Claim, Gathered, KernelOom, MonitorState, Place, RayMemory, Scope, Stamp, Statement, Subject,
};
use join::Case;
use verdict::Verdict;
use zone::Clock;

/// Pieces of evidence of one death.
const MAX_EVIDENCE: usize = 12;

/// The report on everything that was gathered; `zone` is that of all times that have none.
#[must_use]
pub fn judge(gathered: &Gathered, zone: Option<&TimeZone>) -> Report {
    let clock = Clock::new(gathered, zone);
    let cases = join::join(gathered, &clock);
    let mut made: Vec<Made> = cases
        .iter()
        .map(|case| made(gathered, &clock, case))
        .collect();
    nameless::add(gathered, &clock, &mut made);
    order(&mut made);
    blame_the_raylet(&mut made);
    let mut deaths: Vec<Death> = made.into_iter().map(|made| made.death).collect();
    settle::add(&mut deaths);
    let findings = findings::all(gathered, &deaths);
    let mut notes = findings::notes(gathered, &deaths);
    notes.extend(version(gathered).map(|version| format!("Ray {version}, by its words")));
    Report {
        schema: 1,
        raytrace: env!("CARGO_PKG_VERSION").into(),
        recordings: Vec::new(),
        clusters: clusters(gathered),
        jobs: Vec::new(),
        deaths,
        owners: Vec::new(),
        settings: Vec::new(),
        findings,
        peak: None,
        notes,
        texts: texts(gathered, &clock),
    }
}

/// A death with what its order hangs on.
struct Made {
    death: Death,
    place: Place,
    time: Option<i64>,
    /// Whether nothing but "it died" is known.
    bare: bool,
}

fn made(gathered: &Gathered, clock: &Clock, case: &Case<'_>) -> Made {
    let claims: Vec<&Statement> = [case.ray, case.host]
        .into_iter()
        .flatten()
        .flat_map(|dossier| &dossier.statements)
        .collect();
    let verdict = verdict::verdict(&claims, |one| clock.time(one.place, one.stamp));
    let subject = match (case.ray, case.host) {
        (Some(ray), _) => &ray.subject,
        (None, Some(host)) => &host.subject,
        (None, None) => &Subject::default(),
    };
    let host_pid = case.ray.and(case.host).and_then(|host| host.subject.pid);
    let host_comm = case.host.and_then(|host| host.subject.comm.clone());
    let telling = telling(&claims);
    let bare = claims
        .iter()
        .all(|one| matches!(one.claim, Claim::Died(_) | Claim::Identity));
    let mut made = build(clock, subject, telling, verdict);
    made.bare = bare;
    let death = &mut made.death;
    if let Some(host_pid) = host_pid.filter(|host| *host != death.pid) {
        death.ns_pid = Some(death.pid);
        death.pid = host_pid;
    }
    if let Some(comm) = host_comm {
        death.comm = comm;
    }
    death.verdict.evidence = evidence(gathered, clock, &claims, &case.remarks);
    made
}

/// The line that the death is dated by: the most telling that has a time.
fn telling<'a>(claims: &[&'a Statement]) -> Option<&'a Statement> {
    let mut sorted: Vec<&Statement> = claims.to_vec();
    sorted.sort_by_key(|one| {
        (
            one.stamp.is_empty(),
            matches!(one.claim, Claim::Identity),
            one.place,
        )
    });
    sorted.first().copied()
}

/// A death of `subject`, dated by `telling`.
fn build(clock: &Clock, subject: &Subject, telling: Option<&Statement>, verdict: Verdict) -> Made {
    let (place, stamp) = telling.map_or((Place::default(), Stamp::default()), |one| {
        (one.place, one.stamp)
    });
    let time = clock.time(place, stamp);
    let name = name(subject);
    let oom = verdict.oom.as_ref();
    let certainty = verdict.certainty();
    let death = Death {
        id: EventId(0),
        recording_id: None,
        cluster: None,
        time: time.map(zone::utc),
        act_time: BootTime(0),
        exit_time: None,
        stamp: if time.is_none() {
            zone::printed(stamp)
        } else {
            None
        },
        pid: subject.pid.unwrap_or(Pid(0)),
        ns_pid: None,
        start_time: None,
        comm: subject.comm.clone().unwrap_or_else(|| name.clone()),
        role: role(subject),
        title: None,
        ppid: None,
        container_id: None,
        worker_id: subject.worker_id.clone(),
        actor_id: subject.actor_id.clone(),
        actor_class: subject.class.clone(),
        task_name: subject.task.clone(),
        job_id: subject.job_id.clone(),
        attempt: None,
        exit_code: verdict.exit_code,
        signal: verdict.signal,
        sender: verdict.daemon.as_ref().map(sender),
        memory: memory(oom),
        gpu: Vec::new(),
        oom: oom.map(oom_report),
        at_death: verdict.memory.as_ref().and_then(at_death),
        top: top(subject, verdict.memory.as_ref(), oom),
        stack_at_death: None,
        listed: !verdict.wanted,
        then: None,
        verdict: crate::judge::report::Verdict {
            killer: verdict.killer,
            certainty,
            summary: summary(subject, &name, &verdict),
            clause: verdict.clause,
            settled: true,
            evidence: Vec::new(),
            cause_death_id: None,
            cause_remote: verdict.remote,
            missing: None,
        },
    };
    let order = time.or(stamp.local);
    Made {
        death,
        place,
        time: order,
        bare: false,
    }
}

fn name(subject: &Subject) -> String {
    let known = subject
        .class
        .as_ref()
        .or(subject.task.as_ref())
        .or(subject.comm.as_ref());
    known.cloned().unwrap_or_else(|| match role(subject) {
        Role::Raylet => "raylet".into(),
        Role::Worker => "worker".into(),
        _ => "process".into(),
    })
}

fn role(subject: &Subject) -> Role {
    let rays = subject.worker_id.is_some()
        || subject.actor_id.is_some()
        || subject.class.is_some()
        || subject.task.is_some();
    match (subject.role, subject.comm.as_deref()) {
        (Some(role), _) => role,
        (None, Some("raylet")) => Role::Raylet,
        (None, Some("gcs_server")) => Role::Gcs,
        (None, Some("ray::DashboardA" | "ray::RuntimeEnv")) => Role::Agent,
        (None, Some(comm)) if comm.starts_with("ray::") => Role::Worker,
        (None, None) => Role::Worker,
        _ if rays => Role::Worker,
        _ => Role::Other,
    }
}

fn summary(subject: &Subject, name: &str, verdict: &Verdict) -> String {
    let pid = subject
        .pid
        .map_or_else(String::new, |pid| format!(" (pid {pid})"));
    format!("{name}{pid} {}", verdict.clause)
}

fn sender(daemon: &claim::Daemon) -> SenderReport {
    SenderReport {
        pid: daemon.pid.unwrap_or(Pid(0)),
        comm: daemon.name.clone(),
        exe: None,
        uid: None,
        container_id: None,
        relation: Relation::OomDaemon,
        mechanism: Mechanism::Unknown,
        ancestors: Vec::new(),
    }
}

fn memory(oom: Option<&KernelOom>) -> MemoryReport {
    MemoryReport {
        anon_bytes: oom.and_then(|oom| oom.anon),
        file_bytes: oom.and_then(|oom| oom.file),
        shmem_bytes: oom.and_then(|oom| oom.shmem),
        ..MemoryReport::default()
    }
}

fn oom_report(oom: &KernelOom) -> OomReport {
    let constraint = oom.scope.map(|scope| match scope {
        Scope::Memcg => "memcg",
        Scope::Global => "none",
        Scope::Cpuset => "cpuset",
        Scope::Mempolicy => "mempolicy",
    });
    OomReport {
        constraint: constraint.map(str::to_owned),
        cgroup: oom.cgroup.clone(),
        limit_bytes: oom.limit,
        usage_bytes: oom.usage,
        task_cgroup: oom.task_cgroup.clone(),
        charging: None,
        invoker_pid: None,
        invoker_comm: oom.invoker.clone(),
        score_adj: oom.score_adj,
    }
}

fn at_death(memory: &RayMemory) -> Option<AtDeath> {
    memory.used.or(memory.threshold)?;
    Some(AtDeath {
        ray_used_bytes: memory.used,
        ray_threshold_bytes: memory.threshold,
        limits: Vec::new(),
        object_store_bytes: None,
    })
}

/// The biggest processes that the text lists; the victim always, where its size is known.
fn top(subject: &Subject, memory: Option<&RayMemory>, oom: Option<&KernelOom>) -> Vec<TopProcess> {
    let victim = |pid: Pid| subject.pid == Some(pid);
    let mut top: Vec<TopProcess> = Vec::new();
    for user in memory.iter().flat_map(|memory| &memory.top) {
        top.push(TopProcess {
            pid: user.pid,
            title: user.command.clone(),
            private_bytes: user.used,
            victim: victim(user.pid),
            age_ms: None,
        });
    }
    for task in oom
        .iter()
        .flat_map(|oom| &oom.tasks)
        .filter(|_| memory.is_none())
    {
        top.push(TopProcess {
            pid: task.pid,
            title: task.comm.clone(),
            private_bytes: task.memory,
            victim: victim(task.pid),
            age_ms: None,
        });
    }
    let own = memory.and_then(|memory| memory.own);
    if let (Some(own), Some(pid), false) = (own, subject.pid, top.iter().any(|one| one.victim)) {
        top.push(TopProcess {
            pid,
            title: format!("ray::{}", name(subject)),
            private_bytes: own,
            victim: true,
            age_ms: None,
        });
    }
    top.sort_by_key(|process| std::cmp::Reverse(process.private_bytes));
    let kept = top.iter().take(5).cloned().collect::<Vec<_>>();
    let victim = top.into_iter().skip(5).find(|process| process.victim);
    kept.into_iter().chain(victim).collect()
}

fn evidence(
    gathered: &Gathered,
    clock: &Clock,
    claims: &[&Statement],
    remarks: &[(Place, String)],
) -> Vec<Evidence> {
    let mut sorted: Vec<&Statement> = claims.to_vec();
    let telling = |one: &&Statement| !matches!(one.claim, Claim::Identity);
    sorted.retain(|one| telling(one) && !one.quote.is_empty());
    sorted.sort_by_key(|one| one.place);
    let mut seen = BTreeSet::new();
    sorted.retain(|one| seen.insert((one.place, one.quote.clone())));
    let lines = sorted.into_iter().take(MAX_EVIDENCE).map(|one| Evidence {
        time: clock.time(one.place, one.stamp).map(zone::utc),
        source: source(gathered, one.place),
        what: one.quote.clone(),
    });
    let remarks = remarks.iter().map(|(place, text)| Evidence {
        time: None,
        source: source(gathered, *place),
        what: text.clone(),
    });
    lines.chain(remarks).collect()
}

/// `raylet.out:812`.
fn source(gathered: &Gathered, place: Place) -> String {
    let name = gathered
        .texts
        .get(place.text)
        .map_or("", |text| text.name.as_str());
    let base = name.rsplit('/').next().unwrap_or(name);
    format!("{base}:{}", place.line)
}

/// By time where texts give it, else in the order of the texts; a death without a time stays behind the one above it.
fn order(made: &mut [Made]) {
    made.sort_by_key(|one| one.place);
    let mut last = 0;
    for one in made.iter_mut() {
        last = one.time.unwrap_or(last);
        let time = u64::try_from(last).unwrap_or(0);
        one.death.act_time = BootTime(time);
    }
    made.sort_by_key(|one| (one.death.act_time, one.place));
    for (number, one) in (1..).zip(made.iter_mut()) {
        one.death.id = EventId(number);
    }
}

/// Where a raylet died and a worker's end has no reason of its own, the raylet's is looked at first.
fn blame_the_raylet(made: &mut [Made]) {
    let raylet = made
        .iter()
        .find(|one| one.death.role == Role::Raylet && one.death.listed)
        .map(|one| (one.death.id, one.death.pid, one.place.text));
    let Some((cause, pid, text)) = raylet else {
        return;
    };
    for one in made
        .iter_mut()
        .filter(|one| one.bare && one.place.text == text)
    {
        if one.death.role == Role::Raylet {
            continue;
        }
        let which = if pid.0 == 0 {
            String::new()
        } else {
            format!(" (pid {pid})")
        };
        let verdict = &mut one.death.verdict;
        verdict.clause =
            format!("ended; its raylet{which} ended too, which takes its workers along");
        verdict.summary = format!("{} {}", one.death.comm, verdict.clause);
        verdict.cause_death_id = Some(cause);
    }
}

fn clusters(gathered: &Gathered) -> Vec<ClusterReport> {
    let raylet_pid = gathered.remarks.raylets.first().copied();
    let Some(raylet_pid) = raylet_pid else {
        return Vec::new();
    };
    let monitor = gathered
        .remarks
        .monitor
        .as_ref()
        .map(|monitor| match monitor {
            MonitorState::On {
                threshold,
                total,
                refresh_ms,
            } => Monitor {
                enabled: true,
                threshold_bytes: Some(*threshold),
                total_bytes: Some(*total),
                refresh_ms: *refresh_ms,
            },
            MonitorState::Off => Monitor {
                enabled: false,
                threshold_bytes: None,
                total_bytes: None,
                refresh_ms: None,
            },
        });
    vec![ClusterReport {
        id: 0,
        recording_id: 0,
        session: None,
        ray_version: version(gathered),
        node_id: None,
        raylet_pid,
        container_id: None,
        monitor,
        object_store_bytes: None,
        log_utc_offset_s: None,
    }]
}

/// As a text names it, else by the words that it uses.
fn version(gathered: &Gathered) -> Option<String> {
    let remarks = &gathered.remarks;
    let words = |(first, last): claim::Words| match first.cmp(&last) {
        std::cmp::Ordering::Less => Some(format!("2.{first} to 2.{last}")),
        std::cmp::Ordering::Equal => Some(format!("2.{first}")),
        std::cmp::Ordering::Greater => None,
    };
    remarks
        .ray_version
        .clone()
        .or_else(|| remarks.dialect.and_then(words))
}

fn texts(gathered: &Gathered, clock: &Clock) -> Vec<TextSource> {
    let texts = gathered.texts.iter().enumerate();
    texts
        .map(|(number, text)| {
            let (utc_offset_s, how) = clock.describe(number, text);
            TextSource {
                name: text.name.clone(),
                lines: text.lines,
                utc_offset_s,
                clock: how,
            }
        })
        .collect()
}
