//! Processes that others traced, or wrote into: their own acts are not proven to be their own.

use super::scene::{Scene, key};
use crate::{
    assert_verdict,
    event::{Exec, Interference, Ledger, Observation, Role, Source, Way},
    ids::Pid,
    judge::report::{Certainty, Death, Killer},
};

const WAYS: [(Way, &str); 3] = [
    (Way::Ptrace, "gdb (pid 812, uid 1000) traced it (ptrace)"),
    (
        Way::ProcMem,
        "gdb (pid 812, uid 1000) wrote into its memory, or tried to (/proc/PID/mem)",
    ),
    (
        Way::ProcessVmWritev,
        "gdb (pid 812, uid 1000) opened its memory in order to write (process_vm_writev)",
    ),
];

impl Scene {
    fn interfered(&mut self, pid: u32, way: Way) -> &mut Self {
        let act = Interference {
            process: key(pid),
            by: key(812),
            comm: "gdb".into(),
            uid: 1000,
            way,
        };
        self.push(Source::Kernel, Observation::Interference(act));
        self
    }
}

fn process() -> Scene {
    let mut scene = Scene::new();
    scene.process(70, 7, "python", Role::Other);
    scene
}

fn names(death: &Death, words: &str) -> bool {
    let mut evidence = death.verdict.evidence.iter();
    evidence.any(|piece| piece.what.starts_with(words))
}

/// What `call exit(3)`, `call kill(getpid(), 9)` and a jump to a bad address in gdb leave behind.
#[test]
fn own_act_after_interference_is_inferred_and_names_who_did_it() {
    for (way, words) in WAYS {
        let mut exits = process();
        exits.interfered(70, way).after(40_000).exit(70, 3 << 8);
        let death = assert_verdict!(exits, 70, Exit, Inferred);
        assert!(names(&death, words), "{:?}", death.verdict.evidence);
        assert_eq!(death.sender, None);

        let mut kills = process();
        kills.interfered(70, way).after(40_000);
        kills.signal(70, 70, 9, 0, true).after(5).exit(70, 9);
        let death = assert_verdict!(kills, 70, Crash, Inferred);
        assert!(names(&death, words), "{:?}", death.verdict.evidence);

        let mut faults = process();
        faults.interfered(70, way).after(40_000);
        faults.signal(70, 70, 11, 1, false).after(5);
        faults.delivered(70, 11, 1);
        faults.exit(70, 11);
        let death = assert_verdict!(faults, 70, Crash, Inferred);
        assert!(names(&death, words), "{:?}", death.verdict.evidence);
    }
}

/// Nobody can take back what has happened, or undo a SIGKILL of somebody else.
#[test]
fn interference_that_cannot_matter_changes_nothing() {
    let mut dumped = process();
    dumped.signal(70, 70, 11, 1, false).after(5);
    dumped.delivered(70, 11, 1);
    // Breakpad reads the memory of a process that has crashed.
    dumped.interfered(70, Way::Ptrace).after(5).exit(70, 11);
    let death = assert_verdict!(dumped, 70, Crash, Proven);
    assert!(names(&death, WAYS[0].1));

    let mut killed = process();
    killed.interfered(70, Way::ProcMem).after(40_000);
    killed.signal(66, 70, 9, 0, true).after(5).exit(70, 9);
    let death = assert_verdict!(killed, 70, Signal, Proven);
    assert_eq!(death.sender.expect("a sender").pid.0, 66);

    let mut other = process();
    other.process(71, 7, "python", Role::Other);
    other.interfered(71, Way::ProcMem).after(40_000);
    other.exit(70, 3 << 8);
    assert_verdict!(other, 70, Exit, Proven);
}

/// A tracer suppresses the signal of somebody else that waited, and gives the process one of its
/// own.
#[test]
fn signal_that_waited_while_traced_is_inferred() {
    let ended = |traced: bool| {
        let mut scene = process();
        scene.signal(66, 70, 3, 0, false).after(10);
        if traced {
            scene.interfered(70, Way::Ptrace).after(10);
        }
        scene.delivered(70, 3, 0);
        scene.exit(70, 3);
        scene.death(70).verdict.certainty
    };
    assert_eq!(ended(false), Certainty::Proven);
    assert_eq!(ended(true), Certainty::Inferred);
}

/// A child has the memory of its parent until it runs another program.
#[test]
fn child_inherits_what_was_written_into_its_parent() {
    let ended = |interfered_first: bool, executes: bool| {
        let mut scene = process();
        if interfered_first {
            scene.interfered(70, Way::ProcMem).after(10);
        }
        let (parent, child) = (key(70), key(71));
        scene.push(Source::Kernel, Observation::Fork { parent, child });
        if !interfered_first {
            scene.after(10).interfered(70, Way::ProcMem);
        }
        if executes {
            let exec = Exec {
                process: child,
                parent: Some(Pid(70)),
                ns_pid: None,
                comm: "sh".into(),
                argv: vec!["sh".to_owned()],
                uid: Some(1000),
                file: None,
            };
            scene.push(Source::Kernel, Observation::Exec(exec));
        }
        scene.after(10).exit(71, 3 << 8);
        let death = scene.death(71);
        (death.verdict.killer, death.verdict.certainty)
    };
    assert_eq!(ended(true, false), (Killer::Exit, Certainty::Inferred));
    assert_eq!(ended(true, true), (Killer::Exit, Certainty::Proven));
    assert_eq!(ended(false, false), (Killer::Exit, Certainty::Proven));
}

/// An act that did not fit into the ring may have been this one.
#[test]
fn exit_after_lost_interference_is_inferred() {
    let count = |scene: &mut Scene, ring_full: u64| {
        let ledger = Ledger {
            hook: "fentry/mem_write".into(),
            ring_full,
            ..Ledger::default()
        };
        scene.push(Source::Kernel, Observation::Ledger(ledger));
    };
    for (lost, certainty) in [(0, Certainty::Proven), (1, Certainty::Inferred)] {
        let mut scene = process();
        count(&mut scene, 0);
        scene.after(1000);
        count(&mut scene, lost);
        scene.after(10).exit(70, 3 << 8);
        assert_eq!(scene.death(70).verdict.certainty, certainty);
    }
}

/// The last signal with a handler is kept until the exit, and so comes out of its order.
#[test]
fn signal_that_was_kept_until_the_exit_takes_its_place() {
    let mut scene = process();
    let sent = scene
        .event(Source::Kernel, Observation::RecordingEnded)
        .time;
    scene.after(1000).signal(66, 70, 10, 0, true).after(10);
    scene.delivered(70, 10, 0);
    scene.signal(67, 70, 10, 0, false);
    scene.events.last_mut().expect("a signal").time = sent;
    scene.exit(70, 10);
    let death = scene.death(70);
    assert_eq!(death.sender.expect("a sender").pid.0, 66);
}

/// One record stands for all acts of a kind in 4.3 s: the act may have come after the signal.
#[test]
fn record_from_just_before_a_signal_that_waited_counts() {
    let ended = |before: u64| {
        let mut scene = process();
        scene.interfered(70, Way::Ptrace).after(before);
        scene.signal(66, 70, 3, 0, false).after(100_000);
        scene.delivered(70, 3, 0);
        scene.exit(70, 3);
        scene.death(70).verdict.certainty
    };
    assert_eq!(ended(2_000_000), Certainty::Inferred);
    assert_eq!(ended(5_000_000), Certainty::Proven);
}

/// What was lost may be the act that made the process fault, or kill itself. It undoes no kill.
#[test]
fn own_act_after_something_that_was_not_recorded_is_inferred() {
    let ended = |sender, signal: i32, code| {
        let mut scene = process();
        scene.unrecorded = Some(true);
        let took_effect = signal == 9;
        scene.signal(sender, 70, signal, code, took_effect).after(5);
        if !took_effect {
            scene.delivered(70, signal, code);
        }
        scene.exit(70, signal);
        scene.death(70).verdict.certainty
    };
    assert_eq!(ended(70, 9, 0), Certainty::Inferred);
    assert_eq!(ended(70, 11, 1), Certainty::Inferred);
    assert_eq!(ended(66, 9, 0), Certainty::Proven);
}
