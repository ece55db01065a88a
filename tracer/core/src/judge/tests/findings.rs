//! Each rule of the findings fires in its own case and stays silent in a case close to it.

use super::scene::{RAYLET, Scene, hex, key, monitor_kill};
use crate::{
    event::{
        GpuHolder, GpuState, KernelLog, MemorySplit, NodeMemory, Observation, Process,
        ProcessMemory, Role, SharedMemory, Source,
    },
    ids::{Bytes, EventId, Pid},
    judge::report::{Certainty, Finding},
    ray::facts::RayFact,
};

pub(super) const GIB: u64 = 1 << 30;

/// Returns the findings of one rule.
pub(super) fn findings_of(scene: &Scene, rule: &str) -> Vec<Finding> {
    let findings = scene.report().findings.into_iter();
    findings.filter(|finding| finding.rule == rule).collect()
}

pub(super) fn fires(scene: &Scene, rule: &str) -> Finding {
    let found = findings_of(scene, rule);
    assert_eq!(found.len(), 1, "{rule}: {:#?}", scene.report().findings);
    found[0].clone()
}

pub(super) fn silent(scene: &Scene, rule: &str) {
    assert_eq!(findings_of(scene, rule), [], "{rule}");
}

/// Adds a sample of the private memory of a process.
pub(super) fn sample_memory(scene: &mut Scene, pid: u32, mib: u64) {
    let memory = MemorySplit {
        anon: Some(Bytes(mib << 20)),
        ..MemorySplit::default()
    };
    let sample = ProcessMemory {
        process: key(pid),
        memory,
    };
    scene.push(Source::Proc, Observation::Memory(sample));
}

pub(super) fn worker(scene: &mut Scene, pid: u32, title: &str, mib: u64) {
    scene.ray_worker(pid);
    let title = Observation::Title {
        process: key(pid),
        title: title.into(),
        memory: MemorySplit::default(),
    };
    scene.push(Source::Kernel, title);
    sample_memory(scene, pid, mib);
}

/// Adds the line that Ray's memory monitor logs when it starts.
pub(super) fn monitor_started(scene: &mut Scene, threshold: u64, total: u64) {
    scene.says(RayFact::MonitorStarted {
        threshold: Bytes(threshold),
        total: Bytes(total),
        interval_ms: Some(250),
        user_slice_only: false,
    });
}

/// Ray kills a worker. It counts 10 GiB, its threshold is 9 GiB, and by default the victim holds 3
/// GiB.
pub(super) fn ray_kills(scene: &mut Scene, pid: u32) -> EventId {
    scene.says(monitor_kill(&[pid], &[])).after(900);
    scene.signal(RAYLET, pid, 9, 0, true).after(50);
    scene.exit(pid, 9)
}

/// The kernel kills a worker at the 64 MiB limit of /job.
pub(super) fn kernel_kills(scene: &mut Scene, pid: u32) -> EventId {
    let stack = ["oom_kill_process", "mem_cgroup_out_of_memory"];
    scene.signal(pid, pid, 9, 128, true).after(4);
    scene.oom_victim(pid, pid, true, &stack).after(50);
    scene.exit(pid, 9)
}

pub(super) fn settings(scene: &mut Scene, pairs: &[(&str, &str)]) {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let settings: Vec<(String, String)> = pairs.iter().map(owned).collect();
    scene.change_cluster(|cluster| cluster.settings = settings);
}

#[test]
fn limit_below_threshold_is_hidden_from_ray() {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 95 << 20, 100 << 20);
    scene.ray_worker(7);
    silent(&scene, "hidden-limit");
    scene.change_process(RAYLET, |raylet: &mut Process| {
        raylet.cgroup = Some("/job/ray".into());
    });
    let death = kernel_kills(&mut scene, 7);
    let finding = fires(&scene, "hidden-limit");
    assert_eq!(finding.deaths, [death]);
    assert_eq!(finding.certainty, Certainty::Proven);
    // 0.9 × 64 MiB of 100 MiB, rounded down.
    assert!(
        finding.remedy[1].starts_with("RAY_memory_usage_threshold=0.57"),
        "{finding:?}"
    );

    let mut scene = Scene::new();
    monitor_started(&mut scene, 60 << 20, 64 << 20);
    scene.ray_worker(7);
    kernel_kills(&mut scene, 7);
    silent(&scene, "hidden-limit");
}

/// It is never rounded to 0. With resource isolation none is advised, since Ray ignores it.
#[test]
fn threshold_for_a_small_hidden_limit() {
    let with = |total: u64, isolated: bool| {
        let mut scene = Scene::new();
        scene.says(RayFact::MonitorStarted {
            threshold: Bytes(total - total / 20),
            total: Bytes(total),
            interval_ms: Some(250),
            user_slice_only: isolated,
        });
        scene.ray_worker(7);
        scene.change_process(RAYLET, |raylet: &mut Process| {
            raylet.cgroup = Some("/job/ray".into());
        });
        kernel_kills(&mut scene, 7);
        fires(&scene, "hidden-limit").remedy.concat()
    };
    // 0.9 × 64 MiB of 64 GiB.
    assert!(with(64 * GIB, false).contains("threshold=0.00087 "));
    assert!(!with(64 * GIB, true).contains("RAY_memory_usage_threshold"));
}

#[test]
fn two_values_for_one_variable_contradict() {
    let mut scene = Scene::new();
    settings(&mut scene, &[("RAY_memory_usage_threshold", "0.98")]);
    monitor_started(&mut scene, 98 << 20, 100 << 20);
    scene.ray_worker(7);
    kernel_kills(&mut scene, 7);
    let high = fires(&scene, "threshold-high");
    assert!(high.contradicts[0].starts_with("hidden-limit"), "{high:?}");
}

#[test]
fn monitor_off_explains_only_kernel_kills() {
    let off = |scene: &mut Scene| {
        settings(scene, &[("RAY_memory_monitor_refresh_ms", "0")]);
        scene.says(RayFact::MonitorDisabled);
        scene.ray_worker(7);
    };
    let mut scene = Scene::new();
    off(&mut scene);
    kernel_kills(&mut scene, 7);
    assert_eq!(fires(&scene, "monitor-off").evidence.len(), 1);
    scene.change_process(RAYLET, |raylet: &mut Process| {
        raylet.argv.push("--enable-resource-isolation".into());
    });
    let isolated = fires(&scene, "monitor-off");
    assert!(
        isolated.evidence[1].contains("it still kills"),
        "{isolated:?}"
    );

    let mut scene = Scene::new();
    off(&mut scene);
    scene.signal(66, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    silent(&scene, "monitor-off");
}

#[test]
fn small_victim_is_listed_last() {
    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::compute_score", 64);
    worker(&mut scene, 8, "ray::TaskRunner.run", 6 * 1024);
    for pid in 9..14 {
        worker(&mut scene, pid, "ray::WorkerDict.generate", 256);
    }
    scene.anon_at_exit = Bytes(64 << 20);
    ray_kills(&mut scene, 7);
    fires(&scene, "victim-not-biggest");
    let memory = scene.death(7).memory;
    let listed: Vec<(u32, bool)> = (memory.top.iter())
        .map(|one| (one.pid.0, one.victim))
        .collect();
    assert_eq!(listed.len(), 6, "{listed:?}");
    assert_eq!(listed[0], (8, false));
    assert_eq!(listed[5], (7, true));
    let rest = memory.top_rest.expect("the smallest of the others");
    assert_eq!((rest.processes, rest.private_bytes), (1, Bytes(256 << 20)));
}

#[test]
fn biggest_holder_is_named_beside_the_victim() {
    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::compute_score", 1024);
    worker(&mut scene, 8, "ray::TaskRunner.run", 7 * 1024);
    ray_kills(&mut scene, 7);
    let finding = fires(&scene, "victim-not-biggest");
    assert!(
        finding
            .summary
            .contains("TaskRunner.run (pid 8) held 7.0 GiB, 70 %"),
        "{finding:?}"
    );
    assert_eq!(
        finding.remedy,
        Vec::<String>::new(),
        "no line of it was seen"
    );

    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::compute_score", 1024);
    worker(&mut scene, 8, "ray::TaskRunner.run", 5 * 1024);
    ray_kills(&mut scene, 7);
    silent(&scene, "victim-not-biggest");
}

#[test]
fn many_workers_of_one_size() {
    let workers = |sizes: &[u64]| {
        let mut scene = Scene::new();
        for (pid, mib) in (7..).zip(sizes) {
            worker(&mut scene, pid, "ray::hog", *mib);
        }
        ray_kills(&mut scene, 7);
        scene
    };
    // The victim held 3 GiB at its death.
    let finding = fires(&workers(&[3072, 2900, 2800]), "many-workers");
    assert!(
        finding
            .summary
            .starts_with("3 hog of 2.9 GiB each held 8.57 GiB"),
        "{finding:?}"
    );
    assert!(
        finding.remedy[0].starts_with("at most 2 at once"),
        "{finding:?}"
    );
    silent(&workers(&[3072, 2900, 1000]), "many-workers");
    // If fewer workers filled the limit again, that kill bounds how many fit.
    let mut twice = workers(&[3072, 2900, 2800]);
    // 5 s later, so that it is another decision of the monitor.
    twice.after(5_000_000);
    ray_kills(&mut twice, 8);
    let finding = fires(&twice, "many-workers");
    assert!(
        finding.remedy[0].starts_with("at most 1 at once"),
        "{finding:?}"
    );
    // Sooner than that, the memory of the first victim may still be counted.
    let mut soon = workers(&[3072, 2900, 2800]);
    soon.after(1_500_000);
    ray_kills(&mut soon, 8);
    let finding = fires(&soon, "many-workers");
    assert!(
        finding.remedy[0].starts_with("at most 2 at once"),
        "{finding:?}"
    );
    // The fourth worker has just started.
    let finding = fires(&workers(&[3072, 2900, 2800, 40]), "many-workers");
    assert!(finding.summary.starts_with("3 hog of 2.9"), "{finding:?}");
    assert!(
        finding.evidence[0].ends_with("; 1 of another size"),
        "{finding:?}"
    );
    silent(&workers(&[3072, 2900]), "many-workers");
    // The raylet's command line says nine CPUs, and two workers fit at once.
    let mut scene = workers(&[3072, 2900, 2800]);
    let argv = [
        "raylet",
        "--static_resource_list=node:10.0.0.1,1.0,CPU,9,memory,1",
    ];
    scene.change_process(RAYLET, |raylet: &mut Process| {
        raylet.argv = argv.map(str::to_owned).to_vec();
    });
    let finding = fires(&scene, "many-workers");
    assert!(
        finding.remedy[0]
            .starts_with("num_cpus=4 in .options() or the @ray.remote of hog: 2 at once"),
        "{finding:?}"
    );
    let saving = finding.saving.as_ref().map(|saving| saving.bytes.gib());
    assert!(
        saving.is_some_and(|gib| (2.8..2.9).contains(&gib)),
        "{saving:?}"
    );
}

/// Three workers with this title hold 2.9 GiB each when Ray kills a small one.
fn workers_of(title: &str) -> Scene {
    let mut scene = Scene::new();
    for pid in 7..10 {
        worker(&mut scene, pid, title, 2970);
    }
    scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 20);
    scene
}

#[test]
fn fewer_workers_in_the_frameworks_words() {
    for (title, wanted) in [
        (
            "ray::embed",
            "at most 2 at once: a higher num_cpus for embed",
        ),
        // Actors of a pool would wait forever for CPUs, so no `num_cpus` is advised.
        (
            "ray::Pool.work",
            "start at most 2 Pool on this node, where 3 were",
        ),
        (
            "ray::MapWorker(MapBatches(Embed)).submit",
            "concurrency=2 in the .map_batches() of Embed",
        ),
        ("ray::RayTrainWorker.run", "ScalingConfig(num_workers=2)"),
        (
            "ray::SingleAgentEnvRunner.sample",
            "config.env_runners(num_env_runners=2)",
        ),
        (
            "ray::ImplicitFunc.train",
            "max_concurrent_trials=2 in the tune.TuneConfig",
        ),
    ] {
        let finding = fires(&workers_of(title), "many-workers");
        let advised = finding.remedy[0].split("; ").next();
        assert_eq!(advised, Some(wanted));
        let counted = finding.remedy.iter().any(|text| text.contains("memory="));
        assert_eq!(counted, title == "ray::embed", "{finding:?}");
    }
}

#[test]
fn growing_workers_count_with_their_peers_peak() {
    let mut scene = Scene::new();
    worker(&mut scene, 6, "ray::embed", 4096);
    scene.anon_at_exit = Bytes(4 * GIB);
    scene.exit(6, 0);
    for pid in 7..10 {
        worker(&mut scene, pid, "ray::embed", 2970);
    }
    scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
    ray_kills(&mut scene, 20);
    let finding = fires(&scene, "many-workers");
    assert!(
        finding.remedy[0].starts_with("at most 1 at once"),
        "{finding:?}"
    );
}

#[test]
fn large_head_component_is_named() {
    let with_gcs = |mib: u64| {
        let mut scene = Scene::new();
        scene.process(60, 50, "gcs_server", Role::Gcs);
        sample_memory(&mut scene, 60, mib);
        scene.ray_worker(7);
        ray_kills(&mut scene, 7);
        scene
    };
    let mut scene = with_gcs(2048);
    let finding = fires(&scene, "head-component");
    assert!(finding.remedy[0].contains("--num-cpus=0"), "{finding:?}");
    scene.change_process(RAYLET, |raylet: &mut Process| {
        raylet.cgroup = Some("/kubepods/pod1".into());
    });
    let finding = fires(&scene, "head-component");
    assert!(finding.remedy[0].contains("rayStartParams"), "{finding:?}");
    silent(&with_gcs(512), "head-component");
    // Workers hold most of the memory here. The little that the GCS holds did not fill the limit.
    let mut workers = Scene::new();
    workers.process(60, 50, "gcs_server", Role::Gcs);
    sample_memory(&mut workers, 60, 1024);
    worker(&mut workers, 8, "ray::hog", 6 * 1024);
    workers.ray_worker(7);
    ray_kills(&mut workers, 7);
    silent(&workers, "head-component");
}

#[test]
fn memory_outside_ray_is_named() {
    let with = |mib: u64, shmem: u64| {
        let mut scene = Scene::new();
        monitor_started(&mut scene, 9 * GIB, 10 * GIB);
        let node = NodeMemory {
            total: Bytes(10 * GIB),
            shmem: Bytes(shmem * GIB),
            ..NodeMemory::default()
        };
        scene.push(Source::Proc, Observation::Node(node));
        worker(&mut scene, 8, "ray::hog", mib);
        scene.ray_worker(7);
        ray_kills(&mut scene, 7);
        scene
    };
    // Of the 10 GiB counted, the victim holds 3 and another worker 1.
    let finding = fires(&with(1024, 0), "outside-ray");
    assert!(
        finding.summary.starts_with("6.0 GiB of the 10.0 GiB"),
        "{finding:?}"
    );
    silent(&with(5 * 1024, 0), "outside-ray");
    silent(&with(1024, 4), "outside-ray");
    // A worker that was killed just before, whose memory Ray still counts.
    for (ms, is_counted) in [(800, true), (8000, false)] {
        let mut scene = Scene::new();
        monitor_started(&mut scene, 9 * GIB, 10 * GIB);
        let node = NodeMemory {
            total: Bytes(10 * GIB),
            ..NodeMemory::default()
        };
        scene.push(Source::Proc, Observation::Node(node));
        scene.ray_worker(9).ray_worker(7);
        scene.anon_at_exit = Bytes(6 * GIB);
        ray_kills(&mut scene, 9);
        scene.after(ms * 1000);
        scene.anon_at_exit = Bytes(3 * GIB);
        ray_kills(&mut scene, 7);
        let last = scene.death(7).id;
        let findings = scene.report().findings;
        let mut outside = findings.iter().filter(|one| one.rule == "outside-ray");
        let named = outside.any(|one| one.deaths.contains(&last));
        assert_eq!(named, !is_counted, "{ms} ms: {findings:#?}");
    }
}

/// A worker with `own` MiB of shared memory dies of SIGBUS.
///
/// `/dev/shm` has a size of 100 MiB. It holds `before` MiB 0.2 s before the death and `after` MiB
/// 0.8 s after it.
fn sigbus(before: u64, own: u64, after: u64) -> Finding {
    let look = |scene: &mut Scene, used: u64| {
        let state = SharedMemory {
            raylet: key(RAYLET),
            total: Bytes(100 << 20),
            used: Bytes(used << 20),
        };
        scene.push(Source::Proc, Observation::SharedMemory(state));
    };
    let mut scene = Scene::new();
    look(&mut scene, 10);
    scene.after(1_000_000);
    look(&mut scene, before);
    scene.shmem_at_exit = Bytes(own << 20);
    scene.after(200_000).ray_worker(7);
    scene.signal(7, 7, 7, 2, true).after(50).exit(7, 7);
    scene.after(800_000);
    look(&mut scene, after);
    fires(&scene, "shared-memory-full")
}

#[test]
fn sigbus_with_full_dev_shm_is_inferred() {
    let full = sigbus(99, 0, 99);
    assert_eq!(full.certainty, Certainty::Inferred);
    let larger = &full.remedy[0];
    assert!(
        larger.contains(", mount -o remount,size=200M /dev/shm ("),
        "{larger}"
    );
    assert!(
        larger.ends_with(" (twice the 100 MiB that were full)"),
        "{larger}"
    );
    let unknown = sigbus(50, 0, 50);
    assert_eq!(unknown.certainty, Certainty::Unknown);
    assert!(
        unknown.remedy[0].starts_with("do not truncate"),
        "{unknown:?}"
    );
}

/// It is empty after the death, since the victim alone had filled it.
#[test]
fn dev_shm_filled_by_victim_was_full() {
    let seen = sigbus(100, 0, 0);
    assert_eq!(
        (seen.certainty, seen.summary.as_str()),
        (
            Certainty::Inferred,
            "SIGBUS with /dev/shm full: 100 MiB of 100 MiB"
        )
    );
    // /dev/shm filled up between two readings. The worker's own shared memory shows it.
    let own = sigbus(60, 100, 0);
    assert_eq!(own.certainty, Certainty::Inferred);
    assert_eq!(
        own.evidence,
        ["it had 100 MiB of shared memory itself; /dev/shm has 100 MiB"]
    );
    assert_eq!(sigbus(60, 80, 0).certainty, Certainty::Unknown);
    // More than /dev/shm can hold: pinned memory counts as shared memory too.
    assert_eq!(sigbus(60, 400, 0).certainty, Certainty::Unknown);
}

#[test]
fn segfault_is_not_shared_memory_full() {
    let mut scene = Scene::new();
    let state = SharedMemory {
        raylet: key(RAYLET),
        total: Bytes(100 << 20),
        used: Bytes(100 << 20),
    };
    scene.push(Source::Proc, Observation::SharedMemory(state));
    scene.ray_worker(7).signal(7, 7, 11, 1, true).after(50);
    scene.exit(7, 11);
    silent(&scene, "shared-memory-full");
}

pub(super) fn on_gpu(scene: &mut Scene, pid: u32, name: Option<&str>, parent: u32, gib: u64) {
    let holder = GpuHolder {
        pid: Pid(pid),
        process: name.is_none().then(|| key(pid)),
        name: name.map(str::to_owned),
        parent: Some(Pid(parent)),
        used: Some(Bytes(gib * GIB)),
    };
    has_gpu(scene, gib, vec![holder]);
}

/// The machine has a GPU of 80 GiB.
pub(super) fn has_gpu(scene: &mut Scene, gib: u64, holders: Vec<GpuHolder>) {
    let state = GpuState {
        device: 3,
        total: Bytes(80 * GIB),
        used: Bytes(gib * GIB),
        uncorrected_errors: None,
        holders,
    };
    scene.push(Source::Nvml, Observation::Gpu(state));
}

#[test]
fn engine_without_parent_is_a_gpu_orphan() {
    let with = |name: &str, parent: u32| {
        let mut scene = Scene::new();
        on_gpu(&mut scene, 900, Some(name), parent, 21);
        scene
    };
    let finding = fires(&with("VLLM::EngineCor", 1), "gpu-orphan");
    assert_eq!(
        finding.summary,
        "VLLM::EngineCor (pid 900) has no parent, belongs to no cluster and holds 21.0 GiB of GPU 3"
    );
    silent(&with("VLLM::EngineCor", 50), "gpu-orphan");
    silent(&with("Xorg", 1), "gpu-orphan");
}

#[test]
fn gpu_to_host_move_is_an_offload() {
    let with = |host_mib: u64| {
        let mut scene = Scene::new();
        worker(&mut scene, 7, "ray::Actor.offload", 1024);
        on_gpu(&mut scene, 7, None, 0, 40);
        scene.after(1_000_000);
        on_gpu(&mut scene, 7, None, 0, 10);
        scene.after(1_000_000);
        sample_memory(&mut scene, 7, host_mib);
        ray_kills(&mut scene, 7);
        scene
    };
    let finding = fires(&with(30 * 1024), "offload-to-host");
    assert_eq!(
        finding.remedy,
        [] as [&str; 0],
        "no engine slept: {finding:?}"
    );
    assert!(
        finding.summary.contains("moved 30.0 GiB off the GPU"),
        "{finding:?}"
    );
    assert!(finding.summary.contains("29.0 GiB of it"), "{finding:?}");
    silent(&with(5 * 1024), "offload-to-host");
}

/// With `memory.oom.group` the kernel kills the largest process and the others with it.
#[test]
fn group_victims_have_no_suspect() {
    let mut scene = Scene::new();
    scene.kmsg(KernelLog::OomGroup {
        cgroup: "/job".into(),
    });
    worker(&mut scene, 7, "ray::small", 8);
    worker(&mut scene, 8, "ray::small", 60);
    let stack = ["oom_kill_process", "mem_cgroup_out_of_memory"];
    for pid in [8, 7] {
        scene.signal(8, pid, 9, 128, true);
        scene.oom_victim(pid, 8, true, &stack).after(10);
    }
    // The small one ends first.
    for pid in [7, 8] {
        scene.exit(pid, 9);
    }
    let first = scene.death(8).id;
    assert_eq!(scene.death(7).verdict.cause_death_id, Some(first));
    assert_eq!(scene.death(7).memory.suspect, None);
    silent(&scene, "victim-not-biggest");
    let unexplained = findings_of(&scene, "nothing-fits").into_iter();
    assert!(
        unexplained
            .flat_map(|finding| finding.deaths)
            .all(|death| death == first)
    );
}

#[test]
fn object_store_on_disk_is_named() {
    let with = |place: &str| {
        let mut scene = Scene::new();
        scene.change_cluster(|cluster| cluster.object_store_bytes = Some(Bytes(GIB)));
        let argv = vec!["raylet".into(), format!("--plasma_directory={place}")];
        scene.change_process(RAYLET, |raylet: &mut Process| raylet.argv = argv);
        scene
    };
    let on_disk = fires(&with("/tmp/ray"), "object-store-on-disk");
    let room = &on_disk.remedy[0];
    assert!(
        room.contains(", mount -o remount,size=1126M /dev/shm ("),
        "{room}"
    );
    assert!(
        room.ends_with(" (the object store with a tenth more)"),
        "{room}"
    );
    silent(&with("/dev/shm"), "object-store-on-disk");
}

#[test]
fn three_kills_are_a_retry_loop() {
    let kills = |count: u32, gap_ms: u64| {
        let mut scene = Scene::new();
        for pid in 20..20 + count {
            worker(&mut scene, pid, "ray::hog", 1024);
            ray_kills(&mut scene, pid);
            scene.after(100_000).retries_after_oom("hog");
            scene.after(gap_ms * 1000);
        }
        scene
    };
    let finding = fires(&kills(3, 20_000), "retry-loop");
    assert_eq!(finding.deaths.len(), 3);
    silent(&kills(2, 20_000), "retry-loop");
    // A limit on retries would have ended a job that succeeded.
    let limits = |finding: &Finding| {
        let mut remedies = finding.remedy.iter();
        remedies.any(|text| text.starts_with("RAY_task_oom_retries"))
    };
    assert!(limits(&finding), "{finding:?}");
    let mut succeeded = kills(3, 20_000);
    succeeded.exit(50, 0);
    let finding = fires(&succeeded, "retry-loop");
    assert!(
        !limits(&finding) && finding.summary.ends_with("the job succeeded in the end"),
        "{finding:?}"
    );
    // Ray waits longer before each retry, so the gap says nothing.
    assert_eq!(fires(&kills(3, 70_000), "retry-loop").deaths.len(), 3);
    silent(&kills(2, 70_000), "retry-loop");
}

#[test]
fn settings_without_effect_are_named() {
    let mut scene = Scene::new();
    settings(
        &mut scene,
        &[
            ("RAY_object_store_memory", "30"),
            ("RAY_memory_usage_threshold", "0.9"),
        ],
    );
    let finding = fires(&scene, "setting-without-effect");
    // In this scene the driver has started the raylet.
    assert_eq!(finding.remedy, ["unset RAY_object_store_memory"]);
    let rows = scene.report().settings;
    let in_force: Vec<bool> = rows.iter().map(|row| row.effective).collect();
    assert_eq!(in_force, [false, true]);
}

/// It counts only if the raylet has the same value.
#[test]
fn threshold_of_a_driver_has_no_effect() {
    let with = |raylet: &str| {
        let mut scene = Scene::new();
        settings(&mut scene, &[("RAY_memory_usage_threshold", raylet)]);
        let driver = Observation::DriverSettings {
            process: key(50),
            settings: vec![
                ("RAY_memory_usage_threshold".into(), "0.98".into()),
                ("RAY_task_oom_retries".into(), "3".into()),
            ],
            packages: Vec::new(),
        };
        scene.push(Source::Proc, driver);
        scene
    };
    let finding = fires(&with("0.9"), "setting-without-effect");
    assert!(finding.summary.contains("in force: 0.9"), "{finding:?}");
    silent(&with("0.98"), "setting-without-effect");
}

#[test]
fn removed_option_redis_max_memory_is_named() {
    let mut scene = Scene::new();
    silent(&scene, "setting-without-effect");
    scene.process(70, 1, "ray", Role::Other);
    let argv = vec!["ray".into(), "start".into(), "--redis-max-memory=10".into()];
    scene.change_process(70, |process: &mut Process| process.argv = argv);
    fires(&scene, "setting-without-effect");
}

#[test]
fn framework_settings_need_a_memory_kill() {
    let with = |killed: bool| {
        let mut scene = Scene::new();
        has_gpu(&mut scene, 1, Vec::new());
        let argv = [
            "python3",
            "-m",
            "verl.trainer.main_ppo",
            "actor_rollout_ref.actor.fsdp_config.param_offload=True",
            "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
        ];
        let argv = argv.map(str::to_owned).to_vec();
        scene.change_process(50, |driver: &mut Process| driver.argv = argv);
        scene.ray_worker(7);
        if killed {
            ray_kills(&mut scene, 7);
        }
        scene
    };
    let scene = with(true);
    let finding = fires(&scene, "setting-takes-host-memory");
    assert_eq!(
        finding.remedy,
        ["actor_rollout_ref.actor.fsdp_config.param_offload=False"]
    );
    assert!(
        finding
            .cost
            .is_some_and(|cost| cost.contains("more GPU memory"))
    );
    fires(&scene, "setting-does-not-help");
    let scene = with(false);
    silent(&scene, "setting-takes-host-memory");
    silent(&scene, "setting-does-not-help");
}

#[test]
fn cuda_exception_is_about_gpu_memory() {
    let with = |class: &str, message: &str| {
        let mut scene = Scene::new();
        scene.ray_worker(7).says_from(
            Source::WorkerLog,
            RayFact::Exception {
                class: class.into(),
                message: message.into(),
                worker_id: Some(hex(7)),
            },
        );
        scene
    };
    let cuda = with(
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
    );
    fires(&cuda, "gpu-out-of-memory");
    silent(&with("MemoryError", "cannot allocate"), "gpu-out-of-memory");
}

#[test]
fn unexplained_kill_is_nothing_fits() {
    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::hog", 1024);
    let death = ray_kills(&mut scene, 7);
    let finding = fires(&scene, "nothing-fits");
    assert_eq!(
        (finding.certainty, finding.deaths),
        (Certainty::Unknown, vec![death])
    );
    assert_eq!(finding.remedy, Vec::<String>::new());

    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::compute_score", 1024);
    worker(&mut scene, 8, "ray::TaskRunner.run", 7 * 1024);
    ray_kills(&mut scene, 7);
    silent(&scene, "nothing-fits");
}

#[test]
fn worker_killed_after_success_is_teardown() {
    let ends = |code: i32| {
        let mut scene = Scene::new();
        scene.ray_worker(7).exit(50, code << 8);
        scene.after(5_000).signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        scene
    };
    silent(&ends(1), "teardown");
    let finding = fires(&ends(0), "teardown");
    assert!(
        finding.remedy.is_empty() && finding.deaths.len() == 1,
        "{finding:?}"
    );
}

#[test]
fn one_process_fills_the_limit() {
    let with = |mib: u64| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        scene.anon_at_exit = Bytes(mib << 20);
        ray_kills(&mut scene, 7);
        scene
    };
    let finding = fires(&with(5 * 1024), "one-process");
    assert!(
        finding.summary.starts_with("hog alone held 5.0 GiB"),
        "{finding:?}"
    );
    assert_eq!(finding.remedy, Vec::<String>::new(), "it was alone");
    let mut beside = Scene::new();
    worker(&mut beside, 8, "ray::other", 2 * 1024);
    beside.ray_worker(7).anon_at_exit = Bytes(5 * GIB);
    ray_kills(&mut beside, 7);
    let finding = fires(&beside, "one-process");
    assert_eq!(
        finding.remedy,
        [
            "memory=5*1024**3 in its .options() or @ray.remote, which reserves that much for it: other workers held 2.0 GiB"
        ]
    );
    silent(&with(4 * 1024), "one-process");
}

#[test]
fn process_outside_full_cgroup_is_no_cause() {
    let with_agent_in = |cgroup: &str| {
        let mut scene = Scene::new();
        scene.process(60, RAYLET, "ray::DashboardAgent", Role::Agent);
        scene.change_process(60, |agent: &mut Process| {
            agent.cgroup = Some(cgroup.to_owned());
        });
        sample_memory(&mut scene, 60, 40);
        scene.ray_worker(7).anon_at_exit = Bytes(1 << 20);
        kernel_kills(&mut scene, 7);
        scene
    };
    let inside = with_agent_in("/job/system");
    fires(&inside, "head-component");
    fires(&inside, "victim-not-biggest");
    let outside = with_agent_in("/jobs");
    silent(&outside, "head-component");
    silent(&outside, "victim-not-biggest");
}

/// Adds calls of one method. `mib` is the worker's private memory before the first and after each.
pub(super) fn calls(scene: &mut Scene, pid: u32, mib: &[u64]) {
    for (nth, pair) in (1..).zip(mib.windows(2)) {
        scene.completed_call(pid, "ray::Rollout.generate", nth, pair);
    }
}

/// Adds a sample of the machine's used memory.
pub(super) fn sample_machine(scene: &mut Scene, mib: u64) {
    let node = NodeMemory {
        total: Bytes(10 * GIB),
        available: Bytes(10 * GIB - (mib << 20)),
        ..NodeMemory::default()
    };
    scene.push(Source::Proc, Observation::Node(node));
}

#[test]
fn growth_per_call_shows_the_calls_left() {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 2 * GIB, 10 * GIB);
    worker(&mut scene, 7, "ray::Rollout.generate", 100);
    calls(&mut scene, 7, &[100, 200, 300, 400, 500, 600]);
    sample_memory(&mut scene, 7, 600);
    sample_machine(&mut scene, 1100);
    let finding = fires(&scene, "grows-per-call");
    assert_eq!(
        finding.summary,
        "Rollout.generate grows 100 MiB per call (5 calls seen), never freed; 9 calls are left until Ray's threshold at 2.0 GiB"
    );
    assert_eq!(
        finding.remedy,
        ["until that is fixed, save a checkpoint and restart the actor after at most 9 more calls"]
    );
    assert_eq!(finding.deaths, []);
}

/// The finding on the kill shows it instead.
#[test]
fn growth_before_a_kill_is_no_forecast() {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 2 * GIB, 10 * GIB);
    worker(&mut scene, 7, "ray::Rollout.generate", 700);
    calls(&mut scene, 7, &[100, 200, 300, 400, 500, 600]);
    sample_machine(&mut scene, 1100);
    ray_kills(&mut scene, 7);
    silent(&scene, "grows-per-call");
}

/// They are no growth per call.
#[test]
fn freed_memory_and_few_calls_are_ignored() {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 2 * GIB, 10 * GIB);
    worker(&mut scene, 7, "ray::Rollout.generate", 100);
    calls(&mut scene, 7, &[100, 300, 100, 300, 100, 300, 100]);
    silent(&scene, "grows-per-call");
    worker(&mut scene, 8, "ray::Rollout.generate", 500);
    calls(&mut scene, 8, &[100, 300, 500, 700, 900]);
    silent(&scene, "grows-per-call");
}

#[test]
fn small_growth_per_call_is_no_trend() {
    // 2 MiB in each of 30 calls after the warm-up is 3 % of 2.0 GiB. In two workers it is 6 %.
    let with = |workers: &[u32]| {
        let mut scene = Scene::new();
        monitor_started(&mut scene, 2 * GIB, 10 * GIB);
        for pid in workers {
            worker(&mut scene, *pid, "ray::Rollout.generate", 100);
            let levels: Vec<u64> = (0..=32).map(|nth| 100 + 2 * nth).collect();
            calls(&mut scene, *pid, &levels);
        }
        sample_machine(&mut scene, 1100);
        scene
    };
    let per_call = |scene: &mut Scene| {
        ray_kills(scene, 7);
        let death = scene.death(7);
        death.activity.calls.and_then(|calls| calls.per_call_bytes)
    };
    silent(&with(&[7]), "grows-per-call");
    assert_eq!(per_call(&mut with(&[7])), None);
    let finding = fires(&with(&[7, 8]), "grows-per-call");
    assert!(
        finding
            .summary
            .contains("in each of 2 workers grows 2 MiB per call"),
        "{finding:?}"
    );
    assert_eq!(per_call(&mut with(&[7, 8])), Some(Bytes(2 << 20)));
}
