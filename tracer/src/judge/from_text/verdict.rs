//! The verdict on one death from the claims of texts: `inferred` at most, and `unknown` where every sudden end would read the same.

use super::claim::{Claim, Daemon, KernelOom, RayMemory, Scope, Statement, UNREGISTERED};
use crate::{
    judge::report::{Certainty, Killer},
    signals,
};

/// A verdict from text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) killer: Killer,
    pub(super) clause: String,
    pub(super) remote: Option<String>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) oom: Option<KernelOom>,
    pub(super) memory: Option<RayMemory>,
    pub(super) daemon: Option<Daemon>,
    /// Whether it ended as somebody wanted: nobody asks about it.
    pub(super) wanted: bool,
}

impl Verdict {
    pub(super) fn new(killer: Killer, clause: impl Into<String>) -> Self {
        Self {
            killer,
            clause: clause.into(),
            remote: None,
            exit_code: None,
            signal: None,
            oom: None,
            memory: None,
            daemon: None,
            wanted: false,
        }
    }

    pub(super) fn certainty(&self) -> Certainty {
        match self.killer {
            Killer::Unknown => Certainty::Unknown,
            _ => Certainty::Inferred,
        }
    }
}

/// From all claims about one process.
pub(super) fn verdict(claims: &[&Statement]) -> Verdict {
    let ray = memory(claims);
    let kernel = kernel(claims);
    match (ray, kernel) {
        (Some(ray), Some(kernel)) => both(ray, kernel),
        (Some(ray), None) => by_ray(ray),
        (None, Some(kernel)) => by_kernel(kernel),
        (None, None) => others(claims),
    }
}

fn by_ray(memory: RayMemory) -> Verdict {
    let mut verdict = Verdict::new(
        Killer::RayMemoryMonitor,
        "was killed by Ray's memory monitor",
    );
    verdict.memory = Some(memory);
    verdict
}

fn by_kernel(oom: KernelOom) -> Verdict {
    let (killer, clause) = match oom.scope {
        Some(Scope::Memcg) => (Killer::KernelOomMemcg, memcg_clause(&oom)),
        Some(Scope::Global) => (
            Killer::KernelOomGlobal,
            match &oom.reporter {
                Some(reporter) => format!(
                    "was killed by the kernel, as {reporter} reports: the machine was out of memory"
                ),
                None => "was killed by the kernel: the machine was out of memory".to_owned(),
            },
        ),
        Some(Scope::Cpuset) => (
            Killer::KernelOomGlobal,
            "was killed by the kernel: the memory nodes of its cpuset were full".to_owned(),
        ),
        Some(Scope::Mempolicy) => (
            Killer::KernelOomGlobal,
            "was killed by the kernel: the memory nodes of its memory policy were full".to_owned(),
        ),
        None => {
            let reporter = oom.reporter.as_ref();
            let by = reporter.map_or_else(String::new, |by| format!(", as {by} reports"));
            (
                Killer::Unknown,
                format!(
                    "was killed by the kernel's OOM killer{by}; whether a cgroup or the machine was full is not in the text"
                ),
            )
        }
    };
    let mut verdict = Verdict::new(killer, clause);
    verdict.signal = Some(9);
    verdict.oom = Some(oom);
    verdict
}

fn memcg_clause(oom: &KernelOom) -> String {
    match (&oom.cgroup, oom.limit) {
        (Some(cgroup), Some(limit)) => format!(
            "was killed by the kernel: cgroup {cgroup} reached its limit of {}",
            crate::judge::oom::size(limit)
        ),
        (Some(cgroup), None) => {
            format!("was killed by the kernel: cgroup {cgroup} reached its limit")
        }
        _ => "was killed by the kernel: a memory cgroup reached its limit".to_owned(),
    }
}

/// Ray may claim a kill that the kernel did first. The kernel prints no kill of a process that is dying already (it only marks and
/// reaps it), but where a whole cgroup goes.
fn both(ray: RayMemory, kernel: KernelOom) -> Verdict {
    if !kernel.group {
        return by_kernel(kernel);
    }
    let clause = "was claimed by Ray's memory monitor and by the kernel's OOM killer, which killed all of a cgroup; which came first is not in the text";
    let mut verdict = Verdict::new(Killer::Unknown, clause);
    verdict.memory = Some(ray);
    verdict.oom = Some(kernel);
    verdict
}

/// Figures of all lines that say that Ray's monitor killed it.
fn memory(claims: &[&Statement]) -> Option<RayMemory> {
    let mut all: Option<RayMemory> = None;
    for one in claims {
        let Claim::RayMemory(memory) = &one.claim else {
            continue;
        };
        let known = all.get_or_insert_with(RayMemory::default);
        known.own = known.own.or(memory.own);
        known.used = known.used.or(memory.used);
        known.threshold = known.threshold.or(memory.threshold);
        if known.top.is_empty() {
            known.top.clone_from(&memory.top);
        }
    }
    all
}

/// What all lines of the kernel's say together; scopes that contradict one another cancel out.
fn kernel(claims: &[&Statement]) -> Option<KernelOom> {
    let mut all: Option<KernelOom> = None;
    let mut contradiction = false;
    for one in claims {
        let Claim::KernelOom(oom) = &one.claim else {
            continue;
        };
        let group = oom.group && all.as_ref().is_none_or(|all| all.group);
        let known = all.get_or_insert_with(KernelOom::default);
        known.group = group;
        contradiction |= known
            .scope
            .zip(oom.scope)
            .is_some_and(|(one, other)| one != other);
        known.scope = known.scope.or(oom.scope);
        known.cgroup = known.cgroup.take().or_else(|| oom.cgroup.clone());
        known.task_cgroup = known.task_cgroup.take().or_else(|| oom.task_cgroup.clone());
        known.limit = known.limit.or(oom.limit);
        known.usage = known.usage.or(oom.usage);
        known.anon = known.anon.or(oom.anon);
        known.file = known.file.or(oom.file);
        known.shmem = known.shmem.or(oom.shmem);
        known.score_adj = known.score_adj.or(oom.score_adj);
        known.invoker = known.invoker.take().or_else(|| oom.invoker.clone());
        known.reporter = known.reporter.take().or_else(|| oom.reporter.clone());
        if known.tasks.is_empty() {
            known.tasks.clone_from(&oom.tasks);
        }
    }
    if contradiction && let Some(known) = &mut all {
        known.scope = None;
    }
    all
}

/// Everything that is no kill for memory by Ray or the kernel, the most telling claim first.
fn others(claims: &[&Statement]) -> Verdict {
    let mut ranked: Vec<&Statement> = claims.to_vec();
    ranked.sort_by_key(|one| (rank(&one.claim), one.place));
    let Some(first) = ranked.first() else {
        return Verdict::new(Killer::Unknown, "ended; how is not in the text");
    };
    match &first.claim {
        Claim::Daemon(daemon) => by_daemon(daemon),
        Claim::Crash(signal) => {
            let mut verdict = Verdict::new(Killer::Crash, format!("crashed: {signal}"));
            verdict.signal = signal_number(signal);
            verdict
        }
        Claim::Exit { code, why } => exited(*code, why.as_deref()),
        Claim::Intended(clause) => {
            let mut verdict = Verdict::new(Killer::RayIntended, sentence(clause));
            verdict.wanted = true;
            verdict
        }
        Claim::Collapse { clause, remote } => {
            let mut verdict = Verdict::new(Killer::RayCollapse, clause.clone());
            verdict.remote.clone_from(remote);
            verdict
        }
        Claim::Signalled(signal) => {
            let name = signals::name(*signal);
            let hint = if *signal == 9 {
                ""
            } else {
                "; a normal stop does that too"
            };
            let clause = format!("was ended by {name}; who sent it is not in the text{hint}");
            let mut verdict = Verdict::new(Killer::Unknown, clause);
            verdict.signal = Some(*signal);
            verdict
        }
        Claim::Reaped => Verdict::new(
            Killer::Unknown,
            "was marked by the kernel's OOM killer, which took its memory; whether that killed it or it was dying already is not in the text",
        ),
        Claim::MemoryDigit(digit) => Verdict::new(
            Killer::Unknown,
            format!(
                "ended; {digit} would be Ray's memory monitor, but nothing beside that one digit says so"
            ),
        ),
        Claim::Lost(_) => Verdict::new(
            Killer::Unknown,
            "ended suddenly; these words fit a kernel OOM kill, kill -9, a crash and os._exit alike",
        ),
        Claim::Died(how) if how == UNREGISTERED => Verdict::new(
            Killer::Unknown,
            format!("ended early: {UNREGISTERED}; why is not in the text"),
        ),
        _ => Verdict::new(Killer::Unknown, "ended; why is not in the text"),
    }
}

fn rank(claim: &Claim) -> u8 {
    match claim {
        Claim::RayMemory(_) | Claim::KernelOom(_) => 0,
        Claim::Daemon(_) => 1,
        Claim::Crash(_) => 2,
        Claim::Exit {
            code: Some(code), ..
        } if *code != 0 => 3,
        Claim::Exit { why: Some(_), .. } => 4,
        Claim::Intended(_) => 5,
        Claim::Collapse { .. } => 6,
        Claim::Exit { .. } => 7,
        Claim::Reaped => 8,
        Claim::Signalled(_) => 9,
        Claim::MemoryDigit(_) => 10,
        Claim::Lost(_) => 11,
        Claim::Died(_) => 12,
        Claim::Identity => 13,
    }
}

fn by_daemon(daemon: &Daemon) -> Verdict {
    let clause = match daemon.name.as_str() {
        "kubelet" => format!("was evicted by the kubelet: {}", daemon.why),
        name => format!("was killed by {name}: {}", daemon.why),
    };
    let mut verdict = Verdict::new(Killer::Signal, clause);
    verdict.signal = daemon.signal;
    verdict.daemon = Some(daemon.clone());
    verdict
}

fn exited(code: Option<i32>, why: Option<&str>) -> Verdict {
    let clause = match (code, why) {
        (Some(code), None) => format!("exited by itself with code {code}"),
        (Some(code), Some(why)) => format!("exited by itself with code {code}: {why}"),
        (None, Some(why)) => format!("ended by itself: {why}"),
        (None, None) => "exited by itself".to_owned(),
    };
    let mut verdict = Verdict::new(Killer::Exit, clause);
    verdict.exit_code = code;
    verdict.wanted = code == Some(0);
    verdict
}

fn sentence(clause: &str) -> String {
    if ["was ", "ended", "exited"]
        .iter()
        .any(|verb| clause.starts_with(verb))
    {
        clause.to_owned()
    } else {
        format!("ended on Ray's request: {clause}")
    }
}

fn signal_number(text: &str) -> Option<i32> {
    let known = [
        ("SIGSEGV", 11),
        ("Segmentation fault", 11),
        ("segfault", 11),
        ("SIGBUS", 7),
        ("Bus error", 7),
        ("SIGABRT", 6),
        ("Aborted", 6),
        ("SIGILL", 4),
        ("Illegal instruction", 4),
        ("SIGFPE", 8),
    ];
    known
        .iter()
        .find(|(name, _)| text.contains(name))
        .map(|(_, number)| *number)
}
