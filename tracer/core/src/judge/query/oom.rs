//! Finds what an OOM kill was about: which limit, which cgroup, what was being charged.
//!
//! The argument of `out_of_memory` says which cgroup was at its limit. Where it was not seen, the
//! kernel log says it, but that is rate-limited, and what remains is a guess from the counts of the
//! victim's cgroups. The kernel stack at `mark_victim` names the charge.

use crate::{
    cgroup_path::{self, is_within},
    event::{CgroupLevel, CgroupState, Exit, KernelLog, OomVictim, ShortOf},
    ids::{BootTime, Bytes, ProcessKey, SECOND_NS},
    judge::{
        cause::{KernelOom, Scope},
        report::{Certainty, OomReport},
        state::{
            timestamped::{ExitSeen, Timestamped},
            world::World,
        },
    },
};

/// How long a task may wait for the kernel's `oom_lock`. It is held while a kill is printed on the
/// console, which takes up to seconds.
const LOCK_WAIT_NS: i64 = 10 * SECOND_NS;

/// Returns the cause for an OOM kill.
pub(crate) fn cause(report: &OomReport) -> KernelOom {
    KernelOom {
        fix: None,
        scope: report.constraint,
        cgroup: report.cgroup.clone(),
        limit_bytes: report.limit_bytes,
        charged: report.charging.clone(),
        invoker: report.invoker_comm.clone(),
        reported_by: None,
    }
}

/// An OOM kill that was marked.
pub(crate) struct Marked<'a> {
    pub(crate) report: OomReport,
    /// By what the limit that was hit is known.
    pub(crate) limit: Basis<'a>,
}

/// By what it is known which cgroup was at its limit.
#[derive(Clone, Copy)]
pub(crate) enum Basis<'a> {
    /// The kernel said it: in the argument of `out_of_memory`, or in its log. Or it was no cgroup.
    Kernel,
    /// Only this one of the victim's cgroups met its own limit.
    OnlyEvents(&'a CgroupLevel),
    /// Only this one of the victim's cgroups has a limit.
    OnlyLimit(&'a CgroupLevel),
    /// It is not known.
    Nothing,
}

impl Basis<'_> {
    /// Returns how sure the limit is.
    pub(crate) fn certainty(self) -> Certainty {
        match self {
            Self::Kernel => Certainty::Proven,
            Self::OnlyEvents(_) | Self::OnlyLimit(_) => Certainty::Inferred,
            Self::Nothing => Certainty::Unknown,
        }
    }
}

/// Returns the context from the mark itself.
pub(crate) fn from_mark<'a>(world: &'a World, victim: &'a Timestamped<OomVictim>) -> Marked<'a> {
    let what = &victim.what;
    let logged = logged(world, victim);
    let constraint = match (what.short_of, &logged, by_stack(&what.stack)) {
        (Some(short_of), ..) => Some(Scope::of(short_of)),
        (None, _, Some(Scope::Sysrq)) => Some(Scope::Sysrq),
        (None, Some((constraint, _)), _) => *constraint,
        (None, None, by_stack) => by_stack,
    };
    let logged = logged.and_then(|(_, path)| path);
    let (level, limit) = if constraint == Some(Scope::Memcg) {
        limiting(world, victim, logged.as_deref())
    } else {
        (None, Basis::Kernel)
    };
    let path = level.and_then(|level| what.path(level)).map(str::to_owned);
    let report = OomReport {
        constraint,
        cgroup: path.or(logged.filter(|_| constraint == Some(Scope::Memcg))),
        limit_bytes: level.and_then(|level| level.limit),
        usage_bytes: level.map(|level| level.usage),
        task_cgroup: what
            .cgroups
            .first()
            .and_then(|own| what.path(own))
            .map(str::to_owned),
        charging: charging(&what.stack).map(str::to_owned),
        invoker_pid: Some(what.invoker.pid),
        invoker_comm: Some(what.invoker_comm.clone()),
        score_adj: Some(what.score_adj),
    };
    Marked { report, limit }
}

/// Returns the cgroups of which one was at its limit when a process was killed: the one that the
/// kernel named, or all that may have been.
pub(crate) fn may_be_full(world: &World, exit: &Exit, time: BootTime) -> Vec<String> {
    let is_its = |seen: &&Timestamped<OomVictim>| {
        seen.what.victim.same(exit.process) || exit.mm != 0 && seen.what.mm == exit.mm
    };
    let Some(mark) = world.victims.iter().rev().find(is_its) else {
        let logged = from_kernel_log(world, exit.process, time);
        return logged
            .and_then(|report| report.cgroup)
            .into_iter()
            .collect();
    };
    let Marked { report, limit } = from_mark(world, mark);
    let with_a_limit = |level: &&CgroupLevel| level.limit.is_some();
    let levels = || mark.what.cgroups.iter().filter(with_a_limit);
    match (report.constraint, limit, report.cgroup) {
        (Some(Scope::Memcg), Basis::Kernel, Some(named)) => vec![named],
        (Some(Scope::Memcg), ..) => levels()
            .filter_map(|level| mark.what.path(level).map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the context from the kernel log alone, if the mark was not seen.
pub(crate) fn from_kernel_log(
    world: &World,
    process: ProcessKey,
    time: BootTime,
) -> Option<OomReport> {
    let pid = process.pid;
    if !world.has_kernel_log_pids() {
        return None;
    }
    let near = |seen: &&Timestamped<KernelLog>| may_be_about(seen, process, time);
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

/// How near its limit a cgroup was, as a fraction of it, if it was at it: samples are up to a
/// second old, and pages are charged in batches.
const FULL: f64 = 0.99;
/// A count that rises within this time after the end of a process belongs to it.
const COUNTED_NS: i64 = 3 * SECOND_NS;

/// An OOM kill that the count of a cgroup shows.
pub(crate) struct Counted {
    pub(crate) report: OomReport,
    /// The cgroup, and its count before and after.
    pub(crate) path: String,
    pub(crate) kills: (u64, u64),
    /// When the higher count was read.
    pub(crate) time: BootTime,
}

/// Returns the context from the count of kills in the process's cgroup (`oom_kill` of
/// `memory.oom_control` or `memory.events`), where no signal and no kernel log is seen.
///
/// It has as many victims as it rose. Where SIGKILL ended more processes at that time, its victims
/// are those that held most and ended first; if these are not the same ones, it is not known which
/// they are. The count rises when the machine is full too, so the cgroup was at its limit only if
/// it was full.
pub(crate) fn from_counts(world: &World, exit: &ExitSeen) -> Option<Counted> {
    let path = world.processes.get(exit.exit.process)?.cgroup.clone()?;
    let samples = world.cgroups.get(&path)?;
    let counts = samples
        .iter()
        .filter_map(|seen| Some((seen.time, seen.what.oom_kills?)));
    let counts: Vec<(BootTime, u64)> = counts.collect();
    let is_near = |time: BootTime, (from, until): (BootTime, BootTime)| {
        time >= from && time.since(until).abs() <= COUNTED_NS
    };
    let rise = counts
        .windows(2)
        .find(|pair| pair[1].1 > pair[0].1 && is_near(exit.time, (pair[0].0, pair[1].0)))?;
    let ((from, before), (until, after)) = (rise[0], rise[1]);
    let is_rival = |other: &&ExitSeen| {
        let state = world.processes.get(other.exit.process);
        other.id != exit.id
            && other.exit.signal() == Some(libc::SIGKILL)
            && is_near(other.time, (from, until))
            && is_within(state.and_then(|state| state.cgroup.as_deref()), &path)
    };
    let held = |one: &ExitSeen| {
        let state = world.processes.get(one.exit.process);
        state.and_then(|state| state.memory?.1.private())
    };
    let rivals = || world.exits.values().map(AsRef::as_ref).filter(is_rival);
    let larger = rivals().filter(|one| held(one) >= held(exit)).count();
    let earlier = rivals().filter(|one| one.time < exit.time).count();
    if larger.max(earlier) as u64 >= after - before {
        return None;
    }
    let (cgroup, limit) = full_before(world, &path, until).unzip();
    Some(Counted {
        report: OomReport {
            limit_bytes: limit,
            ..logged_context(
                cgroup.is_some().then_some(Scope::Memcg),
                cgroup,
                Some(path.clone()),
            )
        },
        path,
        kills: (before, after),
        time: until,
    })
}

/// Returns the innermost cgroup of a path that was full before a time, and its limit.
fn full_before(world: &World, path: &str, until: BootTime) -> Option<(String, Bytes)> {
    cgroup_path::with_those_above(path).find_map(|path| {
        let recent = world.cgroups.get(path)?.iter().rev();
        let mut recent = recent
            .skip_while(|seen| seen.time > until)
            .take_while(|seen| until.since(seen.time) <= COUNTED_NS);
        let is_full = |state: &CgroupState| {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a comparison within one percent"
            )]
            let full = |limit: Bytes| state.usage.0 as f64 >= limit.0 as f64 * FULL;
            state.limit.filter(|limit| full(*limit))
        };
        let limit = recent.find_map(|seen| is_full(&seen.what))?;
        Some((path.to_owned(), limit))
    })
}

fn logged_context(
    constraint: Option<Scope>,
    cgroup: Option<String>,
    task: Option<String>,
) -> OomReport {
    OomReport {
        constraint,
        cgroup,
        task_cgroup: task,
        ..OomReport::default()
    }
}

/// Returns what the kernel log says of this very kill: same pid, within seconds (its clock is not
/// ours), and the nearest such line. An earlier process may have had the pid.
fn logged(
    world: &World,
    victim: &Timestamped<OomVictim>,
) -> Option<(Option<Scope>, Option<String>)> {
    let process = victim.what.victim;
    let lines = world.kernel_log.iter();
    let lines = lines.filter(|seen| may_be_about(seen, process, victim.time));
    let kills = lines.filter_map(|seen| match &seen.what {
        KernelLog::OomKill {
            constraint,
            oom_memcg,
            pid: named,
            ..
        } if *named == process.pid => {
            let away = seen.time.since(victim.time).abs();
            Some((away, (Scope::parse(constraint), oom_memcg.clone())))
        }
        _ => None,
    });
    kills.min_by_key(|(away, _)| *away).map(|(_, said)| said)
}

/// Returns whether a line may be about what happened to this process at a time. One that is older
/// than the process is about an earlier one with its pid.
fn may_be_about(line: &Timestamped<KernelLog>, process: ProcessKey, time: BootTime) -> bool {
    line.time.since(time).abs() < 10 * SECOND_NS && line.time >= process.truncated().start
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

/// Returns the level whose limit was hit, and by what that is known. `logged` is its path in the
/// kernel log.
///
/// How full a group is says nothing: an earlier victim may just have given its memory back, and a
/// group below the one that was hit may be as full.
fn limiting<'a>(
    world: &World,
    victim: &'a Timestamped<OomVictim>,
    logged: Option<&str>,
) -> (Option<&'a CgroupLevel>, Basis<'a>) {
    let what = &victim.what;
    let with_path = || what.cgroups.iter().find(|one| what.path(one) == logged);
    if let Some(ShortOf::Cgroup { id }) = what.short_of {
        let level = what.cgroups.iter().find(|level| level.id == id && id != 0);
        let is_known = level.is_some() || logged.is_some();
        let basis = if is_known {
            Basis::Kernel
        } else {
            Basis::Nothing
        };
        return (level, basis);
    }
    if logged.is_some() {
        return (with_path(), Basis::Kernel);
    }
    // The one that was hit may be above those that were read.
    let levels = what.cgroups.iter().filter(|_| what.has_all_cgroups());
    let met_its_limit =
        |level: &&CgroupLevel| level.oom_events > oom_events_before(world, level.id, victim.time);
    if let Some(level) = only(levels.clone().filter(met_its_limit)) {
        return (Some(level), Basis::OnlyEvents(level));
    }
    match only(levels.filter(|level| level.limit.is_some())) {
        Some(level) => (Some(level), Basis::OnlyLimit(level)),
        None => (None, Basis::Nothing),
    }
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// Returns how often a cgroup had met its own limit by an earlier OOM kill. A task that raised the
/// count may then have waited for `oom_lock`, and kill only now, so a recent reading does not count.
fn oom_events_before(world: &World, id: u64, time: BootTime) -> u64 {
    let earlier = world
        .victims
        .iter()
        .filter(|seen| time.since(seen.time) > LOCK_WAIT_NS);
    let levels = earlier.flat_map(|seen| &seen.what.cgroups);
    let counts = levels
        .filter(|level| level.id == id && id != 0)
        .map(|level| level.oom_events);
    counts.max().unwrap_or(0)
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
