//! Deaths that follow from another death name it as their cause.
//!
//! The order of the acts decides, not the order of the exits.

use libc::SIGTERM;

use super::scene::{MEMCG, RAYLET, Scene, hex, key};
use crate::{
    assert_verdict,
    event::{Observation, PendingSignals, Role, Source, Worker},
    ids::{EventId, Pid},
    judge::{
        cause::Cause,
        report::{Certainty, Killer, Relation},
    },
    ray::facts::{ExitType, RayFact},
};

#[test]
fn agent_death_ends_raylet_and_workers() {
    let mut scene = Scene::new();
    scene.dashboard_agent(30);
    scene.ray_worker(7).ray_worker(8);
    scene.signal(66, 30, 9, 0, true).after(50);
    let agent = scene.exit(30, 9);
    scene
        .after(15_000)
        .says(RayFact::AgentFailed {
            agent: "dashboard_agent".into(),
        })
        .after(500);
    for pid in [7, 8] {
        scene
            .signal(RAYLET, pid, 15, 0, false)
            .signal(RAYLET, pid, 9, 0, true)
            .after(50);
        scene.exit(pid, 9);
    }
    scene.after(3000).exit(RAYLET, 0);
    for pid in [7, 8] {
        let death = assert_verdict!(scene, pid, RayCollapse, Proven);
        assert_eq!(death.verdict.cause_death_id, Some(agent));
    }
    let raylet = assert_verdict!(scene, RAYLET, RayCollapse, Inferred);
    assert_eq!(raylet.verdict.cause_death_id, Some(agent));
}

/// An agent exits by itself. Its raylet logs that and exits too. With `gcs_killed`, the GCS is
/// killed 10 s before.
fn an_agent_that_exits(gcs_killed: bool) -> (Scene, Option<EventId>, EventId) {
    let mut scene = Scene::new();
    scene.dashboard_agent(30);
    scene.process(40, 1, "gcs_server", Role::Gcs);
    scene.ray_worker(7);
    let gcs = gcs_killed.then(|| {
        scene.signal(66, 40, 9, 0, true).after(50);
        let gcs = scene.exit(40, 9);
        scene.after(10_000_000);
        gcs
    });
    let agent = scene.exit(30, 1 << 8);
    scene
        .after(15_000)
        .says(RayFact::AgentFailed {
            agent: "dashboard_agent".into(),
        })
        .after(900_000);
    scene.exit(RAYLET, 1 << 8);
    (scene, gcs, agent)
}

#[test]
fn failed_agent_is_not_its_own_cause() {
    let (scene, _, agent) = an_agent_that_exits(false);
    let death = assert_verdict!(scene, 30, Exit, Proven);
    assert_eq!(death.verdict.cause_death_id, None);
    let raylet = assert_verdict!(scene, RAYLET, RayCollapse, Inferred);
    assert_eq!(raylet.verdict.cause_death_id, Some(agent));
}

/// It exits before its raylet, which then follows the agent.
#[test]
fn agent_that_lost_the_gcs_follows_it() {
    let (scene, gcs, agent) = an_agent_that_exits(true);
    let death = assert_verdict!(scene, 30, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, gcs);
    let raylet = assert_verdict!(scene, RAYLET, RayCollapse, Inferred);
    assert_eq!(raylet.verdict.cause_death_id, Some(agent));
}

#[test]
fn ray_start_block_kill_follows_dead_component() {
    let mut scene = Scene::new();
    // `ray start --block` (pid 9) is the parent of the raylet and of the GCS.
    scene.process(RAYLET, 9, "raylet", Role::Raylet);
    scene.process(40, 9, "gcs_server", Role::Gcs);
    scene.ray_worker(7);
    scene
        .oom_victim(40, 40, true, &MEMCG)
        .signal(40, 40, 9, 128, true)
        .after(50);
    let gcs = scene.exit(40, 9);
    scene.after(700_000).signal(9, RAYLET, 9, 0, true).after(50);
    let raylet = scene.exit(RAYLET, 9);
    scene.after(500_000);
    scene.exit(7, 1 << 8);
    assert_verdict!(scene, 40, KernelOomMemcg, Proven);
    let death = assert_verdict!(scene, RAYLET, RayCollapse, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(gcs));
    let worker = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(worker.verdict.cause_death_id, Some(raylet));
}

#[test]
fn stopped_ray_start_block_is_intended() {
    let mut scene = Scene::new();
    scene.process(RAYLET, 9, "raylet", Role::Raylet);
    scene.ray_worker(7);
    scene
        .signal(9, RAYLET, 15, 0, false)
        .after(1000)
        .says(RayFact::RayletSigterm)
        .after(100);
    scene.signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    scene.after(3000).exit(RAYLET, 0);
    assert_verdict!(scene, 7, RayIntended, Proven);
    assert_verdict!(scene, RAYLET, RayIntended, Inferred);
}

#[test]
fn fork_with_workers_title_is_no_worker() {
    let mut scene = Scene::new();
    scene.without_ebpf().ray_worker(7);
    scene.process(70, 7, "ray::Host.start", Role::Worker);
    scene.after(1000).exit(70, 1 << 8);
    let death = scene.death(70);
    assert_eq!(
        (death.verdict.killer, death.process.role),
        (Killer::Exit, Role::Descendant)
    );
}

/// The driver had released its workers before.
#[test]
fn driver_killed_later_is_no_cause() {
    let owner_died = |scene: &mut Scene| {
        scene.says(RayFact::OwnerDied {
            worker_id: hex(7),
            owner_worker_id: Some(hex(50)),
            reason: "owner died".into(),
        });
        scene.after(100).exit(7, 1 << 8);
    };
    for seconds in [0, 30, 7200] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        owner_died(&mut scene);
        scene.after(1000 + seconds * 1_000_000);
        scene.signal(66, 50, 9, 0, true).after(5);
        scene.exit(50, 9);
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, Killer::RayIntended, "{seconds} s");
    }
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 50, 9, 0, true).after(500);
    owner_died(&mut scene);
    let driver = scene.exit(50, 9);
    let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(driver));
}

/// A worker that fails before the time-out fails by itself.
#[test]
fn worker_that_lost_the_gcs_follows_it() {
    let mut scene = Scene::new();
    scene.process(40, 1, "gcs_server", Role::Gcs);
    scene.ray_worker(7).ray_worker(8);
    scene.signal(66, 40, 9, 0, true).after(50);
    let gcs = scene.exit(40, 9);
    scene.after(2_000_000).exit(8, 1 << 8);
    scene.after(8_000_000).exit(7, 1 << 8);
    scene
        .after(600_000)
        .says(RayFact::RayletMarkedDead {
            reason: "Failed to connect to GCS within 10 seconds.".into(),
        })
        .after(1000);
    scene.exit(RAYLET, 1 << 8);
    let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(gcs));
    assert_verdict!(scene, 8, Exit, Proven);
}

/// The new GCS was running when the agent failed.
#[test]
fn agent_failure_after_gcs_replacement_is_exit() {
    let mut scene = Scene::new();
    scene.process(30, RAYLET, "ray::DashboardA", Role::Agent);
    scene.process(40, 1, "gcs_server", Role::Gcs);
    scene.signal(66, 40, 9, 0, true).after(50);
    scene.exit(40, 9);
    scene.process(41, 1, "gcs_server", Role::Gcs);
    scene.after(60_000_000);
    scene.exit(30, 1 << 8);
    scene.after(60_000_000);
    scene.exit(41, 0);
    assert_verdict!(scene, 30, Exit, Proven);
}

/// The driver fails first and then shuts down its own Ray.
#[test]
fn job_that_stops_its_ray_has_failed() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    let worker = scene.exit(7, 4 << 8);
    // The driver fails with the exception and ends the raylet that it had started.
    scene
        .after(200_000)
        .signal(50, RAYLET, 15, 0, false)
        .says(RayFact::RayletSigterm)
        .after(300_000);
    scene.exit(RAYLET, 0);
    scene.after(200_000);
    scene.exit(50, 1 << 8);
    assert_verdict!(scene, 7, Exit, Proven);
    let report = scene.report();
    let job = report.jobs.first().expect("a job");
    assert_eq!(job.ended_by_death_id, Some(worker), "{:?}", job.because);
}

#[test]
fn workers_follow_their_raylets_death() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .ray_worker(8)
        .signal(66, RAYLET, 9, 0, true)
        .after(50);
    let raylet = scene.exit(RAYLET, 9);
    scene.after(900_000);
    scene.says_from(
        Source::WorkerLog,
        RayFact::RayletLost {
            raylet_pid: None,
            worker_id: Some(hex(7)),
        },
    );
    scene.exit(7, 1 << 8);
    scene.exit(8, 1 << 8);
    for pid in [7, 8] {
        let death = assert_verdict!(scene, pid, RayCollapse, Inferred);
        assert_eq!(death.verdict.cause_death_id, Some(raylet));
    }
}

#[test]
fn ray_stop_and_its_kills_are_intended() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(9, RAYLET, 15, 0, false)
        .after(1000)
        .says(RayFact::RayletSigterm)
        .after(100);
    scene
        .signal(RAYLET, 7, 15, 0, false)
        .signal(RAYLET, 7, 9, 0, true)
        .after(50);
    scene.exit(7, 9);
    scene.after(3000).exit(RAYLET, 0);
    assert_verdict!(scene, 7, RayIntended, Proven);
    let raylet = assert_verdict!(scene, RAYLET, RayIntended, Inferred);
    assert_eq!(raylet.sender.expect("sender").relation, Relation::Ray);
}

#[test]
fn foreign_sigterm_to_raylet_ends_workers() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, RAYLET, 15, 0, false)
        .after(1000)
        .says(RayFact::RayletSigterm)
        .after(100);
    scene.signal(RAYLET, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    let raylet = {
        scene.after(3000);
        scene.exit(RAYLET, 0)
    };
    let death = assert_verdict!(scene, 7, RayCollapse, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(raylet));
    assert_verdict!(scene, RAYLET, Signal, Inferred);
}

/// A driver that finished is not the cause.
#[test]
fn killed_driver_ends_its_leased_workers() {
    for (status, collapse) in [(9, true), (0, false)] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        if status == 9 {
            scene.signal(66, 50, 9, 0, true).after(5);
        }
        let driver = scene.exit(50, status);
        scene.after(5000).says(RayFact::OwnerDied {
            worker_id: hex(7),
            owner_worker_id: Some(hex(50)),
            reason: "owner died".into(),
        });
        scene.after(100).signal(RAYLET, 7, 15, 0, false).after(100);
        scene.exit(7, 1 << 8);
        if collapse {
            let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
            assert_eq!(death.verdict.cause_death_id, Some(driver));
        } else {
            assert_verdict!(scene, 7, RayIntended, Inferred);
        }
    }
}

/// Ray 2.9 asks the worker of a dead owner to end because nothing refers to its actor any more, at
/// the moment at which the raylet ends it because its owner died. It may end by the request, before
/// it takes the raylet's SIGTERM.
#[test]
fn end_of_references_after_the_owners_death_follows_from_it() {
    let mut scene = Scene::new();
    // Up to Ray 2.9, nothing says to which job a worker belongs.
    scene.process(7, RAYLET, "ray::hog", Role::Worker);
    let worker = Worker {
        process: key(7),
        worker_id: hex(7),
        job_id: None,
        actor_class: None,
        driver: false,
        from: "test".into(),
    };
    scene.push(Source::Proc, Observation::Worker(worker));
    scene.signal(66, 50, 9, 0, true).after(5);
    let driver = scene.exit(50, 9);
    let owners = RayFact::OwnerDied {
        worker_id: hex(7),
        owner_worker_id: Some(hex(50)),
        reason: "owner died".into(),
    };
    let asked = RayFact::ForceKillActor {
        reason: "The actor is dead because all references to the actor were removed.".into(),
        worker_id: Some(hex(7)),
    };
    scene.after(5000).says_from(Source::WorkerLog, asked);
    scene.after(100).says(owners);
    scene.after(100).signal(RAYLET, 7, 15, 0, false).after(100);
    let sigterm = 1 << (SIGTERM - 1);
    scene.pending = Some(PendingSignals {
        process: sigterm,
        threads: 0,
        blocked: sigterm,
    });
    scene.exit(7, 1 << 8);
    let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(driver));
}

#[test]
fn worker_waits_for_end_of_disconnected_driver() {
    let mut scene = Scene::new();
    scene.ray_worker(7).says(RayFact::OwnerDied {
        worker_id: hex(7),
        owner_worker_id: Some(hex(50)),
        reason: "owner died".into(),
    });
    scene.after(100).signal(RAYLET, 7, 15, 0, false).after(100);
    let exit = scene.exit(7, 1 << 8);
    let waiting = scene.death_so_far(exit).verdict;
    assert!(!waiting.settled, "{waiting:?}");
    scene.after(900_000).exit(50, 0);
    let then = scene.death_so_far(exit).verdict;
    assert!(then.settled, "{then:?}");
    assert_eq!(then.killer, Killer::RayIntended);
}

#[test]
fn later_sigterm_of_raylet_is_no_cause() {
    for (told_first, killer) in [(false, Killer::RayIntended), (true, Killer::RayCollapse)] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        let tell = |scene: &mut Scene| {
            scene.signal(66, RAYLET, 15, 0, false).after(1000);
            scene.says(RayFact::RayletSigterm);
        };
        if told_first {
            tell(&mut scene);
        }
        scene.says(RayFact::Disconnected {
            worker_id: Some(hex(7)),
            exit_type: ExitType::IntendedSystemExit,
            graceful: Some(true),
            driver: false,
            job_id: None,
        });
        scene.after(100).signal(RAYLET, 7, 15, 0, false);
        scene.after(100_000).exit(7, 1 << 8);
        if !told_first {
            scene.after(700_000);
            tell(&mut scene);
        }
        let verdict = scene.death(7).verdict;
        assert_eq!(verdict.killer, killer, "{verdict:?}");
    }
}

#[test]
fn driver_that_changes_clusters_left_on_purpose() {
    for (driver_ends, killer) in [(false, Killer::RayIntended), (true, Killer::RayCollapse)] {
        let mut scene = Scene::new();
        // The driver has joined another cluster since: this raylet knows it by another worker id.
        scene.ray_worker(7).says(RayFact::DriverDisconnected {
            pid: Pid(50),
            worker_id: Some(hex(51)),
            job_id: None,
        });
        scene.says(RayFact::OwnerDied {
            worker_id: hex(7),
            owner_worker_id: Some(hex(51)),
            reason: "owner died".into(),
        });
        scene.after(100).signal(RAYLET, 7, 15, 0, false).after(100);
        scene.exit(7, 0);
        if driver_ends {
            scene.after(10).exit(50, 1 << 8);
        }
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, killer, "{:?}", death.verdict);
        assert_eq!(death.listed, driver_ends);
    }
}

#[test]
fn raylet_kill_of_orphaned_child_follows_worker() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "sleep", Role::Descendant);
    scene.signal(66, 7, 9, 0, true).after(10);
    let worker = scene.exit(7, 9);
    scene.after(6000).signal(RAYLET, 70, 15, 0, true).after(10);
    scene.exit(70, 15);
    let death = assert_verdict!(scene, 70, RayCollapse, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(worker));
}

#[test]
fn orphan_exit_after_raylet_term_follows_worker() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "VLLM::EngineCor", Role::Descendant);
    scene.signal(66, 7, 9, 0, true).after(10);
    let worker = scene.exit(7, 9);
    scene.after(6000).signal(RAYLET, 70, 15, 0, false);
    scene.after(500_000).exit(70, 143 << 8);
    let death = assert_verdict!(scene, 70, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(worker));
}

#[test]
fn child_killed_beside_worker_has_no_cause() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "loader", Role::Descendant);
    scene.signal(66, 70, 9, 0, true).after(10);
    scene.exit(70, 9);
    let death = assert_verdict!(scene, 70, Signal, Proven);
    assert_eq!(death.verdict.cause_death_id, None);
    assert!(death.listed);
}

/// A submitted job: its supervisor (7), and the watcher (71) and driver (50) that it started.
fn submitted_job() -> Scene {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    let supervisor = Worker {
        process: key(7),
        worker_id: hex(7),
        job_id: None,
        actor_class: Some("JobSupervisor".into()),
        driver: false,
        from: "test".into(),
    };
    scene.push(Source::RayLog, Observation::Worker(supervisor));
    for child in [71, 50] {
        let fork = Observation::Fork {
            parent: key(7),
            child: key(child),
        };
        scene.push(Source::Kernel, fork);
    }
    scene.process(71, 7, "sh", Role::Descendant);
    scene
        .process(50, 7, "python", Role::Driver)
        .worker(50, true);
    scene
}

#[test]
fn watcher_kill_of_driver_follows_supervisor() {
    let mut scene = submitted_job();
    scene.signal(66, 7, 9, 0, true).after(50);
    let supervisor = scene.exit(7, 9);
    scene.argv = Some(watcher_argv(7));
    scene.after(1_000_000).signal(71, 50, 9, 0, true).after(50);
    scene.exit(50, 9);
    // The name of an actor's class, and the text of its shell, prove nothing.
    let death = assert_verdict!(scene, 50, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(supervisor));
    assert_eq!(death.sender.expect("sender").relation, Relation::Ray);
}

/// Returns the command line of the shell that Ray starts beside a submitted job.
pub(super) fn watcher_argv(supervisor: u32) -> Vec<String> {
    let text = format!("while kill -s 0 {supervisor}; do sleep 1; done; kill -9 -50");
    vec!["/bin/bash".into(), "-c".into(), text]
}

/// It kills the driver after an actor that is named as a job supervisor has died.
#[test]
fn shell_with_other_argv_is_no_watcher() {
    let mut scene = submitted_job();
    scene.signal(66, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    scene.after(1_000_000).signal(71, 50, 9, 0, true).after(50);
    scene.exit(50, 9);
    assert_verdict!(scene, 50, Signal, Proven);
}

/// A worker sends SIGKILL to its child and exits a moment later.
fn a_worker_kills_its_child_and_ends(by_other_thread: bool) -> Scene {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "sleep", Role::Descendant);
    scene.sent_by_other_thread = by_other_thread;
    scene.signal(7, 70, 9, 0, true).after(10);
    scene.exit(70, 9);
    scene.after(900).exit(7, 1 << 8);
    scene
}

#[test]
fn child_killed_by_job_is_a_signal() {
    let scene = a_worker_kills_its_child_and_ends(false);
    let death = assert_verdict!(scene, 70, Signal, Proven);
    assert_eq!(death.sender.expect("sender").relation, Relation::Parent);
    assert!(!death.listed);
    // Another thread may run code of the job too. Ray must have recorded that it ended the worker.
    let scene = a_worker_kills_its_child_and_ends(true);
    assert_verdict!(scene, 70, Signal, Proven);
    // It must have done so before the act.
    for before in [true, false] {
        let mut scene = Scene::new();
        scene
            .ray_worker(7)
            .process(70, 7, "sleep", Role::Descendant);
        let ends = RayFact::JobFinished { worker_id: hex(7) };
        if before {
            scene.says(ends.clone());
        }
        scene.sent_by_other_thread = true;
        scene.signal(7, 70, 9, 0, true).after(10);
        scene.exit(70, 9);
        scene.after(500_000);
        if !before {
            scene.says(ends);
        }
        scene.after(900).exit(7, 1 << 8);
        if before {
            let death = assert_verdict!(scene, 70, RayIntended, Inferred);
            assert!(!death.listed);
        } else {
            assert_verdict!(scene, 70, Signal, Proven);
        }
    }
}

/// The GCS asks the worker of an actor that is to be killed. Only the worker logs that first.
#[test]
fn child_killed_by_an_actor_that_is_killed_follows_it() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "sleep", Role::Descendant);
    scene.says_from(
        Source::WorkerLog,
        RayFact::ForceKillActor {
            reason: "The actor is dead because it was killed by `ray.kill`.".into(),
            worker_id: Some(hex(7)),
        },
    );
    scene.after(2_600);
    scene.sent_by_other_thread = true;
    scene.signal(7, 70, 9, 0, true).after(10);
    scene.exit(70, 9);
    scene.after(900).exit(7, 1 << 8);
    assert_verdict!(scene, 70, RayIntended, Inferred);
}

/// A shutdown asks the raylet by SIGTERM, then the rest. All else is the driver's own act: a
/// SIGKILL, a single process, another order, an exit right afterwards.
#[test]
fn killing_own_raylet_is_no_shutdown() {
    let asks = 15;
    for (first, then, is_shutdown) in [
        (9, None, false),
        (9, Some(asks), false),
        (asks, None, false),
        (asks, Some(9), false),
        (asks, Some(asks), true),
    ] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        scene.process(60, 50, "gcs_server", Role::Gcs);
        scene.signal(50, RAYLET, first, 0, true).after(10);
        let raylet = scene.exit(RAYLET, first);
        if let Some(then) = then {
            scene.after(100_000).signal(50, 60, then, 0, true);
            scene.after(10).exit(60, then);
        }
        scene.after(900_000).exit(7, 1 << 8);
        scene.after(100_000).exit(50, 1 << 8);
        if is_shutdown {
            assert_verdict!(scene, RAYLET, RayIntended, Proven);
            assert_verdict!(scene, 60, RayIntended, Proven);
            continue;
        }
        let death = assert_verdict!(scene, RAYLET, Signal, Proven);
        assert!(death.listed);
        let worker = assert_verdict!(scene, 7, RayCollapse, Inferred);
        assert_eq!(worker.verdict.cause_death_id, Some(raylet));
    }
}

/// A raylet that does not end within a second gets a SIGKILL.
#[test]
fn shutdown_kills_what_does_not_end() {
    for (waited, killer) in [(1_001_000, Killer::RayIntended), (200_000, Killer::Signal)] {
        let mut scene = Scene::new();
        scene.process(60, 50, "gcs_server", Role::Gcs);
        scene.signal(50, RAYLET, 15, 0, false).after(waited);
        scene.signal(50, RAYLET, 9, 0, true).after(10);
        scene.exit(RAYLET, 9);
        scene.after(100_000).signal(50, 60, 15, 0, true);
        scene.after(10).exit(60, 15);
        assert_eq!(scene.death(RAYLET).verdict.killer, killer, "{waited}");
    }
}

#[test]
fn other_launcher_of_raylet_is_a_stranger() {
    let command = |words: &str| words.split(' ').map(str::to_owned).collect();
    let own: [Vec<String>; 2] = [
        command("python -c code --head"),
        command("python launch.py start"),
    ];
    for argv in own {
        let mut scene = Scene::new();
        scene.process(RAYLET, 9, "raylet", Role::Raylet);
        scene.ray_worker(7);
        scene.argv = Some(argv);
        scene.signal(9, 7, 9, 0, true).after(50);
        scene.exit(7, 9);
        let death = assert_verdict!(scene, 7, Signal, Proven);
        assert!(death.listed);
    }
    let mut scene = Scene::new();
    scene.process(RAYLET, 9, "raylet", Role::Raylet);
    scene.argv = Some(command("python bin/ray start --block"));
    scene.signal(9, RAYLET, 9, 0, true).after(50);
    scene.exit(RAYLET, 9);
    assert_verdict!(scene, RAYLET, RayIntended, Inferred);
}

#[test]
fn workers_child_named_gcs_is_a_descendant() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8);
    scene.process(70, 7, "gcs_server", Role::Gcs);
    scene.process(71, 70, "ray::Actor", Role::Worker);
    scene.signal(70, 8, 9, 0, true).after(50);
    scene.exit(8, 9);
    let death = assert_verdict!(scene, 8, Signal, Proven);
    assert_eq!(death.sender.expect("sender").relation, Relation::SameJob);
    for pid in [70, 71] {
        scene.signal(66, pid, 9, 0, true).after(50);
        scene.exit(pid, 9);
        let role = scene.death(pid).process.role;
        assert_eq!(role, Role::Descendant);
    }
}

#[test]
fn shell_beside_live_supervisor_is_no_watcher() {
    let mut scene = submitted_job();
    scene.signal(71, 50, 9, 0, true).after(50);
    scene.exit(50, 9);
    scene.after(1_000_000).signal(66, 7, 9, 0, true).after(50);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 50, Signal, Proven);
    assert_eq!(death.verdict.cause_death_id, None);
}

#[test]
fn kills_on_a_drained_node_are_intended() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.process(30, RAYLET, "ray::DashboardA", Role::Agent);
    scene.after(1000).says(RayFact::RayletShutdown {
        reason: "AUTOSCALER_DRAIN_PREEMPTED".into(),
        message: Some("spot".into()),
    });
    scene.after(100).signal(RAYLET, 30, 9, 0, true).after(20);
    scene.exit(30, 9);
    scene.signal(RAYLET, 7, 9, 0, true).after(20);
    scene.exit(7, 9);
    scene.after(1000).exit(RAYLET, 0);
    let says = "spot".to_owned();
    let drained = Cause::NodeDrained { says };
    for pid in [30, 7] {
        let death = assert_verdict!(scene, pid, RayIntended, Proven);
        assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
        assert_eq!(death.verdict.cause, drained);
    }
    let raylet = assert_verdict!(scene, RAYLET, RayIntended, Inferred);
    assert_eq!(raylet.verdict.cause, drained);
}

#[test]
fn raylet_declared_dead_ends_its_workers() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.after(1000).says(RayFact::RayletMarkedDead {
        reason: "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS".into(),
    });
    let raylet = scene.after(1000).exit(RAYLET, 1 << 8);
    scene.after(500_000).exit(7, 1 << 8);
    let death = assert_verdict!(scene, RAYLET, RayCollapse, Inferred);
    assert!(matches!(death.verdict.cause, Cause::NodeDead { .. }));
    assert_eq!(death.verdict.cause_death_id, None);
    let death = assert_verdict!(scene, 7, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(raylet));
}

/// It tries for a minute to report the raylet's end to a GCS that is gone.
#[test]
fn agent_follows_its_raylet_after_a_minute() {
    let mut scene = Scene::new();
    scene.dashboard_agent(30);
    scene.ray_worker(7);
    scene.after(1000).signal(66, RAYLET, 9, 0, true).after(20);
    let raylet = scene.exit(RAYLET, 9);
    scene.after(61_000_000).exit(30, 0);
    scene.exit(7, 0);
    let agent = assert_verdict!(scene, 30, RayCollapse, Inferred);
    assert_eq!(agent.verdict.cause_death_id, Some(raylet));
    assert_verdict!(scene, 7, Exit, Proven);
}
