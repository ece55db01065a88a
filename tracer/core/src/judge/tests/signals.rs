//! Deaths by signals of other processes, by faults and by a process's own signals.

use super::scene::{RAYLET, Scene};
use crate::{
    assert_verdict, clause,
    event::{Ancestor, Ledger, Observation, Role, Source, SystemCall},
    ids::Pid,
    judge::report::{Certainty, Killer, Mechanism, Outcome, Relation},
};

use super::scene::key;

#[test]
fn a_users_kill_names_its_sender() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    let sender = death.sender.expect("sender");
    assert_eq!(
        (sender.pid.0, sender.mechanism, sender.relation),
        (66, Mechanism::Kill, Relation::Other)
    );
}

#[test]
fn who_is_killed_and_does_not_end_is_pending_and_no_death() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8);
    scene.signal(66, 7, 9, 0, true).after(500_000);
    scene.ray_worker(9);
    assert!(
        scene.report().pending.is_empty(),
        "half a second is no wait"
    );
    // The process catches this signal, so it does not die of it alone.
    scene.signal(66, 8, 15, 0, false).after(1_500_000);
    scene.ray_worker(10);
    let report = scene.report();
    let [waits] = report.pending.as_slice() else {
        panic!("{:#?}", report.pending);
    };
    assert_eq!((waits.process.pid.0, waits.when.exit_time), (7, None));
    assert_eq!(waits.verdict.killer, Killer::Signal);
    let said = format!("{:?} {}", waits.verdict.evidence, clause::summary(waits));
    assert!(!said.contains("gone") && !said.contains("ended"), "{said}");
    assert!(report.deaths.is_empty());
    scene.exit(7, 9);
    let report = scene.report();
    assert_eq!((report.pending.len(), report.deaths.len()), (0, 1));
}

#[test]
fn the_first_signal_that_took_effect_wins() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 9, 0, true).after(6000);
    scene
        .signal_with(super::scene::RAYLET, 7, 15, 0, false, 1)
        .after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert_eq!(death.sender.expect("sender").pid.0, 66);
    assert!(
        death
            .verdict
            .evidence
            .iter()
            .any(|piece| piece.what.contains("ignored")),
        "the late one is evidence"
    );
}

#[test]
fn a_fault_whose_core_dump_was_cut_short_by_sigkill_stays_a_crash() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal_with(7, 7, 11, 1, false, 0);
    let delivered = Observation::Delivered {
        process: key(7),
        signal: 11,
        code: 1,
    };
    scene.push(Source::Kernel, delivered);
    scene.after(900).signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Crash, Proven);
    assert!(death.sender.is_none());
    assert_eq!(death.end.signal, Some(9), "as its parent sees it");
}

#[test]
fn a_caught_term_that_ends_in_exit_0_is_inferred() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 15, 0, false)
        .after(200_000);
    scene.exit(7, 0);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    assert_eq!(death.end.exit_code, Some(0));
    assert!(death.listed);
}

#[test]
fn a_caught_term_explains_an_exit_that_a_busy_machine_delayed() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 15, 0, false)
        .after(9_300_000);
    scene.exit(7, 0);
    assert_verdict!(scene, 7, Signal, Inferred);
}

#[test]
fn a_caught_term_long_before_an_exit_is_not_its_cause() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 15, 0, false)
        .after(60_000_000);
    scene.exit(7, 0);
    assert_verdict!(scene, 7, Exit, Proven);
}

#[test]
fn a_fault_is_a_crash() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 11, 1, false).after(100);
    scene.signal(7, 7, 11, -6, false).after(1);
    scene.push(
        Source::Kernel,
        Observation::Delivered {
            process: key(7),
            signal: 11,
            code: -6,
        },
    );
    scene.after(1000).exit(7, 11 | 0x80);
    let death = assert_verdict!(scene, 7, Crash, Proven);
    assert_eq!(death.end.signal, Some(11));
}

#[test]
fn a_memory_error_that_a_failure_handler_raises_again_is_the_machines() {
    // The process touched the broken page itself, or the kernel told it of one.
    for (sender, code) in [(7, 4), (66, 5)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(sender, 7, 7, code, false);
        scene.after(100).signal(7, 7, 7, -6, false).after(1);
        let delivered = Observation::Delivered {
            process: key(7),
            signal: 7,
            code: -6,
        };
        scene.push(Source::Kernel, delivered);
        scene.after(1000).exit(7, 7 | 0x80);
        let death = assert_verdict!(scene, 7, KernelOther, Proven);
        let sender = death.sender.expect("how");
        assert_eq!((sender.pid.0, sender.mechanism), (0, Mechanism::Hwpoison));
    }
}

#[test]
fn a_kill_of_oneself_is_ones_own_doing() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 9, 0, true).after(100);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Crash, Proven);
}

#[test]
fn ctrl_c_that_python_raises_again_is_the_terminals() {
    let mut scene = Scene::new();
    scene.signal(3, 50, 2, 128, false).after(7000);
    scene.signal(50, 50, 2, 0, true).after(10);
    scene.exit(50, 2);
    let death = assert_verdict!(scene, 50, Signal, Inferred);
    assert_eq!(
        death.sender.map(|sender| sender.mechanism),
        Some(Mechanism::Tty)
    );
    assert_eq!(scene.report().jobs[0].outcome, Outcome::Stopped);
}

#[test]
fn a_ctrl_c_that_rays_processes_block_tells_no_raylet_to_end() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .ray_worker(8)
        .process(70, 7, "git", Role::Descendant);
    for pid in [50, RAYLET, 7, 8] {
        scene.signal(3, pid, 2, 128, false);
    }
    scene.after(30_000_000).exit(70, 0);
    scene.exit(7, 3 << 8);
    assert_verdict!(scene, 7, Exit, Proven);
    let child = assert_verdict!(scene, 70, Exit, Proven);
    assert!(!child.listed);
    scene.after(1000).signal(RAYLET, 8, 9, 0, true).after(10);
    scene.exit(8, 9);
    assert_verdict!(scene, 8, Unknown, Unknown);
}

#[test]
fn a_stopped_process_that_nobody_is_left_to_continue_is_not_ended_by_its_terminal() {
    let mut scene = Scene::new();
    scene.ray_worker(7).process(70, 7, "sh", Role::Descendant);
    scene.exiting = true;
    scene.signal(7, 70, 1, 128, false).after(10);
    scene.exiting = false;
    let worker = scene.exit(7, 1 << 8);
    scene.after(10).exit(70, 1);
    let death = scene.death(70);
    assert_eq!(death.verdict.killer, Killer::KernelOther);
    assert_eq!(death.verdict.cause_death_id, Some(worker));
    let mechanism = death.sender.map(|sender| sender.mechanism);
    assert_eq!(mechanism, Some(Mechanism::OrphanedGroup));
    // The terminal hangs up because the leader of its session exits.
    let mut scene = Scene::new();
    scene.ray_worker(7).process(70, 7, "sh", Role::Descendant);
    scene.exiting = true;
    scene.signal(7, 70, 1, 128, true).after(10);
    scene.exit(70, 1);
    let death = assert_verdict!(scene, 70, Signal, Proven);
    let mechanism = death.sender.map(|sender| sender.mechanism);
    assert_eq!(mechanism, Some(Mechanism::Tty));
}

#[test]
fn who_sent_a_signal_that_waited_is_inferred_because_a_tracer_may_have_changed_it() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 15, 0, false);
    scene.after(2_000_000).exit(7, 15);
    assert_verdict!(scene, 7, Signal, Inferred);
}

#[test]
fn who_sent_a_signal_that_waited_in_a_stopped_process_is_inferred() {
    for number in [15, 11] {
        let mut scene = Scene::new();
        scene.stopped_by = 19;
        scene.ray_worker(7).signal(66, 7, number, 0, false);
        scene.after(2000);
        let delivered = Observation::Delivered {
            process: key(7),
            signal: number,
            code: 0,
        };
        scene.push(Source::Kernel, delivered);
        scene.exit(7, number);
        let death = assert_verdict!(scene, 7, Signal, Inferred);
        assert_eq!(death.sender.expect("sender").pid.0, 66);
    }
}

#[test]
fn a_core_signal_that_is_taken_at_once_has_its_sender_and_one_that_waited_may_be_a_tracers() {
    for (waited, certainty) in [(100, Certainty::Proven), (2_000_000, Certainty::Inferred)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, 11, 0, false);
        scene.after(waited);
        let delivered = Observation::Delivered {
            process: key(7),
            signal: 11,
            code: 0,
        };
        scene.push(Source::Kernel, delivered);
        scene.exit(7, 11);
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, Killer::Signal);
        assert_eq!(death.verdict.certainty, certainty);
    }
}

#[test]
fn how_a_traced_process_ends_is_inferred_and_its_tracer_is_named() {
    let was_traced = |scene: &Scene| {
        let evidence = scene.death(7).verdict.evidence;
        let mut evidence = evidence.iter();
        evidence.any(|piece| piece.what == "was being traced by pid 77 (gdb)")
    };
    let traced = || {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        scene.tracer = Some(Ancestor {
            pid: Pid(77),
            comm: "gdb".into(),
        });
        scene
    };
    // In gdb: `call kill(getpid(), 9)` and `call exit(3)`.
    let mut scene = traced();
    scene.signal(7, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Crash, Inferred);
    assert!(was_traced(&scene));
    let mut scene = traced();
    scene.exit(7, 3 << 8);
    assert_verdict!(scene, 7, Exit, Inferred);
    assert!(was_traced(&scene));
    // The tracer lets the process dump core later, and has detached by then.
    let mut scene = traced();
    scene.signal(66, 7, 11, 0, false).after(100);
    scene.tracer = None;
    let delivered = Observation::Delivered {
        process: key(7),
        signal: 11,
        code: 0,
    };
    scene.push(Source::Kernel, delivered);
    scene.exit(7, 11);
    assert_verdict!(scene, 7, Signal, Inferred);
    assert!(was_traced(&scene));
    // A tracer can neither suppress nor forge a SIGKILL from another process.
    let mut scene = traced();
    scene.signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Signal, Proven);
    assert!(was_traced(&scene));
}

#[test]
fn an_exit_is_inferred_where_a_signal_may_have_been_lost_before_it() {
    let count = |scene: &mut Scene, ring_full: u64| {
        let ledger = Ledger {
            hook: "signal/signal_generate".into(),
            ring_full,
            ..Ledger::default()
        };
        scene.push(Source::Recorder, Observation::Ledger(ledger));
    };
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).ray_worker(9);
    count(&mut scene, 0);
    scene.after(1_000_000).exit(8, 3 << 8);
    scene.after(60_000_000);
    count(&mut scene, 0);
    scene.after(1_000_000).exit(7, 3 << 8);
    scene.after(1_000_000);
    count(&mut scene, 5);
    scene.after(60_000_000).exit(9, 3 << 8);
    assert_verdict!(scene, 8, Exit, Proven);
    assert_verdict!(scene, 7, Exit, Inferred);
    assert_verdict!(scene, 9, Exit, Proven);
}

#[test]
fn the_exit_signal_of_a_child_is_no_files_and_inferred() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "child", Role::Descendant);
    scene.exiting = true;
    scene.call = Some(SystemCall {
        name: "#231".into(),
        arguments: [0; 3],
    });
    scene.signal(70, 7, 9, 1, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, KernelOther, Inferred);
    let said = clause::summary(&death);
    assert!(said.contains("clone"), "{said}");
}

#[test]
fn a_users_term_that_is_raised_again_keeps_its_sender() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 15, 0, false).after(7000);
    scene.signal(7, 7, 15, 0, true).after(10);
    scene.exit(7, 15);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    assert_eq!(death.sender.expect("sender").pid.0, 66);
}

#[test]
fn a_timer_of_its_own_has_no_sender_whoever_ran_as_it_expired() {
    for interrupted in [66, super::scene::RAYLET, 7] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(interrupted, 7, 15, -2, true);
        scene.after(5).exit(7, 15);
        let death = assert_verdict!(scene, 7, KernelOther, Proven);
        let sender = death.sender.expect("how");
        assert_eq!((sender.pid.0, sender.mechanism), (0, Mechanism::Timer));
    }
    let mut caught = Scene::new();
    caught.ray_worker(7).signal(66, 7, 15, -2, false);
    caught.after(5).exit(7, 1 << 8);
    let death = assert_verdict!(caught, 7, KernelOther, Inferred);
    assert_eq!(death.sender.expect("how").pid.0, 0);
}

#[test]
fn a_cgroup_kill_is_a_signal_and_no_memory_kill() {
    let mut scene = Scene::new();
    scene.group = false;
    scene.ray_worker(7).signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::CgroupKill
    );
}

#[test]
fn a_signal_nobody_saw_stays_unknown_and_a_segv_is_only_inferred() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).after(1);
    scene.exit(7, 9);
    scene.exit(8, 11);
    let death = assert_verdict!(scene, 7, Unknown, Unknown);
    assert!(death.verdict.missing.is_some());
    assert_verdict!(scene, 8, Crash, Inferred);
}

#[test]
fn a_parent_death_signal_has_the_parent_as_cause_although_it_exits_later() {
    let mut scene = Scene::new();
    scene.signal(66, 50, 9, 0, true).after(100);
    scene.exiting = true;
    scene.parent_death_signal = 9;
    scene
        .signal(50, super::scene::RAYLET, 9, 0, true)
        .after(100);
    scene.exit(super::scene::RAYLET, 9);
    let driver = {
        scene.after(4400);
        scene.exit(50, 9)
    };
    let death = assert_verdict!(scene, super::scene::RAYLET, RayCollapse, Proven);
    assert_eq!(death.verdict.cause_death_id, Some(driver));
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::ParentDeath
    );
}

#[test]
fn a_raylet_that_ends_with_a_thread_of_a_driver_that_lives_on_is_no_intended_end() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    (scene.exiting, scene.parent_death_signal) = (true, 9);
    scene.signal(50, RAYLET, 9, 0, true).after(10);
    let raylet = scene.exit(RAYLET, 9);
    scene.after(1_000_000).exit(7, 1 << 8);
    scene.after(600_000_000).exit(50, 0);
    let death = assert_verdict!(scene, RAYLET, RayCollapse, Proven);
    assert!(death.listed);
    let worker = scene.death(7);
    assert_eq!(
        (worker.verdict.killer, worker.verdict.cause_death_id),
        (Killer::RayCollapse, Some(raylet))
    );
}

#[test]
fn a_parent_death_signal_that_a_child_catches_has_the_parent_as_cause() {
    // `torch.multiprocessing.spawn` asks for SIGINT. Python catches it, and exits or raises it
    // again.
    for (again, status) in [(false, 0), (false, 1 << 8), (true, 2)] {
        let mut scene = Scene::new();
        scene
            .ray_worker(7)
            .process(70, 7, "pt_main", Role::Descendant);
        scene.signal(66, 7, 9, 0, true).after(10);
        (scene.exiting, scene.parent_death_signal) = (true, 2);
        scene.signal(7, 70, 2, 0, false).after(10);
        (scene.exiting, scene.parent_death_signal) = (false, 0);
        let worker = scene.exit(7, 9);
        if again {
            scene.after(7000).signal(70, 70, 2, 0, true);
        }
        scene.after(10).exit(70, status);
        let death = assert_verdict!(scene, 70, RayCollapse, Inferred);
        assert_eq!(death.verdict.cause_death_id, Some(worker));
        assert_eq!(
            death.sender.expect("sender").mechanism,
            Mechanism::ParentDeath
        );
    }
}

#[test]
fn an_exit_after_a_ctrl_c_is_only_inferred() {
    let mut scene = Scene::new();
    scene.signal(3, 50, 2, 128, false).after(7000);
    scene.exit(50, 1 << 8);
    let death = assert_verdict!(scene, 50, Signal, Inferred);
    assert_eq!(death.sender.expect("how").mechanism, Mechanism::Tty);
}

#[test]
fn outside_ray_a_parent_death_signal_is_a_signal() {
    let mut scene = Scene::new();
    scene
        .process(60, 1, "sh", Role::Other)
        .process(61, 60, "sleep", Role::Other);
    scene.exiting = true;
    scene.parent_death_signal = 15;
    scene.signal(60, 61, 15, 0, true).after(1);
    scene.exit(61, 15);
    scene.exit(60, 0);
    let death = assert_verdict!(scene, 61, Signal, Proven);
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::ParentDeath
    );
}

#[test]
fn an_exit_by_code_is_its_own_and_a_normal_one_is_not_listed() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).after(1);
    scene.exit(7, 3 << 8);
    scene.exit(8, 0);
    assert!(assert_verdict!(scene, 7, Exit, Proven).listed);
    assert!(!assert_verdict!(scene, 8, Exit, Proven).listed);
}

#[test]
fn pid_reuse_gives_two_deaths() {
    let mut scene = Scene::new();
    scene.ray_worker(7).after(1);
    scene.exit(7, 0);
    let again = crate::ids::ProcessKey::new(7, 999_999_999_999);
    scene.push(
        Source::Kernel,
        Observation::Fork {
            parent: key(super::scene::RAYLET),
            child: again,
        },
    );
    let mut exit = match &scene.report().deaths[..] {
        [_] => crate::event::Exit {
            process: again,
            ns_pid: None,
            parent: None,
            comm: "x".into(),
            status: Some(9),
            title: None,
            memory: crate::event::MemorySplit::default(),
            mm: 1,
            uid: None,
            harvested: false,
            tracer: None,
        },
        deaths => panic!("{deaths:?}"),
    };
    scene.push(Source::Kernel, Observation::Exit(exit.clone()));
    // The same exit a second time (harvested although its record did arrive) is the same death.
    exit.harvested = true;
    scene.push(Source::Kernel, Observation::Exit(exit));
    assert_eq!(scene.report().deaths.len(), 2);
}

#[test]
fn an_exit_that_was_not_told_is_judged_by_the_signal_that_took_effect() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 9, 0, true)
        .after(9_000_000);
    scene.ray_worker(8);
    scene.gone(7, Source::Proc).gone(8, Source::Proc);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    let evidence = &death.verdict.evidence;
    let lost = |piece: &crate::judge::report::Evidence| piece.what.contains("was lost");
    assert!(evidence.iter().any(lost), "{evidence:?}");
    assert_eq!(death.end.signal, Some(9));
    // Nothing is known about the end of worker 8, and nothing is claimed.
    assert!(scene.death(8).verdict.certainty != crate::judge::report::Certainty::Proven);
    assert_eq!(scene.death(8).end.signal, None);
}
