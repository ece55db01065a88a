//! Decides the verdict on one death from the claims of texts.
//!
//! It is `inferred` at most, and `unknown` if every sudden end would read the same.

use libc::{SIGABRT, SIGKILL, SIGTERM};

use super::{
    claim::{Claim, Daemon, KernelOom, RayMemory, Statement},
    claims::is_of_stack,
};
use crate::{
    judge::{
        cause::{self, Cause, ProcessRef, Request},
        report::{Certainty, Killer, Remote},
    },
    signals,
};

/// A verdict from text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) killer: Killer,
    pub(super) cause: Cause,
    pub(super) remote: Option<Remote>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) oom: Option<KernelOom>,
    pub(super) memory: Option<RayMemory>,
    pub(super) daemon: Option<Daemon>,
    /// Whether somebody wanted it to end. Nobody asks about such an end.
    pub(super) wanted: bool,
}

impl Verdict {
    pub(super) fn new(killer: Killer, cause: Cause) -> Self {
        Self {
            killer,
            cause,
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

/// Decides from all claims about one process.
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

/// Returns the verdict for a kill by Ray's monitor.
pub(super) fn by_ray(memory: RayMemory) -> Verdict {
    let cause = Cause::RayMemoryMonitor {
        used_bytes: memory.used,
        threshold_bytes: memory.threshold,
    };
    let mut verdict = Verdict::new(Killer::RayMemoryMonitor, cause);
    verdict.memory = Some(memory);
    verdict
}

fn by_kernel(oom: KernelOom) -> Verdict {
    // If the text contradicts itself, or does not have which memory was full, the cgroup that it
    // names proves nothing.
    let scoped = oom.scope.is_some();
    let cause = cause::KernelOom {
        scope: oom.scope,
        cgroup: oom.cgroup.clone().filter(|_| scoped),
        limit_bytes: oom.limit.filter(|_| scoped),
        charged: None,
        invoker: oom.invoker.clone(),
        reported_by: oom.reporter.clone(),
        fix: oom.fix.clone(),
    };
    let mut verdict = Verdict::new(Killer::of_oom(&cause), Cause::KernelOom(cause));
    verdict.signal = Some(SIGKILL);
    verdict.oom = Some(oom);
    verdict
}

/// Decides if both claim the kill. Ray may claim a kill that the kernel did first. The kernel
/// prints no kill of a process that is dying already (it only marks and reaps it), unless it kills
/// a whole cgroup.
fn both(ray: RayMemory, kernel: KernelOom) -> Verdict {
    if !kernel.group {
        return by_kernel(kernel);
    }
    let mut verdict = Verdict::new(Killer::Unknown, Cause::RayMemoryMonitorOrKernelOom);
    verdict.memory = Some(ray);
    verdict.oom = Some(kernel);
    verdict
}

/// Returns the figures of all lines that say that Ray's monitor killed it.
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
        known.total = known.total.or(memory.total);
        if known.top.is_empty() {
            known.top.clone_from(&memory.top);
        }
    }
    all
}

/// Returns what all lines of the kernel say together. Scopes that contradict one another cancel
/// out.
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
        known.decision = known.decision.or(oom.decision);
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
        known.fix = known.fix.take().or_else(|| oom.fix.clone());
        if known.tasks.is_empty() {
            known.tasks.clone_from(&oom.tasks);
        }
    }
    if contradiction && let Some(known) = &mut all {
        known.scope = None;
    }
    all
}

/// Decides from claims other than memory kills by Ray or the kernel. The most telling claim counts.
fn others(claims: &[&Statement]) -> Verdict {
    // Ray reports no lost connection for an actor that it had asked to end. If it reports one, the
    // actor was gone before, and the request came afterwards or too late.
    let lost = claims.iter().any(|one| matches!(one.claim, Claim::Lost));
    let mut ranked: Vec<&Statement> = claims.to_vec();
    ranked.retain(|one| !(lost && is_bare_request(&one.claim)));
    ranked.retain(|one| !is_after_sigterm(one, claims));
    ranked.sort_by_key(|one| (rank(&one.claim), one.place));
    let Some(first) = ranked.first() else {
        return Verdict::new(Killer::Unknown, Cause::NotSeen);
    };
    match &first.claim {
        Claim::Daemon(daemon) => by_daemon(daemon),
        Claim::Crash { says, signal } => crashed(&told_of(says, first, claims), *signal),
        Claim::FatalError { says } => crashed(says, None),
        Claim::Exit {
            code,
            creating_actor,
        } => exited(*code, *creating_actor),
        Claim::ExitOrSigterm { code } => {
            let cause = Cause::ExitOrSigterm {
                code: *code,
                exception: None,
                raylet_ended_rest: false,
            };
            let mut verdict = Verdict::new(Killer::Unknown, cause);
            verdict.exit_code = *code;
            verdict
        }
        Claim::Intended(cause) => {
            let mut verdict = Verdict::new(Killer::RayIntended, cause.clone());
            verdict.wanted = true;
            verdict
        }
        Claim::Collapse { cause, remote } => {
            let mut verdict = Verdict::new(Killer::RayCollapse, cause.clone());
            verdict.remote = remote.clone().map(Remote::Says);
            verdict
        }
        Claim::Signalled(signal) => {
            let mut verdict = Verdict::new(Killer::Unknown, Cause::signal(*signal));
            verdict.signal = Some(*signal);
            verdict
        }
        Claim::SentBy { signal, pid, uid } => {
            let sender = ProcessRef {
                pid: *pid,
                comm: "a process".to_owned(),
                uid: *uid,
            };
            let cause = Cause::Signal {
                signal: *signal,
                sender: Some(sender),
            };
            let mut verdict = Verdict::new(Killer::Signal, cause);
            verdict.signal = Some(*signal);
            verdict
        }
        Claim::ErrorBefore { says } => {
            Verdict::new(Killer::Unknown, Cause::EndAfterError { says: says.clone() })
        }
        Claim::Reaped => Verdict::new(Killer::Unknown, Cause::OomReaped),
        Claim::DisconnectTypeMemory => Verdict::new(Killer::Unknown, Cause::RayMemoryDigit),
        Claim::MemoryTable(memory) => {
            let mut verdict = Verdict::new(Killer::Unknown, Cause::RayMemoryTable);
            verdict.memory = Some((**memory).clone());
            verdict
        }
        Claim::Lost => Verdict::new(Killer::Unknown, Cause::SuddenEnd),
        Claim::Unregistered => Verdict::new(Killer::Unknown, Cause::DeadBeforeRegistered),
        Claim::Gone => Verdict::new(Killer::Unknown, Cause::NotSeen),
        // Kills for memory by Ray and the kernel are handled above.
        Claim::RayMemory(_)
        | Claim::KernelOom(_)
        | Claim::UnparsedKill
        | Claim::Died
        | Claim::TakenBack { .. }
        | Claim::Adds { .. }
        | Claim::Frame { .. }
        | Claim::Identity => Verdict::new(Killer::Unknown, Cause::Unexplained),
    }
}

/// Whether a raylet lost its agent only after it had received SIGTERM. Then it did not shut down
/// because of the agent. If an agent dies first, Ray 2.9 sends the SIGTERM to itself afterwards.
fn is_after_sigterm(one: &Statement, claims: &[&Statement]) -> bool {
    let agent_died = matches!(
        one.claim,
        Claim::Collapse {
            cause: Cause::AgentDied { .. },
            ..
        }
    );
    let sigterm_before = |other: &&Statement| {
        other.claim == Claim::Signalled(SIGTERM)
            && other.place.text == one.place.text
            && other.place.line < one.place.line
    };
    agent_died && claims.iter().any(sigterm_before)
}

/// Whether the claim is only that the GCS had an actor ended (`Received KillLocalActor RPC`). It
/// also does so after an end.
fn is_bare_request(claim: &Claim) -> bool {
    matches!(
        claim,
        Claim::Intended(Cause::RayRequest {
            request: Request::KillOrOutOfScope,
            says: None,
        })
    )
}

/// Returns the rank of a claim. The most telling one comes first.
pub(super) fn rank(claim: &Claim) -> u8 {
    match claim {
        Claim::RayMemory(_) | Claim::KernelOom(_) => 0,
        Claim::Daemon(_) => 1,
        Claim::Crash { .. } | Claim::SentBy { .. } => 2,
        Claim::Exit {
            code: Some(code), ..
        } if *code != 0 => 3,
        Claim::Exit {
            creating_actor: true,
            ..
        } => 4,
        // It tells how Ray carried out a request, not why it made one.
        Claim::Intended(Cause::DidNotExit) => 7,
        Claim::Intended(_) => 5,
        Claim::Collapse { .. } => 6,
        Claim::Exit { .. } | Claim::ExitOrSigterm { .. } => 8,
        Claim::Reaped => 9,
        Claim::Signalled(_) => 10,
        Claim::DisconnectTypeMemory | Claim::MemoryTable(_) => 11,
        Claim::FatalError { .. } => 12,
        Claim::ErrorBefore { .. } => 13,
        Claim::Lost => 14,
        Claim::Unregistered | Claim::UnparsedKill | Claim::Died | Claim::Gone => 15,
        Claim::Identity | Claim::TakenBack { .. } | Claim::Adds { .. } | Claim::Frame { .. } => 16,
    }
}

/// Whether a claim says little more than that its subject ended, or not even that.
pub(super) fn is_weak(claim: &Claim) -> bool {
    rank(claim) >= rank(&Claim::Reaped)
}

/// Returns the words for a crash. A bare signal is told with the function in which it came, and
/// `abort` with the error that it follows.
fn told_of(says: &str, crash: &Statement, claims: &[&Statement]) -> String {
    if says.contains([':', ',']) || signals::of_fault(says).is_none() {
        return says.to_owned();
    }
    let mut told = says.to_owned();
    let function = claims.iter().find_map(|one| match &one.claim {
        Claim::Frame { function } if is_of_stack(crash, one) => Some(function),
        _ => None,
    });
    if let Some(function) = function {
        told.push_str(&format!(" in {function}"));
    }
    let error = claims.iter().find_map(|one| match &one.claim {
        Claim::FatalError { says } => Some(says),
        _ => None,
    });
    let aborts = signals::of_fault(says) == Some(SIGABRT);
    if let Some(error) = error.filter(|_| aborts) {
        told.push_str(&format!(", after {error}"));
    }
    told
}

fn crashed(says: &str, signal: Option<i32>) -> Verdict {
    let cause = Cause::Crash {
        signal,
        says: Some(says.to_owned()),
        shared_memory: false,
    };
    let mut verdict = Verdict::new(Killer::Crash, cause);
    verdict.signal = signal;
    verdict
}

fn by_daemon(daemon: &Daemon) -> Verdict {
    let (name, says) = (daemon.name.clone(), daemon.why.clone());
    let fix = daemon.fix.clone();
    let cause = if daemon.for_memory {
        Cause::MemoryDaemon { name, says, fix }
    } else {
        Cause::SystemProgram { name, says, fix }
    };
    let killer = daemon.after.map_or(Killer::Signal, |_| Killer::RayCollapse);
    let mut verdict = Verdict::new(killer, cause);
    verdict.signal = daemon.signal;
    verdict.daemon = Some(daemon.clone());
    verdict
}

fn exited(code: Option<i32>, creating_actor: bool) -> Verdict {
    let cause = Cause::Exit {
        code,
        exception: None,
        creating_actor,
    };
    let mut verdict = Verdict::new(Killer::Exit, cause);
    verdict.exit_code = code;
    verdict.wanted = code == Some(0);
    verdict
}
