//! After-effects of a death, and memory that workers keep after their tasks.
//!
//! Each must be named in its own case, and not in a case close to it.

use super::{
    findings::{GIB, fires, monitor_started, ray_kills, sample_machine, sample_memory, silent},
    scene::{Scene, hex, key},
};
use crate::{
    event::{Call, Observation, Source},
    ids::{BootTime, Bytes, HexId},
    judge::report::Killer,
    ray::facts::RayFact,
};

const NCCL: &str = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81)";

fn says(scene: &mut Scene, pid: u32, class: &str, message: &str) {
    let fact = RayFact::Exception {
        class: class.into(),
        message: message.into(),
        worker_id: Some(hex(pid)),
    };
    scene.says_from(Source::WorkerLog, fact);
}

/// The crash of the process that waited is one too.
#[test]
fn timeouts_after_a_kill_are_after_effects() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8);
    let first = ray_kills(&mut scene, 7);
    scene.after(12_000_000);
    let words = "The actor is unavailable: RpcError: keepalive watchdog timeout rpc_code: 14";
    says(
        &mut scene,
        50,
        "ray.exceptions.ActorUnavailableError",
        words,
    );
    scene.after(100_000_000);
    says(&mut scene, 8, "NCCL", NCCL);
    scene.signal(8, 8, 6, -6, true).after(50);
    let crash = scene.exit(8, 6);
    let finding = fires(&scene, "after-effect");
    assert_eq!(
        finding.summary,
        "1 × NCCL timeout, 1 × keepalive watchdog timeout came 12.0 s or more after pid 7 had died; the process that logged it exited because of it: after-effects, not causes"
    );
    assert_eq!(finding.deaths, [first, crash]);
    assert_eq!(scene.death(8).verdict.killer, Killer::Crash);
}

/// They come before a kill, long after it, or without one.
#[test]
fn unrelated_timeouts_are_no_after_effects() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8);
    says(&mut scene, 8, "NCCL", NCCL);
    silent(&scene, "after-effect");
    scene.after(1_000_000);
    ray_kills(&mut scene, 7);
    silent(&scene, "after-effect");
    scene.after(1_801_000_000);
    says(&mut scene, 8, "NCCL", NCCL);
    silent(&scene, "after-effect");

    // The worker's own last log line, read a moment after its exit.
    let mut scene = Scene::new();
    scene.ray_worker(8).signal(8, 8, 6, -6, true).after(50);
    scene.exit(8, 6);
    scene.after(10_000);
    says(&mut scene, 8, "NCCL", NCCL);
    silent(&scene, "after-effect");
    says(&mut scene, 9, "ValueError", "shapes do not fit");
    silent(&scene, "after-effect");
}

#[test]
fn watchdog_crash_after_timeout_has_a_cause() {
    let crash = |minutes: u64, words: &str| {
        let mut scene = Scene::new();
        scene.ray_worker(7).ray_worker(8);
        let first = ray_kills(&mut scene, 7);
        scene.after(minutes * 60_000_000);
        says(&mut scene, 8, "NCCL", words);
        scene.signal(8, 8, 6, -6, true).after(50);
        scene.exit(8, 6);
        let crash = scene.death(8);
        assert_eq!(crash.verdict.killer, Killer::Crash);
        (crash.verdict.cause_death_id, first)
    };
    let timeout =
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, Timeout(ms)=600000)";
    let (cause, first) = crash(10, timeout);
    assert_eq!(cause, Some(first));
    assert_eq!(crash(15, timeout).0, None);
    let (cause, first) = crash(25, NCCL);
    assert_eq!(cause, Some(first));
    assert_eq!(crash(31, NCCL).0, None);
    let mut alone = Scene::new();
    alone.ray_worker(8);
    says(&mut alone, 8, "NCCL", NCCL);
    alone.signal(8, 8, 6, -6, true).after(50);
    alone.exit(8, 6);
    assert_eq!(alone.death(8).verdict.cause_death_id, None);
}

/// Ray kills worker 9. Worker 7 dies 25 minutes later, and its peer 8 logs `words` after `minutes`.
///
/// With `restarted`, the actor of worker 9 restarts. Returns the pid that caused the crash of
/// worker 8, and whether the report says what Ray did after the death of worker 9.
fn after_an_older_kill(restarted: bool, minutes: u64, words: &str) -> (Option<u32>, bool) {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).ray_worker(9);
    ray_kills(&mut scene, 9);
    if restarted {
        scene.after(100_000).says(RayFact::ActorState {
            actor_id: HexId("aaaabbbbccccddddeeee000001000000".into()),
            state: "RESTARTING".into(),
            restarts_left: Some(1),
            worker_id: Some(hex(9)),
            node_id: None,
        });
    }
    scene.after(25 * 60_000_000).anon_at_exit = Bytes(GIB);
    scene.signal(66, 7, 9, 0, true).after(20).exit(7, 9);
    scene.after(minutes * 60_000_000 + 1_000_000);
    says(&mut scene, 8, "RuntimeError", words);
    scene.signal(8, 8, 6, -6, true).after(50);
    scene.exit(8, 6);
    let cause = scene.death(8).verdict.cause_death_id;
    let deaths = scene.report().deaths;
    let cause = deaths.iter().find(|death| Some(death.id) == cause);
    (
        cause.map(|death| death.process.pid.0),
        scene.death(9).then.is_some(),
    )
}

/// A death that the job survived is not its cause.
#[test]
fn peer_error_names_the_last_death() {
    let broken = "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [192.0.2.2]:40123";
    for restarted in [true, false] {
        let told = after_an_older_kill(restarted, 0, broken);
        assert_eq!(told, (Some(7), restarted));
    }
    let waited = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, Timeout(ms)=1800000)";
    // Whoever waited for half an hour has waited since before worker 7 died. So worker 9 is the
    // cause, unless its actor was restarted.
    assert_eq!(after_an_older_kill(false, 5, waited).0, Some(9));
    assert_eq!(after_an_older_kill(true, 5, waited).0, Some(7));
    let short = waited.replace("1800000", "600000");
    assert_eq!(after_an_older_kill(false, 10, &short).0, Some(7));
}

#[test]
fn peer_error_names_first_of_grouped_deaths() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).ray_worker(9);
    let first = ray_kills(&mut scene, 7);
    scene.after(9_000_000);
    scene.signal(9, 9, 6, -6, true).after(50).exit(9, 6);
    scene.after(2_000_000);
    says(&mut scene, 8, "RuntimeError", "Socket closed");
    scene.signal(8, 8, 6, -6, true).after(50);
    scene.exit(8, 6);
    assert_eq!(scene.death(8).verdict.cause_death_id, Some(first));
}

/// The finding shows torch's figures, and the death is an exit.
#[test]
fn cuda_out_of_memory_kills_no_process() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    let words = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB of which 17.75 MiB is free. Process 41 has 79.08 GiB memory in use. Of the allocated memory 74.21 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.";
    says(&mut scene, 7, "torch.OutOfMemoryError", words);
    scene.after(50).exit(7, 1 << 8);
    let finding = fires(&scene, "gpu-out-of-memory");
    assert_eq!(
        finding.summary,
        "A GPU ran out of memory: no process was killed, and host memory is not affected; torch wanted 2.00 GiB on GPU 3, which had 17.75 MiB of 79.10 GiB free; torch held 74.21 GiB there and 1.20 GiB in reserve"
    );
    assert_eq!(scene.death(7).verdict.killer, Killer::Exit);
}

/// Ray kills worker 20 at 9 GiB while worker 7 keeps memory from its tasks. `mib` is what worker 7
/// held before its first task and after each one, in MiB.
pub(super) fn tasks(title: &str, mib: &[u64]) -> Scene {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 9 * GIB, 10 * GIB);
    scene.ray_worker(7);
    for (nth, pair) in (1..).zip(mib.windows(2)) {
        scene.after(1_000_000);
        scene.completed_call(7, title, nth, pair);
    }
    sample_memory(&mut scene, 7, *mib.last().expect("a level"));
    scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 20);
    scene
}

#[test]
fn reused_memory_is_kept_by_the_allocator() {
    let scene = tasks("ray::tokenize", &[50, 1800, 1810, 1800, 1805, 1800]);
    let finding = fires(&scene, "allocator-keeps");
    assert!(
        finding
            .summary
            .starts_with("1 worker held 1.7 GiB between tasks (tokenize first)"),
        "{finding:?}"
    );
    assert!(finding.remedy[0].starts_with("max_calls=1"), "{finding:?}");
    silent(&scene, "leak");
    silent(&scene, "nothing-fits");
}

/// It is freed, still rising, an actor's, or as little as modules take.
#[test]
fn other_memory_is_not_allocator_memory() {
    for (title, mib) in [
        ("ray::tokenize", [50, 60, 50, 55, 50, 60]),
        ("ray::tokenize", [50, 500, 950, 1400, 1850, 2300]),
        ("ray::Rollout.step", [50, 1800, 1810, 1800, 1805, 1800]),
        // Little enough to be imported modules.
        ("ray::tokenize", [50, 250, 255, 250, 252, 250]),
    ] {
        silent(&tasks(title, &mib), "allocator-keeps");
    }
}

/// Worker 7 calls `title` at `began` ms and holds `before` MiB then. `end` is when the call ended,
/// in ms, and what the worker held then, in MiB.
fn calls(scene: &mut Scene, title: &str, began: u64, before: u64, end: Option<(u64, u64)>) {
    let at = |milliseconds: u64| BootTime(milliseconds * 1_000_000);
    let call = Call {
        process: key(7),
        title: title.into(),
        nth: 1,
        began: at(began),
        ended: end.map(|(ended, _)| at(ended)),
        before: Some(Bytes(before << 20)),
        after: end.map(|(_, after)| Bytes(after << 20)),
        peak: None,
    };
    scene.push(Source::Kernel, Observation::Call(call));
}

/// Worker 7 holds 1800 MiB at the end of a task, and `mib` MiB `seconds` later. With `kill`, Ray
/// then kills worker 20.
fn idle(title: &str, seconds: u64, mib: u64, kill: bool) -> Scene {
    idle_from(50, title, seconds, mib, kill)
}

/// Like [`idle`], with a task that began at `before` MiB.
fn idle_from(before: u64, title: &str, seconds: u64, mib: u64, kill: bool) -> Scene {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 9 * GIB, 10 * GIB);
    scene.ray_worker(7).after(1_000_000);
    calls(&mut scene, title, 1500, before, Some((2000, 1800)));
    sample_memory(&mut scene, 7, 1700);
    scene.after(seconds * 1_000_000);
    sample_memory(&mut scene, 7, mib);
    if kill {
        scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
        ray_kills(&mut scene, 20);
    }
    scene
}

#[test]
fn idle_worker_with_task_memory_is_named() {
    let scene = idle("ray::tokenize", 74, 1790, true);
    let finding = fires(&scene, "idle-workers");
    assert_eq!(
        finding.summary,
        "1 worker without a task for 74 s or more held 1.7 GiB, 19 % of the limit of 9.0 GiB: memory that tokenize left there"
    );
    assert_eq!(
        finding.evidence,
        [
            "pid 7: 1.75 GiB private, 1.76 GiB when its last task ended 74 s before, of which 1.71 GiB came with tokenize; since then no task of 50 ms or more"
        ]
    );
    assert!(finding.remedy[0].starts_with("max_calls=1 in the @ray.remote of tokenize"));
    assert!(
        finding.remedy[1].contains("RAY_num_workers_soft_limit=0"),
        "{finding:?}"
    );
    assert_eq!(finding.deaths.len(), 1);
    assert!(finding.not_if.is_some());
}

#[test]
fn idle_memory_names_the_task_that_grew() {
    // One task takes most of the memory, then a short one runs.
    let reused = |before: u64| {
        let mut scene = idle("ray::tokenize", 74, 1790, false);
        calls(&mut scene, "ray::pack", 3000, before, Some((4000, 1800)));
        scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
        ray_kills(&mut scene, 20);
        scene
    };
    let finding = fires(&reused(1800), "idle-workers");
    assert!(
        finding.summary.ends_with("memory that tokenize left there"),
        "{finding:?}"
    );
    let imports = idle_from(1200, "ray::tokenize", 74, 1790, true);
    silent(&imports, "idle-workers");
}

#[test]
fn idle_workers_are_named_without_a_kill() {
    let mut scene = idle("ray::tokenize", 74, 1790, false);
    sample_machine(&mut scene, 8192);
    let finding = fires(&scene, "idle-workers");
    assert!(finding.deaths.is_empty());
    assert!(
        finding
            .summary
            .contains("% of Ray's threshold of 9.0 GiB, at the end"),
        "{finding:?}"
    );
}

#[test]
fn busy_or_small_worker_is_not_idle() {
    for (title, seconds, mib) in [
        ("ray::tokenize", 50, 1790),
        // The worker grows, so something runs in it.
        ("ray::tokenize", 74, 1900),
        // The worker has freed the memory since.
        ("ray::tokenize", 74, 200),
        // Less than a tenth of the limit.
        ("ray::tokenize", 74, 800),
        ("ray::Rollout.step", 74, 1790),
    ] {
        silent(&idle(title, seconds, mib, true), "idle-workers");
    }
    // The next task is running.
    let mut scene = idle("ray::tokenize", 74, 1790, false);
    calls(&mut scene, "ray::pack", 70_000, 1790, None);
    scene.ray_worker(20);
    ray_kills(&mut scene, 20);
    silent(&scene, "idle-workers");
}
