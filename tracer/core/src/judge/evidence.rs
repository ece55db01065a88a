//! Gathers the evidence of one death: every observation that bears on it, in order of time.

use libc::{SI_KERNEL, SI_TIMER, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};

use crate::{
    event::{Interference, KernelLog, OomVictim, RayLog, ShortOf, Signal, Source, Way},
    ids::{BootTime, MINUTE_NS, SECOND_NS},
    judge::{
        fatal_act::{self, Fate},
        query::oom::{self, Basis},
        report::Evidence,
        state::{
            interferences::Act,
            timestamped::{ExitSeen, Timestamped},
            world::World,
        },
        verdict::Draft,
    },
    kernel_log::xid,
    ray::{facts::RayFact, log, tool},
    signals,
};

/// At most this many signals are shown. A storm proves nothing more.
const MAX_SIGNALS: usize = 12;
/// At most this many processes that traced it or wrote into its memory are shown.
const MAX_ACTS: usize = 4;
/// Signals that stop or continue a process by default. They never end it.
const STOPS: [i32; 5] = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT];
/// At most this many of Ray's log lines about one process are shown.
const MAX_LOG_LINES: usize = 8;
/// A process that shares a victim's memory is killed within this time.
const SHARED_NS: i64 = 5 * SECOND_NS;
/// The kernel log may be off by this much. Its clock stops in suspend, and it is read a little
/// late.
const KERNEL_LOG_NS: i64 = 10 * SECOND_NS;
/// How long before the end of a process an error of its GPU may lie.
///
/// CUDA tells a process of an error at its next call. If the process ends later than this,
/// something else ended it. The range begins below 0 because the log's clock may be ahead. It
/// leaves out what the driver writes when it tears down the work of a dead process (Xid 45).
const XID_NS: std::ops::Range<i64> = -SECOND_NS / 10..MINUTE_NS;
/// Only the first errors of a GPU are shown. The others follow from them.
const MAX_XIDS: usize = 4;

/// Returns the count of a cgroup that shows an OOM kill, if nothing else does.
fn counted(world: &World, exit: &ExitSeen, draft: &Draft) -> Option<(BootTime, String)> {
    if !draft.killer.is_kernel_oom() || oom_was_seen(world, exit) {
        return None;
    }
    let counted = oom::from_counts(world, exit)?;
    let (before, after) = counted.kills;
    let what = format!("oom_kill of {} rose from {before} to {after}", counted.path);
    Some((counted.time, what))
}

/// Whether the kernel's own word on an OOM kill was seen.
fn oom_was_seen(world: &World, exit: &ExitSeen) -> bool {
    let mut marks = world.victims.iter();
    marks.any(|seen| seen.what.victim.same(exit.exit.process))
        || oom::from_kernel_log(world, exit.exit.process, exit.time).is_some()
}

/// Gathers all evidence for the death of `exit`.
pub(super) fn gather(world: &World, exit: &ExitSeen, draft: &Draft) -> Vec<Evidence> {
    let mut found: Vec<(BootTime, Evidence)> = Vec::new();
    let mut add = |time: BootTime, source: String, what: String| {
        found.push((
            time,
            Evidence {
                time: world.clock.wall(time),
                source,
                what,
                by_sender: false,
            },
        ));
    };
    for seen in world
        .delivered
        .get(&exit.exit.process.truncated())
        .into_iter()
        .flatten()
        .take(2)
    {
        add(
            seen.time,
            "kernel".into(),
            format!("{} delivered, default action", signals::name(seen.what.0)),
        );
    }
    for seen in &world.victims {
        let own = seen.what.victim.same(exit.exit.process);
        // The kernel reuses the address of a dead process's mm.
        let shared = exit.exit.mm != 0
            && seen.what.mm == exit.exit.mm
            && exit.exit.process.start <= seen.time
            && (0..SHARED_NS).contains(&exit.time.since(seen.time));
        if own || shared {
            // A mark may have no kill that belongs to it.
            let killed = seen.what.signalled || draft.oom.is_some();
            let mut text = victim_text(seen, own, killed);
            if killed {
                text += &limit_text(world, seen);
            }
            add(seen.time, "kernel".into(), text);
        }
    }
    for seen in &world.kernel_log {
        if exit.time.since(seen.time).abs() < KERNEL_LOG_NS
            && let Some(text) = kernel_log_text(&seen.what, exit.exit.process.pid.0)
        {
            add(seen.time, "kmsg".into(), text);
        }
    }
    let told = world
        .kernel_log
        .iter()
        .filter(|seen| is_xid_before(world, exit, seen));
    for seen in told.take(MAX_XIDS) {
        if let Some(text) = xid_text(&seen.what) {
            add(seen.time, "kmsg".into(), text);
        }
    }
    if let Some((time, what)) = counted(world, exit, draft) {
        add(time, "cgroup".into(), what);
    }
    let about = world.ray_about(exit.exit.process);
    let telling = about.iter().filter(|record| {
        let bears_on_it = !matches!(
            record.what.fact,
            RayFact::WorkerStarted { .. } | RayFact::Marker { .. } | RayFact::Configuration { .. }
        );
        // The last line that a worker printed may be just a brace.
        bears_on_it && record.what.text.chars().any(char::is_alphanumeric)
    });
    let telling = telling.copied().take(MAX_LOG_LINES);
    for record in telling.chain(cluster_lines(world, exit, draft)) {
        add(
            record.time,
            record.what.file.clone(),
            log::marked(&record.what.text),
        );
    }
    if !exit.is_pending() {
        add(exit.time, source(exit.source).into(), exit_text(exit));
    }
    if exit.exit.unrecorded == Some(true) {
        let text = "not every signal to it, or act of a tracer or writer on it, was recorded";
        add(exit.time, "kernel".into(), text.into());
    }
    if let Some(tracer) = fatal_act::tracer(exit, &fatal_act::of(world, exit)) {
        let text = format!("was being traced by pid {} ({})", tracer.pid, tracer.comm);
        add(exit.time, "kernel".into(), text);
    }
    found.extend(interferences(world, exit));
    found.extend(signals(world, exit, draft));
    found.sort_by_key(|(time, _)| *time);
    found.into_iter().map(|(_, evidence)| evidence).collect()
}

/// Returns who traced the process or wrote into its memory: the last act of each process and way.
/// The tracer that was there at the end has a line of its own.
fn interferences(world: &World, exit: &ExitSeen) -> Vec<(BootTime, Evidence)> {
    let tracer = exit.exit.tracer.as_ref().map(|tracer| tracer.pid);
    let acts = world.interferences.on(exit.exit.process).iter().rev();
    let mut shown: Vec<&Timestamped<Act>> = Vec::new();
    for act in acts.filter(|act| act.time <= exit.time) {
        let Interference { by, way, .. } = &act.what.interference;
        let is_tracer = *way == Way::Ptrace && tracer == Some(by.pid);
        let is_shown = |known: &&Timestamped<Act>| {
            let known = &known.what.interference;
            known.by.same(*by) && known.way == *way
        };
        if !is_tracer && shown.len() < MAX_ACTS && !shown.iter().any(is_shown) {
            shown.push(act);
        }
    }
    let evidence = |act: &Timestamped<Act>| {
        let evidence = Evidence {
            time: world.clock.wall(act.time),
            source: "kernel".into(),
            what: interference_text(&act.what),
            by_sender: false,
        };
        (act.time, evidence)
    };
    shown.into_iter().map(evidence).collect()
}

fn interference_text(act: &Act) -> String {
    let Interference {
        by, comm, uid, way, ..
    } = &act.interference;
    let whom = if act.on_parent { "its parent" } else { "it" };
    let whose = if act.on_parent { "its parent's" } else { "its" };
    let what = match way {
        Way::Ptrace => format!("traced {whom} (ptrace)"),
        Way::ProcMem => format!("wrote into {whose} memory, or tried to (/proc/PID/mem)"),
        Way::ProcessVmWritev => {
            format!("opened {whose} memory in order to write (process_vm_writev)")
        }
    };
    let pid = by.pid;
    format!(
        "{comm} (pid {pid}, uid {uid}) {what}: what the process then did may not be its own act"
    )
}

/// Returns the first signals that the process received, and the one from the sender that the
/// verdict names.
fn signals(world: &World, exit: &ExitSeen, draft: &Draft) -> Vec<(BootTime, Evidence)> {
    let sent = draft.sender.as_ref().and_then(|sender| sender.signal);
    let by_sender = |seen: &Timestamped<Signal>| {
        draft.sent_at == Some(seen.time) && sent == Some(seen.what.signal)
    };
    let all = world.signals_to(exit.exit.process).iter().enumerate();
    all.filter(|(place, seen)| *place < MAX_SIGNALS || by_sender(seen))
        .map(|(_, seen)| {
            let evidence = Evidence {
                time: world.clock.wall(seen.time),
                source: "kernel".into(),
                what: signal_text(world, exit, seen),
                by_sender: by_sender(seen),
            };
            (seen.time, evidence)
        })
        .collect()
}

/// Returns lines about the whole node that a collapse rests on.
fn cluster_lines<'a>(
    world: &'a World,
    exit: &ExitSeen,
    draft: &Draft,
) -> Vec<&'a Timestamped<RayLog>> {
    use crate::judge::report::Killer;
    if !matches!(draft.killer, Killer::RayCollapse | Killer::RayIntended) {
        return Vec::new();
    }
    let cluster = world
        .processes
        .get(exit.exit.process)
        .and_then(|state| state.cluster);
    let Some(raylet) = cluster else {
        return Vec::new();
    };
    let telling = |record: &&Timestamped<RayLog>| {
        (-SECOND_NS..MINUTE_NS).contains(&exit.time.since(record.time))
            && matches!(
                record.what.fact,
                RayFact::AgentFailed { .. }
                    | RayFact::RayletSigterm
                    | RayFact::RayletShutdown { .. }
                    | RayFact::RayletMarkedDead { .. }
            )
    };
    world
        .ray_of_cluster(raylet)
        .filter(telling)
        .take(3)
        .collect()
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Kernel => "kernel",
        Source::Kmsg => "kmsg",
        Source::Pidfd => "pidfd",
        Source::Proc => "proc",
        Source::Cgroup => "cgroup",
        Source::RayLog => "ray log",
        Source::WorkerLog => "worker log",
        Source::Nvml => "nvml",
        Source::Gcs => "gcs",
        Source::Recorder => "recorder",
    }
}

fn signal_text(world: &World, exit: &ExitSeen, seen: &Timestamped<Signal>) -> String {
    let signal = &seen.what;
    let sender = &signal.sender;
    let from = match signal.code {
        SI_KERNEL => format!(
            "from the kernel (si_code 128) while {} (pid {}) was running",
            sender.comm, sender.process.pid
        ),
        SI_TIMER => format!(
            "from its own timer (si_code -2) while {} (pid {}) was running",
            sender.comm, sender.process.pid
        ),
        code => format!(
            "from {} (pid {}), si_code {code}",
            sender.comm, sender.process.pid
        ),
    };
    let effect = match signal.result {
        _ if signal.took_effect => "took effect",
        0 | 4 if signal.group_exit => "the process was already exiting",
        0 | 4 if fatal_act::fate(world, exit.exit.process, seen) == Fate::Pending => {
            "blocked, and still pending at the end: no thread took it"
        }
        0 | 4 if signals::dumps_core(signal.signal) => {
            "delivered; the process handles or blocks it, or dumps core"
        }
        0 | 4 if STOPS.contains(&signal.signal) => "delivered",
        0 | 4 if fatal_act::fate(world, exit.exit.process, seen) == Fate::TakenWhileBlocked => {
            "taken, though blocked at the end (sigwait, a signalfd, or another thread)"
        }
        0 | 4 => "delivered; the process handles or blocks it",
        1 => "ignored",
        2 => "dropped: the same signal was already pending",
        _ => "lost",
    };
    let shown = (!sender.exec_seen).then(|| tool::shown(&sender.argv));
    let shown = shown.flatten().map_or_else(String::new, |command| {
        format!("; its command line says `{command}`, but raytrace did not see it start")
    });
    format!("{} {from}{shown}: {effect}", signals::name(signal.signal))
}

/// Says by what it is known which cgroup was at its limit, if not by the kernel log alone.
fn limit_text(world: &World, seen: &Timestamped<OomVictim>) -> String {
    let path = |level| seen.what.path(level).unwrap_or("with an unknown path");
    match oom::from_mark(world, seen).limit {
        Basis::OnlyEvents(level) => format!(
            "; of its cgroups, only {} had met its own limit since the last OOM kill",
            path(level)
        ),
        Basis::OnlyLimit(level) => {
            format!("; of its cgroups, only {} has a limit", path(level))
        }
        Basis::Kernel => called_for(&seen.what),
        Basis::Nothing => String::new(),
    }
}

/// Names the cgroup for which the kernel's `out_of_memory` was called, if that was seen.
fn called_for(victim: &OomVictim) -> String {
    let Some(ShortOf::Cgroup { id }) = victim.short_of else {
        return String::new();
    };
    let level = victim.cgroups.iter().find(|level| level.id == id);
    let path = level.and_then(|level| victim.path(level));
    path.map_or_else(String::new, |path| {
        format!("; out_of_memory was called for {path}")
    })
}

fn victim_text(seen: &Timestamped<OomVictim>, own: bool, killed: bool) -> String {
    let what = &seen.what;
    let who = if own {
        "marked as the OOM victim".to_owned()
    } else {
        format!(
            "pid {}, which shares its memory, was marked as the OOM victim",
            what.victim.pid
        )
    };
    let dying = if killed {
        ""
    } else {
        "; the kernel sent no signal: it was already exiting"
    };
    // `moom_callback` does what `echo f > /proc/sysrq-trigger` asks for.
    let by_hand = what
        .stack
        .iter()
        .any(|frame| frame.starts_with("moom_callback"))
        || what.short_of == Some(ShortOf::ByHand);
    let doing = if by_hand {
        "ran the OOM killer for sysrq f"
    } else {
        "was allocating memory"
    };
    let invoker = format!("{} (pid {}) {doing}", what.invoker_comm, what.invoker.pid);
    let kind = what.stack.iter().find(|frame| {
        frame.starts_with("mem_cgroup_out_of_memory") || frame.starts_with("out_of_memory")
    });
    let kind = kind.map_or_else(String::new, |frame| format!(" in {frame}"));
    format!("{who}{kind}; {invoker}{dying}")
}

fn kernel_log_text(line: &KernelLog, pid: u32) -> Option<String> {
    match line {
        KernelLog::OomKill {
            constraint,
            oom_memcg,
            task_memcg,
            comm,
            pid: named,
            ..
        } if named.0 == pid => Some(format!(
            "oom-kill:constraint={constraint},oom_memcg={},task_memcg={},task={comm},pid={pid}",
            oom_memcg.as_deref().unwrap_or("-"),
            task_memcg.as_deref().unwrap_or("-"),
        )),
        KernelLog::Killed {
            pid: named,
            comm,
            anon,
            file,
            shmem,
            ..
        } if named.0 == pid => Some(format!(
            "Killed process {pid} ({comm}) anon-rss:{}kB file-rss:{}kB shmem-rss:{}kB",
            anon.0 / 1024,
            file.0 / 1024,
            shmem.map_or(0, |bytes| bytes.0 / 1024),
        )),
        KernelLog::Fault {
            pid: named, text, ..
        } if named.0 == pid => Some(text.clone()),
        _ => None,
    }
}

/// Whether a line reports a GPU error in the work of the process, while it lived and shortly before
/// its end.
fn is_xid_before(world: &World, exit: &ExitSeen, seen: &Timestamped<KernelLog>) -> bool {
    let KernelLog::Xid { pid: Some(pid), .. } = &seen.what else {
        return false;
    };
    let process = exit.exit.process;
    *pid == process.pid
        && world.has_kernel_log_pids()
        && XID_NS.contains(&exit.time.since(seen.time))
        && seen.time.since(process.start) > XID_NS.start
}

fn xid_text(line: &KernelLog) -> Option<String> {
    let KernelLog::Xid {
        gpu, code, text, ..
    } = line
    else {
        return None;
    };
    let meaning = xid::meaning(*code).map_or_else(String::new, |words| format!(" ({words})"));
    Some(format!(
        "NVIDIA's driver: Xid {code}{meaning} on GPU {gpu}: {text}"
    ))
}

fn exit_text(exit: &ExitSeen) -> String {
    let late = if exit.exit.harvested {
        " (read later from a table in the kernel: the ring buffer was full)"
    } else {
        ""
    };
    if exit.source == Source::Proc {
        let status = match (exit.exit.signal(), exit.exit.code()) {
            (Some(signal), _) => format!(": killed by {}", signals::name(signal)),
            (None, Some(code)) => format!(": exited with code {code}"),
            (None, None) => String::new(),
        };
        return format!("missing from /proc{status}; the kernel's event of its exit was lost");
    }
    match (exit.exit.signal(), exit.exit.code()) {
        (Some(signal), _) => format!("killed by {}{late}", signals::name(signal)),
        (None, Some(code)) => format!("exited with code {code}{late}"),
        (None, None) => "missing from /proc; its exit status could not be read".into(),
    }
}
