//! What an OOM kill was about: which limit, which cgroup, what was being charged.
//!
//! The kernel stack at `mark_victim` tells a cgroup's limit from an empty machine and names the charge; the victim's own
//! memory cgroups with their use tell which limit; the kernel log, which is rate-limited, only confirms.

pub(super) use crate::ids::size;
use crate::{
    event::{CgroupLevel, KernelLog, OomVictim},
    ids::Pid,
    judge::{
        report::{Killer, OomReport},
        world::{ExitSeen, Seen, World},
    },
};

/// Why the kernel had to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constraint {
    Memcg,
    Global,
    Cpuset,
    Mempolicy,
    /// Somebody asked for it (sysrq `f`): no allocation had failed.
    Asked,
    Unknown,
}

/// The context of one OOM kill.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) constraint: Constraint,
    pub(super) report: OomReport,
}

impl Context {
    /// The killer that this constraint stands for. An OOM kill with neither stack nor log line is ascribed to a
    /// cgroup only where one was full, and to the machine never.
    pub(super) fn killer(&self) -> Killer {
        match self.constraint {
            Constraint::Memcg => Killer::KernelOomMemcg,
            Constraint::Unknown if self.report.cgroup.is_some() => Killer::KernelOomMemcg,
            Constraint::Unknown => Killer::Unknown,
            Constraint::Global | Constraint::Cpuset | Constraint::Mempolicy | Constraint::Asked => {
                Killer::KernelOomGlobal
            }
        }
    }

    /// The verdict as a clause.
    pub(super) fn clause(&self) -> String {
        match (self.constraint, &self.report.cgroup) {
            (Constraint::Global, _) => "was killed by the kernel: the machine was out of memory".into(),
            (Constraint::Cpuset, _) => "was killed by the kernel: the memory nodes of its cpuset were full".into(),
            (Constraint::Mempolicy, _) => "was killed by the kernel: the memory nodes of its memory policy were full".into(),
            (Constraint::Asked, _) => "was killed by the kernel's OOM killer, which somebody asked for (sysrq f); no allocation had failed".into(),
            (_, Some(cgroup)) => match self.report.limit_bytes {
                Some(limit) => format!("was killed by the kernel: cgroup {cgroup} reached its limit of {}", size(limit)),
                None => format!("was killed by the kernel: cgroup {cgroup} reached its limit"),
            },
            (Constraint::Memcg, None) => "was killed by the kernel: a memory cgroup reached its limit".into(),
            (Constraint::Unknown, None) => {
                "was killed by the kernel's OOM killer; whether a cgroup or the machine was full was not seen".into()
            }
        }
    }
}

/// The context from the mark itself.
pub(super) fn from_mark(world: &World, victim: &Seen<OomVictim>) -> Context {
    let what = &victim.what;
    let logged = logged(world, what.victim.pid, victim);
    let constraint = match (&logged, by_stack(&what.stack)) {
        (_, Some(Constraint::Asked)) => Constraint::Asked,
        (Some((constraint, _)), _) => *constraint,
        (None, Some(constraint)) => constraint,
        (None, None) => Constraint::Unknown,
    };
    let limiting = match &logged {
        Some((_, Some(path))) => what.cgroups.iter().find(|level| level.path == *path),
        _ => None,
    };
    let memcg = matches!(constraint, Constraint::Memcg | Constraint::Unknown);
    let full = || memcg.then(|| fullest(&what.cgroups, constraint)).flatten();
    let limiting = limiting.or_else(full);
    let report = OomReport {
        constraint: name(constraint),
        cgroup: limiting
            .map(|level| level.path.clone())
            .or_else(|| logged.and_then(|(_, path)| path).filter(|_| memcg)),
        limit_bytes: limiting.and_then(|level| level.limit),
        usage_bytes: limiting.map(|level| level.usage),
        task_cgroup: what.cgroups.first().map(|level| level.path.clone()),
        charging: charging(&what.stack).map(str::to_owned),
        invoker_pid: Some(what.invoker.pid),
        invoker_comm: Some(what.invoker_comm.clone()),
        score_adj: Some(what.score_adj),
    };
    Context { constraint, report }
}

/// The context from the kernel log alone: the mark was not seen.
pub(super) fn from_kernel_log(world: &World, exit: &ExitSeen) -> Option<Context> {
    if !world.has_the_kernels_pids() {
        return None;
    }
    let pid = exit.exit.process.pid;
    let near = |seen: &&Seen<KernelLog>| exit.time.since(seen.time).abs() < 10_000_000_000;
    let mut context = None;
    for seen in world.kernel_log.iter().filter(near) {
        match &seen.what {
            KernelLog::OomKill {
                constraint,
                oom_memcg,
                task_memcg,
                pid: named,
                ..
            } if *named == pid => {
                let constraint = parse(constraint);
                context = Some(logged_context(
                    constraint,
                    oom_memcg.clone(),
                    task_memcg.clone(),
                ));
            }
            KernelLog::Killed {
                pid: named, memcg, ..
            } if *named == pid && context.is_none() => {
                let constraint = if *memcg {
                    Constraint::Memcg
                } else {
                    Constraint::Global
                };
                context = Some(logged_context(constraint, None, None));
            }
            _ => {}
        }
    }
    context
}

fn logged_context(constraint: Constraint, cgroup: Option<String>, task: Option<String>) -> Context {
    let report = OomReport {
        constraint: name(constraint),
        cgroup,
        limit_bytes: None,
        usage_bytes: None,
        task_cgroup: task,
        charging: None,
        invoker_pid: None,
        invoker_comm: None,
        score_adj: None,
    };
    Context { constraint, report }
}

/// What the kernel log says of this very kill: same pid, within seconds (its clock is not ours).
fn logged(
    world: &World,
    pid: Pid,
    victim: &Seen<OomVictim>,
) -> Option<(Constraint, Option<String>)> {
    world.kernel_log.iter().find_map(|seen| match &seen.what {
        KernelLog::OomKill {
            constraint,
            oom_memcg,
            pid: named,
            ..
        } if *named == pid && seen.time.since(victim.time).abs() < 10_000_000_000 => {
            Some((parse(constraint), oom_memcg.clone()))
        }
        _ => None,
    })
}

fn parse(constraint: &str) -> Constraint {
    match constraint {
        "CONSTRAINT_MEMCG" => Constraint::Memcg,
        "CONSTRAINT_NONE" => Constraint::Global,
        "CONSTRAINT_CPUSET" => Constraint::Cpuset,
        "CONSTRAINT_MEMORY_POLICY" => Constraint::Mempolicy,
        _ => Constraint::Unknown,
    }
}

fn name(constraint: Constraint) -> Option<String> {
    let name = match constraint {
        Constraint::Memcg => "memcg",
        Constraint::Global => "none",
        Constraint::Cpuset => "cpuset",
        Constraint::Mempolicy => "mempolicy",
        Constraint::Asked => "sysrq",
        Constraint::Unknown => return None,
    };
    Some(name.to_owned())
}

fn by_stack(stack: &[String]) -> Option<Constraint> {
    let has = |name: &str| stack.iter().any(|frame| frame.starts_with(name));
    if stack.is_empty() {
        None
    } else if has("mem_cgroup_out_of_memory") {
        Some(Constraint::Memcg)
    } else if has("moom_callback") {
        Some(Constraint::Asked)
    } else if has("out_of_memory") {
        Some(Constraint::Global)
    } else {
        None
    }
}

/// The level whose limit was hit: charging goes from a cgroup up and stops at the first that is full, so the lowest
/// full one that the invoker is in too. Counters lag by a batch per CPU, and a victim before may just have given its memory
/// back: where one level alone has a limit, it was that one, if it was a cgroup at all.
fn fullest(levels: &[CgroupLevel], constraint: Constraint) -> Option<&CgroupLevel> {
    let limited = || {
        levels
            .iter()
            .filter(|level| level.shared_with_invoker && level.limit.is_some())
    };
    let full = limited().find(|level| {
        let limit = level.limit.map_or(0, |limit| limit.0);
        level.usage.0 + (limit / 50).min(16 << 20) >= limit
    });
    let alone = || limited().next().filter(|_| limited().count() == 1);
    full.or_else(|| alone().filter(|_| constraint == Constraint::Memcg))
}

/// What was being charged, by the functions between the fault or call and the charge.
fn charging(stack: &[String]) -> Option<&'static str> {
    let has = |names: &[&str]| {
        stack
            .iter()
            .any(|frame| names.iter().any(|name| frame.starts_with(name)))
    };
    if has(&["shmem_", "memfd_"]) {
        Some("shared memory")
    } else if has(&[
        "do_anonymous_page",
        "do_wp_page",
        "wp_page_copy",
        "do_cow_fault",
        "alloc_anon_folio",
        "do_swap_page",
        "do_huge_pmd_",
    ]) {
        Some("anonymous memory")
    } else if has(&[
        "filemap_",
        "__filemap_",
        "page_cache_",
        "generic_perform_write",
        "do_read_fault",
        "ext4_",
        "xfs_",
    ]) {
        Some("page cache")
    } else if has(&[
        "obj_cgroup_charge",
        "__memcg_kmem",
        "memcg_charge_kernel",
        "__memcg_slab",
        "kmem_cache_alloc",
        "__vmalloc",
        "alloc_thread_stack",
    ]) {
        Some("kernel memory")
    } else {
        None
    }
}
