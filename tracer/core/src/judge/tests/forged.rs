//! Forged senders and log lines prove nothing.
//!
//! What a user of the node can run or write does not count as a part of Ray, and proves no reason.

use super::{
    cascade::watcher,
    findings::monitor,
    scene::{BASH, RAYLET, Scene, key, monitor_kill},
};
use crate::{
    assert_verdict,
    event::{Cluster, FileId, MonitorCount, Observation, Role, Signal, Source, SystemCall},
    ids::{Bytes, ProcessKey},
    judge::{
        Judge,
        report::{Certainty, Killer, Mechanism, Relation},
    },
    ray::facts::RayFact,
};

/// Changes the last signal.
fn change(scene: &mut Scene, change: impl FnOnce(&mut Signal)) {
    let signals = scene.events.iter_mut().rev();
    let mut signals = signals.filter_map(|event| match &mut event.what {
        Observation::Signal(signal) => Some(signal),
        _ => None,
    });
    change(signals.next().expect("a signal"));
}

fn is_a_listed_stranger(scene: &Scene) {
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert!(death.listed);
    assert_eq!(death.sender.expect("sender").relation, Relation::Other);
}

#[test]
fn the_ray_of_this_installation_is_rays_tool_and_its_reason_is_inferred() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(9, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, RayIntended, Proven);
    assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
}

#[test]
fn another_program_that_is_called_ray_is_a_stranger() {
    let forge: [&dyn Fn(&mut Signal); 6] = [
        // A copy of a shell.
        &|signal| signal.sender.file = Some(BASH),
        // Another script, run by the same interpreter.
        &|signal| signal.sender.argv[1] = "/tmp/d/ray".into(),
        // Other code: the path of `ray` is only the argument of an option, or relative.
        &|signal| signal.sender.argv.insert(1, "-W".into()),
        &|signal| signal.sender.argv.insert(1, "-c".into()),
        &|signal| signal.sender.argv[1] = "bin/ray".into(),
        &|signal| {
            signal.sender.file = Some(FileId {
                inode: 77,
                device: 2,
            });
        },
    ];
    for forge in forge {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(9, 7, 9, 0, true);
        change(&mut scene, forge);
        scene.after(5).exit(7, 9);
        is_a_listed_stranger(&scene);
    }
}

#[test]
fn a_tool_that_was_not_seen_to_start_or_has_other_mounts_is_only_inferred() {
    let doubt: [&dyn Fn(&mut Signal); 3] = [
        &|signal| signal.sender.exec_seen = false,
        &|signal| signal.sender.same_root = false,
        &|signal| signal.sender.effective_uid = Some(0),
    ];
    for doubt in doubt {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(9, 7, 9, 0, true);
        change(&mut scene, doubt);
        scene.after(5).exit(7, 9);
        assert_verdict!(scene, 7, RayIntended, Inferred);
    }
}

/// `ray stop`, started by a path that led to this installation's `ray` when the recorder read it.
fn stop_by_a_link(change_it: impl FnOnce(&mut Signal)) -> Scene {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(9, 7, 9, 0, true);
    change(&mut scene, |signal| {
        signal.sender.argv[1] = "/home/u/bin/ray".into();
        change_it(signal);
    });
    scene.change_cluster(|cluster| cluster.commands.push("/home/u/bin/ray".into()));
    scene.after(5).exit(7, 9);
    scene
}

#[test]
fn a_path_that_led_to_this_installations_ray_is_inferred_and_nothing_else_of_it_may_be_foreign() {
    assert_verdict!(stop_by_a_link(|_| {}), 7, RayIntended, Inferred);
    let forge: [fn(&mut Signal); 3] = [
        |signal| signal.sender.file = Some(BASH),
        |signal| signal.sender.argv[1] = "/home/u/bin/ray2".into(),
        // In another root directory the path may lead to another file.
        |signal| signal.sender.same_root = false,
    ];
    for forge in forge {
        is_a_listed_stranger(&stop_by_a_link(forge));
    }
}

#[test]
fn a_raylet_of_another_cluster_is_a_stranger_whatever_its_log_says() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.process(200, 50, "raylet", Role::Raylet);
    scene.says(RayFact::RayletSigterm);
    scene.signal(200, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    is_a_listed_stranger(&scene);
}

#[test]
fn a_raylet_is_a_stranger_to_what_it_has_not_started_though_it_is_of_its_cluster() {
    // A driver, the GCS and their children count as Ray's by the session that they name. Any
    // process can name one.
    for (pid, parent, role) in [
        (60, 1, Role::Driver),
        (61, 1, Role::Gcs),
        (62, 60, Role::Descendant),
    ] {
        let mut scene = Scene::new();
        scene.process(60, 1, "python", Role::Driver);
        scene.process(pid, parent, "python", role);
        scene.says(RayFact::RayletSigterm);
        scene.signal(RAYLET, pid, 9, 0, true).after(5);
        scene.exit(pid, 9);
        let death = assert_verdict!(scene, pid, Signal, Proven);
        assert!(death.listed, "{pid}");
        assert_eq!(death.sender.expect("sender").relation, Relation::Other);
    }
}

#[test]
fn a_worker_whose_start_was_not_seen_is_its_raylets_as_far_as_can_be_inferred() {
    // A worker in its own container has another parent.
    let mut scene = Scene::new();
    scene
        .process(70, 1, "ray::hog", Role::Worker)
        .worker(70, false);
    scene.says(monitor_kill(&[70], &[]));
    scene.signal(RAYLET, 70, 9, 0, true).after(5);
    scene.exit(70, 9);
    assert_verdict!(scene, 70, RayMemoryMonitor, Inferred);
    // A process that is older than the raylet is not its worker.
    let mut scene = Scene::new();
    scene
        .process(1, 1, "ray::hog", Role::Worker)
        .worker(1, false);
    scene.signal(RAYLET, 1, 9, 0, true).after(5);
    scene.exit(1, 9);
    assert_verdict!(scene, 1, Signal, Proven);
}

#[test]
fn a_fork_that_has_executed_nothing_is_no_tool_whatever_its_command_line_is() {
    let forked = |scene: &mut Scene| {
        let fork = Observation::Fork {
            parent: key(66),
            child: key(9),
        };
        scene.push(Source::Kernel, fork);
    };
    let began_later = |signal: &mut Signal| {
        signal.sender.exec_seen = false;
        signal.sender.process = ProcessKey::new(9, 1_500_000_000);
    };
    let unseen = |signal: &mut Signal| signal.sender.exec_seen = false;
    for (is_forked, forge) in [
        (true, &unseen as &dyn Fn(&mut Signal)),
        (false, &began_later),
    ] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        if is_forked {
            forked(&mut scene);
        }
        scene.after(1_000_000).signal(9, 7, 9, 0, true);
        change(&mut scene, forge);
        scene.after(5).exit(7, 9);
        is_a_listed_stranger(&scene);
    }
}

#[test]
fn a_program_at_the_path_of_the_agents_interpreter_is_another_one() {
    let stop = |late: bool| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        // An agent that started before the recorder is known only by the path of its interpreter.
        let agent = if late { 102 } else { 101 };
        scene.process(agent, RAYLET, "python3", Role::Agent);
        scene.describe(agent, |agent| agent.exe = Some("/v/bin/python3.11".into()));
        scene.signal(9, 7, 9, 0, true);
        change(&mut scene, |signal| {
            signal.sender.file = Some(BASH);
            signal.sender.exe = Some("/v/bin/python3.11".into());
        });
        scene.after(5).exit(7, 9);
        scene
    };
    is_a_listed_stranger(&stop(false));
    assert_verdict!(stop(true), 7, RayIntended, Inferred);
}

#[test]
fn of_many_that_call_themselves_raylets_some_are_forgotten() {
    let mut judge = Judge::default();
    let scene = Scene::new();
    for event in &scene.events {
        judge.observe(event);
    }
    for pid in 1_000..6_000 {
        let cluster = Observation::Cluster(Cluster::new(key(pid)));
        judge.observe(&scene.event(Source::Proc, cluster));
    }
    judge.forget_words();
    let kept = judge.report().clusters;
    assert!(kept.len() <= 1_024, "{}", kept.len());
    assert!(
        kept.iter()
            .any(|cluster| cluster.raylet_pid == key(RAYLET).pid)
    );
}

#[test]
fn a_worker_that_calls_itself_a_supervisor_is_believed_of_its_own_children_alone() {
    for (parent, killed, watched) in [(8, 70, true), (8, 70, false), (RAYLET, 7, true)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).ray_worker(8);
        scene.process(70, 8, "python", Role::Driver);
        if watched {
            scene.process(71, 8, "bash", Role::Descendant);
            scene.describe(71, |shell| shell.argv = watcher(8));
        }
        scene.push(
            Source::Proc,
            Observation::Title {
                process: key(8),
                title: "ray::JobSupervisor".into(),
                memory: crate::event::MemorySplit::default(),
            },
        );
        scene.signal(8, killed, 9, 0, true).after(5);
        scene.exit(killed, 9);
        if parent == 8 && watched {
            assert_verdict!(scene, killed, RayIntended, Inferred);
        } else {
            assert!(assert_verdict!(scene, killed, Signal, Proven).listed);
        }
    }
}

/// The raylet kills a worker, and its log says that it did so for memory.
///
/// `lines` are the thresholds in GiB that its log names, and `used_gib` is the use that raytrace
/// measured. With `asked`, Ray was also asked to kill the actor.
fn killed_for_memory(lines: &[u64], used_gib: Option<u64>, asked: bool) -> Scene {
    let mut scene = Scene::new();
    for threshold in lines {
        monitor(&mut scene, threshold << 30, 10 << 30);
    }
    scene.ray_worker(7);
    if let Some(used) = used_gib {
        let count = MonitorCount {
            raylet: key(RAYLET),
            used: Bytes(used << 30),
            threshold: Bytes(9 << 30),
        };
        scene.push(Source::Proc, Observation::Monitor(count));
        scene.after(100_000);
    }
    if asked {
        scene.says(RayFact::KillActorRequested {
            worker_id: super::scene::hex(7),
            actor_id: None,
        });
    }
    scene.says(monitor_kill(&[7], &[]));
    scene.signal(RAYLET, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    scene
}

#[test]
fn a_kill_for_memory_is_proven_by_the_use_that_was_measured_and_by_no_line() {
    for (used, certainty) in [
        (Some(10), Certainty::Proven),
        (Some(8), Certainty::Inferred),
        (None, Certainty::Inferred),
    ] {
        let scene = killed_for_memory(&[], used, false);
        let death = assert_verdict!(scene, 7, RayMemoryMonitor, Proven);
        assert_eq!(death.verdict.reason_certainty, certainty, "{used:?}");
    }
}

#[test]
fn a_record_of_the_monitor_on_an_empty_node_gives_way_to_another_reason() {
    let scene = killed_for_memory(&[], Some(2), true);
    let death = assert_verdict!(scene, 7, RayIntended, Proven);
    assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
    // Memory may have been short for a moment between two readings, so the record stands.
    let scene = killed_for_memory(&[], Some(8), true);
    assert_verdict!(scene, 7, RayMemoryMonitor, Proven);
}

#[test]
fn a_threshold_that_a_driver_has_passed_is_known_by_the_first_line_of_the_monitor() {
    // The raylet's own settings say 9 GiB, and 3 GiB were in use.
    for (lines, killer) in [
        (&[3][..], Killer::RayMemoryMonitor),
        (&[9, 3], Killer::RayIntended),
    ] {
        let scene = killed_for_memory(lines, Some(3), true);
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, killer, "{lines:?}");
        assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
    }
}

#[test]
fn a_queued_code_of_the_kernels_is_its_senders() {
    for code in [-2, -3, -60] {
        let mut scene = Scene::new();
        scene.call = Some(SystemCall {
            name: "rt_sigqueueinfo".into(),
            arguments: [7, 9, 0],
        });
        scene.ray_worker(7).signal(66, 7, 9, code, true).after(5);
        scene.exit(7, 9);
        let death = assert_verdict!(scene, 7, Signal, Proven);
        let sender = death.sender.expect("sender");
        assert_eq!((sender.pid.0, sender.mechanism), (66, Mechanism::Sigqueue));
    }
}

#[test]
fn a_file_that_became_ready_is_no_fault_of_the_victims() {
    let mut scene = Scene::new();
    scene.call = Some(SystemCall {
        name: "write".into(),
        arguments: [3, 0, 1],
    });
    scene.ray_worker(7).signal(66, 7, 11, 1, true).after(5);
    scene.exit(7, 11);
    let death = assert_verdict!(scene, 7, KernelOther, Proven);
    let sender = death.sender.expect("how");
    assert_eq!(
        (sender.pid.0, sender.mechanism),
        (0, Mechanism::FileDescriptor)
    );
}

#[test]
fn an_old_shutdown_explains_no_exit_of_a_younger_process_and_none_of_a_grandchild() {
    for role in [Role::Worker, Role::Other] {
        let mut scene = Scene::new();
        // By its key, the process started long after the shutdown.
        scene.says(RayFact::RayletSigterm);
        scene.after(20_000_000);
        let late = 9_000;
        scene.process(late, RAYLET, "sh", role);
        scene.after(1000);
        scene.exit(late, 1 << 8);
        let death = assert_verdict!(scene, late, Exit, Proven);
        assert_eq!(death.end.exit_code, Some(1));
    }
    let mut scene = Scene::new();
    scene.process(101, RAYLET, "python", Role::Agent);
    scene.process(70, 101, "grep", Role::Other);
    scene.says(RayFact::RayletSigterm);
    scene.after(1000).exit(70, 1 << 8);
    assert_verdict!(scene, 70, Exit, Proven);
}

#[test]
fn what_the_dashboard_has_started_ends_with_the_dashboard_and_with_no_agent() {
    let mut scene = Scene::new();
    scene.dashboard_agent(30);
    scene.process(40, 1, "python", Role::Dashboard);
    scene.process(41, 40, "ray-dashboard-J", Role::Other);
    scene.signal(66, 40, 9, 0, true).after(50);
    let dashboard = scene.exit(40, 9);
    scene.signal(66, 30, 9, 0, true).after(50);
    scene.exit(30, 9);
    scene.says(RayFact::AgentFailed {
        agent: "dashboard_agent".into(),
    });
    scene.after(900_000).exit(41, 0);
    let death = assert_verdict!(scene, 41, RayCollapse, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(dashboard));
}
