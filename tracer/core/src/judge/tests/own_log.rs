//! What only a worker's own log says: its user can write anything there.

use super::scene::{Scene, hex};
use crate::{
    assert_verdict, clause,
    judge::report::Death,
    ray::facts::{ExitType, RayFact},
};

fn asked() -> RayFact {
    RayFact::ForceKillActor {
        reason: "The actor is dead because it was killed by `ray.kill`.".into(),
        worker_id: Some(hex(7)),
    }
}

fn left(exit_type: ExitType) -> RayFact {
    RayFact::SelfDisconnect {
        exit_type,
        detail: "Worker exits because the actor is killed.".into(),
        worker_id: Some(hex(7)),
    }
}

fn dropped(worker: bool, exit_type: ExitType) -> RayFact {
    RayFact::Disconnected {
        worker_id: worker.then(|| hex(7)),
        exit_type,
        graceful: None,
        driver: false,
        job_id: None,
    }
}

/// Worker 7 exits with a code after some records, and others follow.
fn exits(code: i32, before: &[RayFact], after: &[RayFact]) -> Scene {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    for fact in before {
        scene.says(fact.clone()).after(1_000);
    }
    scene.after(1_000).exit(7, code << 8);
    for fact in after {
        scene.after(3_000).says(fact.clone());
    }
    scene
}

fn says_so(death: &Death) -> bool {
    clause::summary(death).ends_with(", by its own log alone, which its user can write")
}

#[test]
fn code_of_its_own_stays_its_own() {
    let lost = RayFact::RayletLost {
        raylet_pid: None,
        worker_id: Some(hex(7)),
    };
    for forged in [asked(), left(ExitType::IntendedSystemExit), lost] {
        let scene = exits(3, &[forged], &[dropped(true, ExitType::SystemError)]);
        let death = assert_verdict!(scene, 7, Exit, Proven);
        assert_eq!(death.end.exit_code, Some(3));
        assert!(death.listed && !says_so(&death));
    }
}

#[test]
fn guess_from_the_own_log_is_listed() {
    let death = assert_verdict!(exits(1, &[asked()], &[]), 7, RayIntended, Inferred);
    assert!(death.listed && says_so(&death), "{death:?}");
}

/// Up to Ray 2.35 the raylet does not name the worker.
#[test]
fn own_log_that_the_raylet_confirms_is_not_listed() {
    let own = [asked(), left(ExitType::IntendedSystemExit)];
    for named in [false, true] {
        let record = dropped(named, ExitType::IntendedSystemExit);
        let death = exits(1, &own, &[record]).death(7);
        assert!(!death.listed, "{death:?}");
        assert_eq!(says_so(&death), !named, "{death:?}");
    }
    // Another worker left.
    let other = RayFact::Disconnected {
        worker_id: Some(hex(8)),
        exit_type: ExitType::IntendedSystemExit,
        graceful: None,
        driver: false,
        job_id: None,
    };
    assert!(exits(1, &own, &[other]).death(7).listed);
}

#[test]
fn end_that_ray_took_for_an_error_was_not_asked_for() {
    let own = [asked(), left(ExitType::IntendedSystemExit)];
    let record = dropped(true, ExitType::SystemError);
    let death = assert_verdict!(exits(1, &own, &[record]), 7, Exit, Proven);
    assert!(death.listed);
}

#[test]
fn request_that_the_raylet_recorded_is_normal() {
    let request = RayFact::KillActorRequested {
        worker_id: hex(7),
        actor_id: None,
    };
    let scene = exits(1, &[request, asked()], &[]);
    let death = assert_verdict!(scene, 7, RayIntended, Inferred);
    assert!(!death.listed && !says_so(&death), "{death:?}");
}

/// A dashboard ends that way at `ray stop`. The tool's identity is known, and what it did was seen.
#[test]
fn exit_at_the_signal_of_a_known_tool_is_normal() {
    for (code, listed) in [(15, false), (143, false), (3, true)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(9, 7, 15, 0, false);
        scene.after(1_000).exit(7, code << 8);
        let death = scene.death(7);
        assert_eq!(death.listed, listed, "{death:?}");
    }
}

/// Ray's record comes after the end. A verdict that is given before is open, and the same once
/// that time is over as with all events.
#[test]
fn listing_is_the_same_live_and_in_the_end() {
    let own = [asked(), left(ExitType::IntendedSystemExit)];
    let record = dropped(true, ExitType::IntendedSystemExit);
    let mut alone = exits(1, &own, &[]);
    let exit = alone.events.last().expect("an exit").id;
    assert!(!alone.death_so_far(exit).verdict.settled);
    // Two seconds and more later, with a record that comes too late.
    alone.after(2_500_000).says(record.clone());
    let late = alone.death_so_far(exit);
    assert!(late.verdict.settled && late.listed);
    assert!(alone.death(7).listed);
    let mut confirmed = exits(1, &own, &[record]);
    confirmed
        .after(2_500_000)
        .process(90, 1, "sh", crate::event::Role::Other);
    let settled = confirmed.death_so_far(exit);
    assert!(settled.verdict.settled && !settled.listed, "{settled:?}");
    assert!(!confirmed.death(7).listed);
}
