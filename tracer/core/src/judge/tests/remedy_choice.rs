//! Which remedies a finding offers, and for whom.
//!
//! One finding covers all kills that it explains. Only the user's own tasks get a change of
//! `@ray.remote`. A higher limit that only delays the kill is not advised. Each of several remedies
//! states its cost.

use super::{
    findings::{
        GIB, fires, kernel_kills, monitor_started, ray_kills, sample_machine, sample_memory,
        settings, silent, worker,
    },
    scene::{RAYLET, Scene, grown, hex, key},
};
use crate::{
    event::{Call, MemorySplit, Observation, Process, PythonFrame, Source},
    ids::{BootTime, Bytes, EventId, HexId},
    judge::report::Finding,
    ray::facts::RayFact,
};

const RESOURCES: &str = "--static_resource_list=node:10.0.0.1,1.0,CPU,8,memory,8589934592";

/// Starts one `hog` task for each size in `mib`, with pids from `from`. Ray kills the first one.
fn hogs(scene: &mut Scene, from: u32, mib: &[u64]) -> EventId {
    for (pid, mib) in (from..).zip(mib) {
        worker(scene, pid, "ray::hog", *mib);
    }
    scene.anon_at_exit = Bytes(mib[0] << 20);
    ray_kills(scene, from)
}

fn with_resources(scene: &mut Scene) {
    let argv = ["raylet", RESOURCES].map(str::to_owned).to_vec();
    scene.change_process(RAYLET, |raylet: &mut Process| raylet.argv = argv);
}

#[test]
fn kills_of_one_class_share_a_finding() {
    let mut scene = Scene::new();
    // These tasks are still growing: no three of them have the same size.
    let first = hogs(&mut scene, 7, &[2900, 2100, 1500, 1000]);
    scene.after(5_000_000);
    let second = hogs(&mut scene, 17, &[2400, 2300, 2200]);
    let finding = fires(&scene, "many-workers");
    assert_eq!(finding.deaths.len(), 2, "{finding:?}");
    assert!(finding.deaths.contains(&first) && finding.deaths.contains(&second));
    assert!(
        finding.summary.contains("together when pid 17 was killed"),
        "{finding:?}"
    );
    silent(&scene, "nothing-fits");
}

/// All workers of a class count as this class, so they do not reduce the room for it.
#[test]
fn other_sizes_belong_to_the_class() {
    let mut scene = Scene::new();
    with_resources(&mut scene);
    // This class holds 9.2 of the 10 GiB: two tasks of 2.2 GiB fit beside the memory of others.
    hogs(&mut scene, 7, &[2400, 2300, 2200, 1500, 1000]);
    let finding = fires(&scene, "many-workers");
    assert_eq!(
        finding.remedy,
        [
            "num_cpus=4 in .options() or the @ray.remote of hog: 2 at once instead of 5; none had finished a call, so each may take more",
            // More than a third of the node's `memory` resource.
            "memory=2752*1024**2 in .options() or the @ray.remote of hog: 2 at once instead of 5 (Ray reserves it; it is no limit)"
        ]
    );
}

#[test]
fn retry_loop_repeats_the_memory_of_many_workers() {
    let mut scene = Scene::new();
    with_resources(&mut scene);
    for from in [7, 17, 27] {
        hogs(&mut scene, from, &[2400, 2300, 2200, 1500, 1000]);
        scene.after(100_000).retries_after_oom("hog");
        scene.after(20_000_000);
    }
    let memory = |rule| {
        let remedies = fires(&scene, rule).remedy.into_iter();
        let mut memory = remedies.filter(|text| text.starts_with("memory="));
        memory.next()
    };
    let advised = memory("many-workers");
    assert!(advised.is_some());
    assert_eq!(memory("retry-loop"), advised);
}

#[test]
fn only_user_tasks_get_a_memory_remedy() {
    let alone = |title: &str| {
        let mut scene = Scene::new();
        worker(&mut scene, 8, "ray::other", 2 * 1024);
        worker(&mut scene, 7, title, 6 * 1024);
        scene.anon_at_exit = Bytes(6 * GIB);
        ray_kills(&mut scene, 7);
        let Some(Observation::Exit(exit)) = scene.events.last_mut().map(|event| &mut event.what)
        else {
            panic!("an exit is last");
        };
        exit.title = Some(title.into());
        let remedy = fires(&scene, "one-process").remedy;
        remedy.into_iter().find(|text| text.contains("@ray.remote"))
    };
    let memory = alone("ray::embed").unwrap_or_default();
    assert!(memory.starts_with("memory=6*1024**3 in its"), "{memory}");
    for title in [
        "ray::SingleAgentEnvRunner.apply",
        "ray::MapBatches(embed)",
        "ray::ReadCSV->Map(embed)",
        "ray::Trainer",
    ] {
        assert_eq!(alone(title), None, "{title}");
    }
}

#[test]
fn leaking_library_task_gets_no_max_calls() {
    let remedy = |title: &str| {
        let mut scene = Scene::new();
        leaks(&mut scene, title, 200);
        scene.ray_worker(20).anon_at_exit = Bytes(GIB / 8);
        ray_kills(&mut scene, 20);
        fires(&scene, "leak")
    };
    let own = remedy("ray::embed");
    assert!(own.remedy[0].starts_with("max_calls="), "{own:?}");
    assert!(own.cost.is_some());
    let library = remedy("ray::MapBatches(embed)");
    assert!(
        library.remedy[0].starts_with("find the line: "),
        "{library:?}"
    );
    // Finding the line costs the run nothing.
    assert_eq!(library.cost, None);
}

/// Worker 7 keeps `mib` MiB more after each of seven calls.
fn leaks(scene: &mut Scene, title: &str, mib: u64) {
    worker(scene, 7, title, mib);
    for nth in 1..8 {
        scene.after(1_000_000);
        let before = mib * u64::from(nth);
        scene.completed_call(7, title, nth, &[before, before + mib]);
    }
    sample_memory(scene, 7, 8 * mib);
}

/// A function that only allocates keeps nothing. What got the memory may.
#[test]
fn leak_names_who_called_the_allocating_line() {
    let fix = |callers: &[(&str, &str)]| {
        let mut scene = Scene::new();
        leaks(&mut scene, "ray::hog", 200);
        let mut stack = grown(Some("hold"), 600);
        if let Observation::Stack(stack) = &mut stack {
            let frame = |(file, function): &(&str, &str)| PythonFrame {
                file: (*file).into(),
                function: (*function).into(),
                line: 25,
            };
            stack.frames.extend(callers.iter().map(frame));
        }
        scene.push(Source::Proc, stack);
        scene.anon_at_exit = Bytes(1600 << 20);
        ray_kills(&mut scene, 7);
        fires(&scene, "leak").remedy.remove(0)
    };
    let free = "free after each call what job.py:12 hold allocates, or bound it";
    let same_file = ("/u/job.py", "inner");
    let known = fix(&[same_file, ("/u/main.py", "Actor.step")]);
    assert_eq!(
        known,
        format!("{free}: find at main.py:25 step what keeps it")
    );
    // A framework calls the code that it was given, and keeps nothing of it.
    let site = "/v/lib/python3.11/site-packages/verl/naive.py";
    let framework = fix(&[(site, "call"), ("/u/main.py", "main")]);
    assert_eq!(framework, format!("{free}: find what keeps it"));
    assert_eq!(fix(&[]), framework);
}

#[test]
fn victims_calls_without_a_row_are_counted() {
    let mut scene = Scene::new();
    leaks(&mut scene, "ray::hog", 200);
    let call = Call {
        process: key(7),
        title: "ray::hog".into(),
        nth: 10,
        began: BootTime(20_000),
        ended: None,
        before: Some(Bytes(2000 << 20)),
        after: None,
        peak: None,
    };
    scene.push(Source::Kernel, Observation::Call(call));
    sample_memory(&mut scene, 7, 2000);
    scene.anon_at_exit = Bytes(2000 << 20);
    ray_kills(&mut scene, 7);
    let finding = fires(&scene, "leak");
    assert_eq!(
        finding.evidence[0],
        "pid 7: 9 complete calls, 200 MiB each, 2.0 GiB held"
    );
    assert!(finding.summary.contains("1.8 GiB in total"), "{finding:?}");
    assert!(
        finding.summary.ends_with("; it died in call 10"),
        "{finding:?}"
    );
}

/// The kernel kills worker 20 at the limit of /job, which Ray does not see. `seen` stages worker 7.
fn hidden(seen: impl Fn(&mut Scene), restarted: bool) -> Scene {
    let mut scene = Scene::new();
    monitor_started(&mut scene, 95 << 20, 100 << 20);
    seen(&mut scene);
    scene.ray_worker(20).anon_at_exit = Bytes(1 << 20);
    for pid in [7, 20, RAYLET] {
        scene.change_process(pid, |process: &mut Process| {
            process.cgroup = Some("/job/ray".into());
        });
    }
    kernel_kills(&mut scene, 20);
    if restarted {
        scene.after(100_000).says(RayFact::ActorState {
            actor_id: HexId("aaaabbbbccccddddeeee000001000000".into()),
            state: "RESTARTING".into(),
            restarts_left: Some(1),
            worker_id: Some(hex(20)),
            node_id: None,
        });
    }
    scene
}

fn steady(scene: &mut Scene) {
    worker(scene, 7, "ray::Rollout.step", 50);
}

#[test]
fn lower_threshold_is_advised_if_retried() {
    let of = |restarted| fires(&hidden(steady, restarted), "hidden-limit");
    let threshold = "RAY_memory_usage_threshold=0.57";
    let lost = of(false);
    assert!(
        lost.remedy[0].starts_with("raise the limit")
            && lost.remedy[1].contains(threshold)
            && lost.remedy[1]
                .contains(": saves no memory, and a call without a retry still fails, but"),
        "{lost:?}"
    );
    let retried = of(true);
    assert!(
        retried.remedy[1].contains(threshold) && retried.remedy[1].ends_with(", and retries"),
        "{retried:?}"
    );
}

#[test]
fn leak_gets_no_higher_limit() {
    let raises = |finding: &Finding| {
        let mut remedies = finding.remedy.iter();
        remedies.any(|text| text.starts_with("raise the limit of /job"))
    };
    let size = fires(&hidden(steady, false), "hidden-limit");
    assert!(raises(&size), "{size:?}");
    assert!(
        size.remedy[0].contains(", write 80M to /sys/fs/cgroup/job/memory.max "),
        "{size:?}"
    );
    let leak = hidden(|scene| leaks(scene, "ray::Rollout.step", 7), false);
    fires(&leak, "leak");
    let limit = fires(&leak, "hidden-limit");
    assert!(!raises(&limit), "{limit:?}");
    // Ray can be made to act below the limit.
    let threshold = &limit.remedy[0];
    assert!(
        threshold.starts_with("RAY_memory_usage_threshold=0.57 ")
            && threshold.contains(": saves no memory"),
        "{limit:?}"
    );
}

/// A threshold is no remedy if Ray itself is outside the cgroup.
#[test]
fn only_remedy_for_a_leak_says_that_it_delays() {
    let mut leak = hidden(|scene| leaks(scene, "ray::Rollout.step", 7), false);
    leak.change_process(RAYLET, |raylet: &mut Process| {
        raylet.cgroup = Some("/elsewhere".into());
    });
    let limit = fires(&leak, "hidden-limit");
    let [only] = &limit.remedy[..] else {
        panic!("{limit:?}");
    };
    assert!(
        only.starts_with("raise the limit of /job from ")
            && only.ends_with("; this only delays the kill while memory keeps growing"),
        "{only}"
    );
}

/// Two workers whose running calls had taken 5 GiB when Ray killed one at a threshold that somebody
/// had set. `used` is what the machine had in use in the middle of that, if it was sampled.
fn lowered_threshold(threshold: &str, limit: u64, used: Option<u64>) -> Scene {
    const KEY: &str = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu";
    let mut scene = Scene::new();
    settings(&mut scene, &[("RAY_memory_usage_threshold", threshold)]);
    monitor_started(&mut scene, limit * GIB, 12 * GIB);
    scene.change_process(50, |driver: &mut Process| {
        let argv = ["-m", "verl.trainer.main_ppo", &format!("{KEY}=64")];
        driver.argv = argv.map(str::to_owned).to_vec();
    });
    for pid in [7, 8] {
        worker(&mut scene, pid, "ray::WorkerDict", 512);
    }
    for pid in [7, 8] {
        let title = Observation::Title {
            process: key(pid),
            title: "ray::WorkerDict.compute_log_prob".into(),
            memory: MemorySplit::default(),
        };
        scene.push(Source::Kernel, title);
        sample_memory(&mut scene, pid, 3072);
    }
    scene.anon_at_exit = Bytes(3 * GIB);
    if let Some(used) = used {
        sample_machine(&mut scene, used);
    }
    ray_kills(&mut scene, 7);
    scene
}

/// The remedy says how much memory the default threshold gives.
#[test]
fn lowered_threshold_is_the_last_remedy() {
    let last = |threshold: &str, limit: u64| {
        let scene = lowered_threshold(threshold, limit, None);
        silent(&scene, "low-threshold");
        let finding = fires(&scene, "call-grew");
        assert!(finding.remedy[0].contains("micro_batch"), "{finding:?}");
        finding.remedy.last().cloned().unwrap_or_default()
    };
    let lowered = last("0.75", 9);
    assert!(
        lowered.starts_with("about 2.5 GiB more memory"),
        "{lowered}"
    );
    assert!(
        lowered.contains("RAY_memory_usage_threshold=0.95")
            && lowered.ends_with("(now 0.75) gives 2.4 GiB of it"),
        "{lowered}"
    );
    assert!(!last("0.95", 9).contains("threshold"));
    // More than is needed.
    let enough = last("0.5", 6);
    assert!(
        enough.starts_with("RAY_memory_usage_threshold=0.95")
            && enough.contains("threshold is then 5.4 GiB higher; about 2.5 GiB more are needed"),
        "{enough}"
    );
}

/// Room on the machine costs nothing, so it comes before a smaller batch. Without room it does not.
#[test]
fn lowered_threshold_comes_first_where_the_machine_has_room() {
    let scene = lowered_threshold("0.5", 6, Some(6 << 10));
    let rules: Vec<String> = (scene.report().findings.iter())
        .map(|finding| finding.rule.clone())
        .collect();
    assert_eq!(rules[0], "low-threshold", "{rules:?}");
    fires(&scene, "call-grew");
    let finding = fires(&scene, "low-threshold");
    assert!(
        finding.remedy[0].starts_with("RAY_memory_usage_threshold=0.95"),
        "{finding:?}"
    );
    let cost = finding.cost.unwrap_or_default();
    assert!(cost.starts_with("none but a restart of Ray"), "{cost}");
    let grew = fires(&scene, "call-grew");
    assert!(
        !grew.remedy.iter().any(|text| text.contains("threshold")),
        "{grew:?}"
    );
    silent(&lowered_threshold("0.5", 6, Some(9 << 10)), "low-threshold");
}
