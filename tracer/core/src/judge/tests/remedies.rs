//! What led to a kill and what to turn: a call's own growth, a controller's growth, and which of several findings are told.

use super::{
    findings::{GIB, fires, holds, ray_kills, silent, worker},
    scene::{RAYLET, Scene, key, monitor_kill},
};
use crate::{
    event::{MemorySplit, Observation, Process, Role, Source},
    ids::Bytes,
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

/// Two ranks that held 0.5 GiB (the victim's title is gone by its exit), then `method` until they held `now` MiB of the 9 GiB at which Ray killed one.
fn ranks(method: &str, now: u64, typed: &str) -> Scene {
    let mut scene = Scene::new();
    scene.describe(50, |driver: &mut Process| {
        let line = ["-m", "verl.trainer.main_ppo", typed];
        driver.argv = line.map(str::to_owned).to_vec();
    });
    for pid in [7, 8] {
        worker(&mut scene, pid, "ray::WorkerDict", 512);
    }
    for pid in [7, 8] {
        runs(&mut scene, pid, &format!("ray::WorkerDict.{method}"));
        holds(&mut scene, pid, now);
    }
    scene.anon_at_exit = Bytes(now << 20);
    ray_kills(&mut scene, 7);
    scene
}

#[test]
fn a_call_that_grew_is_bounded_by_the_setting_of_that_call() {
    let scene = ranks("compute_log_prob", 3072, &format!("{KEY}=64"));
    let finding = fires(&scene, "call-grew");
    assert!(
        finding
            .summary
            .starts_with("the running call of WorkerDict.compute_log_prob had added 2.5 GiB"),
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
    // What is lowest already is not raised.
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
fn calls_that_pass_the_same_batch_are_bounded_with_it() {
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
    assert!(both.ends_with(" (now 64, 32)"), "{both}");
    // It is small enough already.
    let one = with("1");
    assert!(one.ends_with(" (now 64)"), "{one}");
}

#[test]
fn a_batch_whose_logits_are_small_is_not_blamed() {
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

#[test]
fn a_controller_that_grew_explains_all_victims_and_no_size_is_told_beside_it() {
    let mut scene = Scene::new();
    worker(&mut scene, 8, "ray::TaskRunner", 400);
    runs(&mut scene, 8, "ray::TaskRunner.run");
    holds(&mut scene, 8, 5 * 1024);
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
    holds(&mut steady, 8, 5 * 1024);
    worker(&mut steady, 7, "ray::WorkerDict.update_actor", 512);
    ray_kills(&mut steady, 7);
    silent(&steady, "controller-grew");
}

#[test]
fn subprocesses_that_died_in_the_same_decision_are_what_was_held_then() {
    let mut scene = Scene::new();
    worker(&mut scene, 7, "ray::RayTrainWorker.run", 300);
    worker(&mut scene, 12, "ray::TrainController.run", 350);
    for pid in [70, 71] {
        scene.process(pid, 7, "ray::RayTrainWorker", Role::Descendant);
        runs(&mut scene, pid, "ray::RayTrainWorker");
        holds(&mut scene, pid, 1500);
    }
    scene.says(monitor_kill(&[7, 12], &[])).after(900);
    for (pid, mib) in [(7, 300), (12, 350)] {
        scene.anon_at_exit = Bytes(mib << 20);
        scene.signal(RAYLET, pid, 9, 0, true).after(50);
        scene.exit(pid, 9);
        if pid == 7 {
            for child in [70, 71] {
                scene.signal(RAYLET, child, 9, 0, true).after(50);
                scene.exit(child, 9);
            }
        }
    }
    let last = scene.death(12);
    assert_eq!(last.memory.top[0].private_bytes, Bytes(1500 << 20));
    assert_eq!(
        last.memory.top.iter().filter(|one| one.victim).count(),
        1,
        "{:?}",
        last.memory.top
    );
    let finding = fires(&scene, "children-grew");
    assert!(
        finding
            .summary
            .starts_with("2 subprocesses of RayTrainWorker held 2.9 GiB of their own"),
        "{finding:?}"
    );
    assert!(finding.deaths.contains(&last.id), "{finding:?}");
}
