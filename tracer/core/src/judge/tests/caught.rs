//! Signals that a process caught, took otherwise, or never took, and how it ended after them.

use super::{
    findings::worker,
    scene::{RAYLET, Scene},
};
use crate::{
    assert_verdict, clause,
    event::{Ledger, Observation, PendingSignals, Role, Source, SystemCall},
    ids::Bytes,
    judge::report::{Certainty, Death, Killer},
};

/// A set of signals that has SIGTERM alone.
const TERM: u64 = 1 << 14;
const MINUTE: u64 = 60_000_000;

fn verdict(death: &Death) -> (Killer, Certainty) {
    (death.verdict.killer, death.verdict.certainty)
}

fn evidence_of_sigterm(death: &Death) -> &str {
    let mut evidence = death.verdict.evidence.iter();
    let sent = evidence.find(|piece| piece.what.starts_with("SIGTERM"));
    sent.map_or("", |piece| &piece.what)
}

/// A worker that a shell sends SIGTERM, and that ends later.
fn caught(after: u64, status: i32) -> Scene {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(66, 7, 15, 0, false).after(after);
    scene.exit(7, status);
    scene
}

/// No time is a border: a handler may save a checkpoint for as long as it likes.
#[test]
fn exit_after_caught_sigterm_is_inferred_at_any_time() {
    for seconds in [0, 9, 18, 600, 86_400] {
        let scene = caught(seconds * 1_000_000 + 1, 143 << 8);
        let death = assert_verdict!(scene, 7, Signal, Inferred);
        let said = clause::summary(&death);
        let later = match seconds {
            0 => "exited with code 143",
            9 => "exited 9 s later with code 143",
            18 => "exited 18 s later with code 143",
            600 => "exited 10 min later with code 143",
            _ => "exited 24 h later with code 143",
        };
        assert!(said.contains(later), "{said}");
    }
}

/// It frees its memory while it ends.
#[test]
fn size_is_that_at_the_caught_signal() {
    let held = |status: i32| {
        let mut scene = Scene::new();
        worker(&mut scene, 7, "ray::Critic.update", 1300);
        scene.after(500_000).signal(66, 7, 15, 0, false);
        scene.after(700_000).anon_at_exit = Bytes(59 << 20);
        scene.exit(7, status);
        let own = scene.death(7).memory.own;
        (own.private().map(|held| held.0 >> 20), own.age_ms)
    };
    assert_eq!(held(0), (Some(1300), Some(700)));
    assert_eq!(held(9), (Some(59), None), "a later signal ended it");
}

#[test]
fn new_call_after_a_caught_sigterm_is_an_exit() {
    let mut scene = Scene::new();
    scene.ray_worker(7).begins_call(7, "ray::train");
    scene.signal(66, 7, 15, 0, false).after(5_000_000);
    scene.begins_call(7, "ray::train").after(5_000_000);
    scene.exit(7, 3 << 8);
    assert_verdict!(scene, 7, Exit, Inferred);
    // The call in which the signal came is no new one.
    let mut scene = Scene::new();
    scene.ray_worker(7).begins_call(7, "ray::train").after(100);
    scene.signal(66, 7, 15, 0, false).after(5_000_000);
    scene.exit(7, 3 << 8);
    assert_verdict!(scene, 7, Signal, Inferred);
}

/// An interrupted cell of a notebook is not why its driver ends an hour later.
#[test]
fn driver_goes_on_after_an_interrupt() {
    let mut scene = Scene::new();
    scene.signal(66, 50, 2, 0, false).after(60 * MINUTE);
    scene.exit(50, 0);
    assert_verdict!(scene, 50, Exit, Inferred);
    let mut scene = Scene::new();
    scene.signal(66, 50, 2, 0, false).after(18_000_000);
    scene.exit(50, 130 << 8);
    assert_verdict!(scene, 50, Signal, Inferred);
}

#[test]
fn pending_signal_did_not_end_the_process() {
    for (status, killer) in [(3 << 8, Killer::Exit), (0, Killer::Exit)] {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, 15, 0, false).after(100);
        scene.pending = Some(PendingSignals {
            process: TERM,
            threads: 0,
            blocked: TERM,
        });
        scene.exit(7, status);
        let death = scene.death(7);
        assert_eq!(verdict(&death), (killer, Certainty::Proven));
        let sent = evidence_of_sigterm(&death);
        assert!(sent.ends_with("no thread took it"), "{sent}");
    }
}

#[test]
fn abort_beside_a_pending_sigterm_is_a_crash() {
    let abort = |pending| {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, 15, 0, false).after(100);
        scene.signal(7, 7, 6, -6, false);
        scene.delivered(7, 6, -6);
        scene.pending = Some(PendingSignals {
            process: pending,
            threads: 0,
            blocked: TERM,
        });
        scene.exit(7, 6);
        verdict(&scene.death(7))
    };
    assert_eq!(abort(TERM), (Killer::Crash, Certainty::Proven));
    assert_eq!(abort(0), (Killer::Signal, Certainty::Inferred));
}

/// By `sigwait` or by a signalfd.
#[test]
fn blocked_and_no_longer_pending_was_taken() {
    let mut scene = caught(100, 0);
    scene.events.pop();
    scene.pending = Some(PendingSignals {
        process: 0,
        threads: 0,
        blocked: TERM,
    });
    scene.exit(7, 0);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    let sent = evidence_of_sigterm(&death);
    assert!(sent.contains("signalfd"), "{sent}");
}

/// A second signal with the same number is queued only after the first one was taken.
#[test]
fn first_of_two_was_taken_if_the_last_is_pending() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    for sender in [66, 67] {
        scene.signal(sender, 7, 15, 0, false).after(2 * MINUTE);
    }
    scene.pending = Some(PendingSignals {
        process: TERM,
        threads: 0,
        blocked: TERM,
    });
    scene.exit(7, 1 << 8);
    let death = assert_verdict!(scene, 7, Signal, Inferred);
    assert_eq!(death.sender.map(|sender| sender.pid.0), Some(66));
}

#[test]
fn signal_to_a_thread_is_pending_for_that_thread() {
    let sent_to_a_thread = |pending: PendingSignals| {
        let mut scene = Scene::new();
        scene.to_thread_group = false;
        scene.ray_worker(7).signal(66, 7, 15, -6, false).after(100);
        scene.pending = Some(pending);
        scene.exit(7, 3 << 8);
        verdict(&scene.death(7))
    };
    let pending = |process, threads| PendingSignals {
        process,
        threads,
        blocked: 0,
    };
    let never = sent_to_a_thread(pending(0, TERM));
    assert_eq!(never, (Killer::Exit, Certainty::Proven));
    let taken = sent_to_a_thread(pending(0, 0));
    assert_eq!(taken, (Killer::Signal, Certainty::Inferred));
    // Some kernels do not report what was pending for a thread.
    let unknown = sent_to_a_thread(PendingSignals {
        process: 0,
        threads: 0,
        blocked: TERM,
    });
    assert_eq!(unknown, (Killer::Exit, Certainty::Inferred));
    // What is pending for the process is another one.
    let taken = sent_to_a_thread(pending(TERM, 0));
    assert_eq!(taken, (Killer::Signal, Certainty::Inferred));
}

/// What a raylet blocks is read; its role decides only for recordings of earlier versions.
#[test]
fn interrupt_that_a_worker_took_may_have_ended_it() {
    let interrupted = |pending| {
        let mut scene = Scene::new();
        scene.ray_worker(7).signal(66, 7, 2, 0, false).after(100);
        scene.pending = pending;
        scene.exit(7, 1 << 8);
        verdict(&scene.death(7))
    };
    assert_eq!(interrupted(None), (Killer::Exit, Certainty::Proven));
    let taken = interrupted(Some(PendingSignals::default()));
    assert_eq!(taken, (Killer::Signal, Certainty::Inferred));
}

/// A raylet's SIGTERM follows the end of a worker that Ray had noted.
#[test]
fn exit_at_raylets_sigterm_is_not_proven() {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .signal(RAYLET, 7, 15, 0, false)
        .after(100);
    scene.exit(7, 7 << 8);
    assert_ne!(verdict(&scene.death(7)).1, Certainty::Proven);
}

/// A handler that ends the process by another signal than the one that it caught: a Python program
/// that turns SIGTERM into `KeyboardInterrupt`, one that kills its whole tree, one that fails.
#[test]
fn end_by_another_signal_names_the_first_sender() {
    for (first, own, code, took_effect) in [
        (15, 2, 0, true),
        (15, 9, 0, true),
        (3, 9, 0, true),
        (2, 9, 0, true),
        (15, 11, 1, false),
        (15, 4, 2, false),
    ] {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        scene.signal(66, 70, first, 0, false).after(7000);
        scene.signal(70, 70, own, code, took_effect).after(10);
        if !took_effect {
            scene.delivered(70, own, code);
        }
        scene.exit(70, own);
        let death = assert_verdict!(scene, 70, Signal, Inferred);
        let said = clause::summary(&death);
        assert!(said.contains("it caught the signal and"), "{said}");
        assert_eq!(death.sender.expect("sender").pid.0, 66);
    }
}

/// A fault long after a signal is the process's own. Its own signal may come of a slow handler.
#[test]
fn late_fault_is_a_crash_and_late_signal_may_be_the_handlers() {
    let ended = |own, code, took_effect| {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        scene.signal(66, 70, 15, 0, false).after(10 * MINUTE);
        scene.signal(70, 70, own, code, took_effect).after(10);
        if !took_effect {
            scene.delivered(70, own, code);
        }
        scene.exit(70, own);
        verdict(&scene.death(70))
    };
    assert_eq!(ended(11, 1, false), (Killer::Crash, Certainty::Proven));
    assert_eq!(ended(9, 0, true), (Killer::Signal, Certainty::Inferred));
}

/// The handler of a signal may fault, break a pipe, or set a timer.
#[test]
fn own_end_soon_after_any_caught_signal_is_not_proven() {
    let ended = |caught: Option<i32>, number, code, sender| {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        if let Some(caught) = caught {
            scene.signal(66, 70, caught, 0, false).after(100);
        }
        let dumps = matches!(number, 11 | 31);
        scene.signal(sender, 70, number, code, !dumps).after(5);
        if dumps {
            scene.delivered(70, number, code);
        }
        scene.exit(70, number);
        verdict(&scene.death(70)).1
    };
    // A fault; seccomp; timers, which interrupt any process.
    for (number, code, sender) in [(11, 1, 70), (31, 1, 70), (9, -2, 66), (14, 128, 66)] {
        let with = |caught| ended(caught, number, code, sender);
        assert_eq!(with(None), Certainty::Proven, "{number}");
        assert_eq!(with(Some(10)), Certainty::Inferred, "{number}");
        assert_eq!(with(Some(28)), Certainty::Inferred, "{number}");
    }
}

/// A worker's handler of the raylet's SIGTERM may send it; the raylet also follows ends with it.
#[test]
fn own_signal_after_the_raylets_is_not_proven() {
    let mut scene = Scene::new();
    scene.ray_worker(7).signal(RAYLET, 7, 15, 0, false);
    scene.after(100).signal(7, 7, 9, 0, true).after(5);
    scene.exit(7, 9);
    assert_verdict!(scene, 7, Crash, Inferred);
}

/// A limit on CPU time, or a batch system, tells a process to end by SIGXCPU. Other signals may be
/// agreed on for that.
#[test]
fn exit_after_any_caught_signal_is_not_proven() {
    let exits_after = |sender, number, code| {
        let mut scene = Scene::new();
        scene.process(70, 7, "sh", Role::Other);
        scene.signal(sender, 70, number, code, false).after(100);
        scene.exit(70, 1 << 8);
        verdict(&scene.death(70))
    };
    let limit = (Killer::KernelOther, Certainty::Inferred);
    assert_eq!(exits_after(70, 24, 128), limit);
    let sent = (Killer::Signal, Certainty::Inferred);
    assert_eq!(exits_after(66, 24, 0), sent);
    let open = (Killer::Exit, Certainty::Inferred);
    assert_eq!(exits_after(66, 10, 0), open);
    assert_eq!(exits_after(66, 6, 0), open);
    // Runtimes recover from faults.
    let own = (Killer::Exit, Certainty::Proven);
    assert_eq!(exits_after(70, 11, 1), own);
}

/// A fault that was survived explains no signal that the handler of a later one sends.
#[test]
fn own_signal_after_a_survived_fault_and_a_caught_signal_is_not_proven() {
    let ended = |caught: bool| {
        let mut scene = Scene::new();
        scene.process(70, 7, "java", Role::Other);
        scene.signal(70, 70, 11, 1, false).after(100);
        if caught {
            scene.signal(66, 70, 15, 0, false).after(100);
        }
        scene.signal(70, 70, 11, -6, false).after(5);
        scene.delivered(70, 11, -6);
        scene.exit(70, 11);
        verdict(&scene.death(70)).1
    };
    assert_eq!(ended(false), Certainty::Proven);
    assert_eq!(ended(true), Certainty::Inferred);
}

/// A signal that was lost may be the one whose handler sends this one.
#[test]
fn own_signal_after_lost_signals_is_not_proven() {
    for (lost, certainty) in [(0, Certainty::Proven), (1, Certainty::Inferred)] {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        for ring_full in [0, lost] {
            let ledger = Ledger {
                hook: "signal/signal_generate".into(),
                ring_full,
                ..Ledger::default()
            };
            scene.push(Source::Kernel, Observation::Ledger(ledger));
            scene.after(1000);
        }
        scene.signal(70, 70, 9, 0, true).after(5);
        scene.exit(70, 9);
        assert_eq!(verdict(&scene.death(70)), (Killer::Crash, certainty));
    }
}

/// The exit says whether anything about this process was not recorded. Where it does, the ledger
/// tells only of losses that no exit can say: of a program that did not run.
#[test]
fn what_was_not_recorded_of_others_costs_no_proof() {
    let ended = |unrecorded, lost: Ledger| {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        let before = Ledger {
            hook: lost.hook.clone(),
            ..Ledger::default()
        };
        for ledger in [before, lost] {
            scene.push(Source::Recorder, Observation::Ledger(ledger));
            scene.after(1000);
        }
        scene.unrecorded = unrecorded;
        scene.exit(70, 3 << 8);
        let death = scene.death(70);
        let mut evidence = death.verdict.evidence.iter();
        let says = evidence.any(|piece| piece.what.starts_with("not every signal to it"));
        assert_eq!(says, unrecorded == Some(true));
        verdict(&death)
    };
    let of = |hook: &str| Ledger {
        hook: hook.into(),
        ..Ledger::default()
    };
    let full = |hook| Ledger {
        ring_full: 5,
        map_full: 7,
        ..of(hook)
    };
    let (open, own) = (
        (Killer::Exit, Certainty::Inferred),
        (Killer::Exit, Certainty::Proven),
    );
    for hook in ["signal/signal_generate", "fentry/mem_write"] {
        assert_eq!(ended(Some(false), of(hook)), own);
        assert_eq!(ended(Some(true), of(hook)), open);
        assert_eq!(ended(Some(false), full(hook)), own);
        assert_eq!(ended(None, full(hook)), open, "an earlier version");
        let missed = Ledger {
            recursion_misses: Some(1),
            ..of(hook)
        };
        assert_eq!(ended(Some(false), missed), open);
    }
    let dropped = Ledger {
        dropped: 1,
        ..of("starts and ends of processes")
    };
    assert_eq!(ended(Some(false), dropped), open);
}

/// A file that becomes ready has the kernel send a signal in the name of whoever runs, the process
/// itself too. Another process may have arranged that.
#[test]
fn exit_after_a_signal_of_a_ready_file_is_not_proven() {
    let exits_after = |sender, number, code, call: &str| {
        let mut scene = Scene::new();
        scene.process(70, 7, "python", Role::Other);
        scene.call = Some(SystemCall {
            name: call.into(),
            arguments: [70, 10, 10],
        });
        scene.signal(sender, 70, number, code, false).after(100);
        scene.exit(70, 3 << 8);
        scene.death(70).verdict.certainty
    };
    for sender in [66, 70] {
        assert_eq!(exits_after(sender, 10, 1, "write"), Certainty::Inferred);
        assert_eq!(exits_after(sender, 29, 128, "write"), Certainty::Inferred);
        assert_eq!(exits_after(sender, 15, 1, "write"), Certainty::Inferred);
        assert_eq!(exits_after(sender, 11, -5, "write"), Certainty::Inferred);
    }
    // It queues one to itself.
    let own = exits_after(70, 10, 1, "rt_sigqueueinfo");
    assert_eq!(own, Certainty::Proven);
}

/// Not every signal of a process is kept. Its own ones say less.
#[test]
fn own_signals_do_not_push_out_one_from_outside() {
    let mut scene = Scene::new();
    scene.process(70, 7, "python", Role::Other);
    scene.signal(66, 70, 6, 0, false).after(100);
    for _ in 0..200 {
        scene.signal(70, 70, 6, 0, false).after(100);
    }
    scene.exit(70, 3 << 8);
    assert_verdict!(scene, 70, Exit, Inferred);
}
