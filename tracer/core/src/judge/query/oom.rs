//! Finds what an OOM kill was about: which limit, which cgroup, what was being charged.
//!
//! The kernel stack at `mark_victim` tells a full cgroup from a full machine, and names the charge.
//! The victim's own memory cgroups and their use tell which limit it was. The kernel log, which is
//! rate-limited, only confirms.

use crate::{
    event::{CgroupLevel, KernelLog, OomVictim},
    ids::{Pid, SECOND_NS},
    judge::{
        cause::{KernelOom, Scope},
        report::OomReport,
        state::{
            timestamped::{ExitSeen, Timestamped},
            world::World,
        },
    },
};

/// Returns the cause for an OOM kill.
pub(in crate::judge) fn cause(report: &OomReport) -> KernelOom {
    KernelOom {
        scope: report.constraint,
        cgroup: report.cgroup.clone(),
        limit_bytes: report.limit_bytes,
        charged: report.charging.clone(),
        invoker: report.invoker_comm.clone(),
        reported_by: None,
    }
}

/// Returns the context from the mark itself.
pub(in crate::judge) fn from_mark(world: &World, victim: &Timestamped<OomVictim>) -> OomReport {
    let what = &victim.what;
    let logged = logged(world, what.victim.pid, victim);
    let constraint = match (&logged, by_stack(&what.stack)) {
        (_, Some(Scope::Sysrq)) => Some(Scope::Sysrq),
        (Some((constraint, _)), _) => *constraint,
        (None, by_stack) => by_stack,
    };
    let limiting = match &logged {
        Some((_, Some(path))) => what.cgroups.iter().find(|level| level.path == *path),
        _ => None,
    };
    let memcg = matches!(constraint, Some(Scope::Memcg) | None);
    let full = || memcg.then(|| fullest(&what.cgroups, constraint)).flatten();
    let limiting = limiting.or_else(full);
    OomReport {
        constraint,
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
    }
}

/// Returns the context from the kernel log alone, if the mark was not seen.
pub(in crate::judge) fn from_kernel_log(world: &World, exit: &ExitSeen) -> Option<OomReport> {
    if !world.has_kernel_log_pids() {
        return None;
    }
    let pid = exit.exit.process.pid;
    let near = |seen: &&Timestamped<KernelLog>| exit.time.since(seen.time).abs() < 10 * SECOND_NS;
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
                let constraint = Scope::parse(constraint);
                context = Some(logged_context(
                    constraint,
                    oom_memcg.clone(),
                    task_memcg.clone(),
                ));
            }
            KernelLog::Killed {
                pid: named, memcg, ..
            } if *named == pid && context.is_none() => {
                let scope = if *memcg { Scope::Memcg } else { Scope::Global };
                context = Some(logged_context(Some(scope), None, None));
            }
            _ => {}
        }
    }
    context
}

fn logged_context(
    constraint: Option<Scope>,
    cgroup: Option<String>,
    task: Option<String>,
) -> OomReport {
    OomReport {
        constraint,
        cgroup,
        limit_bytes: None,
        usage_bytes: None,
        task_cgroup: task,
        charging: None,
        invoker_pid: None,
        invoker_comm: None,
        score_adj: None,
    }
}

/// Returns what the kernel log says of this very kill: same pid, within seconds (its clock is not
/// ours).
fn logged(
    world: &World,
    pid: Pid,
    victim: &Timestamped<OomVictim>,
) -> Option<(Option<Scope>, Option<String>)> {
    world.kernel_log.iter().find_map(|seen| match &seen.what {
        KernelLog::OomKill {
            constraint,
            oom_memcg,
            pid: named,
            ..
        } if *named == pid && seen.time.since(victim.time).abs() < 10 * SECOND_NS => {
            Some((Scope::parse(constraint), oom_memcg.clone()))
        }
        _ => None,
    })
}

fn by_stack(stack: &[String]) -> Option<Scope> {
    let has = |name: &str| stack.iter().any(|frame| frame.starts_with(name));
    if stack.is_empty() {
        None
    } else if has("mem_cgroup_out_of_memory") {
        Some(Scope::Memcg)
    } else if has("moom_callback") {
        Some(Scope::Sysrq)
    } else if has("out_of_memory") {
        Some(Scope::Global)
    } else {
        None
    }
}

/// Returns the level whose limit was hit.
///
/// A charge goes from a cgroup upwards and stops at the first full one. So the limit is that of the
/// lowest full level that the invoker is in too. Counters lag by a batch per CPU, and an earlier
/// victim may just have given its memory back. So if only one level has a limit, it was that one,
/// provided that it was a cgroup's limit.
fn fullest(levels: &[CgroupLevel], constraint: Option<Scope>) -> Option<&CgroupLevel> {
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
    full.or_else(|| alone().filter(|_| constraint == Some(Scope::Memcg)))
}

/// Returns what was being charged, by the functions between the fault or call and the charge.
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
