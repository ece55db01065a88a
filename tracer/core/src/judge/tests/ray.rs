//! Kills by the raylet, with and without a reason from Ray, and exits that Ray asked for.

use super::scene::{RAYLET, Scene, hex, monitor_kill};
use crate::{
    assert_verdict, clause,
    event::Source,
    ids::{HexId, Pid},
    judge::{
        cause::Cause,
        report::{Killer, Outcome, Relation},
    },
    ray::facts::{ExitType, MonitorKill, RayFact},
};

#[test]
fn an_eviction_of_long_ago_that_names_a_pid_alone_is_an_earlier_workers() {
    for (seconds, killer) in [(3600, Killer::RayIntended), (0, Killer::RayMemoryMonitor)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).says(RayFact::MonitorEvicted {
            pid: Pid(7),
            worker_id: None,
        });
        scene
            .after(seconds * 1_000_000)
            .says(RayFact::JobFinished { worker_id: hex(7) });
        scene.after(100).signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        assert_eq!(scene.death(7).verdict.killer, killer, "after {seconds} s");
    }
}

#[test]
fn the_monitors_record_and_the_raylets_kill_are_proof() {
    for term_first in [true, false] {
        let mut scene = Scene::new();
        scene
            .ray_worker(7)
            .ray_worker(8)
            .says(monitor_kill(&[7], &[8]))
            .after(900);
        if term_first {
            scene.signal(RAYLET, 7, 15, 0, false).after(210);
        }
        scene.signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        let death = assert_verdict!(scene, 7, RayMemoryMonitor, Proven);
        assert_eq!(death.sender.expect("sender").relation, Relation::Ray);
    }
}

#[test]
fn a_spared_candidate_that_the_user_kills_is_not_the_monitors() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .ray_worker(8)
        .says(monitor_kill(&[7], &[8]))
        .after(900);
    scene.signal(66, 8, 9, 0, true).after(50);
    scene.exit(8, 9);
    assert_verdict!(scene, 8, Signal, Proven);
}

#[test]
fn a_raylets_kill_without_a_reason_is_unknown() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn a_forged_kill_record_in_a_workers_own_log_proves_nothing() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .says_from(Source::WorkerLog, monitor_kill(&[7], &[]))
        .after(900);
    scene.signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn rays_record_of_a_worker_that_the_kernel_killed_first_stays_evidence() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene
        .signal(7, 7, 9, 128, true)
        .marked(7, 7, true, &["mem_cgroup_out_of_memory"])
        .after(20_000);
    scene.says(monitor_kill(&[7], &[])).after(100);
    scene
        .signal_with(RAYLET, 7, 15, 0, false, 1)
        .signal_with(RAYLET, 7, 9, 0, false, 1)
        .after(10);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOomMemcg, Proven);
    assert!(
        death
            .verdict
            .evidence
            .iter()
            .any(|piece| piece.source == "raylet.out")
    );
}

#[test]
fn ray_kill_is_intended_and_only_text_says_so() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .says(RayFact::KillActorRequested {
            worker_id: hex(7),
            actor_id: HexId::parse("ab"),
        })
        .after(9000);
    scene.exit(7, 1 << 8);
    let death = assert_verdict!(scene, 7, RayIntended, Inferred);
    assert!(!death.listed);
}

#[test]
fn a_request_that_comes_after_the_exit_did_not_cause_it() {
    let mut scene = Scene::new();
    scene.ray_worker(7).exit(7, 4 << 8);
    scene.after(9000).says(RayFact::KillActorRequested {
        worker_id: hex(7),
        actor_id: None,
    });
    assert_verdict!(scene, 7, Exit, Proven);
}

#[test]
fn a_worker_that_says_why_it_exits_is_believed_about_itself() {
    let mut scene = Scene::new();
    let detail = "Worker exits because the actor is killed. The actor is dead because it was killed by `ray.kill`.";
    scene.ray_worker(7).ray_worker(8).says_from(
        Source::WorkerLog,
        RayFact::SelfDisconnect {
            exit_type: ExitType::IntendedSystemExit,
            detail: detail.into(),
            worker_id: Some(hex(7)),
        },
    );
    scene.after(10).exit(7, 1 << 8);
    scene.exit(8, 1 << 8);
    let death = assert_verdict!(scene, 7, RayIntended, Inferred);
    assert!(
        clause::summary(&death).contains("ray.kill"),
        "{}",
        clause::summary(&death)
    );
    assert_verdict!(scene, 8, Exit, Proven);
}

#[test]
fn a_failure_in_an_actor_is_listed_although_its_process_exits_with_0() {
    let failed = |exit_type, detail: &str| {
        let mut scene = Scene::new();
        scene.ray_worker(7).says_from(
            Source::WorkerLog,
            RayFact::SelfDisconnect {
                exit_type,
                detail: detail.into(),
                worker_id: Some(hex(7)),
            },
        );
        scene.after(10).exit(7, 0);
        assert_verdict!(scene, 7, Exit, Proven)
    };
    let death = failed(
        ExitType::SystemError,
        "Worker exits unexpectedly. Worker exits with an exit code 4.",
    );
    assert!(death.listed);
    assert_eq!(death.verdict.cause, Cause::exit(4));
    let death = failed(
        ExitType::UserError,
        "Worker exits because there was an exception in the initialization method (e.g., __init__).",
    );
    assert!(death.listed);
    assert!(clause::summary(&death).contains("while its actor was created"));
    let death = failed(ExitType::SystemError, "Worker failed to get task arguments");
    assert!(!death.listed);
}

#[test]
fn an_exit_with_code_1_may_be_a_sigterm_that_could_not_be_seen() {
    let says = |code: u32| RayFact::SelfDisconnect {
        exit_type: ExitType::UserError,
        detail: format!("Worker exits with an exit code {code}."),
        worker_id: Some(hex(7)),
    };
    for (ebpf, code, status, killer) in [
        (false, 1, 9, Killer::Unknown),
        (false, 1, 1 << 8, Killer::Unknown),
        (false, 7, 9, Killer::Exit),
        (false, 7, 7 << 8, Killer::Exit),
        (true, 1, 9, Killer::Exit),
        (true, 1, 1 << 8, Killer::Exit),
    ] {
        let mut scene = Scene::new();
        if !ebpf {
            scene.without_ebpf();
        }
        scene
            .ray_worker(7)
            .says_from(Source::WorkerLog, says(code))
            .after(10)
            .exit(7, status);
        let verdict = scene.death(7).verdict;
        assert_eq!(verdict.killer, killer, "{code} {status} {verdict:?}");
        let unknown = killer == Killer::Unknown;
        assert_eq!(verdict.missing.is_some(), unknown, "{verdict:?}");
    }
}

/// An earlier SIGTERM ends the worker. The raylet's SIGTERM only follows its disconnection.
#[test]
fn a_handler_that_runs_late_is_the_senders_doing_and_not_the_raylets() {
    for (sender, killer) in [(66, Killer::Signal), (7, Killer::Exit)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(sender, 7, 15, 0, false);
        scene.after(4_000_000).says_from(
            Source::WorkerLog,
            RayFact::SelfDisconnect {
                exit_type: ExitType::UserError,
                detail: "Worker exits with an exit code 1. The process receives a SIGTERM.".into(),
                worker_id: Some(hex(7)),
            },
        );
        scene.after(30_000).signal(RAYLET, 7, 15, 0, false);
        scene.after(10_000).exit(7, 1 << 8);
        let verdict = scene.death(7).verdict;
        assert_eq!(verdict.killer, killer, "{verdict:?}");
    }
}

#[test]
fn an_exit_after_the_raylets_sigterm_is_unknown_without_a_worker_id() {
    for (status, killer) in [
        (0, Killer::Unknown),
        (1 << 8, Killer::Unknown),
        (7 << 8, Killer::Exit),
    ] {
        let mut scene = Scene::new();
        scene.process(7, RAYLET, "ray::hog", crate::event::Role::Worker);
        scene.signal(RAYLET, 7, 15, 0, false);
        scene.after(200_000).exit(7, status);
        let verdict = scene.death(7).verdict;
        assert_eq!(verdict.killer, killer, "{verdict:?}");
    }
}

#[test]
fn an_exit_after_the_raylets_sigterm_is_unknown_where_no_log_was_read() {
    for (status, read, killer) in [
        (0, false, Killer::Unknown),
        (0, true, Killer::Exit),
        (7 << 8, false, Killer::Exit),
    ] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        if read {
            scene.says(RayFact::Disconnected {
                worker_id: Some(hex(7)),
                exit_type: ExitType::SystemError,
                graceful: Some(false),
                driver: false,
                job_id: None,
            });
        }
        scene.signal(RAYLET, 7, 15, 0, false);
        scene.after(200_000).exit(7, status);
        let verdict = scene.death(7).verdict;
        assert_eq!(verdict.killer, killer, "{verdict:?}");
    }
}

#[test]
fn a_worker_whose_own_log_names_a_sigterm_did_not_exit_by_itself() {
    let mut scene = Scene::new();
    scene.ray_worker(7).says_from(
        Source::WorkerLog,
        RayFact::SelfDisconnect {
            exit_type: ExitType::UserError,
            detail: "Worker exits with an exit code 1. The process receives a SIGTERM.".into(),
            worker_id: Some(hex(7)),
        },
    );
    scene.after(10).exit(7, 1 << 8);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn an_owner_whose_node_crashed_is_not_the_cause_but_its_raylet_is() {
    let mut scene = Scene::new();
    let reason = "The actor is dead because its owner has died. Owner Id: 00000032 Owner Ip address: 192.0.2.2 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.";
    let reason = reason.replace("00000032", &hex(50).0);
    scene
        .ray_worker(7)
        .signal(66, RAYLET, 9, 0, true)
        .says_from(
            Source::WorkerLog,
            RayFact::ForceKillActor {
                reason,
                worker_id: Some(hex(7)),
            },
        );
    scene.after(10).exit(7, 1 << 8);
    let raylet = scene.after(10).exit(RAYLET, 9);
    // The driver is killed later.
    scene.after(1_000_000).signal(66, 50, 9, 0, true).after(5);
    scene.exit(50, 9);
    let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(raylet));
}

#[test]
fn the_fall_back_kill_after_five_seconds_is_intended() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .says(RayFact::KillActorRequested {
            worker_id: hex(7),
            actor_id: None,
        })
        .after(5_000_000);
    scene
        .says(RayFact::ForceKilled {
            pid: crate::ids::Pid(7),
        })
        .after(100);
    scene.signal(RAYLET, 7, 9, 0, true).after(10);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, RayIntended, Proven);
}

#[test]
fn sys_exit_in_a_task_is_an_exit_although_the_raylet_sends_term_after_it() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.says(RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type: ExitType::SystemError,
        graceful: Some(false),
        driver: false,
        job_id: None,
    });
    scene.after(100).signal(RAYLET, 7, 15, 0, false).after(1000);
    scene.exit(7, 1 << 8);
    assert_verdict!(scene, 7, Exit, Proven);
}

#[test]
fn a_removed_placement_group_ends_its_workers_on_purpose() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.says(RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type: ExitType::IntendedSystemExit,
        graceful: Some(false),
        driver: false,
        job_id: None,
    });
    scene.after(100).signal(RAYLET, 7, 15, 0, false).after(1000);
    scene.exit(7, 0);
    assert_verdict!(scene, 7, RayIntended, Inferred);
}

#[test]
fn a_task_that_was_retried_did_not_end_the_job() {
    for (will_retry, ended_by_driver) in [(true, true), (false, false)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).says(monitor_kill(&[7], &[])).after(900);
        scene.signal(RAYLET, 7, 9, 0, true).after(50);
        let victim = scene.exit(7, 9);
        scene.after(50_000).says_from(
            Source::WorkerLog,
            RayFact::TaskFailed {
                task_id: None,
                error: "OUT_OF_MEMORY".into(),
                will_retry: Some(will_retry),
                retries_left: Some(3),
                task_name: Some("hog".into()),
                job_id: HexId::parse("01000000"),
            },
        );
        let driver = {
            scene.after(1_000_000);
            scene.exit(50, 1 << 8)
        };
        let job = scene.report().jobs.remove(0);
        assert_eq!(job.outcome, Outcome::Failed);
        assert_eq!(
            job.ended_by_death_id,
            Some(if ended_by_driver { driver } else { victim })
        );
        assert_eq!(scene.death(7).then.is_some(), will_retry);
    }
}

#[test]
fn a_worker_that_was_dead_before_it_registered_was_not_killed_for_that() {
    for alive in [true, false] {
        let mut scene = Scene::new();
        let pid = crate::ids::Pid(7);
        scene
            .ray_worker(7)
            .says(RayFact::NotRegistered { pid, alive });
        scene.after(900).signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        if alive {
            assert_verdict!(scene, 7, RayIntended, Proven);
        } else {
            assert_verdict!(scene, 7, Unknown, Unknown);
        }
    }
}

#[test]
fn an_end_without_a_known_reason_on_a_newer_ray_is_unknown_and_the_version_is_named() {
    for (version, noted) in [("2.99.1", true), ("2.60.0", false)] {
        let mut scene = Scene::new();
        scene.change_cluster(|cluster| cluster.ray_version = Some(version.into()));
        scene
            .ray_worker(7)
            .signal(RAYLET, 7, 9, 0, true)
            .after(3000);
        scene.exit(7, 9);
        let report = scene.report();
        assert_eq!(report.deaths[0].verdict.killer, Killer::Unknown);
        let names = report.notes.iter().any(|note| note.contains(version));
        assert_eq!(names, noted, "{:?}", report.notes);
    }
}

/// No grammar knows the kill record of this Ray version: the killer stays unknown, and a note names
/// the version.
#[test]
fn a_kill_record_in_words_of_another_version_is_a_note_and_no_verdict() {
    let mut scene = Scene::new();
    scene.change_cluster(|cluster| cluster.ray_version = Some("9.1.0".into()));
    scene
        .ray_worker(7)
        .says(RayFact::MonitorKill(MonitorKill::default()))
        .signal(RAYLET, 7, 9, 0, true)
        .after(100)
        .exit(7, 9);
    assert_eq!(scene.death(7).verdict.killer, Killer::Unknown);
    let notes = scene.report().notes;
    let unread: Vec<&String> = (notes.iter())
        .filter(|note| note.contains("9.1.0") && note.starts_with("1 "))
        .collect();
    assert_eq!(unread.len(), 1, "{notes:?}");
}
