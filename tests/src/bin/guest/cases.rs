//! The cases: each stages one kind of death and writes down what it was.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::stage::{Actor, Cgroup, Stage, children, start_ticks};

/// One case. It is given the label of the death that it stages.
type Case = fn(&mut Stage, &str) -> Result<()>;

/// In this order: swap is late because it stays on, and the clock is last because it stamps
/// everything.
pub(crate) const CASES: [(&str, Case); 34] = [
    ("exit_3", |stage, label| {
        exits(stage, label, &["exit", "3"], 3)
    }),
    ("leader_exits_first", |stage, label| {
        exits(stage, label, &["leader-exits", "7"], 7)
    }),
    ("thread_execs", |stage, label| {
        exits(stage, label, &["thread-execs", "5"], 5)
    }),
    ("fault", |stage, label| {
        ends(stage, label, &["fault"], "crash", 11)
    }),
    ("abort", |stage, label| {
        ends(stage, label, &["abort"], "crash", 6)
    }),
    ("bus_error", |stage, label| {
        ends(stage, label, &["bus-error"], "crash", 7)
    }),
    ("address_space", |stage, label| {
        ends(stage, label, &["address-space"], "crash", 6)
    }),
    ("seccomp", seccomp),
    ("alarm", |stage, label| {
        ends(stage, label, &["alarm"], "kernel-other", 14)
    }),
    ("hard_cpu_limit", hard_cpu_limit),
    ("kill_9", |stage, label| killed(stage, label, &["sleep"], 9)),
    ("kill_9_of_40_threads", |stage, label| {
        killed(stage, label, &["threads", "40"], 9)
    }),
    ("kill_15", |stage, label| {
        killed(stage, label, &["sleep"], 15)
    }),
    ("kill_9_in_a_core_dump", killed_in_a_core_dump),
    ("ptrace_signal", ptrace_signal),
    ("ptrace_exit_kill", ptrace_exit_kill),
    ("traced_before", |stage, label| {
        interfered(stage, label, "attach")
    }),
    ("traced_before_without_sigchld", |stage, label| {
        interfered(stage, label, "seize")
    }),
    ("proc_mem", |stage, label| interfered(stage, label, "mem")),
    ("process_vm_writev", |stage, label| {
        interfered(stage, label, "vm")
    }),
    ("stopped_then_continued", stopped_then_continued),
    ("cgroup_kill", cgroup_kill),
    ("pid_namespace", pid_namespace),
    ("memcg", memcg),
    ("memcg_shared_memory", memcg_shared_memory),
    ("nested_outer", |stage, label| {
        nested(stage, label, 24, None)
    }),
    ("nested_inner", |stage, label| {
        nested(stage, label, 64, Some(24))
    }),
    ("oom_group", oom_group),
    ("sysrq_f", sysrq_f),
    ("global", global),
    ("storm", storm),
    ("swap", swap),
    ("suspend", suspend),
    ("clock_step", clock_step),
];

const LIMIT: u64 = 24;

fn bytes(mib: u64) -> u64 {
    mib << 20
}

fn exits(stage: &mut Stage, label: &str, act: &[&str], code: i32) -> Result<()> {
    let mut actor = Actor::start(act, None)?;
    stage.death(
        label,
        &actor,
        "exit",
        &json!({"exit_code": code, "signal": null}),
    )?;
    actor.go()?;
    actor.exits_with(code)
}

fn ends(stage: &mut Stage, label: &str, act: &[&str], killer: &str, signal: i32) -> Result<()> {
    let mut actor = Actor::start(act, None)?;
    stage.death(
        label,
        &actor,
        killer,
        &json!({"signal": signal, "sender": null}),
    )?;
    actor.go()?;
    actor.dies_of(signal)
}

/// A BPF program could have sent the same signal in the same way.
fn hard_cpu_limit(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["hard-cpu-limit"], None)?;
    let fields = json!({"signal": 9, "sender": null, "certainty": "inferred"});
    stage.death(label, &actor, "kernel-other", &fields)?;
    actor.go()?;
    actor.dies_of(9)
}

/// Starts a process that sends `signal` and ends before anybody can look it up.
fn kill(victim: &Actor, signal: i32) -> Result<Actor> {
    Actor::start(
        &["kill", &victim.pid.to_string(), &signal.to_string()],
        None,
    )
}

fn killed(stage: &mut Stage, label: &str, act: &[&str], signal: i32) -> Result<()> {
    let mut actor = Actor::start(act, None)?;
    actor.go()?;
    std::thread::sleep(Duration::from_millis(100));
    killed_now(stage, label, &mut actor, signal)
}

fn killed_now(stage: &mut Stage, label: &str, actor: &mut Actor, signal: i32) -> Result<()> {
    let mut killer = kill(actor, signal)?;
    let sender = json!({"pid": killer.pid, "comm": "init", "mechanism": "kill"});
    stage.death(
        label,
        actor,
        "signal",
        &json!({"signal": signal, "sender": sender}),
    )?;
    killer.go()?;
    actor.dies_of(signal)?;
    killer.exits_with(0)
}

/// Stages a seccomp kill. Up to 5.13 the kernel then sends no signal that a hook could see.
fn seccomp(stage: &mut Stage, label: &str) -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let silent = ["5.10.", "5.11.", "5.12.", "5.13."]
        .iter()
        .any(|version| release.starts_with(version));
    let certainty = if silent { "inferred" } else { "proven" };
    let mut actor = Actor::start(&["seccomp"], None)?;
    let fields = json!({"signal": 31, "sender": null, "certainty": certainty});
    stage.death(label, &actor, "kernel-other", &fields)?;
    actor.go()?;
    actor.dies_of(31)
}

/// Stages a fault whose core dump is cut short by SIGKILL. The fault is the cause.
fn killed_in_a_core_dump(stage: &mut Stage, label: &str) -> Result<()> {
    let pattern = "/proc/sys/kernel/core_pattern";
    let before = fs::read_to_string(pattern)?;
    fs::write(pattern, "|/init act slow-core")?;
    let mut actor = Actor::start(&["fault"], None)?;
    stage.death(
        label,
        &actor,
        "crash",
        &json!({"says": "SIGSEGV", "sender": null}),
    )?;
    actor.go()?;
    actor.dumps_core()?;
    let mut killer = kill(&actor, 9)?;
    killer.go()?;
    // The wait status depends on the kernel's version.
    actor.dies_of_one(&[9, 11])?;
    fs::write(pattern, before)?;
    killer.exits_with(0)
}

/// Stages a tracer that replaces one signal by another. No hook sees the new signal sent.
fn ptrace_signal(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["sleep"], None)?;
    actor.go()?;
    let mut tracer = Actor::start(&["inject", &actor.pid.to_string(), "15"], None)?;
    stage.death(
        label,
        &actor,
        "unknown",
        &json!({"signal": 15, "certainty": "unknown"}),
    )?;
    tracer.go()?;
    actor.dies_of(15)?;
    tracer.exits_with(0)
}

/// Stages a traced process that the kernel ends because its tracer ends (`PTRACE_O_EXITKILL`).
fn ptrace_exit_kill(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["sleep"], None)?;
    actor.go()?;
    let mut tracer = Actor::start(&["end-with-me", &actor.pid.to_string()], None)?;
    stage.death(
        label,
        &actor,
        "kernel-other",
        &json!({"signal": 9, "says": "because its tracer"}),
    )?;
    tracer.go()?;
    tracer.exits_with(0)?;
    actor.dies_of(9)
}

/// Stages an exit that another process brings about by a write, after which it is gone.
fn interfered(stage: &mut Stage, label: &str, way: &str) -> Result<()> {
    let mut actor = Actor::start(&["wait-for-word"], None)?;
    let mut other = Actor::start(&["write-word", &actor.pid.to_string(), way], None)?;
    stage.death(
        label,
        &actor,
        "exit",
        &json!({"exit_code": 3, "signal": null, "certainty": "inferred"}),
    )?;
    actor.go()?;
    other.go()?;
    other.exits_with(0)?;
    actor.exits_with(3)
}

/// Stages a SIGTERM that waits in a stopped process until another process sends SIGCONT.
///
/// The sender of SIGCONT is not the killer. The verdict is not proven, because a tracer could have
/// replaced the signal meanwhile.
fn stopped_then_continued(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["sleep"], None)?;
    actor.go()?;
    let mut stopper = kill(&actor, libc::SIGSTOP)?;
    stopper.go()?;
    stopper.exits_with(0)?;
    let mut killer = kill(&actor, libc::SIGTERM)?;
    let sender = json!({"pid": killer.pid, "comm": "init", "mechanism": "kill"});
    stage.death(
        label,
        &actor,
        "signal",
        &json!({"signal": 15, "sender": sender, "certainty": "inferred"}),
    )?;
    killer.go()?;
    killer.exits_with(0)?;
    let mut other = kill(&actor, libc::SIGCONT)?;
    other.go()?;
    other.exits_with(0)?;
    actor.dies_of(15)
}

/// Stages a write to `cgroup.kill` (Linux 5.14 and later).
fn cgroup_kill(stage: &mut Stage, label: &str) -> Result<()> {
    let cgroup = Cgroup::new(label, None)?;
    if !cgroup.has("cgroup.kill") {
        return Ok(());
    }
    let mut actor = Actor::start(&["sleep"], Some(&cgroup))?;
    let sender = json!({"pid": std::process::id(), "mechanism": "cgroup-kill"});
    stage.death(
        label,
        &actor,
        "signal",
        &json!({"signal": 9, "sender": sender}),
    )?;
    cgroup.set("cgroup.kill", "1")?;
    actor.dies_of(9)
}

/// Stages the kill of the init of a pid namespace. The kernel then ends the rest.
fn pid_namespace(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["namespace"], None)?;
    actor.go()?;
    let init = children(actor.pid, 1)?[0];
    let members = children(init, 2)?;
    let name = format!("{label}/init");
    let mut killer = Actor::start(&["kill", &init.to_string(), "9"], None)?;
    let sender = json!({"pid": killer.pid, "mechanism": "kill"});
    stage.death_of(
        &name,
        init,
        start_ticks(init)?,
        "signal",
        &json!({"signal": 9, "sender": sender}),
    )?;
    for (number, member) in members.into_iter().enumerate() {
        let fields = json!({"signal": 9, "mechanism": "pid-namespace-exit", "cause": name});
        stage.death_of(
            &format!("{label}/{number}"),
            member,
            start_ticks(member)?,
            "kernel-other",
            &fields,
        )?;
    }
    killer.go()?;
    killer.exits_with(0)?;
    actor.exits_with(0)
}

/// Returns the fields that the death of a victim of a cgroup's limit must have.
fn of_limit(cgroup: &str, limit: u64) -> Value {
    json!({
        "signal": 9, "sender": null, "cgroup": format!("/{cgroup}"), "limit_bytes": bytes(limit), "constraint": "memcg",
        "at_least": {"anon_bytes": bytes(limit) / 10 * 8},
    })
}

fn memcg(stage: &mut Stage, label: &str) -> Result<()> {
    memcg_with(stage, label, &of_limit(label, LIMIT))
}

fn memcg_with(stage: &mut Stage, label: &str, fields: &Value) -> Result<()> {
    let cgroup = Cgroup::new(label, Some(LIMIT))?;
    // Keep all of the victim in memory, even if swap is on.
    cgroup.set("memory.swap.max", "0")?;
    let mut actor = Actor::start(&["eat"], Some(&cgroup))?;
    stage.death(label, &actor, "kernel-oom-memcg", fields)?;
    actor.go()?;
    actor.dies_of(9)?;
    cgroup.counts(1..=1)
}

/// Stages a second process that shares the victim's memory. It dies too, without being chosen.
fn memcg_shared_memory(stage: &mut Stage, label: &str) -> Result<()> {
    let cgroup = Cgroup::new(label, Some(LIMIT))?;
    let mut actor = Actor::start(&["eat-with-a-sharer"], Some(&cgroup))?;
    stage.death(label, &actor, "kernel-oom-memcg", &of_limit(label, LIMIT))?;
    actor.go()?;
    let sharer = children(actor.pid, 1)?[0];
    // Outside the cgroup it cannot be the one that is chosen.
    fs::write("/sys/fs/cgroup/cgroup.procs", sharer.to_string())?;
    let fields = json!({"signal": 9, "cause": label});
    stage.death_of(
        &format!("{label}/sharer"),
        sharer,
        start_ticks(sharer)?,
        "kernel-oom-memcg",
        &fields,
    )?;
    actor.go()?;
    actor.dies_of(9)?;
    cgroup.counts(1..=1)
}

/// Stages a cgroup in another one. The limit that was hit must be named, not the nearest one.
fn nested(stage: &mut Stage, label: &str, outer: u64, inner: Option<u64>) -> Result<()> {
    let above = Cgroup::new(label, Some(outer))?;
    above.set("cgroup.subtree_control", "+memory")?;
    let path = format!("{label}/inner");
    let cgroup = Cgroup::new(&path, inner)?;
    let mut actor = Actor::start(&["eat"], Some(&cgroup))?;
    let fields = match inner {
        Some(limit) => of_limit(&path, limit),
        None => of_limit(label, outer),
    };
    stage.death(label, &actor, "kernel-oom-memcg", &fields)?;
    actor.go()?;
    actor.dies_of(9)?;
    cgroup.counts(1..=1)
}

/// Stages `memory.oom.group`: the whole cgroup is killed.
fn oom_group(stage: &mut Stage, label: &str) -> Result<()> {
    let cgroup = Cgroup::new(label, Some(LIMIT))?;
    cgroup.set("memory.oom.group", "1")?;
    let mut eater = Actor::start(&["eat"], Some(&cgroup))?;
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = Actor::start(&["sleep"], Some(&cgroup))?;
        other.go()?;
        others.push(other);
    }
    stage.death(label, &eater, "kernel-oom-memcg", &of_limit(label, LIMIT))?;
    for (number, other) in others.iter().enumerate() {
        let fields = json!({"signal": 9, "cgroup": format!("/{label}"), "limit_bytes": bytes(LIMIT), "cause": label});
        stage.death(
            &format!("{label}/{number}"),
            other,
            "kernel-oom-memcg",
            &fields,
        )?;
    }
    eater.go()?;
    eater.dies_of(9)?;
    for mut other in others {
        other.dies_of(9)?;
    }
    // Some kernels count the first victim twice.
    cgroup.counts(4..=5)
}

/// Stages an OOM kill requested through sysrq. The machine is not out of memory.
fn sysrq_f(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["hold", "64"], None)?;
    let fields = json!({
        "signal": 9, "sender": null, "constraint": "sysrq", "says": "sysrq f", "at_least": {"anon_bytes": bytes(60)},
    });
    stage.death(label, &actor, "kernel-other", &fields)?;
    actor.go()?;
    actor.holds(64)?;
    fs::write("/proc/sysrq-trigger", "f").context("sysrq is not there")?;
    actor.dies_of(9)
}

/// Stages a machine that runs out of memory.
fn global(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["eat"], None)?;
    let fields = json!({
        "signal": 9, "sender": null, "constraint": "none", "cgroup": null, "limit_bytes": null,
        "says": "the machine was out of memory", "at_least": {"anon_bytes": bytes(128)},
    });
    stage.death(label, &actor, "kernel-oom-global", &fields)?;
    let next = next_victims()?;
    actor.go()?;
    actor.dies_of(9)?;
    spared(stage, label, next)
}

/// Starts processes for the kernel to take instead of the stage. Now and then it takes more victims
/// before the memory of the last one is free.
fn next_victims() -> Result<Vec<Actor>> {
    (0..6).map(|_| Actor::start(&["exit", "0"], None)).collect()
}

/// Ends these processes, and writes down those that became victims too.
fn spared(stage: &mut Stage, label: &str, next: Vec<Actor>) -> Result<()> {
    for (number, mut next) in next.into_iter().enumerate() {
        if next.is_killed_before_its_cue()? {
            stage.death(
                &format!("{label}/next{number}"),
                &next,
                "kernel-oom-global",
                &json!({"signal": 9, "sender": null, "constraint": "none"}),
            )?;
        }
    }
    Ok(())
}

/// Stages a limit that is hit while part of the victim is in swap.
fn swap(stage: &mut Stage, label: &str) -> Result<()> {
    // Each kernel has one driver or the other built in.
    let mut disks = ["/dev/nvme0n1", "/dev/sda"].into_iter();
    let disk = disks.find(|disk| Path::new(disk).exists());
    crate::acts::swap_on(disk.context("no disk to swap to")?)?;
    let cgroup = Cgroup::new(label, Some(LIMIT))?;
    cgroup.set("memory.swap.max", "16M")?;
    let mut actor = Actor::start(&["eat"], Some(&cgroup))?;
    let mut fields = of_limit(label, LIMIT);
    fields["at_least"] = json!({"anon_bytes": bytes(16), "swap_bytes": bytes(12)});
    stage.death(label, &actor, "kernel-oom-memcg", &fields)?;
    actor.go()?;
    actor.dies_of(9)?;
    cgroup.counts(1..=1)
}

/// Stages fifty processes that take all memory at once. The kernel kills one after the other.
///
/// It is skipped on Linux 7: there a hook may be preempted, and the kernel then skips the same hook
/// on that processor (docs/development/reliability.md).
fn storm(stage: &mut Stage, label: &str) -> Result<()> {
    if fs::read_to_string("/proc/sys/kernel/osrelease")?.starts_with("7.") {
        return Ok(());
    }
    let started: Result<Vec<Actor>> = (0..50).map(|_| Actor::start(&["eat"], None)).collect();
    let mut actors = started?;
    let fields = json!({"signal": 9, "sender": null, "constraint": "none", "cgroup": null});
    for (number, actor) in actors.iter().enumerate() {
        let name = format!("{label}/{number}");
        stage.death(&name, actor, "kernel-oom-global", &fields)?;
    }
    let next = next_victims()?;
    for actor in &mut actors {
        actor.go()?;
    }
    actors.iter_mut().try_for_each(|actor| actor.dies_of(9))?;
    spared(stage, label, next)
}

/// Stages a machine that sleeps (S3) while processes end.
///
/// No death is lost, before the sleep or after it, and each has its time, also in the kernel log.
/// It needs a machine with one processor: with two, QEMU 7.2 without KVM often resumes at a wrong
/// address, and the machine never wakes up.
fn suspend(stage: &mut Stage, label: &str) -> Result<()> {
    let kinds = fs::read_to_string("/sys/power/mem_sleep").unwrap_or_default();
    let alone = std::thread::available_parallelism()?.get() == 1;
    if !kinds.contains("deep") || !alone {
        return Ok(());
    }
    fs::write("/sys/class/rtc/rtc0/wakealarm", format!("+{ASLEEP}"))?;
    let before = slept();
    let sleep = std::thread::spawn(|| fs::write("/sys/power/state", "mem"));
    for number in 0.. {
        exits(stage, &format!("{label}/{number}"), &["exit", "3"], 3)?;
        if sleep.is_finished() {
            break;
        }
    }
    if let Ok(written) = sleep.join() {
        written.context("it does not sleep")?;
    }
    let asleep = slept() - before;
    println!("slept for {asleep:.1} s");
    ensure!(asleep > 2.0, "it slept for {asleep:.1} s");
    // The clock of the kernel log stood still during the sleep.
    let label = &format!("{label}_memcg");
    let mut fields = of_limit(label, LIMIT);
    fields["logged_within"] = json!(2);
    memcg_with(stage, label, &fields)
}

/// Seconds until the machine's clock wakes it. Going to sleep takes some of this time.
const ASLEEP: u32 = 10;

/// Returns how many seconds since boot the machine was asleep.
fn slept() -> f64 {
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::Boottime) - seconds(ClockId::Monotonic)
}

/// Stages a wall clock that jumps forward by an hour and back. Deaths keep their order, and show
/// the time that the clock showed.
fn clock_step(stage: &mut Stage, label: &str) -> Result<()> {
    let mut actor = Actor::start(&["sleep"], None)?;
    actor.go()?;
    step_clock(HOUR)?;
    let mut killer = kill(&actor, 9)?;
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    let sender = json!({"pid": killer.pid, "mechanism": "kill"});
    let fields = json!({"signal": 9, "sender": sender, "not_before": now - 1});
    stage.death(label, &actor, "signal", &fields)?;
    killer.go()?;
    actor.dies_of(9)?;
    killer.exits_with(0)?;
    step_clock(-HOUR)
}

const HOUR: i64 = 3600;

/// Sets the clock and waits until the recorder has noticed. It checks the clock every second.
fn step_clock(seconds: i64) -> Result<()> {
    let mut time = clock_gettime(ClockId::Realtime);
    time.tv_sec += seconds;
    rustix::time::clock_settime(ClockId::Realtime, time)?;
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}
