//! Rules about peaks, copies, leftovers, leaks and second clusters.
//!
//! Each rule fires in its own case and stays silent in a case close to it.

use super::{
    findings::{GIB, fires, monitor_started, ray_kills, sample_memory, settings, silent, worker},
    scene::{RAYLET, Scene, hex, key},
};
use crate::{
    event::{
        Call, Cluster, MemorySplit, NodeMemory, Observation, Process, ProcessMemory, Role,
        SharedFile, SharedMemory, Source,
    },
    ids::{BootTime, Bytes, Pid},
    judge::report::Certainty,
    ray::facts::{GpuMoved, RayFact},
};

/// Four workers hold 1 GiB each and then run `method`. They hold `now` MiB when Ray kills another
/// worker at 9 GiB.
fn phase(method: &str, now: [u64; 4]) -> Scene {
    let mut scene = Scene::new();
    for pid in 7..11 {
        worker(&mut scene, pid, "ray::WorkerDict", 1024);
    }
    for (pid, mib) in (7..).zip(now) {
        let title = Observation::Title {
            process: key(pid),
            title: format!("ray::WorkerDict.{method}"),
            memory: MemorySplit::default(),
        };
        scene.push(Source::Kernel, title);
        sample_memory(&mut scene, pid, mib);
    }
    scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 20);
    scene
}

#[test]
fn growth_while_saving_is_a_save_spike() {
    let scene = phase("save_checkpoint", [1800, 1700, 1700, 1700]);
    let finding = fires(&scene, "save-spike");
    assert!(
        finding
            .summary
            .starts_with("4 processes in WorkerDict.save_checkpoint had grown by 2.7 GiB"),
        "{finding:?}"
    );
    assert_eq!(
        finding.remedy[0], "save without the optimizer's states, and let fewer ranks write at once",
        "by its actors it may be verl or a fork of it, whose keys differ"
    );
    let mut named = phase("save_checkpoint", [1800, 1700, 1700, 1700]);
    named.change_process(50, |driver: &mut Process| {
        driver.argv = ["-m", "verl.trainer.main_ppo"].map(str::to_owned).to_vec();
    });
    assert_eq!(
        fires(&named, "save-spike").remedy[0],
        "actor_rollout_ref.actor.checkpoint.save_contents=['model']"
    );
    assert!(finding.not_if.is_some() && finding.cost.is_some());
    silent(&scene, "load-spike");
    silent(
        &phase("save_checkpoint", [1100, 1100, 1100, 1100]),
        "save-spike",
    );
    silent(
        &phase("update_actor", [1800, 1700, 1700, 1700]),
        "save-spike",
    );
}

/// If one rank alone grew, the finding names it.
#[test]
fn growth_while_loading_is_a_load_spike() {
    let all = fires(&phase("init_model", [2000, 2000, 2000, 2000]), "load-spike");
    assert!(
        all.summary.contains("the largest 1000 MiB") || all.summary.contains("the largest 1.0 GiB"),
        "{all:?}"
    );
    let one = fires(&phase("init_model", [5000, 1050, 1050, 1050]), "load-spike");
    assert!(one.summary.contains("pid 7 alone 3.9 GiB"), "{one:?}");
    silent(&phase("init_model", [1200, 1200, 1200, 1200]), "load-spike");
}

fn moved(scene: &mut Scene, pid: u32, moved: GpuMoved) {
    let worker_id = Some(hex(pid));
    scene.says_from(Source::WorkerLog, RayFact::GpuMoved { moved, worker_id });
}

#[test]
fn sleep_offload_is_shown_after_memory_kill() {
    let with = |halves: u64, killed: bool| {
        let mut scene = Scene::new();
        worker(&mut scene, 7, "ray::WorkerDict.update_weights", 2048);
        let slept = GpuMoved::Slept {
            freed: Bytes(halves * GIB),
            to_host: Bytes(halves * GIB / 2),
        };
        moved(&mut scene, 7, slept);
        if killed {
            scene.ray_worker(20);
            ray_kills(&mut scene, 20);
        }
        scene
    };
    let finding = fires(&with(15, true), "offload-to-host");
    assert!(
        finding
            .summary
            .contains("moved 15.0 GiB off the GPU at sleep: 7.5 GiB of it are a copy on the host"),
        "{finding:?}"
    );
    assert!(
        finding
            .summary
            .starts_with("WorkerDict.update_weights (pid 7)")
            || finding.summary.starts_with("WorkerDict (pid 7)"),
        "{finding:?}"
    );
    assert_eq!(finding.certainty, Certainty::Inferred);
    assert!(
        finding
            .cost
            .is_some_and(|cost| cost == "RAM down, GPU up by the same")
    );
    silent(&with(2, true), "offload-to-host");
    silent(&with(15, false), "offload-to-host");
}

#[test]
fn full_gpu_and_ram_contradict_on_offload() {
    let with = |gpu: bool| {
        let mut scene = Scene::new();
        scene.change_process(50, |driver: &mut Process| {
            driver.argv = [
                "-m",
                "verl.trainer.main_ppo",
                "actor_rollout_ref.actor.fsdp_config.param_offload=True",
            ]
            .map(str::to_owned)
            .to_vec();
        });
        scene.ray_worker(7);
        if gpu {
            let fact = RayFact::Exception {
                class: "torch.OutOfMemoryError".into(),
                message: "CUDA out of memory.".into(),
                worker_id: Some(hex(7)),
            };
            scene.says_from(Source::WorkerLog, fact);
        }
        ray_kills(&mut scene, 7);
        scene
    };
    let finding = fires(&with(true), "setting-takes-host-memory");
    assert!(
        finding.contradicts[0].starts_with("gpu-out-of-memory: "),
        "{finding:?}"
    );
    let other = fires(&with(true), "gpu-out-of-memory");
    assert!(
        other.contradicts[0].starts_with("setting-takes-host-memory: "),
        "{other:?}"
    );
    let alone = fires(&with(false), "setting-takes-host-memory");
    assert_eq!(alone.contradicts, Vec::<String>::new());
}

#[test]
fn process_outliving_its_raylet_is_left_over() {
    let with = |seconds: u64| {
        let mut scene = Scene::new();
        scene.process(80, 7, "VLLM::EngineCor", Role::Descendant);
        scene.exit(RAYLET, 9);
        scene.after(seconds * 1_000_000);
        sample_memory(&mut scene, 80, 21 * 1024);
        scene
    };
    let finding = fires(&with(40), "left-over");
    assert!(
        finding.summary.contains("outlived raylet 100 by 40 s"),
        "{finding:?}"
    );
    assert_eq!(finding.remedy, ["check: ps -fp 80", "end: kill 80"]);
    silent(&with(10), "left-over");
    let mut small = with(40);
    sample_memory(&mut small, 80, 1);
    silent(&small, "left-over");
}

/// Adds a second raylet (300), started by driver 250 or by another process.
fn second_head(by_driver: bool, first_ended: bool) -> Scene {
    let mut scene = Scene::new();
    if first_ended {
        scene.exit(RAYLET, 0);
    }
    scene.process(
        250,
        1,
        "python",
        if by_driver { Role::Driver } else { Role::Other },
    );
    let mut known: Option<Cluster> = None;
    scene.change_cluster(|cluster| known = Some(cluster.clone()));
    let mut second = known.expect("a cluster");
    second.raylet = key(300);
    second.raylet_ns_pid = Pid(300);
    scene.push(Source::Proc, Observation::Cluster(second));
    scene.process(300, 250, "raylet", Role::Raylet);
    scene.change_process(300, |raylet: &mut Process| raylet.cluster = Some(key(300)));
    scene
}

/// A second cluster counts while the head of the first one runs.
#[test]
fn driver_that_starts_a_second_cluster() {
    let finding = fires(&second_head(true, false), "second-cluster");
    assert!(
        finding.remedy[0].contains("address=\"auto\""),
        "{finding:?}"
    );
    silent(&second_head(false, false), "second-cluster");
    silent(&second_head(true, true), "second-cluster");
    // Another user may not join the first one.
    let mut others = second_head(true, false);
    others.change_process(300, |raylet: &mut Process| raylet.uid = Some(1001));
    silent(&others, "second-cluster");
}

#[test]
fn high_threshold_is_named() {
    let with = |percent: u64, total: u64, isolated: bool| {
        let mut scene = Scene::new();
        let fraction = format!("0.{percent}");
        settings(&mut scene, &[("RAY_memory_usage_threshold", &fraction)]);
        let threshold = total * GIB * percent / 100;
        if isolated {
            scene.says(RayFact::MonitorStarted {
                threshold: Bytes(threshold),
                total: Bytes(total * GIB),
                interval_ms: None,
                user_slice_only: true,
            });
        } else {
            monitor_started(&mut scene, threshold, total * GIB);
        }
        scene
    };
    let finding = fires(&with(98, 188, false), "threshold-high");
    assert!(
        finding.summary.contains("leaves 3.8 GiB of 188.0 GiB"),
        "{finding:?}"
    );
    silent(&with(98, 300, false), "threshold-high");
    silent(&with(95, 60, false), "threshold-high");
    // With resource isolation the threshold has no effect, and the report says that instead.
    let isolated = with(98, 188, true);
    silent(&isolated, "threshold-high");
    let finding = fires(&isolated, "setting-without-effect");
    assert!(
        finding.summary.contains("resource isolation"),
        "{finding:?}"
    );
}

#[test]
fn spilling_is_object_store_pressure() {
    let with = |spilled: Option<u64>| {
        let mut scene = Scene::new();
        if let Some(mib) = spilled {
            let spilled = Some(Bytes(mib << 20));
            scene.says(RayFact::ObjectStorePressure { spilled });
        }
        scene
    };
    let finding = fires(&with(Some(1080)), "object-store-pressure");
    assert!(
        finding.summary.contains("spilled so far: 1.1 GiB"),
        "{finding:?}"
    );
    assert!(finding.remedy[1].starts_with("a larger"), "{finding:?}");
    silent(&with(None), "object-store-pressure");
    // When RAM has run out, a larger object store would take more of it.
    let mut full = with(Some(1080));
    full.ray_worker(7);
    ray_kills(&mut full, 7);
    let finding = fires(&full, "object-store-pressure");
    assert!(finding.remedy[1].starts_with("no larger"), "{finding:?}");
}

/// Ray counts 10 GiB, kills above 9 GiB, and kills a worker of `hog` MiB while `/dev/shm` holds
/// `gib` GiB.
fn store(gib: u64, hog: u64) -> Scene {
    let mut scene = Scene::new();
    scene.change_cluster(|cluster| cluster.object_store_bytes = Some(Bytes(8 * GIB)));
    let state = SharedMemory {
        raylet: key(RAYLET),
        total: Bytes(16 * GIB),
        used: Bytes(gib * GIB),
    };
    scene.push(Source::Proc, Observation::SharedMemory(state));
    worker(&mut scene, 7, "ray::hog", hog);
    scene.anon_at_exit = Bytes(hog << 20);
    ray_kills(&mut scene, 7);
    scene
}

#[test]
fn full_object_store_is_made_smaller() {
    let scene = store(5, 1024);
    let finding = fires(&scene, "object-store-filled");
    assert!(
        finding
            .summary
            .starts_with("Ray's object store held 5.0 GiB, 56 % of the limit of 9.0 GiB"),
        "{finding:?}"
    );
    // 10 − 5 GiB do not belong to the store. 0.8 × 9 − 5 GiB are left for it.
    assert!(
        finding.remedy[0].starts_with("ray.init(object_store_memory=2360000000): "),
        "{finding:?}"
    );
    let saving = finding.saving.as_ref().map(|saving| saving.bytes.0);
    assert_eq!(saving, Some(5 * GIB - 2_360_000_000));
    assert_eq!(scene.report().findings[0], finding);
    silent(&scene, "nothing-fits");
    silent(&store(3, 1024), "object-store-filled");
    silent(&store(5, 6 * 1024), "object-store-filled");
}

/// Ray counts 10 GiB and kills worker 7. Four files in `/dev/shm` hold `gib` GiB, in processes
/// `holders`; the machine's shared memory is `shmem` GiB.
fn files(gib: u64, holders: &[u32], shmem: u64) -> Scene {
    let mut scene = Scene::new();
    let node = NodeMemory {
        total: Bytes(16 * GIB),
        shmem: Bytes(shmem * GIB),
        ..NodeMemory::default()
    };
    scene.push(Source::Proc, Observation::Node(node));
    worker(&mut scene, 7, "ray::hog", 100);
    sample_memory(&mut scene, 50, 1228);
    scene.process(90, 1, "other", Role::Other);
    for inode in 1..=4 {
        let file = SharedFile {
            device: 1,
            inode,
            name: format!("/dev/shm/psm_{inode}"),
            bytes: Bytes(gib * GIB / 4),
            holders: holders.iter().map(|pid| key(*pid)).collect(),
            holder_count: u32::try_from(holders.len()).expect("a few"),
            looked_us: 0,
        };
        scene.push(Source::Proc, Observation::SharedFile(file));
    }
    scene.anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 7);
    scene
}

#[test]
fn files_in_shared_memory_fill_the_limit() {
    let rule = "shared-files-filled";
    let finding = fires(&files(6, &[7], 6), rule);
    assert!(
        finding.summary.starts_with(
            "4 files in /dev/shm, of hog (pid 7), held 6.0 GiB, 67 % of the limit of 9.0 GiB"
        ),
        "{finding:?}"
    );
    assert!(
        finding.remedy[0]
            .starts_with("in hog (pid 7), drop the tensors and arrays in files of /dev/shm that"),
        "{finding:?}"
    );
    silent(&files(6, &[7], 6), "nothing-fits");
    // The driver holds most of the private memory, and a sixth of all.
    silent(&files(6, &[7], 6), "head-component");
    let finding = fires(&files(6, &[], 6), rule);
    assert!(
        finding.summary.contains("which no process has open"),
        "{finding:?}"
    );
    // Too few; of a process outside this Ray; charged to another cgroup, or left by an earlier job.
    silent(&files(2, &[7], 2), rule);
    silent(&files(6, &[90], 6), rule);
    silent(&files(6, &[], 3), rule);
}

#[test]
fn victim_with_children_is_one_process() {
    // The child does not hold the most: the largest process is the victim itself.
    let mut scene = Scene::new();
    scene.ray_worker(7).anon_at_exit = Bytes(6 * GIB);
    scene.process(8, 7, "pt_data_worker", Role::Descendant);
    let sample = ProcessMemory {
        process: key(8),
        memory: MemorySplit {
            anon: Some(Bytes(GIB)),
            ..MemorySplit::default()
        },
    };
    scene.push(Source::Proc, Observation::Memory(sample));
    ray_kills(&mut scene, 7);
    fires(&scene, "one-process");
    silent(&scene, "nothing-fits");
}

/// `WorkerDict` 7 runs `generate`. `held` is its memory in MiB before the first call and after
/// each.
fn calls(held: &[u64], at_death: u64) -> Scene {
    calls_of("ray::WorkerDict.generate", held, at_death)
}

/// Like [`calls`], for a worker with this title.
fn calls_of(title: &str, held: &[u64], at_death: u64) -> Scene {
    let mut scene = Scene::new();
    worker(&mut scene, 7, title, held[0]);
    for (nth, pair) in (1..).zip(held.windows(2)) {
        scene.after(1_000_000);
        let began = BootTime(u64::from(nth) * 1_000_000_000);
        let call = Call {
            process: key(7),
            title: title.into(),
            nth,
            began,
            ended: Some(BootTime(began.0 + 900_000_000)),
            before: Some(Bytes(pair[0] << 20)),
            after: Some(Bytes(pair[1] << 20)),
            peak: None,
        };
        scene.push(Source::Kernel, Observation::Call(call));
    }
    sample_memory(&mut scene, 7, at_death);
    scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 20);
    scene
}

/// The finding says how many calls the limit holds. Fewer than five calls are no leak.
#[test]
fn growth_in_each_call_is_a_leak() {
    // Each of six calls keeps 200 MiB; the limit is 9 GiB.
    let scene = calls(&[100, 300, 500, 700, 900, 1100, 1300], 1300);
    let finding = fires(&scene, "leak");
    assert!(
        finding.summary.starts_with(
            "Each call of WorkerDict.generate leaked 200 MiB, 1.2 GiB in total by complete calls"
        ),
        "{finding:?}"
    );
    // 9 GiB minus the 100 MiB held before and the victim's 128 MiB, in steps of 200 MiB.
    assert!(
        finding.summary.contains("holds about 44 calls"),
        "{finding:?}"
    );
    // `rollout.n`, the number of answers, is not known here.
    assert!(!finding.remedy.join("; ").contains("0.8.3"), "{finding:?}");
    let with = |setting: &str| {
        let mut scene = calls(&[100, 300, 500, 700, 900, 1100, 1300], 1300);
        let argv = ["python3", "-m", "verl.trainer.main_ppo", setting];
        scene.change_process(50, |driver| driver.argv = argv.map(str::to_owned).into());
        fires(&scene, "leak").remedy.join("; ")
    };
    assert!(
        with("actor_rollout_ref.rollout.n=8").contains("upgrade vLLM if it is older than 0.8.3")
    );
    // Finding the line fixes nothing by itself, so it comes last.
    let last = finding.remedy.last().map_or("", String::as_str);
    assert!(last.starts_with("find the line: "), "{finding:?}");
    let task = fires(
        &calls_of("ray::embed", &[100, 300, 500, 700, 900, 1100, 1300], 1300),
        "leak",
    );
    assert!(
        task.remedy[0].starts_with("max_calls=3 in the @ray.remote of embed"),
        "{task:?}"
    );
    let saving = task.saving.as_ref().map(|saving| saving.bytes);
    assert_eq!(saving, Some(Bytes(600 << 20)));
    // vLLM did not leak with one answer, and sglang is not vLLM.
    assert!(!with("actor_rollout_ref.rollout.n=1").contains("0.8.3"));
    assert!(!with("actor_rollout_ref.rollout.name=sglang").contains("0.8.3"));
    silent(&calls(&[100, 300, 500, 700, 900], 900), "leak");
    silent(&calls(&[100, 300, 100, 300, 100, 300, 100], 300), "leak");
    silent(&calls(&[100, 110, 120, 130, 140, 150, 160], 160), "leak");
}
