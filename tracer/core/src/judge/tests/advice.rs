//! The report corrects advice from the web that is wrong or out of date.
//!
//! Each test gives a setting from one piece of advice. The report says that it is wrong, and what
//! is right instead. Advice about exit types and after-effects in texts is tested in `explain`.

use super::{
    effects::tasks,
    findings::{
        GIB, calls, findings_of, fires, has_gpu, monitor_started, ray_kills, sample_machine,
        settings, silent, worker,
    },
    scene::{RAYLET, Scene, hex, key},
};
use crate::{
    event::{MemorySplit, Observation, Process, ProcessMemory, Role, SharedMemory, Source},
    ids::Bytes,
    judge::report::{Finding, Setting},
    ray::facts::RayFact,
};

const ACTOR: &str = "actor_rollout_ref.actor.fsdp_config";

/// A run of `command` with eight `WorkerDict` workers, in which Ray kills another worker.
fn run(command: &str) -> Scene {
    let mut scene = Scene::new();
    has_gpu(&mut scene, 1, Vec::new());
    scene.change_process(50, |driver: &mut Process| {
        driver.argv = command.split(' ').map(str::to_owned).collect();
    });
    for pid in 7..15 {
        worker(&mut scene, pid, "ray::WorkerDict.generate", 900);
    }
    scene.ray_worker(20);
    ray_kills(&mut scene, 20);
    scene
}

fn verl(setting: &str) -> Scene {
    run(&format!("python3 -m verl.trainer.main_ppo {setting}"))
}

/// `WorkerDict` 7 prints its configuration.
fn prints(scene: &mut Scene, pairs: &[(&str, &str)]) {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let fact = RayFact::Configuration {
        settings: pairs.iter().map(owned).collect(),
        worker_id: Some(hex(8)),
    };
    scene.says_from(Source::WorkerLog, fact);
}

fn says(scene: &Scene, rule: &str, words: &str) -> Finding {
    let finding = fires(scene, rule);
    assert!(finding.summary.contains(words), "{finding:?}");
    finding
}

#[test]
fn offload_takes_more_host_memory() {
    for key in ["param_offload", "optimizer_offload"] {
        let scene = verl(&format!("{ACTOR}.{key}=True"));
        let finding = says(
            &scene,
            "setting-takes-host-memory",
            "from GPU to host memory",
        );
        assert_eq!(finding.remedy, [format!("{ACTOR}.{key}=False")]);
        assert!(finding.cost.is_some() && finding.not_if.is_some());
        silent(
            &verl(&format!("{ACTOR}.{key}=False")),
            "setting-takes-host-memory",
        );
    }
}

/// Its parameters are on the host anyway, and it has no optimizer.
#[test]
fn reference_model_offload_does_nothing() {
    let of = |key: &str| verl(&format!("actor_rollout_ref.ref.fsdp_config.{key}=True"));
    says(
        &of("param_offload"),
        "setting-does-not-help",
        "on the host anyway",
    );
    says(
        &of("optimizer_offload"),
        "setting-does-not-help",
        "has no optimizer",
    );
    silent(&of("param_offload"), "setting-takes-host-memory");
}

#[test]
fn gpu_settings_do_not_reduce_host_memory() {
    for setting in [
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
        "actor_rollout_ref.rollout.enforce_eager=True",
        "actor_rollout_ref.rollout.enable_chunked_prefill=True",
        "actor_rollout_ref.rollout.free_cache_engine=False",
    ] {
        says(
            &verl(setting),
            "setting-does-not-help",
            "do not reduce host memory in verl",
        );
    }
    silent(&verl("data.train_batch_size=8"), "setting-does-not-help");
}

/// What is moved off a GPU has to fit there again.
#[test]
fn offload_is_not_undone_without_a_gpu() {
    let mut scene = Scene::new();
    scene.change_process(50, |driver: &mut Process| {
        let line = format!("python3 -m verl.trainer.main_ppo {ACTOR}.param_offload=True");
        driver.argv = line.split(' ').map(str::to_owned).collect();
    });
    worker(&mut scene, 7, "ray::WorkerDict.generate", 900);
    ray_kills(&mut scene, 7);
    let found = says(&scene, "setting-takes-host-memory", "; no GPU was seen");
    assert_eq!((found.remedy, found.cost), (Vec::<String>::new(), None));
}

/// vLLM pins this memory for each GPU.
#[test]
fn swap_space_is_multiplied_by_workers() {
    let scene = verl("actor_rollout_ref.rollout.swap_space=40");
    let finding = says(
        &scene,
        "setting-takes-host-memory",
        "40 GiB × 8 WorkerDict = 320 GiB, more than the limit that was hit: it was not taken",
    );
    assert!(finding.remedy.is_empty(), "{finding:?}");
    let smaller = verl("actor_rollout_ref.rollout.swap_space=1");
    let words = "1 GiB × 8 WorkerDict would be 8 GiB, but only";
    let smaller = says(&smaller, "setting-takes-host-memory", words);
    assert_eq!(smaller.remedy, ["actor_rollout_ref.rollout.swap_space=0"]);
    assert!(
        finding.summary.contains("vLLM 0.17 and earlier"),
        "{finding:?}"
    );
    silent(
        &verl("actor_rollout_ref.rollout.swap_space=0"),
        "setting-takes-host-memory",
    );
}

#[test]
fn kv_offload_is_for_all_ranks_together() {
    let scene = run("python serve.py vllm --kv-offloading-size 80 --tensor-parallel-size 8");
    // The 80 GiB are for all eight ranks together, not for each.
    let costly = says(
        &scene,
        "setting-takes-host-memory",
        "all its ranks together",
    );
    assert!(!costly.summary.contains('×'), "{costly:?}");
}

#[test]
fn settings_of_a_fork_keep_its_meaning() {
    let engine = verl("actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4");
    says(
        &engine,
        "setting-takes-host-memory",
        "only with vLLM's V0 engine",
    );
    let fork = verl(
        "actor_rollout_ref.rollout.swap_space=40 actor_rollout_ref.rollout.free_cache_engine=False",
    );
    let finding = says(&fork, "setting-takes-host-memory", "simpleRL-reason is set");
    assert!(!finding.summary.contains("V0"), "{finding:?}");
    // In this fork the setting is recommended by its maintainer.
    silent(&fork, "setting-does-not-help");
}

/// A job can print its configuration again after a restart.
#[test]
fn last_printed_setting_counts() {
    let key = format!("{ACTOR}.param_offload");
    let mut scene = verl("");
    prints(&mut scene, &[(&key, "True")]);
    fires(&scene, "setting-takes-host-memory");
    prints(&mut scene, &[(&key, "False")]);
    silent(&scene, "setting-takes-host-memory");
    let rows = scene.report().settings;
    let shown: Vec<(&str, bool)> = rows
        .iter()
        .filter(|row| row.key == key)
        .map(|row| (row.value.as_str(), row.effective))
        .collect();
    assert_eq!(shown, [("True", false), ("False", true)]);
}

#[test]
fn variable_that_no_ray_reads_is_named() {
    let with = |name: &str| {
        let mut scene = Scene::new();
        let driver = Observation::DriverSettings {
            process: key(50),
            settings: vec![(name.into(), "30".into())],
            packages: Vec::new(),
        };
        scene.push(Source::Proc, driver);
        scene
    };
    let finding = says(
        &with("RAY_object_store_memory"),
        "setting-without-effect",
        "no Ray version reads it",
    );
    assert_eq!(finding.remedy, ["unset RAY_object_store_memory"]);
    says(
        &with("RAY_memory_monitor_interval_ms"),
        "setting-without-effect",
        "its name is RAY_memory_monitor_refresh_ms",
    );
    silent(&with("RAY_ADDRESS"), "setting-without-effect");
}

/// Ray ignores `RAY_object_store_memory`, and the size of the object store is only a cap.
#[test]
fn object_store_memory_is_not_reserved() {
    let with = |used: u64| {
        let mut scene = Scene::new();
        settings(&mut scene, &[("RAY_object_store_memory", "30000000000")]);
        scene.change_cluster(|cluster| cluster.object_store_bytes = Some(Bytes(5 * GIB)));
        let state = SharedMemory {
            raylet: key(RAYLET),
            total: Bytes(8 * GIB),
            used: Bytes(used),
        };
        scene.push(Source::Proc, Observation::SharedMemory(state));
        scene.ray_worker(7);
        ray_kills(&mut scene, 7);
        scene
    };
    let scene = with(GIB / 2);
    says(&scene, "setting-without-effect", "no Ray version reads it");
    says(
        &scene,
        "object-store-not-reserved",
        "held 0.5 GiB of at most 5.0 GiB",
    );
    silent(&with(4 * GIB), "object-store-not-reserved");
}

#[test]
fn bad_options_and_commands_are_named() {
    let with = |line: &str| {
        let mut scene = Scene::new();
        scene.process(70, 1, "bash", Role::Other);
        let argv = line.split(' ').map(str::to_owned).collect();
        scene.change_process(70, |process: &mut Process| process.argv = argv);
        scene
    };
    says(
        &with("ray start --redis-max-memory=10"),
        "setting-without-effect",
        "no longer has --redis-max-memory",
    );
    let kills = with("bash -c kill -9 $(nvidia-smi | awk '$5==\"Process\"{print}')");
    let finding = says(
        &kills,
        "kill-by-nvidia-smi-column",
        "other users' processes",
    );
    assert!(
        finding.remedy[0].contains("--query-compute-apps"),
        "{finding:?}"
    );
    silent(&with("nvidia-smi -q"), "kill-by-nvidia-smi-column");
    let split = with("env PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:32 python train.py");
    says(
        &split,
        "setting-does-not-help",
        "does not reduce host memory",
    );
    silent(&with("python train.py"), "setting-does-not-help");
}

/// Adds a shell command `line` that a user has typed.
fn typed(scene: &mut Scene, line: &str) {
    scene.process(70, 1, "bash", Role::Other);
    let argv = line.split(' ').map(str::to_owned).collect();
    scene.change_process(70, |process: &mut Process| process.argv = argv);
}

/// Another allocator is not a remedy for memory that each call keeps.
#[test]
fn growth_per_call_is_not_fragmentation() {
    const LINE: &str = "bash -c LD_PRELOAD=/usr/lib/libjemalloc.so.2 python train.py";
    const GROWS: [u64; 6] = [100, 300, 500, 700, 900, 1100];
    let with = |line: &str, mib: &[u64]| {
        let mut scene = Scene::new();
        typed(&mut scene, line);
        monitor_started(&mut scene, 2 * GIB, 10 * GIB);
        worker(&mut scene, 7, "ray::Rollout.generate", 100);
        calls(&mut scene, 7, mib);
        sample_machine(&mut scene, 1100);
        scene
    };
    let finding = says(
        &with(LINE, &GROWS),
        "not-fragmentation",
        "jemalloc returns memory that was freed",
    );
    assert!(
        finding.evidence[1].contains("grows 200 MiB per call"),
        "{finding:?}"
    );
    let arenas = with(
        "ray job submit --runtime-env-json {\"env_vars\":{\"MALLOC_ARENA_MAX\":\"2\"}}",
        &GROWS,
    );
    says(
        &arenas,
        "not-fragmentation",
        "MALLOC_ARENA_MAX returns memory that was freed",
    );
    silent(&with("pip install jemalloc", &GROWS), "not-fragmentation");
    silent(
        &with(LINE, &[100, 300, 100, 300, 100, 300, 100]),
        "not-fragmentation",
    );
    // If the allocator is seen to keep freed memory, another allocator is the remedy.
    let mut kept = tasks("ray::tokenize", &[50, 1800, 1810, 1800, 1805, 1800]);
    typed(&mut kept, LINE);
    fires(&kept, "allocator-keeps");
    silent(&kept, "not-fragmentation");
}

#[test]
fn private_shared_memory_is_not_in_rss() {
    let with = |shared: u64, looked: bool| {
        let mut scene = Scene::new();
        scene.ray_worker(8);
        if looked {
            let state = SharedMemory {
                raylet: key(RAYLET),
                total: Bytes(16 * GIB),
                used: Bytes(4 * GIB),
            };
            scene.push(Source::Proc, Observation::SharedMemory(state));
        }
        let memory = MemorySplit {
            anon: Some(Bytes(GIB)),
            shmem: Some(Bytes(shared * GIB / 10)),
            ..MemorySplit::default()
        };
        let sample = ProcessMemory {
            process: key(8),
            memory,
        };
        scene.push(Source::Proc, Observation::Memory(sample));
        scene.ray_worker(7);
        ray_kills(&mut scene, 7);
        scene
    };
    let finding = says(
        &with(70, true),
        "private-shared-memory",
        "had 7.0 GiB of shared memory, and all of /dev/shm held 4.0 GiB: 3.0 GiB are its own",
    );
    assert!(
        finding.summary.contains("RSS − SHR leaves out"),
        "{finding:?}"
    );
    // The memory may belong to the object store, or /dev/shm was not read.
    silent(&with(45, true), "private-shared-memory");
    silent(&with(70, false), "private-shared-memory");
}

/// From Ray 2.56 on, the monitor can kill several workers, those with the newest leases first.
#[test]
fn newest_leases_are_killed_first() {
    let with = |version: &str| {
        let mut scene = Scene::new();
        let version = version.to_owned();
        scene.change_cluster(|cluster| cluster.ray_version = Some(version));
        worker(&mut scene, 7, "ray::compute_score", 1024);
        worker(&mut scene, 8, "ray::TaskRunner.run", 7 * 1024);
        ray_kills(&mut scene, 7);
        fires(&scene, "victim-not-biggest").evidence
    };
    assert!(with("2.60.0")[1].contains("newest leases first"));
    assert_eq!(with("2.49.2").len(), 1);
}

#[test]
fn printed_configuration_overrides_argv() {
    let key = format!("{ACTOR}.param_offload");
    let mut scene = verl(&format!("{key}=False"));
    prints(&mut scene, &[(&key, "True")]);
    let finding = fires(&scene, "setting-takes-host-memory");
    assert!(
        finding.evidence[0].starts_with("printed by WorkerDict"),
        "{finding:?}"
    );
    let rows: Vec<Setting> = scene
        .report()
        .settings
        .into_iter()
        .filter(|row| row.key == key)
        .collect();
    let shown: Vec<(&str, bool)> = rows
        .iter()
        .map(|row| (row.value.as_str(), row.effective))
        .collect();
    assert_eq!(shown, [("True", true), ("False", false)]);
}

#[test]
fn remedy_names_only_keys_in_the_configuration() {
    let with = |pairs: &[(&str, &str)]| {
        let mut scene = Scene::new();
        prints(&mut scene, pairs);
        worker(&mut scene, 7, "ray::compute_score", 1024);
        worker(&mut scene, 8, "ray::TaskRunner.run", 7 * 1024);
        ray_kills(&mut scene, 7);
        fires(&scene, "victim-not-biggest").remedy
    };
    let remedy = with(&[
        ("actor_rollout_ref.rollout.n", "8"),
        ("data.val_batch_size", "None"),
        ("data.dataloader_num_workers", "2"),
    ]);
    // The data has no images here, and the loaders are separate processes.
    assert_eq!(remedy, Vec::<String>::new());
}

#[test]
fn remedy_fits_how_the_node_was_started() {
    let with = |change: fn(&mut Process), more: &[(&str, &str)]| {
        let mut scene = Scene::new();
        let mut pairs = vec![("RAY_memory_usage_threshold_fraction", "0.9")];
        pairs.extend(more);
        settings(&mut scene, &pairs);
        scene.change_process(RAYLET, change);
        findings_of(&scene, "setting-without-effect")[0].remedy[0].clone()
    };
    let shell = |raylet: &mut Process| raylet.parent = Some(crate::ids::Pid(1));
    let variable = "RAY_memory_usage_threshold=0.9";
    assert_eq!(
        with(|_| {}, &[]),
        format!("{variable} in the environment of the driver, before ray.init()")
    );
    assert_eq!(
        with(shell, &[]),
        format!("{variable} in the environment of ray start")
    );
    let pod = with(shell, &[("RAY_USAGE_STATS_KUBERAY_IN_USE", "1")]);
    assert_eq!(
        pod,
        "env: [{name: RAY_memory_usage_threshold, value: \"0.9\"}] in the pod template of the RayCluster"
    );
}
