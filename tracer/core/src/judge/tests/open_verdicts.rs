//! Verdicts that stay open while evidence may come, and chains of causes that are cyclic or long.

use super::scene::{RAYLET, Scene, hex};
use crate::{
    event::{Observation, Role, Source},
    judge::{Judge, report::Killer},
    ray::facts::RayFact,
};

fn owner_died(worker: u32, owner: u32) -> RayFact {
    RayFact::OwnerDied {
        worker_id: hex(worker),
        owner_worker_id: Some(hex(owner)),
        reason: "owner died".into(),
    }
}

#[test]
fn child_killed_by_worker_waits_for_it() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.process(70, 7, "loader", Role::Descendant);
    scene.sent_by_other_thread = true;
    scene.signal(7, 70, 9, 0, true).after(50);
    let child = scene.exit(70, 9);
    let before = scene.death_so_far(child).verdict;
    assert!(!before.settled, "{before:?}");
    scene.after(3_000_000);
    let alive = scene.death_so_far(child).verdict;
    assert_eq!((alive.killer, alive.settled), (Killer::Signal, true));
}

#[test]
fn worker_waits_a_minute_for_owners_end() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).says(owner_died(7, 8));
    scene.signal(RAYLET, 7, 9, 0, true).after(100);
    let exit = scene.exit(7, 9);
    scene.after(50_000_000);
    let waiting = scene.death_so_far(exit).verdict;
    assert_eq!(
        (waiting.killer, waiting.settled),
        (Killer::RayCollapse, false)
    );
    scene.after(11_000_000);
    let lived_on = scene.death_so_far(exit).verdict;
    assert_eq!(
        (lived_on.killer, lived_on.settled),
        (Killer::RayIntended, true)
    );
}

#[test]
fn cyclic_causes_are_judged_in_any_order() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8);
    scene.says(owner_died(7, 8)).says(owner_died(8, 7));
    let mut exits = Vec::new();
    for pid in [7, 8] {
        scene.signal(RAYLET, pid, 9, 0, true).after(100);
        exits.push(scene.exit(pid, 9));
    }
    let report = scene.report();
    for exit in exits {
        let alone = scene.death_so_far(exit).verdict;
        let of_all = report.deaths.iter().find(|death| death.id == exit);
        let of_all = of_all.map(|death| (death.verdict.killer, death.verdict.cause.clone()));
        assert_eq!(of_all, Some((alone.killer, alone.cause)));
    }
}

#[test]
fn long_chain_of_owners_ends() {
    let mut scene = Scene::new();
    for pid in 200..260 {
        scene.ray_worker(pid).says(owner_died(pid, pid + 1));
    }
    for pid in (200..260).rev() {
        scene.signal(RAYLET, pid, 9, 0, true).after(100);
        scene.exit(pid, 9);
    }
    let report = scene.report();
    assert_eq!(report.deaths.len(), 60);
    let killers = report.deaths.iter().map(|death| death.verdict.killer);
    let others: Vec<Killer> = killers.filter(|one| *one != Killer::RayCollapse).collect();
    assert_eq!(others, []);
}

#[test]
fn verdict_is_valid_until_evidence_or_timeout() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.exit(7, 0);
    let mut judge = Judge::default();
    for event in &scene.events {
        judge.observe(event);
    }
    let now = scene
        .event(Source::Recorder, Observation::RecordingEnded)
        .time;
    let validity = judge.validity(now);
    assert!(judge.is_still_valid(validity, now.plus(1_900_000_000)));
    assert!(!judge.is_still_valid(validity, now.plus(2_100_000_000)));
    judge.observe(&scene.event(Source::Recorder, Observation::RecordingEnded));
    assert!(judge.is_still_valid(validity, now));
    let word = Observation::Fork {
        parent: super::scene::key(7),
        child: super::scene::key(70),
    };
    judge.observe(&scene.event(Source::Kernel, word));
    assert!(!judge.is_still_valid(validity, now));
}
