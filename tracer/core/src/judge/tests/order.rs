//! No cause is later than its effect, and what happens later changes no verdict.

use proptest::prelude::*;

use super::scene::{RAYLET, Scene, hex, monitor_kill};
use crate::{
    assert_verdict, clause,
    event::{Observation, Role},
    ids::{BootTime, HexId, Pid},
    judge::report::{Certainty, Death, Killer},
    ray::facts::{ExitType, RayFact},
};

const SECOND: u64 = 1_000_000;

/// A worker's thread that had started a child ends. `whole` is whether its process ends then.
fn thread_of_a_worker_ends(whole: Option<bool>, worker_ends_after: u64) -> Scene {
    let mut scene = Scene::new();
    scene
        .ray_worker(7)
        .process(70, 7, "sleep", Role::Descendant);
    (scene.exiting, scene.process_exiting) = (true, whole);
    (scene.parent_death_signal, scene.sent_by_other_thread) = (9, true);
    scene.signal(7, 70, 9, 0, true).after(10);
    scene.exit(70, 9);
    scene.after(worker_ends_after).exit(7, 0);
    scene
}

#[test]
fn thread_that_ends_is_not_its_process() {
    for whole in [Some(false), None] {
        let scene = thread_of_a_worker_ends(whole, 8 * SECOND);
        let death = assert_verdict!(scene, 70, KernelOther, Proven);
        assert_eq!(death.verdict.cause_death_id, None);
        let said = clause::summary(&death);
        assert!(said.contains("a thread of its parent"), "{said}");
    }
    // The worker itself ends within a moment of its thread, but not because of it.
    let scene = thread_of_a_worker_ends(Some(false), 500);
    let death = assert_verdict!(scene, 70, KernelOther, Proven);
    assert_eq!(death.verdict.cause_death_id, None);
}

#[test]
fn process_that_exits_is_the_cause_before_it_is_gone() {
    for (whole, after) in [(None, 4400), (Some(true), 4400), (Some(true), 20 * SECOND)] {
        let scene = thread_of_a_worker_ends(whole, after);
        let death = assert_verdict!(scene, 70, RayIntended, Proven);
        let worker = scene.death(7);
        assert_eq!(death.verdict.cause_death_id, Some(worker.id));
        assert!(worker.when.began() <= death.when.act_time);
    }
}

/// It had left Ray by `ray.shutdown()`.
#[test]
fn driver_killed_later_did_not_end_its_job() {
    let mut scene = Scene::new();
    scene.ray_worker(7);
    scene.says(RayFact::JobFinished { worker_id: hex(7) });
    scene.after(100).signal(RAYLET, 7, 15, 0, false).after(100);
    scene.exit(7, 1 << 8);
    scene.after(30 * SECOND).signal(66, 50, 9, 0, true).after(5);
    scene.exit(50, 9);
    let death = assert_verdict!(scene, 7, RayIntended, Inferred);
    assert_eq!(death.verdict.cause_death_id, None);
}

/// The processes of a staged node: a worker's child, two workers, the agent, the GCS, the driver and
/// the raylet.
const PIDS: [u32; 7] = [70, 7, 8, 30, 40, 50, RAYLET];

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Exit(usize, i32),
    /// From, to, number, whether it kills.
    Signal(usize, usize, i32, bool),
    /// From, to, and whether the whole process of the thread that had started the other was ending.
    ParentDeath(usize, usize, Option<bool>),
    Says(usize, u8),
    Call(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let one = || 0..PIDS.len();
    let status = prop_oneof![
        Just(0),
        Just(1 << 8),
        Just(7 << 8),
        Just(143 << 8),
        Just(9),
        Just(15)
    ];
    prop_oneof![
        (0..3_000_000u64).prop_map(Step::Wait),
        (0..40_000_000u64).prop_map(Step::Wait),
        (one(), status).prop_map(|(who, status)| Step::Exit(who, status)),
        (
            one(),
            one(),
            prop_oneof![Just(2), Just(9), Just(15)],
            any::<bool>()
        )
            .prop_map(|(from, to, number, kills)| Step::Signal(from, to, number, kills)),
        (one(), one(), any::<bool>()).prop_map(|(from, to, whole)| Step::ParentDeath(
            from,
            to,
            Some(whole)
        )),
        (one(), 0..10u8).prop_map(|(who, what)| Step::Says(who, what)),
        one().prop_map(Step::Call),
    ]
}

fn fact(pid: u32, what: u8) -> RayFact {
    let worker_id = Some(hex(pid));
    let job_id = HexId::parse("01000000");
    match what {
        0 => RayFact::RayletSigterm,
        1 => RayFact::AgentFailed {
            agent: "dashboard_agent".into(),
        },
        2 => monitor_kill(&[pid], &[]),
        3 => RayFact::JobFinished {
            worker_id: hex(pid),
        },
        4 => RayFact::OwnerDied {
            worker_id: hex(pid),
            owner_worker_id: Some(hex(50)),
            reason: "owner died".into(),
        },
        5 => RayFact::RayletLost {
            raylet_pid: None,
            worker_id,
        },
        6 => RayFact::DriverDisconnected {
            pid: Pid(50),
            worker_id: Some(hex(50)),
            job_id,
        },
        7 => RayFact::ForceKillActor {
            worker_id,
            reason: "The actor is dead because its owner has died.".into(),
        },
        8 => RayFact::RayletMarkedDead {
            reason: "it lost the GCS".into(),
        },
        _ => RayFact::Disconnected {
            worker_id,
            exit_type: ExitType::IntendedSystemExit,
            graceful: Some(true),
            driver: false,
            job_id: None,
        },
    }
}

fn node() -> Scene {
    let mut scene = Scene::new();
    scene.dashboard_agent(30);
    scene.process(40, 50, "gcs_server", Role::Gcs);
    scene.ray_worker(7).ray_worker(8);
    scene.process(70, 7, "sleep", Role::Descendant);
    scene
}

/// Whether the whole process had begun to end. Then no signal takes effect any more.
fn is_exiting(scene: &Scene, pid: u32) -> bool {
    scene.events.iter().any(|event| match &event.what {
        Observation::Signal(signal) => {
            let exits = signal.sender.process_exiting == Some(true);
            signal.sender.process.pid == Pid(pid) && exits
        }
        _ => false,
    })
}

/// Takes one step. A process that has exited does nothing more.
fn take(scene: &mut Scene, step: &Step, gone: &mut Vec<u32>) {
    match *step {
        Step::Wait(microseconds) => {
            scene.after(microseconds);
        }
        Step::Exit(who, status) if !gone.contains(&PIDS[who]) => {
            gone.push(PIDS[who]);
            scene.exit(PIDS[who], status);
        }
        Step::Signal(from, to, number, kills) if from != to && !gone.contains(&PIDS[to]) => {
            let takes_effect = (kills || number == 9) && !is_exiting(scene, PIDS[to]);
            scene.signal(PIDS[from], PIDS[to], number, 0, takes_effect);
        }
        Step::ParentDeath(from, to, whole) if from != to && !gone.contains(&PIDS[to]) => {
            (scene.exiting, scene.process_exiting) = (true, whole);
            scene.parent_death_signal = 9;
            scene.signal(PIDS[from], PIDS[to], 9, 0, true);
            (scene.exiting, scene.process_exiting) = (false, None);
            scene.parent_death_signal = 0;
        }
        Step::Says(who, what) => {
            scene.says(fact(PIDS[who], what));
        }
        Step::Call(who) => {
            scene.begins_call(PIDS[who], "ray::train");
        }
        _ => {}
    }
}

/// Returns when the first thing was seen that can belong to the end of a process: its exit, a signal
/// that it received or sent, or a line of Ray's.
fn first_sign(scene: &Scene, pid: Pid) -> Option<BootTime> {
    let of_its_end = |what: &Observation| match what {
        Observation::Exit(exit) => exit.process.pid == pid,
        Observation::Signal(signal) => {
            signal.target.pid == pid || signal.sender.process.pid == pid && signal.sender.exiting
        }
        Observation::RayLog(_) => true,
        _ => false,
    };
    let mut events = scene.events.iter();
    events
        .find(|event| of_its_end(&event.what))
        .map(|event| event.time)
}

/// Returns whether something had come that may end a process: a signal, its own exit, or a line of
/// Ray's. Such a line may be about the raylet or the driver too.
fn is_ending(scene: &Scene, pid: u32) -> bool {
    let of_node = pid == RAYLET || pid == 50;
    scene.events.iter().any(|event| match &event.what {
        Observation::Signal(signal) => {
            let exits = signal.sender.process_exiting == Some(true);
            signal.target.pid == Pid(pid) || signal.sender.process.pid == Pid(pid) && exits
        }
        Observation::RayLog(record) => of_node || record.fact.about().workers.contains(&hex(pid)),
        _ => false,
    })
}

/// Returns what a verdict says, without its link: a node that was told to end may take a while.
fn told(death: &Death) -> (Pid, Killer, Certainty, String) {
    (
        death.process.pid,
        death.verdict.killer,
        death.verdict.certainty,
        format!("{:?}", death.verdict.cause),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_cause_is_later_than_its_effect(steps in proptest::collection::vec(step(), 1..30)) {
        let (mut scene, mut gone) = (node(), Vec::new());
        for step in &steps {
            take(&mut scene, step, &mut gone);
        }
        let report = scene.report();
        for death in &report.deaths {
            let Some(id) = death.verdict.cause_death_id else { continue };
            let cause = report.deaths.iter().find(|one| one.id == id).expect("a death");
            let sign = first_sign(&scene, cause.process.pid).expect("an exit");
            prop_assert!(sign <= death.when.act_time, "{:?}", death.verdict);
            // A kill by a stranger happens when it happens.
            let by_stranger = cause.verdict.killer == Killer::Signal && cause.end.signal == Some(9);
            if by_stranger && cause.verdict.certainty == Certainty::Proven {
                let one_act = cause.sender.as_ref().map(|one| one.pid)
                    == death.sender.as_ref().map(|one| one.pid);
                let in_order = cause.when.act_time <= death.when.act_time;
                prop_assert!(one_act || in_order, "{:?}", death.verdict);
            }
        }
    }

    /// How the others end minutes later is no evidence.
    #[test]
    fn later_ends_change_no_verdict(
        steps in proptest::collection::vec(step(), 1..30),
        status in prop_oneof![Just(0), Just(1 << 8), Just(9)],
    ) {
        let (mut scene, mut gone) = (node(), Vec::new());
        for step in &steps {
            take(&mut scene, step, &mut gone);
        }
        // What had begun comes to its end.
        for who in (0..PIDS.len()).filter(|who| is_ending(&scene, PIDS[*who])).collect::<Vec<_>>() {
            take(&mut scene, &Step::Exit(who, 9), &mut gone);
        }
        let before: Vec<_> = scene.report().deaths.iter().map(told).collect();
        let ended = gone.clone();
        scene.after(300 * SECOND);
        for who in 0..PIDS.len() {
            take(&mut scene, &Step::Exit(who, status), &mut gone);
        }
        let after = scene.report().deaths;
        let after = after.iter().filter(|death| ended.contains(&death.process.pid.0));
        prop_assert_eq!(before, after.map(told).collect::<Vec<_>>());
    }
}
