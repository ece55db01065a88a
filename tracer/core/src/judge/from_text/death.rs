//! Makes one death of the report from what is known of its subject and from the verdict.

use super::{
    Made,
    claim::{Daemon, KernelOom, PidNamespace, Place, RayMemory, Stamp, Statement, Subject},
    verdict::Verdict,
    zone::{self, Clock},
};
use crate::{
    event::Role,
    ids::{Bytes, Pid},
    judge::{
        programs,
        report::{
            self, AtDeath, Death, End, Memory, MemoryReport, OomReport, Process, Relation,
            SenderReport, TopProcess, TopRest, When, Work,
        },
    },
};

/// How many of the biggest processes a death keeps.
const TOP: usize = 5;

/// Returns a death of `subject`, dated by `telling`.
pub(super) fn build(
    clock: &Clock,
    subject: &Subject,
    telling: Option<&Statement>,
    verdict: Verdict,
) -> Made {
    let (place, stamp) = telling.map_or((Place::default(), Stamp::default()), |one| {
        (one.place, one.stamp)
    });
    let time = clock.time(place, stamp);
    let name = name(subject);
    let oom = verdict.oom.as_ref();
    let everyone = top(subject, verdict.memory.as_ref(), oom);
    let (top, top_rest) = shown(&everyone);
    let process = Process::new(
        subject.pid.unwrap_or(Pid(0)),
        subject.comm.clone().unwrap_or_else(|| name.clone()),
        role(subject),
    );
    let certainty = verdict.certainty();
    let told = report::Verdict {
        cause_remote: verdict.remote,
        ..report::Verdict::new(verdict.killer, certainty, verdict.cause)
    };
    let death = Death {
        when: When {
            time: time.map(zone::utc),
            corrected_time: None,
            stamp: if time.is_none() {
                zone::printed(stamp)
            } else {
                None
            },
            ..When::default()
        },
        work: Work {
            worker_id: subject.worker_id.clone(),
            actor_id: subject.actor_id.clone(),
            actor_class: subject.class.clone(),
            task_name: subject.task.clone(),
            job_id: subject.job_id.clone(),
            ..Work::default()
        },
        end: End {
            exit_code: verdict.exit_code,
            signal: verdict.signal,
        },
        sender: verdict.daemon.as_ref().map(sender),
        memory: Memory {
            own: memory(oom),
            oom: oom.map(oom_report).map(Box::new),
            at_death: verdict.memory.as_ref().and_then(at_death),
            top,
            top_rest,
            ..Memory::default()
        },
        listed: !verdict.wanted,
        ..Death::new(process, told)
    };
    let order = time.or(stamp.local);
    let daemon = verdict.daemon.as_ref();
    Made {
        death,
        place,
        time: order,
        node: (
            subject.node_id.as_ref().map(|id| id.0.clone()),
            subject.ip.clone(),
        ),
        host: subject.host.clone(),
        folder: None,
        of: subject.of.clone(),
        texts: Vec::new(),
        bare: false,
        everyone,
        decision: oom.and_then(|oom| oom.decision),
        after: daemon.and_then(|daemon| daemon.after),
        closed: daemon.is_some_and(|daemon| daemon.after_part) && subject.pid.is_some(),
        candidate: None,
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
        role => match &subject.of {
            Some(of) if !subject.is_named() => format!("a process of {of}"),
            _ if role == Role::Worker => "worker".into(),
            Some(of) => format!("process of {of}"),
            _ if !subject.is_named() => "a process".into(),
            _ => "process".into(),
        },
    })
}

fn role(subject: &Subject) -> Role {
    let rays = subject.worker_id.is_some()
        || subject.actor_id.is_some()
        || subject.class.is_some()
        || (subject.task.is_some() && !subject.foreign);
    match (subject.role, subject.comm.as_deref()) {
        (Some(role), _) => role,
        (None, Some("raylet")) => Role::Raylet,
        (None, Some("gcs_server")) => Role::Gcs,
        (None, Some("ray::DashboardA" | "ray::RuntimeEnv")) => Role::Agent,
        (None, Some(comm)) if comm.starts_with("ray::") => Role::Worker,
        // The host's daemons speak of any process.
        (None, None) if subject.pid_namespace == PidNamespace::Host => Role::Other,
        _ if rays => Role::Worker,
        (None, None) if !subject.foreign && subject.of.is_none() => Role::Worker,
        _ => Role::Other,
    }
}

fn sender(daemon: &Daemon) -> SenderReport {
    let unknown = match daemon.after {
        Some(_) => Relation::Parent,
        None if daemon.for_memory => Relation::OomDaemon,
        None => Relation::WorkloadManager,
    };
    SenderReport {
        pid: daemon.pid.unwrap_or_default(),
        comm: daemon.name.clone(),
        relation: programs::relation_of_program(&daemon.name, "").unwrap_or(unknown),
        signal: daemon.signal,
        ..SenderReport::default()
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
    OomReport {
        constraint: oom.scope,
        cgroup: oom.cgroup.clone(),
        limit_bytes: oom.limit,
        usage_bytes: oom.usage,
        task_cgroup: oom.task_cgroup.clone(),
        invoker_comm: oom.invoker.clone(),
        score_adj: oom.score_adj,
        ..OomReport::default()
    }
}

fn at_death(memory: &RayMemory) -> Option<AtDeath> {
    memory.used.or(memory.threshold)?;
    Some(AtDeath {
        ray_used_bytes: memory.used,
        ray_threshold_bytes: memory.threshold,
        ray_total: memory.total,
        ..AtDeath::default()
    })
}

/// Returns the processes that the text lists. The victim is always among them if its size is known.
fn top(subject: &Subject, memory: Option<&RayMemory>, oom: Option<&KernelOom>) -> Vec<TopProcess> {
    let shown = |pid: Pid, title: String, private_bytes: Bytes| TopProcess {
        pid,
        title,
        private_bytes,
        victim: subject.pid == Some(pid),
        ..TopProcess::default()
    };
    let users = memory.iter().flat_map(|memory| &memory.top);
    let users = users.map(|user| shown(user.pid, user.command.clone(), user.used));
    let mut top: Vec<TopProcess> = users.collect();
    let oom = oom.filter(|oom| memory.is_none() && tells_private(oom));
    let tasks = oom.iter().flat_map(|oom| &oom.tasks);
    top.extend(tasks.map(|task| shown(task.pid, task.comm.clone(), task.memory)));
    let own = memory.and_then(|memory| memory.own);
    if let (Some(own), Some(pid), false) = (own, subject.pid, top.iter().any(|one| one.victim)) {
        top.push(shown(pid, format!("ray::{}", name(subject)), own));
    }
    top.sort_by_key(|process| std::cmp::Reverse(process.private_bytes));
    top
}

/// Returns whether the sizes in a kernel's table can be taken for private memory. Before Linux 6.8
/// they are resident memory, in which each process counts what it shares: the object store too.
fn tells_private(oom: &KernelOom) -> bool {
    if oom.tasks.iter().all(|task| task.private) {
        return true;
    }
    let shared = [oom.file, oom.shmem].into_iter().flatten();
    let shared: u64 = shared.map(|bytes| bytes.0).sum();
    let mostly_private = oom.anon.is_some_and(|anon| shared <= anon.0 / 4);
    let sum: u64 = oom.tasks.iter().map(|task| task.memory.0).sum();
    let most = oom.usage.or(oom.limit);
    mostly_private && most.is_none_or(|most| sum <= most.0)
}

/// Returns the biggest processes and the victim, and what the others held.
fn shown(everyone: &[TopProcess]) -> (Vec<TopProcess>, Option<TopRest>) {
    let kept = everyone.iter().take(TOP);
    let victim = everyone.iter().skip(TOP).find(|process| process.victim);
    let others = everyone.iter().skip(TOP);
    let others = others.filter(|process| victim.is_none_or(|victim| victim.pid != process.pid));
    let others = others.map(|process| {
        let class = report::class_of_title(&process.title);
        (process.private_bytes, move |other: &str| {
            class.as_deref() == Some(other)
        })
    });
    let top: Vec<TopProcess> = kept.chain(victim).cloned().collect();
    let rest = TopRest::of(others, &top);
    (top, rest)
}
