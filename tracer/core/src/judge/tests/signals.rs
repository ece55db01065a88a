//! Deaths by signals of other processes, by faults and by a process's own signals.

use super::scene::{RAYLET, Scene};
use crate::{
    assert_verdict, clause,
    event::{Ancestor, Ledger, Observation, PendingSignals, Role, Source, SystemCall},
    ids::Pid,
    judge::report::{Certainty, Killer, Mechanism, Outcome, Relation},
};

use super::scene::key;

#[test]
fn delivered_signal_names_what_may_follow() {
    let mut scene = Scene::new();
    scene.ray_worker(7).after(10);
    for signal in [15, 11, 20] {
        scene.signal_with(5, 7, signal, 0, false, 0).after(10);
    }
    scene.exit(7, 0);
    let evidence = scene.death(7).verdict.evidence;
    let told = |name: &str| {
        let mut found = evidence.iter().filter(|piece| piece.what.starts_with(name));
        let what = found.next().map(|piece| piece.what.as_str());
        what.and_then(|what| what.rsplit(": ").next())
            .unwrap_or_default()
    };
    assert_eq!(
        told("SIGTERM"),
        "delivered; the process handles or blocks it"
    );
    assert!(told("SIGSEGV").ends_with("blocks it, or dumps core"));
    assert_eq!(told("SIGTSTP"), "delivered");
}

#[test]
fn user_kill_names_its_sender() {
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

/// The supervisor hands signals on after a quarter of a second, in their order.
#[test]
fn signal_that_was_handed_on_has_its_first_sender() {
    let mut scene = Scene::new();
    scene.with_supervisor(6).ray_worker(7);
    scene.signal(66, 6, 15, 0, false).after(50_000);
    scene.signal(67, 6, 15, 0, false).after(205_000);
    scene.signal(6, 7, 15, -1, true).after(5).exit(7, 15);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    let sender = death.sender.expect("sender");
    assert_eq!((sender.pid.0, sender.mechanism), (66, Mechanism::Kill));

    // Another process is not taken for it, whatever it is called.
    let mut scene = Scene::new();
    scene.with_supervisor(6).ray_worker(7);
    scene.signal(66, 6, 15, 0, false).after(255_000);
    scene.signal(8, 7, 15, -1, true).after(5).exit(7, 15);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert_eq!(death.sender.expect("sender").pid.0, 8);
}

/// A job may run a recorder of its own. What is called like it is believed to hand on only to its
/// child, and only at once.
#[test]
fn other_recorder_hands_on_to_its_child_at_once() {
    for (parent, after_us, first) in [
        (6, 300_000, true),
        (6, 3_000_000, false),
        (RAYLET, 300_000, false),
    ] {
        let mut scene = Scene::new();
        scene.process(7, parent, "bash", Role::Driver);
        scene.signal(66, 6, 15, 0, false).after(after_us);
        scene.signal(6, 7, 15, -1, true);
        scene.last_sender().comm = "raytrace".into();
        scene.after(5).exit(7, 15);
        let death = assert_verdict!(scene, 7, Signal, Proven);
        let sender = death.sender.expect("sender").pid.0;
        assert_eq!(sender == 66, first, "{parent} {after_us}");
    }
}

#[test]
fn killed_process_that_lives_on_is_pending() {
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
fn first_effective_signal_wins() {
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
fn sigkill_during_core_dump_stays_a_crash() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal_with(7, 7, 11, 1, false, 0);
    scene.delivered(7, 11, 1);
    scene.after(900).signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Crash, Proven);
    assert!(death.sender.is_none());
    assert_eq!(death.end.signal, Some(9), "as its parent sees it");
}

#[test]
fn caught_sigterm_with_exit_0_is_inferred() {
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
fn fault_is_a_crash() {
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
fn reraised_memory_error_is_the_machines() {
    // The process touched the broken page itself, which may be one that it has poisoned, or the
    // kernel told it of one.
    for (sender, code, certainty) in [(7, 4, Certainty::Inferred), (66, 5, Certainty::Proven)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(sender, 7, 7, code, false);
        scene.after(100).signal(7, 7, 7, -6, false).after(1);
        scene.delivered(7, 7, -6);
        scene.after(1000).exit(7, 7 | 0x80);
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, Killer::KernelOther);
        assert_eq!(death.verdict.certainty, certainty);
        let sender = death.sender.expect("how");
        assert_eq!((sender.pid.0, sender.mechanism), (0, Mechanism::Hwpoison));
    }
}

#[test]
fn self_sigkill_is_a_crash() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 9, 0, true).after(100);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Crash, Proven);
}

#[test]
fn reraised_ctrl_c_is_the_terminals() {
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
fn blocked_ctrl_c_is_no_raylet_shutdown() {
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

/// The kernel sends SIGHUP to a stopped process group that nobody is left to continue.
#[test]
fn orphaned_stopped_group_dies_by_kernel() {
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
    // A running process of the same group.
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.process(70, 7, "sh", Role::Descendant);
    scene.process(71, 7, "sh", Role::Descendant);
    scene.exiting = true;
    scene.signal(7, 71, 1, 128, true).after(10);
    scene.target_stopped_by = 19;
    scene.signal(7, 70, 1, 128, false).after(10);
    scene.exiting = false;
    let worker = scene.exit(7, 1 << 8);
    scene.after(10).exit(71, 1);
    let death = assert_verdict!(scene, 71, KernelOther, Inferred);
    assert_eq!(death.verdict.cause_death_id, Some(worker));
    // The terminal hangs up because the leader of its session exits.
    let mut scene = Scene::new();
    scene.ray_worker(7).process(70, 7, "sh", Role::Descendant);
    scene.exiting = true;
    scene.signal(7, 70, 1, 128, true).after(10);
    scene.exit(70, 1);
    // A running process of an orphaned group has the same signal.
    let death = assert_verdict!(scene, 70, Signal, Inferred);
    let mechanism = death.sender.map(|sender| sender.mechanism);
    assert_eq!(mechanism, Some(Mechanism::Tty));
}

/// Signals that do nothing do not push out the one that ended the process.
#[test]
fn flood_of_ignored_signals_hides_no_sender() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    let flood = |scene: &mut Scene| {
        for _ in 0..64 {
            scene.signal_with(66, 7, 25, 0, false, 1);
        }
    };
    flood(&mut scene);
    scene.signal(66, 7, 15, 0, false);
    flood(&mut scene);
    scene.after(5000).exit(7, 0);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    assert_eq!(death.sender.expect("sender").pid.0, 66);
}

/// The init of a pid namespace drops a signal that it has unblocked, and lives on.
#[test]
fn earlier_delivery_without_a_dump_is_not_the_end() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(7, 7, 10, 0, false).after(10);
    scene.delivered(7, 10, 0);
    scene.after(9000).signal(66, 7, 9, 0, true).after(10);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert_eq!(death.sender.expect("sender").pid.0, 66);
}

/// A tracer may have changed the signal while it was pending.
#[test]
fn sender_of_a_delayed_signal_is_inferred() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 15, 0, false);
    scene.after(2_000_000).exit(7, 15);
    assert_verdict!(scene, 7, Signal, Inferred);
}

#[test]
fn sender_is_inferred_if_target_was_stopped() {
    for number in [15, 11] {
        let mut scene = Scene::new();
        scene.target_stopped_by = 19;
        scene.ray_worker(7).signal(66, 7, number, 0, false);
        scene.after(2000);
        scene.delivered(7, number, 0);
        scene.exit(7, number);
        let death = assert_verdict!(scene, 7, Signal, Inferred);
        assert_eq!(death.sender.expect("sender").pid.0, 66);
    }
}

/// One that waited may come from a tracer, so it is inferred.
#[test]
fn core_signal_taken_at_once_is_proven() {
    for (waited, certainty) in [(100, Certainty::Proven), (2_000_000, Certainty::Inferred)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, 11, 0, false);
        scene.after(waited);
        scene.delivered(7, 11, 0);
        scene.exit(7, 11);
        let death = scene.death(7);
        assert_eq!(death.verdict.killer, Killer::Signal);
        assert_eq!(death.verdict.certainty, certainty);
    }
}

/// Most of its verdicts are inferred, since the tracer can change signals and exits.
#[test]
fn end_of_traced_process_names_its_tracer() {
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
    scene.delivered(7, 11, 0);
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
fn exit_after_lost_signals_is_inferred() {
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
    // A handler may have saved for that minute.
    assert_verdict!(scene, 9, Exit, Inferred);
}

/// A child made by clone can choose this signal; it does not come from a file.
#[test]
fn exit_signal_of_a_child_is_inferred() {
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
fn reraised_sigterm_keeps_its_sender() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 15, 0, false).after(7000);
    scene.signal(7, 7, 15, 0, true).after(10);
    scene.exit(7, 15);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    assert_eq!(death.sender.expect("sender").pid.0, 66);
}

/// A handler may have sent it again, for a first one that no hook reports, or that came long before.
#[test]
fn own_signal_that_may_be_sent_again_is_inferred() {
    for number in [10, 12, 40] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(7, 7, number, 0, true).after(10);
        scene.exit(7, number);
        assert_verdict!(scene, 7, Crash, Inferred);
    }
    for (seconds, verdict) in [
        (90, (Killer::Signal, Certainty::Inferred)),
        (0, (Killer::Crash, Certainty::Proven)),
    ] {
        let mut scene = Scene::new();
        forks(&mut scene, RAYLET, 7);
        if seconds > 0 {
            scene.signal(66, 7, 15, 0, false).after(seconds * 1_000_000);
        }
        scene.signal(7, 7, 15, 0, true).after(10).exit(7, 15);
        let got = scene.death(7).verdict;
        assert_eq!((got.killer, got.certainty), verdict);
    }
}

/// The recorder sees a process start.
fn forks(scene: &mut Scene, parent: u32, child: u32) {
    let (parent, child) = (key(parent), key(child));
    scene.push(Source::Kernel, Observation::Fork { parent, child });
}

/// One that is older than the recorder may have caught a signal before, and be saving since.
#[test]
fn older_process_may_have_caught_what_its_end_names() {
    for (status, certainty) in [
        (143 << 8, Certainty::Inferred),
        (130 << 8, Certainty::Inferred),
        (15 << 8, Certainty::Inferred),
        (3 << 8, Certainty::Proven),
        (137 << 8, Certainty::Proven),
    ] {
        let mut scene = Scene::new();
        scene
            .process(70, 7, "sh", Role::Other)
            .after(10)
            .exit(70, status);
        let verdict = scene.death(70).verdict;
        assert_eq!(
            (verdict.killer, verdict.certainty),
            (Killer::Exit, certainty)
        );
        let mut scene = Scene::new();
        forks(&mut scene, 7, 70);
        scene.after(10).exit(70, status);
        let verdict = scene.death(70).verdict;
        assert_eq!(
            (verdict.killer, verdict.certainty),
            (Killer::Exit, Certainty::Proven)
        );
    }
    // The second one starts after the recording has begun, before the recorder watches its parent.
    for pid in [70, 200] {
        let mut scene = Scene::new();
        scene.process(pid, 7, "sh", Role::Other).after(2_000_000);
        scene.signal(pid, pid, 15, 0, true).after(10).exit(pid, 15);
        assert_verdict!(scene, pid, Crash, Inferred);
    }
}

/// Another process may have been running on the CPU when the timer expired.
#[test]
fn own_timer_has_no_sender() {
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
fn cgroup_kill_is_no_memory_kill() {
    let mut scene = Scene::new();
    scene.to_thread_group = false;
    scene.ray_worker(7).signal(66, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    assert_eq!(
        death.sender.expect("sender").mechanism,
        Mechanism::CgroupKill
    );
}

/// An unseen SIGSEGV is inferred to be a crash.
#[test]
fn unseen_sigkill_is_unknown() {
    let mut scene = Scene::new();
    scene.ray_worker(7).ray_worker(8).after(1);
    scene.exit(7, 9);
    scene.exit(8, 11);
    let death = assert_verdict!(scene, 7, Unknown, Unknown);
    assert!(death.verdict.missing.is_some());
    assert_verdict!(scene, 8, Crash, Inferred);
}

/// The parent's exit may come after the signal.
#[test]
fn parent_death_signal_names_the_parent() {
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

/// The driver itself lives on, and how it ends later is no cause.
#[test]
fn raylet_end_with_driver_thread_has_no_cause() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    (scene.exiting, scene.parent_death_signal) = (true, 9);
    scene.signal(50, RAYLET, 9, 0, true).after(10);
    let raylet = scene.exit(RAYLET, 9);
    scene.after(1_000_000).exit(7, 1 << 8);
    scene.after(600_000_000).exit(50, 0);
    let death = assert_verdict!(scene, RAYLET, KernelOther, Proven);
    assert!(death.listed && death.verdict.cause_death_id.is_none());
    let worker = scene.death(7);
    assert_eq!(
        (worker.verdict.killer, worker.verdict.cause_death_id),
        (Killer::RayCollapse, Some(raylet))
    );
}

#[test]
fn caught_parent_death_signal_names_the_parent() {
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
fn exit_after_ctrl_c_is_inferred() {
    let mut scene = Scene::new();
    scene.signal(3, 50, 2, 128, false).after(7000);
    scene.exit(50, 1 << 8);
    let death = assert_verdict!(scene, 50, Signal, Inferred);
    assert_eq!(death.sender.expect("how").mechanism, Mechanism::Tty);
}

#[test]
fn parent_death_outside_ray_is_a_signal() {
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

/// An exit with code 0 is not listed.
#[test]
fn exit_with_a_code_is_listed() {
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
            pending: None,
            unrecorded: None,
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
fn lost_exit_is_judged_by_its_signal() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(66, 7, 9, 0, true)
        .after(9_000_000);
    scene.ray_worker(8);
    scene
        .exit_without_status(7, Source::Proc)
        .exit_without_status(8, Source::Proc);
    let death = assert_verdict!(scene, 7, Signal, Proven);
    let evidence = &death.verdict.evidence;
    let lost = |piece: &crate::judge::report::Evidence| piece.what.contains("was lost");
    assert!(evidence.iter().any(lost), "{evidence:?}");
    assert_eq!(death.end.signal, Some(9));
    // Nothing is known about the end of worker 8, and nothing is claimed.
    assert!(scene.death(8).verdict.certainty != crate::judge::report::Certainty::Proven);
    assert_eq!(scene.death(8).end.signal, None);
}

/// A runtime recovers from a fault. Later somebody sends the same signal, and its handler raises it.
#[test]
fn fault_that_was_survived_is_not_the_end() {
    let ended = |number, code, sent: bool| {
        let mut scene = Scene::new();
        scene.process(70, 7, "java", Role::Other);
        scene.signal(70, 70, number, code, false).after(1_500_000);
        if sent {
            scene.signal(66, 70, number, 0, false).after(100);
        }
        scene.signal(70, 70, number, -6, false).after(1);
        scene.delivered(70, number, -6);
        scene.exit(70, number);
        let death = scene.death(70);
        let sender = death.sender.map(|sender| sender.pid.0);
        (death.verdict.killer, death.verdict.certainty, sender)
    };
    for number in [11, 7, 31] {
        let sent = (Killer::Signal, Certainty::Inferred, Some(66));
        assert_eq!(ended(number, 1, true), sent, "{number}");
    }
    // Its own signal is a crash, whatever came before.
    assert_eq!(
        ended(11, 1, false),
        (Killer::Crash, Certainty::Proven, None)
    );
    // A system call that seccomp forbids may have been emulated.
    let (killer, certainty, _) = ended(31, 1, false);
    assert_eq!(
        (killer, certainty),
        (Killer::KernelOther, Certainty::Inferred)
    );
}

/// The sentence says how long after the signal the process sent it to itself.
#[test]
fn late_signal_of_its_own_has_its_delay() {
    let mut scene = Scene::new();
    scene.process(70, 7, "python", Role::Other);
    scene.signal(66, 70, 6, 0, false).after(3_000_000);
    scene.signal(70, 70, 6, -6, false).after(10);
    scene.delivered(70, 6, -6);
    scene.exit(70, 6);
    let said = clause::summary(&assert_verdict!(scene, 70, Signal, Inferred));
    assert!(said.contains("sent it to itself 3 s later"), "{said}");
}

/// A signal of somebody else that still waited was not passed on.
#[test]
fn pending_signal_is_not_sent_again() {
    let mut scene = Scene::new();
    scene.process(70, 7, "sh", Role::Other);
    scene.signal(66, 70, 15, 0, false).after(1000);
    scene.to_thread_group = false;
    scene.signal(70, 70, 15, -6, false).after(1000);
    scene.pending = Some(PendingSignals {
        process: 1 << 14,
        threads: 0,
        blocked: 0,
    });
    scene.exit(70, 15);
    assert_verdict!(scene, 70, Crash, Inferred);
}

/// Two signals of one number that wait: the thread's own is taken before the process's, the older
/// real-time one first, and none of it is proven.
#[test]
fn one_of_two_waiting_signals_is_not_proven() {
    let ended = |number, first_to_thread: bool, result| {
        let mut scene = Scene::new();
        scene.process(70, 7, "sh", Role::Other);
        scene.to_thread_group = !first_to_thread;
        scene.signal_with(66, 70, number, -1, false, result);
        scene.to_thread_group = true;
        let code = if result == 4 { 0 } else { -1 };
        scene.after(100_000);
        scene.signal_with(67, 70, number, code, false, 0);
        scene.after(100_000);
        scene.delivered(70, number, code);
        scene.exit(70, number);
        let death = scene.death(70);
        let sender = death.sender.map(|sender| sender.pid.0);
        (death.verdict.killer, death.verdict.certainty, sender)
    };
    let first = (Killer::Signal, Certainty::Inferred, Some(66));
    assert_eq!(ended(3, true, 0), first);
    assert_eq!(ended(10, true, 0), first);
    assert_eq!(ended(37, false, 0), first);
    // What came with it was lost, and so was its code.
    assert_eq!(ended(3, true, 4), first);
    // In one queue, the second comes only after the first was taken.
    let last = (Killer::Signal, Certainty::Proven, Some(67));
    assert_eq!(ended(3, false, 0), last);
}

/// One that came while there was a handler is not reported.
#[test]
fn quiet_signal_that_waited_is_not_proven() {
    let mut scene = Scene::new();
    scene.process(70, 7, "sh", Role::Other);
    scene.signal(66, 70, 10, 0, false).after(300_000);
    scene.delivered(70, 10, 0);
    scene.exit(70, 10);
    assert_verdict!(scene, 70, Signal, Inferred);
}

/// What a subprocess arranges for its own child is no act of Ray's.
#[test]
fn parent_death_within_the_job_is_a_signal() {
    let ended = |parent, status| {
        let mut scene = Scene::new();
        scene.ray_worker(7);
        scene.process(70, 7, "bwrap", Role::Descendant);
        scene.process(71, parent, "sh", Role::Descendant);
        (scene.exiting, scene.parent_death_signal) = (true, 9);
        scene.signal(parent, 71, 9, 0, true).after(10);
        (scene.exiting, scene.parent_death_signal) = (false, 0);
        scene.exit(parent, status);
        scene.after(10).exit(71, 9);
        let death = scene.death(71);
        (death.verdict.killer, death.verdict.certainty)
    };
    let proven = |killer| (killer, Certainty::Proven);
    assert_eq!(ended(70, 0), proven(Killer::Signal));
    assert_eq!(ended(70, 9), proven(Killer::RayCollapse));
    assert_eq!(ended(7, 0), proven(Killer::RayIntended));
}

/// A BPF program may send any signal to the process that runs (`bpf_send_signal`), as security agents
/// do. It has the code of the kernel.
#[test]
fn signal_of_a_bpf_program_proves_nothing() {
    let ended = |number| {
        let dumps = matches!(number, 7 | 11 | 24 | 31);
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        scene.signal(70, 70, number, 128, !dumps).after(5);
        if dumps {
            scene.delivered(70, number, 128);
        }
        scene.exit(70, number);
        scene.death(70).verdict.certainty
    };
    for number in [1, 2, 3, 9, 14, 24, 27, 29] {
        assert_eq!(ended(number), Certainty::Inferred, "{number}");
    }
    for number in [7, 10, 11, 12, 15, 31, 44] {
        assert_eq!(ended(number), Certainty::Unknown, "{number}");
    }
    let mut scene = Scene::new();
    scene.process(70, 7, "python", Role::Other);
    scene
        .signal(70, 70, 6, 128, false)
        .after(5)
        .exit(70, 7 << 8);
    assert_verdict!(scene, 70, Exit, Inferred);
}
