//! Which death ended a job, and which deaths are one act.

use super::{
    findings::{fires, ray_kills, worker},
    scene::{MEMCG, MS, RAYLET, Scene, hex, key, monitor_kill},
};
use crate::{
    event::{Call, MemorySplit, Observation, Role, Source, Worker},
    ids::{BootTime, Bytes, EventId, HexId, Pid},
    judge::{
        cause::Cause,
        report::{Certainty, Finding, Killer, Report},
    },
    ray::facts::RayFact,
};

const SECOND: u64 = 1_000_000;

fn actor(pid: u32) -> HexId {
    HexId(format!("{pid:024x}01000000"))
}

fn actor_state(pid: u32, state: &str) -> RayFact {
    state_in(pid, pid, state)
}

/// The GCS says a state of the actor that began in process `first`, and now is in `pid`.
fn state_in(first: u32, pid: u32, state: &str) -> RayFact {
    RayFact::ActorState {
        actor_id: actor(first),
        state: state.into(),
        restarts_left: None,
        node_id: None,
        worker_id: Some(hex(pid)),
    }
}

/// The owner of a call to the actor in `pid` gives up the call, or retries it.
fn lost_call(pid: u32, will_retry: bool) -> RayFact {
    RayFact::TaskFailed {
        task_id: HexId::parse(&format!("beed05050684d000{}", actor(pid).0)),
        error: "ACTOR_UNAVAILABLE".into(),
        will_retry: Some(will_retry),
        retries_left: Some(i64::from(will_retry)),
        task_name: Some("Trainer.step".into()),
        job_id: HexId::parse("01000000"),
    }
}

/// Two actors (10 and 11) are killed by two shells, 0.3 s apart.
fn two_actors_killed() -> Scene {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
        scene.says(actor_state(pid, "ALIVE"));
    }
    for pid in [10, 11] {
        scene
            .after(SECOND * 3 / 10)
            .signal(pid + 100, pid, 9, 0, true);
        scene.exit(pid, 9);
        scene.after(5_000).says(actor_state(pid, "DEAD"));
    }
    scene
}

fn ended_by(report: &Report) -> (Option<Pid>, Vec<Pid>) {
    let pid = |id: EventId| {
        let death = report.deaths.iter().find(|death| death.id == id);
        death.expect("a death").process.pid
    };
    let job = &report.jobs[0];
    let survived = job.survived.iter().map(|survived| pid(survived.death_id));
    (job.ended_by_death_id.map(pid), survived.collect())
}

#[test]
fn first_lost_call_ended_the_job() {
    let mut scene = two_actors_killed();
    for pid in [10, 11] {
        scene.says_from(Source::WorkerLog, lost_call(pid, false));
    }
    scene.after(4 * SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(10)), Vec::new()));
}

#[test]
fn death_in_drivers_exception_ended_the_job() {
    let mut scene = two_actors_killed();
    scene.says_from(Source::WorkerLog, lost_call(10, false));
    let named = RayFact::DiedInException {
        actor_id: Some(actor(11)),
        pid: Some(Pid(11)),
        worker_id: None,
    };
    scene.says_from(Source::WorkerLog, named);
    scene.after(SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(11)), Vec::new()));
}

#[test]
fn old_lost_call_did_not_end_job() {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
        scene.says(actor_state(pid, "ALIVE"));
        scene.signal(pid + 100, pid, 9, 0, true);
        scene.exit(pid, 9);
        scene.says_from(Source::WorkerLog, lost_call(pid, false));
        scene.after(30 * SECOND);
    }
    scene.exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(11)), vec![Pid(10)]));
}

/// Both processes ran the same actor. The owner gives up at the second death.
#[test]
fn last_death_of_a_restarted_actor_ended_the_job() {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
        let is = |state: &str| state_in(10, pid, state);
        scene.says(is("ALIVE"));
        scene.after(3 * SECOND).signal(pid + 100, pid, 9, 0, true);
        scene.exit(pid, 9);
        let then = if pid == 10 { "RESTARTING" } else { "DEAD" };
        scene.after(5_000).says(is(then));
    }
    scene.says_from(Source::WorkerLog, lost_call(10, false));
    scene.after(SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(11)), vec![Pid(10)]));
}

/// A process that the actor's had forked has its title, and ends seconds after it.
#[test]
fn fork_of_an_actor_lost_no_call() {
    let mut scene = Scene::new();
    worker(&mut scene, 10, "ray::Trainer.step", 700);
    scene.says(actor_state(10, "ALIVE"));
    scene.process(11, 10, "pt_data_worker", Role::Descendant);
    scene.push(
        Source::Kernel,
        Observation::Title {
            process: key(11),
            title: "ray::Trainer.step".into(),
            memory: MemorySplit::default(),
        },
    );
    scene.signal(110, 10, 9, 0, true).exit(10, 9);
    scene.after(5 * SECOND).exit(11, 1 << 8);
    scene.says_from(Source::WorkerLog, lost_call(10, false));
    scene.after(2 * SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()).0, Some(Pid(10)));
}

/// An actor that is killed `kills` times, and restarted each time. With `gives_up`, it is killed once
/// more, and not restarted.
fn restarted_actor(kills: u32, gives_up: bool) -> Finding {
    let mut scene = Scene::new();
    for pid in 10..10 + kills + u32::from(gives_up) {
        worker(&mut scene, pid, "ray::Trainer.step", 4096);
        let is = |state: &str| state_in(10, pid, state);
        scene.push(
            Source::Proc,
            Observation::Worker(Worker {
                process: key(pid),
                worker_id: hex(pid),
                job_id: HexId::parse("01000000"),
                actor_class: Some("Trainer".into()),
                driver: false,
                from: "test".into(),
            }),
        );
        scene.says(is("ALIVE"));
        ray_kills(&mut scene, pid);
        let last = pid == 10 + kills;
        scene
            .after(5_000)
            .says(is(if last { "DEAD" } else { "RESTARTING" }));
        scene.after(10 * SECOND);
    }
    fires(&scene, "retry-loop")
}

#[test]
fn loop_of_restarts_is_bounded_below_those_that_were_seen() {
    let endless = restarted_actor(6, false);
    let advised =
        "max_restarts=3 in .options() or the @ray.remote of Trainer ends the loop with an error";
    assert_eq!(endless.remedy, [advised]);
    assert_eq!(
        restarted_actor(3, false).remedy,
        [advised.replace("=3", "=2")]
    );
    // Its own max_restarts has ended the loop.
    assert_eq!(restarted_actor(4, true).remedy, Vec::<String>::new());
}

/// The monitor looks again after some hundred milliseconds, and decides again.
#[test]
fn each_kill_record_is_a_decision() {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
        scene.after(SECOND * 3 / 10).says(monitor_kill(&[pid], &[]));
        scene.after(1_000).signal(RAYLET, pid, 9, 0, true);
        scene.exit(pid, 9);
    }
    for pid in [10, 11] {
        assert_eq!(scene.death(pid).verdict.act, None);
    }
}

#[test]
fn retry_does_not_replace_a_dead_actor() {
    let mut scene = two_actors_killed();
    scene.says_from(Source::WorkerLog, lost_call(10, true));
    scene.says_from(Source::WorkerLog, lost_call(10, false));
    scene.after(SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(10)), Vec::new()));
}

#[test]
fn driver_exit_names_the_death_as_cause() {
    let mut scene = two_actors_killed();
    scene.says_from(Source::WorkerLog, lost_call(10, false));
    scene.after(SECOND).exit(50, 1 << 8);
    let report = scene.report();
    let driver = report
        .deaths
        .iter()
        .find(|death| death.process.pid == Pid(50));
    let cause = driver.and_then(|driver| driver.verdict.cause_death_id);
    assert_eq!(cause, report.jobs[0].ended_by_death_id);
    assert!(cause.is_some());
}

/// Actor 10 starts a pool, and the kernel kills a process of the pool at a cgroup's limit.
fn child_killed_for_memory(parent: u32) -> Scene {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
    }
    let fork = Observation::Fork {
        parent: key(parent),
        child: key(30),
    };
    scene.push(Source::Kernel, fork);
    scene
        .after(SECOND)
        .signal(30, 30, 9, 128, true)
        .oom_victim(30, 30, true, &MEMCG);
    scene.exit(30, 9);
    scene
}

/// An exception that `worker` printed; `None` for the driver.
fn exception(class: &str, message: &str, worker: Option<u32>) -> RayFact {
    RayFact::Exception {
        class: class.into(),
        message: message.into(),
        worker_id: worker.map(hex),
    }
}

const BROKEN: (&str, &str) = (
    "concurrent.futures.process.BrokenProcessPool",
    "A process in the process pool was terminated abruptly",
);

#[test]
fn killed_child_ended_the_job() {
    for parent in [10, 50] {
        let mut scene = child_killed_for_memory(parent);
        scene.after(4 * SECOND).exit(50, 1 << 8);
        let report = scene.report();
        assert_eq!(ended_by(&report), (Some(Pid(30)), Vec::new()), "{parent}");
        assert!(report.jobs[0].is_ended_by_order());
        let cause = scene.death(50).verdict.cause_death_id;
        assert_eq!(cause, Some(scene.death(30).id));
    }
}

/// The worker's output is read at its end, after that of the driver.
#[test]
fn exception_names_the_killed_child() {
    let mut scene = child_killed_for_memory(10);
    scene.signal(111, 11, 9, 0, true);
    scene.exit(11, 9);
    scene.after(4 * SECOND).exit(50, 1 << 8);
    let (class, message) = BROKEN;
    let said = exception(class, message, Some(10));
    scene.after(SECOND).says_from(Source::WorkerLog, said);
    let report = scene.report();
    assert_eq!(ended_by(&report), (Some(Pid(30)), Vec::new()));
    assert!(!report.jobs[0].is_ended_by_order());
}

/// It was no OOM kill, but the exception has its pid.
#[test]
fn exception_names_a_signalled_child_by_its_pid() {
    let with = |said: Option<&str>| {
        let mut scene = Scene::new();
        scene.ray_worker(10);
        for child in [30, 31] {
            let fork = Observation::Fork {
                parent: key(10),
                child: key(child),
            };
            scene.push(Source::Kernel, fork);
            scene.signal(111, child, 9, 0, true);
            scene.exit(child, 9);
        }
        if let Some(message) = said {
            let said = exception("RuntimeError", message, None);
            scene.says_from(Source::WorkerLog, said);
        }
        scene.after(SECOND).exit(50, 1 << 8);
        ended_by(&scene.report()).0
    };
    let killed = "DataLoader worker (pid 31) is killed by signal: Killed. ";
    assert_eq!(with(Some(killed)), Some(Pid(31)));
    assert_eq!(with(Some("DataLoader timed out")), Some(Pid(50)));
    assert_eq!(with(None), Some(Pid(50)));
}

/// An exception that names no pid is about a process that its own worker had started.
#[test]
fn exception_of_another_worker_names_no_child() {
    let said_by = |worker: u32| {
        let mut scene = Scene::new();
        for pid in [10, 11] {
            scene.ray_worker(pid);
        }
        let fork = Observation::Fork {
            parent: key(10),
            child: key(30),
        };
        scene.push(Source::Kernel, fork);
        scene.signal(111, 30, 9, 0, true);
        scene.exit(30, 9);
        scene.after(SECOND).exit(50, 1 << 8);
        let (class, message) = BROKEN;
        let said = exception(class, message, Some(worker));
        scene.says_from(Source::WorkerLog, said);
        ended_by(&scene.report()).0
    };
    assert_eq!(said_by(10), Some(Pid(30)));
    assert_eq!(said_by(11), Some(Pid(50)));
}

#[test]
fn job_went_on_if_the_method_ran_again() {
    let mut scene = child_killed_for_memory(10);
    for (began, ended) in [(500, 2500), (3000, 4000)] {
        let call = Call {
            process: key(10),
            title: "ray::Reward.score".into(),
            nth: 1,
            began: BootTime(began * MS),
            ended: Some(BootTime(ended * MS)),
            before: None,
            after: None,
            peak: None,
        };
        scene.push(Source::Kernel, Observation::Call(call));
    }
    scene.after(9 * SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()).0, Some(Pid(50)));
}

/// The biggest victim stands for the act.
#[test]
fn monitor_decision_is_one_act() {
    let mut scene = Scene::new();
    for pid in [10, 11, 12] {
        scene.ray_worker(pid);
    }
    scene.says(monitor_kill(&[10, 11, 12], &[]));
    for pid in [10, 11, 12] {
        scene.anon_at_exit = crate::ids::Bytes(u64::from(pid) << 30);
        scene.after(1_000).signal(RAYLET, pid, 9, 0, true);
        scene.exit(pid, 9);
    }
    scene.after(SECOND).exit(50, 1 << 8);
    let report = scene.report();
    let biggest = scene.death(12).id;
    for pid in [10, 11, 12] {
        let act = scene.death(pid).verdict.act.expect("an act");
        assert_eq!((act.death_id, act.victims, act.signalled), (biggest, 3, 3));
    }
    assert_eq!(ended_by(&report), (Some(Pid(10)), Vec::new()));
}

#[test]
fn victims_of_one_decision_show_same_memory() {
    let mut scene = Scene::new();
    for pid in 10..18 {
        worker(&mut scene, pid, "ray::load", 100);
    }
    worker(&mut scene, 18, "ray::load", 20);
    scene.says(monitor_kill(&[10, 18, 11], &[]));
    for (pid, mib) in [(10, 100), (18, 20), (11, 100)] {
        scene.anon_at_exit = Bytes(mib << 20);
        scene.after(1_000).signal(RAYLET, pid, 9, 0, true);
        scene.exit(pid, 9);
    }
    for pid in [10, 18, 11] {
        let memory = scene.death(pid).memory;
        let rest = memory.top_rest.expect("more than are listed");
        let listed: u64 = memory.top.iter().map(|one| one.private_bytes.0).sum();
        let all = Bytes(listed + rest.private_bytes.0);
        let processes = memory.top.len() + rest.processes as usize;
        assert_eq!((processes, all), (9, Bytes(820 << 20)), "pid {pid}");
        let victims = memory.top.iter().filter(|one| one.victim);
        let victims: Vec<u32> = victims.map(|one| one.pid.0).collect();
        assert_eq!(victims, [pid]);
    }
}

/// The signals come within a second.
#[test]
fn signals_of_one_sender_are_one_act() {
    let mut scene = Scene::new();
    for pid in 10..14 {
        scene.ray_worker(pid);
    }
    for pid in 10..13 {
        scene.after(SECOND / 10).signal(999, pid, 15, 0, true);
        scene.exit(pid, 15);
    }
    // Worker 13 caught the signal.
    scene.signal(999, 13, 15, 0, false);
    scene
        .after(10 * SECOND)
        .ray_worker(14)
        .signal(999, 14, 15, 0, true);
    scene.exit(14, 15);
    let first = scene.death(10).id;
    for pid in 10..13 {
        let act = scene.death(pid).verdict.act.expect("an act");
        assert_eq!((act.death_id, act.victims, act.signalled), (first, 3, 4));
    }
    assert_eq!(scene.death(14).verdict.act, None);
    assert_eq!(scene.death(12).verdict.killer, Killer::Signal);
    assert!(scene.death(10).when.act_time > BootTime(key(10).start.0));
}

#[test]
fn driver_abort_at_sigterm_joins_the_act() {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
    }
    for pid in [10, 11] {
        scene.after(SECOND / 10).signal(999, pid, 15, 0, true);
        scene.exit(pid, 15);
    }
    scene.signal(999, 50, 15, 0, false);
    scene.after(4 * SECOND).signal(50, 50, 6, -6, true);
    scene.exit(50, 6);
    let driver = scene.death(50);
    assert_eq!(driver.verdict.killer, Killer::Signal);
    assert_eq!(driver.verdict.certainty, Certainty::Inferred);
    assert!(
        matches!(driver.verdict.cause, Cause::CaughtSignalThenAbort { .. }),
        "{:?}",
        driver.verdict.cause
    );
    let act = driver.verdict.act.expect("an act");
    assert_eq!((act.death_id, act.victims), (scene.death(10).id, 3));
}

#[test]
fn abort_without_outside_signal_is_a_crash() {
    let mut scene = Scene::new();
    scene.ray_worker(10);
    // The raylet sends SIGTERM to a worker that is already ending.
    scene.signal(RAYLET, 10, 15, 0, false);
    scene.after(1_000).signal(10, 10, 6, -6, true);
    scene.exit(10, 6);
    assert_eq!(scene.death(10).verdict.killer, Killer::Crash);
}

#[test]
fn killed_actor_without_restarts_ended_the_job() {
    let mut scene = Scene::new();
    for pid in [10, 11] {
        scene.ray_worker(pid);
        scene.says(actor_state(pid, "ALIVE"));
    }
    scene.says(monitor_kill(&[10], &[]));
    scene.after(1_000).signal(RAYLET, 10, 9, 0, true);
    scene.exit(10, 9);
    scene.says_from(Source::WorkerLog, lost_call(10, true));
    // With `need_reschedule = 1, remaining_restarts = 0` the actor is DEAD.
    scene.after(5_000).says(actor_state(10, "DEAD"));
    let named = RayFact::DiedInException {
        actor_id: Some(actor(10)),
        pid: Some(Pid(10)),
        worker_id: None,
    };
    scene.says_from(Source::WorkerLog, named);
    scene.after(SECOND / 2).signal(999, 11, 9, 0, true);
    scene.exit(11, 9);
    scene.after(SECOND).exit(50, 1 << 8);
    assert_eq!(ended_by(&scene.report()), (Some(Pid(10)), Vec::new()));
}

/// A job in which worker 11 is killed. The controller (pid 10) prints step 2, and then step 1 of 4.
fn trained(argv: &str, packages: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::new();
    let argv = argv.split(' ').map(str::to_owned).collect();
    scene.change_process(50, |driver| driver.argv = argv);
    let own = |(name, version): &(&str, &str)| ((*name).to_owned(), (*version).to_owned());
    let driver = Observation::DriverSettings {
        process: key(50),
        settings: Vec::new(),
        packages: packages.iter().map(own).collect(),
    };
    scene.push(Source::Proc, driver);
    scene.ray_worker(10).ray_worker(11);
    scene.signal(111, 11, 9, 0, true);
    scene.exit(11, 9);
    for (step, of) in [(2, None), (1, Some(4))] {
        let worker_id = Some(hex(10));
        let step = RayFact::TrainingStep {
            step,
            of,
            worker_id,
        };
        scene.says_from(Source::WorkerLog, step);
    }
    scene.says_from(Source::WorkerLog, lost_call(11, false));
    scene.after(SECOND).exit(50, 1 << 8);
    scene
}

#[test]
fn job_has_framework_version_and_last_step() {
    let installed = [("verl", "0.5.0"), ("vllm", "0.8.4")];
    let report = trained("python -m verl.trainer.main_ppo a=b", &installed).report();
    let job = &report.jobs[0];
    let framework = job.framework.as_ref().expect("a framework");
    assert_eq!(framework.name, "verl");
    assert_eq!(framework.version.as_deref(), Some("0.5.0"));
    let step = job.last_step.expect("a step");
    assert_eq!((step.step, step.of), (2, Some(4)));
}

#[test]
fn installed_framework_that_does_not_run() {
    let installed = [("verl", "0.5.0"), ("vllm", "0.8.4")];
    let report = trained("python train.py", &installed).report();
    assert_eq!(report.jobs[0].framework, None);
    let report = trained("python -m openrlhf.cli.train_ppo_ray", &installed).report();
    let framework = report.jobs[0].framework.as_ref().expect("a framework");
    assert_eq!(
        (framework.name.as_str(), &framework.version),
        ("OpenRLHF", &None)
    );
}

#[test]
fn engine_in_a_setting_is_no_framework() {
    let mut scene = trained("python train.py rollout.name=vllm", &[]);
    scene.ray_worker(12);
    let title = Observation::Title {
        process: key(12),
        title: "ray::RayTrainWorker.run".into(),
        memory: MemorySplit::default(),
    };
    scene.push(Source::Kernel, title);
    let report = scene.report();
    let framework = report.jobs[0].framework.as_ref().expect("a framework");
    assert_eq!(framework.name, "Ray Train");
    assert_eq!(framework.version.as_deref(), Some("2.60.0"));
}
