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

/// It names only a pid, which an earlier worker had.
#[test]
fn old_eviction_by_pid_is_ignored() {
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
fn monitor_record_and_raylet_kill_are_proof() {
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

/// The words of the kill record are unknown, or it was not read.
#[test]
fn exit_type_shows_the_monitor() {
    let by_gcs = |exit_type| RayFact::GcsWorkerExit {
        worker_id: hex(7),
        exit_type,
        detail: String::new(),
        node_id: None,
    };
    let by_raylet = |exit_type| RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type,
        graceful: Some(false),
        driver: false,
        job_id: None,
    };
    let killer = |fact: RayFact| {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        scene.after(900).says(fact);
        scene.death(7).verdict.killer
    };
    let memory = ExitType::NodeOutOfMemory;
    for fact in [by_gcs(memory), by_raylet(memory)] {
        assert_eq!(killer(fact), Killer::RayMemoryMonitor);
    }
    assert_eq!(killer(by_gcs(ExitType::SystemError)), Killer::Unknown);
}

/// It was starting an actor or a task, and had not set its title.
#[test]
fn kill_record_names_an_idle_worker() {
    let killed = |title: &str| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        let mut record = monitor_kill(&[7], &[]);
        if let RayFact::MonitorKill(kill) = &mut record {
            kill.selected[0].task_name = Some("rollout".into());
        }
        scene.says(record).signal(RAYLET, 7, 9, 0, true).after(50);
        scene.exit_titled(7, 9, title);
        scene.death(7)
    };
    let death = killed("ray::IDLE");
    assert_eq!(death.process.title.as_deref(), Some("ray::rollout"));
    assert_eq!(death.work.task_name.as_deref(), Some("rollout"));
    let death = killed("ray::score");
    assert_eq!(death.process.title.as_deref(), Some("ray::score"));
}

#[test]
fn user_kill_of_spared_worker_is_signal() {
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
fn raylet_kill_without_reason_is_unknown() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

#[test]
fn kill_record_in_worker_log_proves_nothing() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .says_from(Source::WorkerLog, monitor_kill(&[7], &[]))
        .after(900);
    scene.signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Unknown, Unknown);
}

/// The kernel had killed the worker first.
#[test]
fn late_monitor_record_stays_evidence() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene
        .signal(7, 7, 9, 128, true)
        .oom_victim(7, 7, true, &["mem_cgroup_out_of_memory"])
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
fn ray_kill_in_logs_only_is_inferred() {
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
fn kill_request_after_exit_is_no_cause() {
    let mut scene = Scene::new();
    scene.ray_worker(7).exit(7, 4 << 8);
    scene.after(9000).says(RayFact::KillActorRequested {
        worker_id: hex(7),
        actor_id: None,
    });
    assert_verdict!(scene, 7, Exit, Proven);
}

#[test]
fn worker_is_believed_about_its_own_exit() {
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
fn actor_failure_with_exit_0_is_listed() {
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
fn exit_1_without_ebpf_may_be_sigterm() {
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
fn late_handler_belongs_to_first_sender() {
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
fn exit_after_sigterm_without_id_is_unknown() {
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
fn exit_after_sigterm_without_log_is_unknown() {
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

/// The worker did not exit by itself, and the sender is not known.
#[test]
fn sigterm_in_own_log_is_unknown() {
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
fn crashed_owner_node_names_its_raylet() {
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
fn kill_after_five_second_grace_is_intended() {
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
fn sys_exit_before_raylet_sigterm_is_exit() {
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
    // A handler of that SIGTERM exits with 1 too.
    assert_verdict!(scene, 7, Exit, Inferred);
}

#[test]
fn removed_placement_group_is_intended() {
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
fn retried_task_did_not_end_the_job() {
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
fn worker_dead_before_register_is_unknown() {
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
fn unknown_reason_on_newer_ray_is_noted() {
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
fn unread_kill_record_is_a_note() {
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
