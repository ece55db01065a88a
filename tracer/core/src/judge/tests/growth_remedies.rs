//! Growth that led to a kill, the settings that help, and which of several findings are shown.

use super::{
    findings::{
        GIB, fires, has_gpu, kernel_kills, on_gpu, ray_kills, sample_memory, silent, worker,
    },
    scene::{RAYLET, Scene, grown, key, monitor_kill},
};
use crate::{
    event::{
        Call, MemorySplit, NativeFrame, Observation, Process, PythonFrame, PythonStack, Role,
        Source,
    },
    ids::{BootTime, Bytes},
    ray::facts::RayFact,
};

const KEY: &str = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu";

fn runs(scene: &mut Scene, pid: u32, title: &str) {
    let title = Observation::Title {
        process: key(pid),
        title: title.into(),
        memory: MemorySplit::default(),
    };
    scene.push(Source::Kernel, title);
}

/// Two ranks hold 0.5 GiB and then run `method` until they hold `now` MiB each. Ray kills one at 9
/// GiB.
///
/// The victim's title no longer names the method when it exits.
fn ranks(method: &str, now: u64, typed: &str) -> Scene {
    let line = format!("-m verl.trainer.main_ppo {typed}");
    ranks_of(&format!("WorkerDict.{method}"), now, &line, |_| {})
}

/// Like [`ranks`], for any class and driver. `seen` adds events before the kill.
fn ranks_of(method: &str, now: u64, line: &str, seen: impl Fn(&mut Scene)) -> Scene {
    let mut scene = Scene::new();
    has_gpu(&mut scene, 1, Vec::new());
    scene.change_process(50, |driver: &mut Process| {
        driver.argv = line.split_whitespace().map(str::to_owned).collect();
    });
    let class = method.split('.').next().unwrap_or(method);
    for pid in [7, 8] {
        worker(&mut scene, pid, &format!("ray::{class}"), 512);
    }
    for pid in [7, 8] {
        runs(&mut scene, pid, &format!("ray::{method}"));
        sample_memory(&mut scene, pid, now);
    }
    seen(&mut scene);
    scene.anon_at_exit = Bytes(now << 20);
    ray_kills(&mut scene, 7);
    scene
}

/// Worker 9 dies in the same task, but the limit of its cgroup is another one.
#[test]
fn kill_at_another_limit_is_not_covered() {
    let mut scene = Scene::new();
    for pid in [7, 8, 9] {
        worker(&mut scene, pid, "ray::IDLE", 512);
    }
    for pid in [7, 8, 9] {
        runs(&mut scene, pid, "ray::hog");
    }
    let call = Call {
        process: key(9),
        title: "ray::hog".into(),
        nth: 1,
        began: BootTime(20_000),
        ended: None,
        before: Some(Bytes(512 << 20)),
        after: None,
        peak: None,
    };
    scene.push(Source::Kernel, Observation::Call(call));
    let apart = kernel_kills(&mut scene, 9);
    for pid in [7, 8] {
        sample_memory(&mut scene, pid, 3072);
    }
    scene.anon_at_exit = Bytes(3 * GIB);
    ray_kills(&mut scene, 7);
    let calls = scene.death(9).activity.calls;
    assert!(calls.is_some_and(|calls| calls.died_in.is_some()));
    let finding = fires(&scene, "call-grew");
    assert!(!finding.deaths.contains(&apart), "{finding:?}");
}

#[test]
fn grown_call_names_its_own_setting() {
    let scene = ranks("compute_log_prob", 3072, &format!("{KEY}=64"));
    let finding = fires(&scene, "call-grew");
    assert!(
        finding
            .summary
            .starts_with("The running call of WorkerDict.compute_log_prob had added 2.5 GiB"),
        "{finding:?}"
    );
    assert!(
        finding.remedy[0].starts_with(&format!("{KEY}=")),
        "{finding:?}"
    );
    assert!(finding.remedy[0].ends_with("(now 64)"), "{finding:?}");
    assert!(
        finding
            .saving
            .is_some_and(|saving| saving.bytes > Bytes(GIB))
    );
    silent(&scene, "nothing-fits");
    // A setting that is already at its lowest value gets no remedy.
    let least = fires(
        &ranks("compute_log_prob", 3072, &format!("{KEY}=1")),
        "call-grew",
    );
    assert!(least.remedy.is_empty(), "{least:?}");
    silent(
        &ranks("compute_log_prob", 800, &format!("{KEY}=64")),
        "call-grew",
    );
    silent(
        &ranks("save_checkpoint", 3072, &format!("{KEY}=64")),
        "call-grew",
    );
}

#[test]
fn calls_with_same_batch_are_set_together() {
    const REFERENCE: &str = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu";
    let with = |reference: &str| {
        let mut scene = ranks("compute_log_prob", 3072, &format!("{KEY}=64"));
        let settings = [(KEY, "64"), (REFERENCE, reference)];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = settings.to_vec();
        let configuration = RayFact::Configuration {
            settings,
            worker_id: None,
        };
        scene.says_from(Source::WorkerLog, configuration);
        fires(&scene, "call-grew").remedy[0].clone()
    };
    let both = with("32");
    assert!(both.contains(&format!(" {REFERENCE}=")), "{both}");
    assert!(both.contains(" (now 64 and 32): set both"), "{both}");
    // A batch of 1 in the reference model is small enough already.
    let one = with("1");
    assert!(one.ends_with(" (now 64)"), "{one}");
}

#[test]
fn batch_with_small_logits_is_not_blamed() {
    let with = |vocabulary: &str| {
        let mut scene = ranks("compute_log_prob", 3072, &format!("{KEY}=64"));
        let settings = [
            ("vocab_size", vocabulary),
            ("data.max_prompt_length", "128"),
            ("data.max_response_length", "64"),
            (KEY, "64"),
        ];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        scene.says_from(
            Source::WorkerLog,
            RayFact::Configuration {
                settings: settings.to_vec(),
                worker_id: None,
            },
        );
        fires(&scene, "call-grew")
    };
    let large = with("151936");
    assert!(large.remedy[0].starts_with(KEY), "{large:?}");
    assert!(
        large
            .evidence
            .iter()
            .any(|line| line.ends_with("× 2 B = 3.5 GiB")),
        "{large:?}"
    );
    let small = with("1024");
    assert!(small.remedy.is_empty(), "{small:?}");
}

/// No finding about sizes is shown beside it.
#[test]
fn grown_controller_explains_all_victims() {
    let mut scene = Scene::new();
    worker(&mut scene, 8, "ray::TaskRunner", 400);
    runs(&mut scene, 8, "ray::TaskRunner.run");
    sample_memory(&mut scene, 8, 5 * 1024);
    worker(&mut scene, 7, "ray::WorkerDict.update_actor", 512);
    ray_kills(&mut scene, 7);
    let finding = fires(&scene, "controller-grew");
    assert!(
        finding
            .summary
            .starts_with("TaskRunner.run (pid 8) took 4.6 GiB since its job began"),
        "{finding:?}"
    );
    for rule in ["nothing-fits", "victim-not-biggest", "one-process"] {
        silent(&scene, rule);
    }
    let mut steady = Scene::new();
    worker(&mut steady, 8, "ray::TaskRunner", 4 * 1024);
    runs(&mut steady, 8, "ray::TaskRunner.run");
    sample_memory(&mut steady, 8, 5 * 1024);
    worker(&mut steady, 7, "ray::WorkerDict.update_actor", 512);
    ray_kills(&mut steady, 7);
    silent(&steady, "controller-grew");
}

/// A worker with two large subprocesses and another worker are killed in one decision.
///
/// The other worker is signalled first or last, and exits last.
fn one_decision(signalled_first: bool) -> Scene {
    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::RayTrainWorker.run", 300);
    worker(&mut scene, 12, "ray::TrainController.run", 350);
    for pid in [70, 71] {
        scene.process(pid, 7, "ray::RayTrainWorker", Role::Descendant);
        runs(&mut scene, pid, "ray::RayTrainWorker");
        sample_memory(&mut scene, pid, 1500);
    }
    scene.says(monitor_kill(&[7, 12], &[])).after(900);
    let kill = |scene: &mut Scene, pid| {
        scene.signal(RAYLET, pid, 9, 0, true).after(50);
    };
    if signalled_first {
        kill(&mut scene, 12);
    }
    for (pid, mib) in [(7, 300), (70, 1500), (71, 1500)] {
        scene.anon_at_exit = Bytes(mib << 20);
        kill(&mut scene, pid);
        scene.exit(pid, 9);
    }
    if !signalled_first {
        kill(&mut scene, 12);
    }
    scene.anon_at_exit = Bytes(350 << 20);
    scene.exit(12, 9);
    scene
}

#[test]
fn subprocesses_killed_together_were_held() {
    for signalled_first in [false, true] {
        let scene = one_decision(signalled_first);
        let last = scene.death(12);
        assert_eq!(last.memory.top[0].private_bytes, Bytes(1500 << 20));
        let victims = last.memory.top.iter().filter(|one| one.victim);
        assert_eq!(victims.count(), 1, "{:?}", last.memory.top);
        let finding = fires(&scene, "children-grew");
        let summary = "2 subprocesses of RayTrainWorker held 2.93 GiB of their own";
        assert!(finding.summary.starts_with(summary), "{finding:?}");
        assert!(finding.deaths.contains(&last.id), "{finding:?}");
    }
}

#[test]
fn host_memory_setting_precedes_worker_size() {
    let line = format!("-m verl.trainer.main_ppo {OFFLOAD}=True");
    let scene = ranks_of("WorkerDict.update_actor", 1900, &line, |scene| {
        for pid in [7, 8, 9, 10] {
            worker(scene, pid, "ray::WorkerDict.update_actor", 1900);
        }
    });
    let findings = scene.report().findings;
    let place = |rule: &str| findings.iter().position(|finding| finding.rule == rule);
    let setting = place("setting-takes-host-memory");
    assert!(
        setting.is_some() && setting < place("many-workers"),
        "{findings:?}"
    );
}

const MICRO: &str = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu";
const OFFLOAD: &str = "actor_rollout_ref.actor.fsdp_config.optimizer_offload";

#[test]
fn no_batch_is_advised_for_gpu_work() {
    let line = |more: &str| format!("-m verl.trainer.main_ppo {MICRO}=8 {more}");
    let first = |line: &str, seen: fn(&mut Scene)| {
        let scene = ranks_of("WorkerDict.update_actor", 3072, line, seen);
        fires(&scene, "call-grew").remedy.first().cloned()
    };
    let batch = first(&line(""), |_| {}).unwrap_or_default();
    assert!(batch.starts_with(&format!("{MICRO}=")), "{batch}");
    // NVML saw a rank on a GPU, or the engine needs a GPU.
    let on_gpus = |scene: &mut Scene| on_gpu(scene, 8, None, 0, 40);
    assert_eq!(first(&line(""), on_gpus), None);
    assert_eq!(
        first(&line("actor_rollout_ref.rollout.name=vllm"), |_| {}),
        None
    );
    assert_eq!(
        first(&line(&format!("{OFFLOAD}=True")), on_gpus).as_deref(),
        Some(format!("{OFFLOAD}=False (now True)").as_str())
    );
}

/// A framework that needs GPUs, or whose engine does, may be made to run on CPUs.
#[test]
fn batch_is_advised_for_work_on_cpus() {
    const OPENRLHF: &str = "-m openrlhf.cli.train_ppo_ray --train.micro_batch_size=64 \
        --rollout.micro_batch_size=16 --rollout.micro_batch_size=64";
    let first = |line: &str, method: &str, seen: fn(&mut Scene)| {
        let scene = ranks_of(method, 3072, line, seen);
        fires(&scene, "call-grew").remedy.first().cloned()
    };
    let forward = "PolicyModelActor.execute_batch";
    assert_eq!(first(OPENRLHF, forward, |_| {}), None);
    let in_layers: fn(&mut Scene) = |scene| {
        let files = ["torch/nn/functional.py", "transformers/models/qwen2/m.py"];
        grows_in(scene, &files, Some("libtorch_cpu.so"));
    };
    let both = first(OPENRLHF, forward, in_layers).unwrap_or_default();
    // Of an option that was typed twice the last counts.
    assert!(both.starts_with("--rollout.micro_batch_size="), "{both}");
    assert!(both.contains("(now 64 and 64)"), "{both}");
    let values = both
        .split([' ', '='])
        .filter_map(|word| word.parse::<u64>().ok());
    let values: Vec<u64> = values.collect();
    // Training takes twice as much for the same batch.
    assert_eq!(values[0], 2 * values[1], "{both}");
    let by_tokens = format!("{OPENRLHF} --train.dynamic_batch_enable");
    assert_eq!(first(&by_tokens, forward, in_layers), None);
    let device = format!(
        "-m verl.trainer.main_ppo {MICRO}=8 actor_rollout_ref.rollout.name=vllm trainer.device=cpu"
    );
    let batch = first(&device, "WorkerDict.update_actor", |_| {}).unwrap_or_default();
    assert!(batch.starts_with(&format!("{MICRO}=")), "{batch}");
}

/// Since verl 0.8 the critic passes batches of tokens, bounded by a setting that is not printed.
#[test]
fn critic_of_later_verl_has_its_own_bound() {
    let given =
        "-m verl.trainer.main_ppo data.max_prompt_length=1024 data.max_response_length=1024";
    let first = |line: &str| {
        let scene = ranks_of("WorkerDict.critic_train_mini_batch", 3072, line, |_| {});
        fires(&scene, "call-grew").remedy.first().cloned()
    };
    let key = "critic.ppo_infer_max_token_len_per_gpu";
    let advised = first(given).unwrap_or_default();
    let value = advised
        .strip_prefix(&format!("+{key}="))
        .unwrap_or_default();
    let value = value.split(' ').next().and_then(|value| value.parse().ok());
    assert!(
        value.is_some_and(|value: u64| (2048..=16384).contains(&value)),
        "{advised}"
    );
    assert!(
        advised.contains("(now 32768)") && advised.contains("fewer tokens"),
        "{advised}"
    );
    assert!(
        advised.ends_with("(inferred, from the source)"),
        "{advised}"
    );
    // A batch holds at least one sequence.
    assert_eq!(first(&format!("{given} +{key}=2048")), None);
}

#[test]
fn fewer_ranks_if_no_call_setting_helps() {
    let line = format!("-m verl.trainer.main_ppo {MICRO}=8 trainer.n_gpus_per_node=4");
    let with = |more: &str| {
        let scene = ranks_of(
            "WorkerDict.update_actor",
            1900,
            &format!("{line} {more}"),
            |scene| {
                for pid in [9, 10] {
                    worker(scene, pid, "ray::WorkerDict", 512);
                    runs(scene, pid, "ray::WorkerDict.update_actor");
                    sample_memory(scene, pid, 1900);
                    on_gpu(scene, pid, None, 0, 40);
                }
            },
        );
        scene.report().findings[0].clone()
    };
    let finding = with("");
    assert_eq!(finding.rule, "many-workers", "{finding:?}");
    assert_eq!(
        finding.remedy[0],
        "trainer.n_gpus_per_node=1 (now 4): at most 1 WorkerDict on this node, to fill at most 80 % of the limit of 9.0 GiB: each takes 1.9 GiB, everything else took 4.4 GiB"
    );
    assert!(
        finding
            .cost
            .is_some_and(|cost| cost.contains("1 instead of 4 ranks"))
    );
    assert_eq!(finding.saving, None, "what is sharded moves");
    // What the ranks hold was moved there from the GPU.
    let finding = with(&format!("{OFFLOAD}=True"));
    assert_eq!(finding.remedy[0], format!("{OFFLOAD}=False (now True)"));
    let cost = finding.cost.unwrap_or_default();
    assert_eq!(cost, "that much more GPU memory is needed");
}

/// The growth has no remedy of its own.
#[test]
fn host_memory_setting_precedes_bare_growth() {
    let line = "-m openrlhf.cli.train_ppo_ray --ds.adam_offload";
    let grown = ranks_of("PolicyModelActor.fit", 3072, line, |_| {});
    let first = grown.report().findings[0].clone();
    assert_eq!(first.remedy[0], "leave out --ds.adam_offload", "{first:?}");
    // The ranks held as much before the call, so the setting is the only known cause.
    let steady = ranks_of("PolicyModelActor.fit", 3072, line, |scene| {
        for pid in [7, 8] {
            runs(scene, pid, "ray::PolicyModelActor.step");
        }
    });
    assert_eq!(
        steady.report().findings[0].rule,
        "setting-takes-host-memory"
    );
    silent(&steady, "nothing-fits");
    // No process that the setting acts on was there.
    let others = ranks_of("Critic.fit", 3072, line, |_| {});
    assert_eq!(others.report().findings[0].rule, "call-grew");
}

#[test]
fn driver_growth_counts_from_first_worker() {
    let with = |loaded: u64, now: u64| {
        let mut scene = Scene::new();
        sample_memory(&mut scene, 50, loaded);
        worker(&mut scene, 7, "ray::hog", 512);
        sample_memory(&mut scene, 50, now);
        scene.anon_at_exit = Bytes(512 << 20);
        ray_kills(&mut scene, 7);
        scene
    };
    let finding = fires(&with(400, 5 * 1024), "controller-grew");
    assert!(
        finding
            .summary
            .starts_with("the driver (pid 50) took 4.6 GiB"),
        "{finding:?}"
    );
    let steady = with(2200, 2300);
    silent(&steady, "controller-grew");
    fires(&steady, "head-component");
}

#[test]
fn larger_cause_comes_first() {
    let line = format!("-m verl.trainer.main_ppo {KEY}=64");
    let scene = ranks_of("WorkerDict.compute_log_prob", 3072, &line, |scene| {
        worker(scene, 9, "ray::TaskRunner", 400);
        runs(scene, 9, "ray::TaskRunner.run");
        sample_memory(scene, 9, 2400);
    });
    let rules: Vec<String> = scene
        .report()
        .findings
        .into_iter()
        .map(|finding| finding.rule)
        .collect();
    assert_eq!(rules[..2], ["call-grew", "controller-grew"]);
}

/// Worker 7 has grown; see [`grown`].
fn grows_by(scene: &mut Scene, function: Option<&str>, mib: u64) {
    scene.push(Source::Proc, grown(function, mib));
}

/// A line is judged by its share of the whole growth, not of the part that was seen.
#[test]
fn line_of_a_small_part_is_no_remedy() {
    let with = |seen: u64| {
        let scene = ranks_of("Env.step", 3072, "train.py", |scene| {
            grows_by(scene, Some("Env.step"), seen);
            grows_by(scene, None, 1500);
        });
        fires(&scene, "call-grew")
    };
    let named = |remedy: &[String]| remedy.iter().any(|text| text.contains("job.py"));
    let small = with(30);
    assert!(!named(&small.remedy), "{small:?}");
    let part = with(1000);
    assert!(named(&part.remedy), "{part:?}");
    assert!(
        part.remedy[0]
            .contains("1000 MiB (1.46 GiB of 2.44 GiB came through lines that were not seen)"),
        "{part:?}"
    );
    assert_eq!(
        part.saving.map(|saving| saving.bytes),
        Some(Bytes(1000 << 20))
    );
    let most = with(2000);
    assert!(most.remedy[0].contains("100 % of it"), "{most:?}");
}

/// A checkpoint that the user's own code copies has a line. Ranks and optimizer states are those of
/// frameworks.
#[test]
fn own_checkpoint_code_is_named() {
    let with = |function: Option<&str>| {
        let mut scene = Scene::new();
        worker(&mut scene, 7, "ray::Actor", 512);
        runs(&mut scene, 7, "ray::Actor.save_checkpoint");
        sample_memory(&mut scene, 7, 3072);
        grows_by(&mut scene, function, 2000);
        scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
        ray_kills(&mut scene, 20);
        fires(&scene, "save-spike")
    };
    let own = with(Some("Actor.save_checkpoint"));
    assert!(
        own.remedy[0].starts_with("job.py:12 Actor.save_checkpoint "),
        "{own:?}"
    );
    assert_eq!(own.cost, None);
    let unknown = with(None);
    assert!(
        !unknown.remedy.iter().any(|text| text.contains("optimizer")),
        "{unknown:?}"
    );
}

/// Worker 7 has grown in these files of packages, the innermost first, and in a native library.
fn grows_in(scene: &mut Scene, files: &[&str], library: Option<&str>) {
    let frames = files.iter().map(|file| PythonFrame {
        file: format!("/v/lib/python3.11/site-packages/{file}"),
        function: "step".into(),
        line: 12,
    });
    let native = library.map(|library| NativeFrame {
        library: library.to_owned(),
        function: Some("at::detail::empty_generic".into()),
    });
    let stack = PythonStack {
        process: key(7),
        tid: None,
        grown: Bytes(1 << 20),
        shared: Bytes(0),
        mapping: None,
        repeats: false,
        frames: frames.collect(),
        unsampled: None,
        native: native.into_iter().collect(),
    };
    scene.push(Source::Proc, Observation::Stack(stack));
}

/// In the optimizer's step, neither a smaller batch nor fewer ranks help.
#[test]
fn optimizer_growth_advises_precision() {
    let line = format!("-m verl.trainer.main_ppo {MICRO}=8 trainer.n_gpus_per_node=2");
    let with = |file: &str| {
        let scene = ranks_of("WorkerDict.update_actor", 3072, &line, |scene| {
            grows_in(scene, &[file], None);
        });
        fires(&scene, "call-grew").remedy
    };
    let states = with("torch/optim/adamw.py");
    assert_eq!(
        states[0],
        "actor_rollout_ref.actor.fsdp_config.model_dtype=bf16"
    );
    assert!(
        states[1].starts_with("about 2.5 GiB more memory"),
        "{states:?}"
    );
    let batch = with("torch/nn/modules/linear.py");
    assert!(batch[0].starts_with(&format!("{MICRO}=")), "{batch:?}");
}

#[test]
fn fewer_loaders_only_for_the_controller() {
    let with = |class: &str| {
        let line = "-m verl.trainer.main_ppo data.dataloader_num_workers=8";
        let scene = ranks_of(&format!("{class}.run"), 600, line, |scene| {
            for pid in [70, 71] {
                scene.process(pid, 7, "python", Role::Descendant);
                runs(scene, pid, &format!("ray::{class}"));
                sample_memory(scene, pid, 1500);
            }
        });
        fires(&scene, "children-grew").remedy
    };
    assert_eq!(
        with("TaskRunner"),
        ["data.dataloader_num_workers=4 (now 8)"]
    );
    assert_eq!(with("WorkerDict"), Vec::<String>::new());
}

#[test]
fn offload_remedy_names_what_moved_it() {
    let with = |class: &str, line: &str| {
        let scene = ranks_of(&format!("{class}.work"), 1024, line, |scene| {
            on_gpu(scene, 7, None, 0, 40);
            scene.after(1_000_000);
            on_gpu(scene, 7, None, 0, 38);
            scene.after(1_000_000);
            sample_memory(scene, 7, 3072);
        });
        fires(&scene, "offload-to-host").remedy.join("; ")
    };
    let line = format!("-m verl.trainer.main_ppo {OFFLOAD}=True");
    assert_eq!(
        with("WorkerDict", &line),
        format!("{OFFLOAD}=False (now True)")
    );
    let line = "-m openrlhf.cli.train_ppo_ray --vllm.enable_sleep";
    for class in ["LLMRayActor", "RolloutRayActor"] {
        assert_eq!(with(class, line), "leave out --vllm.enable_sleep");
    }
}
