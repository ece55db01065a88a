//! Ray's clean-up after the end of a worker is not the cause of that end.
//!
//! This holds in procfs mode too, where the exit is recorded late.

use super::scene::{RAYLET, Scene, hex, monitor_kill};
use crate::{
    assert_verdict,
    event::Source,
    ids::HexId,
    judge::report::Killer,
    ray::facts::{ExitType, RayFact},
};

fn requested() -> RayFact {
    RayFact::KillActorRequested {
        worker_id: hex(7),
        actor_id: HexId::parse("ab"),
    }
}

fn dropped(exit_type: ExitType, graceful: bool) -> RayFact {
    RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type,
        graceful: Some(graceful),
        driver: false,
        job_id: None,
    }
}

fn noted(exit_type: ExitType) -> RayFact {
    RayFact::GcsWorkerExit {
        worker_id: hex(7),
        exit_type,
        detail: "Worker unexpectedly exits with a connection error code 2. End of file.".into(),
        node_id: None,
    }
}

/// A recording without eBPF in which Ray says `words` about worker 7, and its exit follows 300 ms
/// later.
fn late(words: &[RayFact], status: i32) -> Scene {
    let mut scene = Scene::new();
    scene.without_ebpf().ray_worker(7);
    for word in words {
        scene.after(5000).says(word.clone());
    }
    scene.after(300_000).exit(7, status);
    scene
}

#[test]
fn constructor_exit_is_not_rays_cleanup() {
    let error = || dropped(ExitType::SystemError, false);
    for words in [
        vec![requested()],
        vec![error(), requested()],
        vec![requested(), error()],
        vec![error(), noted(ExitType::SystemError), requested()],
        // The raylet was asked before it noticed the exit, and could not reach the worker any more.
        vec![requested(), dropped(ExitType::IntendedSystemExit, false)],
        vec![requested(), noted(ExitType::IntendedSystemExit)],
    ] {
        assert_verdict!(late(&words, 4 << 8), 7, Exit, Proven);
    }
}

/// The exit code is one that Ray's own exits have too.
#[test]
fn error_noted_by_ray_is_no_kill() {
    for (words, status) in [
        (vec![dropped(ExitType::SystemError, false), requested()], 0),
        (vec![requested(), dropped(ExitType::SystemError, false)], 0),
        (vec![requested(), noted(ExitType::SystemError)], 0),
        (vec![requested(), dropped(ExitType::UserError, false)], 0),
    ] {
        assert_verdict!(late(&words, status), 7, Exit, Proven);
    }
    // Without eBPF an exit with code 1 may be a SIGTERM that nobody saw.
    let words = [dropped(ExitType::SystemError, false), requested()];
    assert_verdict!(late(&words, 1 << 8), 7, Unknown, Unknown);
}

/// The raylet asks a worker that is gone to exit, and drops it as a worker that it has ended.
#[test]
fn unreachable_worker_was_not_ended_by_ray() {
    let words = [requested(), dropped(ExitType::IntendedSystemExit, false)];
    assert_verdict!(late(&words, 0), 7, Exit, Proven);
    assert_verdict!(late(&words, 1 << 8), 7, Unknown, Unknown);
    // When a placement group is removed, the raylet drops the worker first.
    let words = [dropped(ExitType::IntendedSystemExit, false), requested()];
    assert_verdict!(late(&words, 0), 7, RayIntended, Inferred);
}

/// The program handles SIGTERM itself and exits with its own code.
#[test]
fn raylet_sigterm_explains_any_exit_code() {
    for code in [7, 143] {
        let mut scene = Scene::new();
        scene
            .ray_worker(7)
            .says(RayFact::JobFinished { worker_id: hex(7) });
        scene
            .after(1000)
            .signal(RAYLET, 7, 15, 0, false)
            .after(1000);
        scene.exit(7, code << 8);
        assert_verdict!(scene, 7, RayIntended, Inferred);
    }
}

/// The handler of a worker raises `SystemExit`, and the worker records that before it leaves: the
/// owner had ended as it was meant to.
#[test]
fn answer_to_the_raylets_sigterm_is_a_normal_end() {
    for by_raylet in [true, false] {
        let mut scene = Scene::new();
        scene.ray_worker(7).ray_worker(8).says(RayFact::OwnerDied {
            worker_id: hex(7),
            owner_worker_id: Some(hex(8)),
            reason: "owner died".into(),
        });
        if by_raylet {
            scene.after(1000).signal(RAYLET, 7, 15, 0, false);
        }
        scene.says(noted(ExitType::SystemError));
        scene.after(100_000).exit(7, 1 << 8);
        scene.after(3_000_000).exit(8, 0);
        assert_verdict!(scene, 7, RayIntended, Inferred);
        assert_eq!(scene.death(7).listed, !by_raylet);
    }
}

/// A worker that loses its raylet exits with code 1.
#[test]
fn own_code_after_raylet_death_is_exit() {
    for code in [1, 4] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, RAYLET, 9, 0, true).after(50);
        scene.exit(RAYLET, 9);
        scene.after(900_000).exit(7, code << 8);
        if code == 1 {
            assert_verdict!(scene, 7, RayCollapse, Inferred);
        } else {
            assert_verdict!(scene, 7, Exit, Proven);
        }
    }
}

#[test]
fn requested_kill_stays_intended() {
    let graceful = dropped(ExitType::IntendedSystemExit, true);
    for words in [
        vec![requested()],
        vec![requested(), graceful.clone()],
        vec![requested(), graceful, noted(ExitType::IntendedSystemExit)],
    ] {
        for status in [0, 1 << 8] {
            assert_verdict!(late(&words, status), 7, RayIntended, Inferred);
        }
    }
}

/// An exit handler of the program may have changed the exit code.
#[test]
fn worker_log_of_requested_kill_is_believed() {
    let mut scene = Scene::new();
    scene.without_ebpf().ray_worker(7).says_from(
        Source::WorkerLog,
        RayFact::ForceKillActor {
            reason: "The actor is dead because it was killed by `ray.kill`.".into(),
            worker_id: Some(hex(7)),
        },
    );
    scene.says(requested()).after(300_000).exit(7, 4 << 8);
    assert_verdict!(scene, 7, RayIntended, Inferred);
}

#[test]
fn fault_during_requested_kill_is_a_crash() {
    for signal in [4, 5, 6, 7, 8, 11] {
        for words in [
            vec![requested()],
            vec![monitor_kill(&[7], &[])],
            vec![dropped(ExitType::IntendedSystemExit, false)],
        ] {
            let scene = late(&words, signal);
            assert_eq!(
                scene.death(7).verdict.killer,
                Killer::Crash,
                "{signal} {words:?}"
            );
        }
    }
}

#[test]
fn unseen_sigkill_before_cleanup_is_unknown() {
    let words = [dropped(ExitType::SystemError, false), requested()];
    assert_verdict!(late(&words, 9), 7, Unknown, Unknown);
    let asked = [requested(), dropped(ExitType::IntendedSystemExit, false)];
    assert_verdict!(late(&asked, 9), 7, RayIntended, Inferred);
}

/// The job fails because of this worker: the driver leaves, and Ray ends the rest of the job.
#[test]
fn later_end_of_job_is_no_cause() {
    let follows = [
        RayFact::JobFinished { worker_id: hex(7) },
        RayFact::OwnerDied {
            worker_id: hex(7),
            owner_worker_id: Some(hex(50)),
            reason: "owner died".into(),
        },
    ];
    for after in follows {
        let words = [dropped(ExitType::SystemError, false), after.clone()];
        assert_verdict!(late(&words, 0), 7, Exit, Proven);
        let words = [after, dropped(ExitType::SystemError, false)];
        let killer = late(&words, 0).death(7).verdict.killer;
        assert!(
            matches!(killer, Killer::RayIntended | Killer::RayCollapse),
            "{words:?}: {killer:?}"
        );
    }
}

#[test]
fn later_raylet_sigterm_is_not_the_cause() {
    let mut scene = late(
        &[
            dropped(ExitType::SystemError, false),
            RayFact::RayletSigterm,
        ],
        1 << 8,
    );
    assert_verdict!(scene, 7, Unknown, Unknown);
    // With eBPF the time of the exit comes from the kernel.
    scene = Scene::new();
    scene.ray_worker(7).exit(7, 1 << 8);
    scene.after(9000).says(RayFact::RayletSigterm);
    scene.after(100).signal(RAYLET, 7, 15, 1, false);
    assert_verdict!(scene, 7, Exit, Proven);
}
