//! Forged senders and log lines prove nothing.
//!
//! What a user of the node can run or write does not count as a part of Ray, and proves no reason.

use super::{
    cascade::watcher_argv,
    findings::monitor_started,
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
fn ray_stop_of_this_installation_is_rays() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(9, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, RayIntended, Proven);
    assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
}

#[test]
fn other_program_named_ray_is_a_stranger() {
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

/// A process can rewrite its command line. The one of an exec that was not seen is only shown.
#[test]
fn command_line_of_unseen_exec_decides_nothing() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(9, 7, 9, 0, true);
    change(&mut scene, |signal| signal.sender.exec_seen = false);
    scene.after(5).exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert!(death.listed);
    let shown = "its command line says `ray stop`, but raytrace did not see it start";
    let evidence = &death.verdict.evidence;
    assert!(evidence.iter().any(|piece| piece.what.contains(shown)));
}

/// It has other mounts, or its effective user differs.
#[test]
fn doubtful_ray_tool_is_inferred() {
    let mounts = |signal: &mut Signal| signal.sender.same_root = false;
    let user = |signal: &mut Signal| signal.sender.effective_uid = Some(0);
    for doubt in [&mounts as &dyn Fn(&mut Signal), &user] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(9, 7, 9, 0, true);
        change(&mut scene, doubt);
        scene.after(5).exit(7, 9);
        assert_verdict!(scene, 7, RayIntended, Inferred);
    }
}

/// No tool of Ray's ends a process by another signal than SIGTERM and SIGKILL.
#[test]
fn other_signal_of_ray_stop_is_no_stop() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(9, 7, 1, 0, true);
    scene.after(5).exit(7, 1);
    is_a_listed_stranger(&scene);
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

/// If anything else about the sender differs, it is a stranger.
#[test]
fn linked_path_to_ray_is_inferred() {
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
fn raylet_of_another_cluster_is_a_stranger() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.process(200, 50, "raylet", Role::Raylet);
    scene.says(RayFact::RayletSigterm);
    scene.signal(200, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    is_a_listed_stranger(&scene);
}

/// It has not started them, although they are of its cluster.
#[test]
fn raylet_is_stranger_to_drivers_and_gcs() {
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
fn worker_with_unseen_start_is_inferred() {
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
fn fork_without_exec_is_no_tool() {
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
fn other_file_at_interpreter_path_is_foreign() {
    let stop = |late: bool| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        // An agent that started before the recorder is known only by the path of its interpreter.
        let agent = if late { 102 } else { 101 };
        scene.process(agent, RAYLET, "python3", Role::Agent);
        scene.change_process(agent, |agent| agent.exe = Some("/v/bin/python3.11".into()));
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
fn forged_raylets_are_limited_in_number() {
    let mut judge = Judge::default();
    let scene = Scene::new();
    for event in &scene.events {
        judge.observe(event);
    }
    for pid in 1_000..6_000 {
        let cluster = Observation::Cluster(Cluster::new(key(pid)));
        judge.observe(&scene.event(Source::Proc, cluster));
    }
    judge.drop_old_log_records();
    let kept = judge.report().clusters;
    assert!(kept.len() <= 1_024, "{}", kept.len());
    assert!(
        kept.iter()
            .any(|cluster| cluster.raylet_pid == key(RAYLET).pid)
    );
}

#[test]
fn self_named_supervisor_ends_own_children_only() {
    for (parent, killed, watched) in [(8, 70, true), (8, 70, false), (RAYLET, 7, true)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).ray_worker(8);
        scene.process(70, 8, "python", Role::Driver);
        if watched {
            scene.process(71, 8, "bash", Role::Descendant);
            scene.change_process(71, |shell| shell.argv = watcher_argv(8));
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
        monitor_started(&mut scene, threshold << 30, 10 << 30);
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
fn only_measured_use_proves_a_memory_kill() {
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

/// Another reason then goes first.
#[test]
fn kill_record_on_empty_node_is_doubted() {
    let scene = killed_for_memory(&[], Some(2), true);
    let death = assert_verdict!(scene, 7, RayIntended, Proven);
    assert_eq!(death.verdict.reason_certainty, Certainty::Inferred);
    // Memory may have been short for a moment between two readings, so the record stands.
    let scene = killed_for_memory(&[], Some(8), true);
    assert_verdict!(scene, 7, RayMemoryMonitor, Proven);
}

/// A driver can pass a threshold that is not in the raylet's settings.
#[test]
fn first_monitor_line_gives_the_threshold() {
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
fn queued_kernel_code_is_the_senders() {
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
fn ready_file_signal_is_no_fault() {
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

/// It does not explain the exit of an agent's child either.
#[test]
fn old_shutdown_explains_no_later_exit() {
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
fn dashboard_child_follows_the_dashboard() {
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

/// A process in the victim's own container is no container runtime, whatever its name.
#[test]
fn container_runtime_is_outside_the_container() {
    for (inside, relation) in [(false, Relation::ContainerRuntime), (true, Relation::Other)] {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        scene.change_process(7, |process| process.container_id = Some("c1".into()));
        scene.signal(66, 7, 9, 0, true);
        change(&mut scene, |signal| {
            signal.sender.comm = "runc".into();
            signal.sender.uid = 0;
            signal.sender.container_id = inside.then(|| "c1".into());
        });
        scene.after(5).exit(7, 9);
        let death = assert_verdict!(scene, 7, Signal, Proven);
        assert_eq!(death.sender.expect("sender").relation, relation);
    }
}

/// The raylet ends a worker for another reason, slowly, and somebody writes a record of its memory
/// monitor while memory is short.
#[test]
fn kill_record_beside_another_reason_is_doubted() {
    let measured = |change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        let count = MonitorCount {
            raylet: key(RAYLET),
            used: Bytes(10 << 30),
            threshold: Bytes(9 << 30),
        };
        scene.push(Source::Proc, Observation::Monitor(count));
        scene.says(monitor_kill(&[7], &[])).after(1000);
        change(&mut scene);
        scene.signal(RAYLET, 7, 9, 0, true).after(5);
        scene.exit(7, 9);
        let death = assert_verdict!(scene, 7, RayMemoryMonitor, Proven);
        death.verdict.reason_certainty
    };
    assert_eq!(measured(&|_| ()), Certainty::Proven);
    let late = |scene: &mut Scene| {
        scene.after(5_000_000);
    };
    assert_eq!(measured(&late), Certainty::Inferred);
    let asked = |scene: &mut Scene| {
        scene.says(RayFact::KillActorRequested {
            worker_id: super::scene::hex(7),
            actor_id: None,
        });
    };
    assert_eq!(measured(&asked), Certainty::Inferred);
}
