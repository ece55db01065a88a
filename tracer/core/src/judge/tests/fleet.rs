//! Links between deaths on different nodes.
//!
//! Each node is staged by itself, and the reports are joined.

use super::scene::{MEMCG, RAYLET, Scene, hex, key};
use crate::{
    clause,
    event::{ClockError, Observation, RayLog, Source},
    ids::{HexId, Pid, WallTime},
    judge::{
        fleet::join,
        report::{Certainty, Death, Killer, LinkRule, Outcome, Remote, Report},
    },
    ray::facts::{ExitType, RayFact},
};

const ACTOR: &str = "aaaabbbbccccddddeeee000001000000";

fn node_id(number: u32) -> HexId {
    HexId(format!("{:056x}", 0xabc_000 + number))
}

/// A node of the same cluster, with a driver (pid 50) of job 01000000. Node 1 is the head.
fn node(number: u32) -> Scene {
    let mut scene = Scene::new();
    if let Observation::RecordingStarted(started) = &mut scene.events[0].what {
        started.host = format!("gpu-0{number}");
        started.boot_id = format!("boot {number}");
    }
    scene.change_cluster(|cluster| {
        cluster.node_id = Some(node_id(number));
        cluster.head = number == 1;
    });
    scene
}

/// Adds a fact from the log of a driver or worker. `file` is the kind of process in the log's name.
fn logs(scene: &mut Scene, file: &str, pid: u32, fact: RayFact) {
    let what = Observation::RayLog(RayLog {
        cluster: Some(key(RAYLET)),
        file: format!("python-core-{file}-{}_{pid}.log", hex(pid)),
        local_time: None,
        text: "a line".into(),
        fact,
    });
    scene.push(Source::WorkerLog, what);
}

fn actor_state(state: &str, worker: u32, node: u32) -> RayFact {
    RayFact::ActorState {
        actor_id: HexId(ACTOR.into()),
        state: state.into(),
        restarts_left: None,
        worker_id: Some(hex(worker)),
        node_id: Some(node_id(node)),
    }
}

fn killed_by_the_kernel(scene: &mut Scene, pid: u32) {
    scene.after(1000).signal(pid, pid, 9, 128, true);
    scene.oom_victim(pid, pid, true, &MEMCG).after(20);
    scene.exit(pid, 9);
}

fn joined(scenes: &[&Scene]) -> Report {
    join(scenes.iter().map(|scene| scene.report()).collect())
}

fn death(report: &Report, recording: u32, pid: u32) -> &Death {
    let mut deaths = report.deaths.iter();
    let of =
        |death: &&Death| death.recording_id == Some(recording) && death.process.pid == Pid(pid);
    deaths.find(of).expect("a death")
}

/// Returns the rule, the recording and the pid that a death is linked to.
fn link(report: &Report, recording: u32, pid: u32) -> Option<(LinkRule, u32, u32)> {
    let link = death(report, recording, pid).verdict.cause_link.as_ref()?;
    assert_eq!(link.link_certainty, Certainty::Inferred);
    let cause = report.deaths.iter().find(|one| one.id == link.death_id)?;
    Some((link.rule, link.recording_id, cause.process.pid.0))
}

/// The kernel kills an actor on node 2. The driver on node 1 hears of it and fails.
fn actor_dies_on_another_node() -> (Scene, Scene) {
    let mut second = node(2);
    second.ray_worker(7);
    killed_by_the_kernel(&mut second, 7);
    let mut first = node(1);
    logs(&mut first, "driver", 50, actor_state("ALIVE", 7, 2));
    first.after(1100);
    logs(&mut first, "driver", 50, actor_state("DEAD", 7, 2));
    first.after(500).exit(50, 1 << 8);
    (first, second)
}

#[test]
fn actor_death_ends_remote_driver_and_job() {
    let (first, second) = actor_dies_on_another_node();
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), Some((LinkRule::ActorDied, 1, 7)));
    // The driver's own verdict stays as its node recorded it.
    let driver = &death(&report, 0, 50).verdict;
    assert_eq!(
        (driver.killer, driver.certainty),
        (Killer::Exit, Certainty::Proven)
    );
    let actor = death(&report, 1, 7);
    assert_eq!(actor.verdict.killer, Killer::KernelOomMemcg);
    assert_eq!(actor.node.as_deref(), Some("gpu-02"));
    let job = report
        .jobs
        .iter()
        .find(|job| job.outcome == Outcome::Failed)
        .expect("a failed job");
    assert_eq!(job.ended_by_death_id, Some(actor.id));
    assert_eq!(job.ended_by_recording_id, Some(1));
    let because = clause::because(&job.because);
    assert!(because.contains("gpu-02"), "{because}");
}

/// Where the clocks can be compared, no cause is later than its effect, whatever the logs name.
#[test]
fn later_death_on_another_node_is_no_cause() {
    let linked = |seconds: u64, boot: &str| {
        let mut second = node(2);
        if let Observation::RecordingStarted(started) = &mut second.events[0].what {
            started.boot_id = boot.into();
        }
        second.ray_worker(7).after(seconds * 1_000_000);
        killed_by_the_kernel(&mut second, 7);
        let (first, _) = actor_dies_on_another_node();
        link(&joined(&[&first, &second]), 0, 50)
    };
    let actor = Some((LinkRule::ActorDied, 1, 7));
    assert_eq!(linked(0, "boot 1"), actor);
    assert_eq!(linked(5, "boot 1"), None);
    assert_eq!(linked(5, "boot 2"), actor, "their clocks are not known");
}

#[test]
fn order_of_recordings_does_not_matter() {
    let (first, second) = actor_dies_on_another_node();
    let report = joined(&[&second, &first]);
    assert_eq!(link(&report, 1, 50), Some((LinkRule::ActorDied, 0, 7)));
}

#[test]
fn failed_call_names_actor_by_task_id() {
    let (_, second) = actor_dies_on_another_node();
    let mut first = node(1);
    logs(&mut first, "driver", 50, actor_state("ALIVE", 7, 2));
    first.after(1100);
    let failed = RayFact::TaskFailed {
        task_id: Some(HexId(format!("0123456789abcdef{ACTOR}"))),
        error: "ACTOR_UNAVAILABLE".into(),
        will_retry: Some(false),
        retries_left: Some(0),
        task_name: Some("Trainer.step".into()),
        job_id: HexId::parse("01000000"),
    };
    logs(&mut first, "driver", 50, failed);
    first.after(500).exit(50, 1 << 8);
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), Some((LinkRule::ActorDied, 1, 7)));
}

/// Closeness in time alone links nothing.
#[test]
fn deaths_without_ids_are_not_linked() {
    let (_, second) = actor_dies_on_another_node();
    let mut first = node(1);
    first.after(1600).exit(50, 1 << 8);
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), None);
    let job = report.jobs.iter().find(|job| job.recording_id == Some(0));
    let driver = death(&report, 0, 50).id;
    assert_eq!(job.and_then(|job| job.ended_by_death_id), Some(driver));
}

/// Adds a fact from the log of the GCS.
fn gcs_says(scene: &mut Scene, fact: RayFact) {
    let what = Observation::RayLog(RayLog {
        cluster: Some(key(RAYLET)),
        file: "gcs_server.out".into(),
        local_time: None,
        text: "a line".into(),
        fact,
    });
    scene.push(Source::RayLog, what);
}

fn gcs_exit(worker: u32, node: u32) -> RayFact {
    RayFact::GcsWorkerExit {
        worker_id: hex(worker),
        exit_type: ExitType::SystemError,
        detail: String::new(),
        node_id: Some(node_id(node)),
    }
}

/// An actor dies on node 2 with a clock that is `ms` ahead, and its driver on node 1 fails.
///
/// Two messages between the nodes are logged at both ends.
fn with_a_clock_that_is_off(ms: i64) -> Report {
    let mut second = node(2);
    second.ray_worker(7).ray_worker(8);
    // The owner of worker 8 died on the head.
    second.after(500_000);
    second.says(RayFact::OwnerDied {
        worker_id: hex(8),
        owner_worker_id: Some(hex(30)),
        reason: "owner died".into(),
    });
    second.after(100).signal(RAYLET, 8, 15, 0, false).after(100);
    second.exit(8, 1 << 8);
    second.after(499_800);
    killed_by_the_kernel(&mut second, 7);
    second.after(100).says(RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type: ExitType::SystemError,
        graceful: Some(false),
        driver: false,
        job_id: None,
    });
    if let Observation::RecordingStarted(started) = &mut second.events[0].what {
        started.wall.0 += ms * 1_000_000;
    }
    let mut first = node(1);
    logs(&mut first, "driver", 50, actor_state("ALIVE", 7, 2));
    first.after(490_000);
    gcs_says(&mut first, gcs_exit(30, 1));
    first.after(530_000);
    gcs_says(&mut first, gcs_exit(7, 2));
    logs(&mut first, "driver", 50, actor_state("DEAD", 7, 2));
    first.after(500).exit(50, 1 << 8);
    joined(&[&first, &second])
}

/// Order and causes stay right, and the raw time is kept too.
#[test]
fn clock_offset_is_corrected() {
    let right = with_a_clock_that_is_off(0);
    let kill = death(&right, 1, 7).when.time.expect("a time");
    for ms in [0, 2_000, -2_000, 600_000, -600_000] {
        let report = with_a_clock_that_is_off(ms);
        assert_eq!(
            link(&report, 0, 50),
            Some((LinkRule::ActorDied, 1, 7)),
            "{ms}"
        );
        let job = report.jobs.iter().find(|job| job.recording_id == Some(0));
        let actor = death(&report, 1, 7);
        assert_eq!(job.and_then(|job| job.ended_by_death_id), Some(actor.id));
        let order: Vec<u32> = report.deaths.iter().map(|one| one.process.pid.0).collect();
        assert_eq!(order, [8, 7, 50], "{ms}");

        let offset = report.nodes[1].clock.expect("messages");
        let (least, most) = (offset.ahead_at_least_ms, offset.ahead_at_most_ms);
        assert!(least < Some(ms) && most > Some(ms), "{ms}: {offset:?}");
        assert!((offset.corrected_by_ms - ms).abs() < 50, "{ms}: {offset:?}");
        assert_eq!(report.nodes[0].clock, None);
        let raw = actor.when.time.expect("a time");
        assert_eq!(raw.0.0 - kill.0.0, ms * 1_000_000);
        let corrected = actor.when.corrected_time;
        assert_eq!(corrected.is_some(), ms != 0);
        let off = corrected.map_or(0, |time| time.0.0 - kill.0.0);
        assert!(off.abs() < 50_000_000, "{ms}: {off}");
        assert_eq!(death(&report, 0, 50).when.corrected_time, None);
    }
}

#[test]
fn owner_death_message_bounds_the_clock() {
    for (whose, is_bound) in [("Owner's worker process", true), ("Owner's node", false)] {
        let reason = format!(
            "The actor is dead because its owner has died. Owner Id: {} Owner Ip address: 192.0.2.1 Owner worker exit type: SYSTEM_ERROR Worker exit detail: {whose} has crashed.",
            hex(30).0
        );
        let mut second = node(2);
        second.ray_worker(8).after(500_000);
        let worker_id = Some(hex(8));
        let fact = RayFact::ForceKillActor { reason, worker_id };
        logs(&mut second, "worker", 8, fact);
        let mut first = node(1);
        first.after(490_000);
        gcs_says(&mut first, gcs_exit(30, 1));
        let report = joined(&[&first, &second]);
        let clock = report.nodes[1].clock;
        let most = clock.and_then(|clock| clock.ahead_at_most_ms);
        assert_eq!(most, is_bound.then_some(10), "{whose}");
    }
}

#[test]
fn clock_error_is_kept_with_its_recording() {
    for max_us in [400_000, 900] {
        let mut second = node(2);
        let error = Some(ClockError {
            max_us,
            synchronised: true,
        });
        let wall = WallTime(1_700_000_000_000_000_000);
        second.push(Source::Recorder, Observation::Clock { wall, error });
        second.ray_worker(7);
        killed_by_the_kernel(&mut second, 7);
        let report = joined(&[&node(1), &second]);
        let clock = report.recordings[1].clock.expect("a clock");
        assert_eq!(clock.max_error_us, max_us);
    }
}

#[test]
fn one_boot_has_one_clock() {
    let mut scenes = [node(1), node(2)];
    for (scene, ms) in scenes.iter_mut().zip([0, 2_000]) {
        if let Observation::RecordingStarted(started) = &mut scene.events[0].what {
            started.boot_id = "b".into();
            started.wall.0 += ms * 1_000_000;
        }
    }
    let [first, second] = &mut scenes;
    second.ray_worker(7).after(100).says(RayFact::Disconnected {
        worker_id: Some(hex(7)),
        exit_type: ExitType::SystemError,
        graceful: Some(false),
        driver: false,
        job_id: None,
    });
    first.after(200);
    gcs_says(first, gcs_exit(7, 2));
    let report = joined(&[first, second]);
    assert!(report.nodes.iter().all(|node| node.clock.is_none()));
}

/// Its ids are the same.
#[test]
fn actor_of_another_cluster_is_not_linked() {
    let (first, mut second) = actor_dies_on_another_node();
    second.change_cluster(|cluster| cluster.session = Some("session_y".into()));
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), None);
}

#[test]
fn old_actor_death_ended_no_driver() {
    let (_, second) = actor_dies_on_another_node();
    let mut first = node(1);
    logs(&mut first, "driver", 50, actor_state("DEAD", 7, 2));
    first.after(300_000_000).exit(50, 1 << 8);
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), None);
}

#[test]
fn successful_driver_is_not_linked() {
    let (_, second) = actor_dies_on_another_node();
    let mut first = node(1);
    logs(&mut first, "driver", 50, actor_state("DEAD", 7, 2));
    first.after(500).exit(50, 0);
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 0, 50), None);
}

/// A node on which a worker is ended because its owner, worker 7, has died.
fn owner_lost(number: u32, reason: &str) -> Scene {
    let mut scene = node(number);
    scene.ray_worker(21).after(2000);
    scene.says(RayFact::OwnerDied {
        worker_id: hex(21),
        owner_worker_id: Some(hex(7)),
        reason: reason.into(),
    });
    scene.after(100).signal(RAYLET, 21, 15, 0, false).after(100);
    scene.exit(21, 1 << 8);
    scene
}

#[test]
fn remote_owner_death_ends_its_workers() {
    let mut second = node(2);
    second.ray_worker(7).after(1000).signal(66, 7, 9, 0, true);
    second.after(20).exit(7, 9);
    let third = owner_lost(3, "owner died");
    let report = joined(&[&second, &third]);
    assert_eq!(link(&report, 1, 21), Some((LinkRule::OwnerDied, 0, 7)));
    assert_eq!(death(&report, 1, 21).verdict.killer, Killer::RayCollapse);
}

#[test]
fn worker_of_a_finished_owner_is_intended() {
    let mut second = node(2);
    second.ray_worker(7).after(1000).exit(7, 0);
    let third = owner_lost(3, "owner died");
    let report = joined(&[&second, &third]);
    let child = death(&report, 1, 21);
    assert_eq!(child.verdict.killer, Killer::RayIntended);
    assert!(!child.listed);
}

#[test]
fn lost_owner_node_links_to_its_raylet() {
    let mut second = node(2);
    second.ray_worker(7).after(1000);
    second.signal(66, RAYLET, 9, 0, true).after(20);
    second.exit(RAYLET, 9);
    let mut third = owner_lost(3, "owner's node died");
    third.says(RayFact::GcsWorkerExit {
        worker_id: hex(7),
        exit_type: ExitType::SystemError,
        detail: String::new(),
        node_id: Some(node_id(2)),
    });
    let report = joined(&[&second, &third]);
    assert_eq!(
        link(&report, 1, 21),
        Some((LinkRule::OwnerNodeDied, 0, RAYLET))
    );
}

#[test]
fn node_without_a_recording_is_named() {
    let (mut first, _) = actor_dies_on_another_node();
    first.says(RayFact::NodeRegistered {
        node_id: node_id(2),
        name: Some("gpu-02".into()),
        address: Some("10.0.0.2".into()),
    });
    let report = joined(&[&first, &node(3)]);
    let missing: Vec<_> = (report.nodes.iter())
        .filter(|node| node.recordings.is_empty())
        .collect();
    let [missing] = missing.as_slice() else {
        panic!("{missing:?}");
    };
    assert_eq!(missing.name, "gpu-02");
    assert_eq!(missing.address.as_deref(), Some("10.0.0.2"));
    assert!(missing.missing.is_some() && missing.named_by.is_some());
    let driver = &death(&report, 0, 50).verdict;
    assert_eq!(driver.cause_link, None);
    let Some(Remote::Unrecorded { node, .. }) = &driver.cause_remote else {
        panic!("{driver:?}");
    };
    assert_eq!(node.as_deref(), Some("gpu-02"));
}

#[test]
fn raylet_that_lost_the_gcs_follows_it() {
    let mut first = node(1);
    first.process(60, 1, "gcs_server", crate::event::Role::Gcs);
    first.after(1000).signal(66, 60, 9, 0, true).after(20);
    first.exit(60, 9);
    let mut second = node(2);
    second.after(2000).says(RayFact::RayletMarkedDead {
        reason: "Failed to connect to GCS within 60 seconds. GCS may have been killed.".into(),
    });
    second.after(100).exit(RAYLET, 1 << 8);
    let report = joined(&[&first, &second]);
    assert_eq!(link(&report, 1, RAYLET), Some((LinkRule::HeadDied, 0, 60)));
}

/// They exit before their raylet, and the GCS is on another node.
#[test]
fn processes_that_lost_remote_gcs_follow_it() {
    let mut first = node(1);
    first.process(60, 1, "gcs_server", crate::event::Role::Gcs);
    first.after(1000).signal(66, 60, 9, 0, true).after(20);
    first.exit(60, 9);
    let mut second = node(2);
    second.change_cluster(|cluster| cluster.gcs_address = Some("10.0.0.1:6379".into()));
    second.ray_worker(7).ray_worker(8);
    second.process(30, RAYLET, "ray::DashboardA", crate::event::Role::Agent);
    second.after(1_000_000).exit(8, 1 << 8);
    second.after(9_000_000).exit(7, 1 << 8);
    second.after(100_000).exit(30, 1 << 8);
    second.after(1000).says(RayFact::AgentFailed {
        agent: "dashboard_agent".into(),
    });
    second.after(100_000).says(RayFact::RayletMarkedDead {
        reason: "Failed to connect to GCS within 10 seconds. GCS may have been killed.".into(),
    });
    second.after(100).exit(RAYLET, 1 << 8);
    let report = joined(&[&first, &second]);
    for pid in [7, 30] {
        assert_eq!(link(&report, 1, pid), Some((LinkRule::HeadDied, 0, 60)));
        assert_eq!(death(&report, 1, pid).verdict.killer, Killer::RayCollapse);
    }
    let raylet = death(&report, 1, RAYLET);
    assert_eq!(raylet.verdict.killer, Killer::RayCollapse);
    assert_eq!(raylet.verdict.cause(), Some(death(&report, 1, 30).id));
    // Worker 8 exited long before the others, so it failed by itself.
    assert_eq!(death(&report, 1, 8).verdict.killer, Killer::Exit);
    assert_eq!(link(&report, 1, 8), None);
}

/// Node 2 shuts down with its worker 7, and the GCS on node 1 says why. Worker 8 is killed before.
fn node_ends(reason: &str) -> Report {
    let mut first = node(1);
    first.says(RayFact::NodeDied {
        node_id: node_id(2),
        reason: Some(reason.into()),
        message: Some("drained".into()),
    });
    let mut second = node(2);
    second.ray_worker(7).ray_worker(8).after(1000);
    second.signal(66, 8, 9, 0, true).after(20).exit(8, 9);
    second.after(1000).exit(RAYLET, 1 << 8);
    second
        .after(100)
        .signal(0, 7, 9, 128, true)
        .after(20)
        .exit(7, 9);
    joined(&[&first, &second])
}

#[test]
fn ends_on_a_drained_node_are_intended() {
    let undrained = node_ends("UNEXPECTED_TERMINATION");
    let before = death(&undrained, 1, RAYLET).verdict.killer;
    assert_ne!(before, Killer::RayIntended, "the test stages nothing");
    let report = node_ends("AUTOSCALER_DRAIN_PREEMPTED");
    let raylet = death(&report, 1, RAYLET);
    assert_eq!(raylet.verdict.killer, Killer::RayIntended);
    assert!(!raylet.listed);
    let Some(Remote::Says(words)) = &raylet.verdict.cause_remote else {
        panic!("{:?}", raylet.verdict.cause_remote);
    };
    assert!(words.contains("AUTOSCALER_DRAIN_PREEMPTED"), "{words}");
    // Worker 8 was killed before, so the drain did not end it.
    let killed = death(&report, 1, 8);
    assert_eq!(killed.verdict.killer, Killer::Signal);
    assert!(killed.listed);
}

/// The error names no time-out of its own.
#[test]
fn connection_error_links_for_half_an_hour() {
    for (minutes, linked) in [(20, true), (40, false)] {
        let mut second = node(2);
        second.ray_worker(7);
        killed_by_the_kernel(&mut second, 7);
        let mut third = node(3);
        third.ray_worker(30).after(minutes * 60_000_000);
        logs(
            &mut third,
            "worker",
            30,
            RayFact::Exception {
                class: "RuntimeError".into(),
                message: "[../gloo/transport/tcp/pair.cc:598] Connection reset by peer".into(),
                worker_id: Some(hex(30)),
            },
        );
        third.signal(30, 30, 6, -6, true).after(20).exit(30, 6);
        let report = joined(&[&second, &third]);
        let expected = linked.then_some((LinkRule::PeerError, 0, 7));
        assert_eq!(link(&report, 1, 30), expected, "{minutes} minutes");
    }
}

#[test]
fn remote_peer_error_names_the_last_death() {
    let mut second = node(2);
    second.ray_worker(7).ray_worker(9);
    killed_by_the_kernel(&mut second, 9);
    second.after(20 * 60_000_000);
    killed_by_the_kernel(&mut second, 7);
    let mut third = node(3);
    third.ray_worker(30).after(20 * 60_000_000 + 5_000_000);
    logs(
        &mut third,
        "worker",
        30,
        RayFact::Exception {
            class: "RuntimeError".into(),
            message: "Connection closed by peer [192.0.2.2]:40123".into(),
            worker_id: Some(hex(30)),
        },
    );
    third.signal(30, 30, 6, -6, true).after(20).exit(30, 6);
    let report = joined(&[&second, &third]);
    assert_eq!(link(&report, 1, 30), Some((LinkRule::PeerError, 0, 7)));
}

/// A head node on which the GCS (pid 60) ends after `seconds`, by itself or by a kill.
fn head(seconds: u64, killed: bool) -> Scene {
    let mut scene = node(1);
    scene.process(60, 1, "gcs_server", crate::event::Role::Gcs);
    scene.after(seconds * 1_000_000);
    if killed {
        scene.signal(66, 60, 9, 0, true).after(20).exit(60, 9);
    } else {
        scene.exit(60, 0);
    }
    scene
}

/// A GCS is outside all raylets. If its recorder saw two of them, its node is not known.
#[test]
fn process_outside_raylets_has_its_host_only() {
    let gcs = |raylets: u32| {
        let mut first = head(10, true);
        for event in &mut first.events {
            match &mut event.what {
                Observation::Process(process) if process.process == key(60) => {
                    process.cluster = None;
                }
                _ => {}
            }
        }
        let mut clusters = first.events.iter().filter_map(|event| match &event.what {
            Observation::Cluster(cluster) => Some(cluster.clone()),
            _ => None,
        });
        let cluster = clusters.next().expect("a cluster");
        for number in 1..raylets {
            let mut other = cluster.clone();
            other.raylet = key(RAYLET + number);
            other.node_id = Some(HexId("f".repeat(56)));
            first.push(Source::Proc, Observation::Cluster(other));
        }
        let report = joined(&[&first, &node(2)]);
        death(&report, 0, 60).node.clone()
    };
    assert_eq!(gcs(1).as_deref(), Some("gpu-01"));
    assert_eq!(gcs(2).as_deref(), Some("gpu-01"));
}

/// A GCS that died an hour earlier or later is not its cause.
#[test]
fn raylet_follows_the_gcs_that_just_died() {
    let lost = |seconds: u64| {
        let mut scene = node(2);
        scene.after(seconds * 1_000_000);
        scene.says(RayFact::RayletMarkedDead {
            reason: "Failed to connect to GCS within 60 seconds. GCS may have been killed.".into(),
        });
        scene.after(100).exit(RAYLET, 1 << 8);
        scene
    };
    for (deaths, expected) in [
        ([10, 3600], Some(1)),
        ([3600, 10], Some(0)),
        ([10, 3700], Some(0)),
        ([10, 20], None),
        ([9000, 9001], None),
    ] {
        let [one, other] = deaths.map(|seconds| head(seconds, seconds != 3700));
        let at = if expected == Some(0) && deaths[1] == 3700 {
            65
        } else {
            3665
        };
        let report = joined(&[&one, &other, &lost(at)]);
        let expected = expected.map(|recording| (LinkRule::HeadDied, recording, 60));
        assert_eq!(link(&report, 2, RAYLET), expected, "{deaths:?}");
    }
}

/// The recorder of the head was restarted during the job.
#[test]
fn job_in_two_recordings_is_shown_once() {
    let before = node(1);
    let mut after = node(1);
    if let Observation::RecordingStarted(started) = &mut after.events[0].what {
        started.wall.0 += 600_000_000_000;
    }
    after.after(5_000_000).exit(50, 1 << 8);
    for order in [[&before, &after], [&after, &before], [&after, &after]] {
        let report = joined(&order);
        assert_eq!(report.jobs.len(), 1);
        assert_eq!(report.jobs[0].outcome, Outcome::Failed);
        let driver = report.jobs[0].ended_by_death_id;
        assert!(report.deaths.iter().any(|death| Some(death.id) == driver));
    }
    // A job of another cluster with the same number is another job.
    let mut other = node(2);
    other.change_cluster(|cluster| cluster.session = Some("session_y".into()));
    assert_eq!(joined(&[&before, &other]).jobs.len(), 2);
}

/// A recording without a cluster id joins by its session.
#[test]
fn clusters_are_told_apart_by_id() {
    let told = |number: u32, id: Option<&str>| {
        let mut scene = node(number);
        let id = id.map(|id| format!("--cluster-id={id}"));
        scene.change_process(RAYLET, |raylet| raylet.argv.extend(id));
        scene
    };
    let jobs = |ids: [Option<&str>; 2]| {
        let [one, other] = [told(1, ids[0]), told(2, ids[1])];
        joined(&[&one, &other]).jobs.len()
    };
    assert_eq!(jobs([Some("aa"), Some("bb")]), 2);
    assert_eq!(jobs([Some("aa"), Some("aa")]), 1);
    assert_eq!(jobs([Some("aa"), None]), 1);
    assert_eq!(jobs([None, None]), 1);
}

#[test]
fn node_declared_dead_has_not_died() {
    let mut first = node(1);
    first.says(RayFact::NodeDied {
        node_id: node_id(2),
        reason: Some("UNEXPECTED_TERMINATION".into()),
        message: Some("health check failed due to missing too many heartbeats".into()),
    });
    let report = joined(&[&first, &node(2)]);
    assert!(report.deaths.is_empty());
    let declared = report.nodes[1].declared_dead.as_ref().expect("declared");
    assert_eq!(declared.raylet_died, Some(false));
}

const MARKED: &str = "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node for 3 times.";

/// Node 2, with an actor in worker 7, is cut off. The GCS declares it dead, and the driver on node
/// 1 fails. Both nodes have one clock.
fn cut_off() -> (Scene, Scene) {
    let mut scenes = [node(1), node(2)];
    for scene in &mut scenes {
        if let Observation::RecordingStarted(started) = &mut scene.events[0].what {
            started.boot_id = "boot".into();
        }
    }
    let [mut first, mut second] = scenes;
    second.ray_worker(7);
    logs(&mut first, "driver", 50, actor_state("ALIVE", 7, 2));
    first.after(5_000_000);
    gcs_says(
        &mut first,
        RayFact::NodeDied {
            node_id: node_id(2),
            reason: Some("UNEXPECTED_TERMINATION".into()),
            message: Some("health check failed due to missing too many heartbeats".into()),
        },
    );
    logs(&mut first, "driver", 50, actor_state("DEAD", 7, 2));
    first.after(500_000).exit(50, 1 << 8);
    (first, second)
}

/// Asserts that the driver failed because node 2 was declared dead, and not because of a death.
fn assert_failed_by_the_declaration(report: &Report) {
    assert_eq!(link(report, 0, 50), None);
    let driver = death(report, 0, 50);
    let Some(Remote::DeclaredDead { node, .. }) = &driver.verdict.cause_remote else {
        panic!("{:?}", driver.verdict.cause_remote);
    };
    assert_eq!(node, "gpu-02");
    let job = report.jobs.iter().find(|job| job.recording_id == Some(0));
    assert_eq!(job.and_then(|job| job.ended_by_death_id), Some(driver.id));
    let declared = report.nodes[1].declared_dead.as_ref().expect("declared");
    assert_eq!(declared.raylet_died, Some(false));
}

/// The raylet ends when it learns that its node was declared dead.
#[test]
fn end_after_declared_dead_ended_no_driver() {
    let (first, mut second) = cut_off();
    second.after(3_000_000).says(RayFact::RayletMarkedDead {
        reason: MARKED.into(),
    });
    second.after(1000).exit(RAYLET, 1 << 8);
    second.after(500_000).exit(7, 1 << 8);
    let report = joined(&[&first, &second]);
    assert_failed_by_the_declaration(&report);
    let declared = report.nodes[1].declared_dead.as_ref();
    assert!(declared.is_some_and(|declared| declared.raylet_ended_by_it));
    let raylet = death(&report, 1, RAYLET);
    assert_eq!(raylet.verdict.killer, Killer::RayCollapse);
    assert_eq!(raylet.verdict.cause_death_id, None);
    assert!(clause::summary(raylet).contains("had declared its node dead"));
}

#[test]
fn kill_after_cut_off_ended_no_driver() {
    let (first, mut second) = cut_off();
    second.after(20_000_000).signal(66, 7, 9, 0, true).after(20);
    second.exit(7, 9);
    second.after(1000).signal(66, RAYLET, 9, 0, true).after(20);
    second.exit(RAYLET, 9);
    let report = joined(&[&first, &second]);
    assert_failed_by_the_declaration(&report);
    assert_eq!(death(&report, 1, 7).verdict.killer, Killer::Signal);
}

#[test]
fn death_before_declared_dead_ended_driver() {
    let (first, mut second) = cut_off();
    second
        .after(1_000_000)
        .signal(66, RAYLET, 9, 0, true)
        .after(20);
    second.exit(RAYLET, 9);
    second.after(1_000_000).exit(7, 1 << 8);
    let report = joined(&[&first, &second]);
    assert!(link(&report, 0, 50).is_some());
    let declared = report.nodes[1].declared_dead.as_ref().expect("declared");
    assert_eq!(declared.raylet_died, Some(true));
}

/// A node on which a worker of the job aborts because a collective timed out.
fn peer(number: u32, pid: u32, after: u64, timeout_ms: u64) -> Scene {
    let mut scene = node(number);
    scene.ray_worker(pid).after(after);
    logs(
        &mut scene,
        "worker",
        pid,
        RayFact::Exception {
            class: "NCCL".into(),
            message: format!(
                "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, Timeout(ms)={timeout_ms}) ran for {timeout_ms} milliseconds before timing out."
            ),
            worker_id: Some(hex(pid)),
        },
    );
    scene.signal(pid, pid, 6, -6, true).after(20);
    scene.exit(pid, 6);
    scene
}

#[test]
fn collective_timeout_names_the_first_death() {
    let mut second = node(2);
    second.ray_worker(7);
    killed_by_the_kernel(&mut second, 7);
    let (third, fourth) = (
        peer(3, 30, 600_000_000, 600_000),
        peer(4, 40, 601_000_000, 600_000),
    );
    let report = joined(&[&second, &third, &fourth]);
    assert_eq!(link(&report, 1, 30), Some((LinkRule::PeerError, 0, 7)));
    assert_eq!(link(&report, 2, 40), Some((LinkRule::PeerError, 0, 7)));
    assert_eq!(death(&report, 1, 30).verdict.killer, Killer::Crash);
}

/// It comes long after the death plus the time-out that it names.
#[test]
fn late_collective_timeout_has_another_cause() {
    let mut second = node(2);
    second.ray_worker(7);
    killed_by_the_kernel(&mut second, 7);
    let third = peer(3, 30, 900_000_000, 10_000);
    let report = joined(&[&second, &third]);
    assert_eq!(link(&report, 1, 30), None);
}

#[test]
fn death_in_two_recordings_is_shown_once() {
    let mut second = node(2);
    second.ray_worker(7);
    killed_by_the_kernel(&mut second, 7);
    let report = joined(&[&second, &second]);
    assert_eq!(report.deaths.len(), 1);
}

#[test]
fn cause_in_another_recording_is_a_link() {
    let [known, mut both] = [(); 2].map(|()| {
        let mut scene = node(2);
        scene.ray_worker(7).after(1000);
        scene.signal(66, RAYLET, 9, 0, true).after(20);
        scene.exit(RAYLET, 9);
        scene
    });
    both.after(500_000).exit(7, 1 << 8);
    let report = joined(&[&known, &both]);
    assert_eq!(report.deaths.len(), 2);
    assert_eq!(
        link(&report, 1, 7),
        Some((LinkRule::SameMachine, 0, RAYLET))
    );
    let worker = &death(&report, 1, 7).verdict;
    assert_eq!(worker.cause_death_id, None);
    let node = worker.cause_link.as_ref().map(|link| link.node.as_str());
    assert_eq!(node, Some("gpu-02"));
}

#[test]
fn gap_between_recordings_is_shown() {
    let mut before = node(2);
    before.after(5_000_000).worker(8, false);
    let mut after = node(2);
    if let Observation::RecordingStarted(started) = &mut after.events[0].what {
        started.wall.0 += 600_000_000_000;
    }
    let report = joined(&[&before, &after]);
    assert_eq!(report.nodes.len(), 1);
    assert_eq!(report.nodes[0].recordings, [0, 1]);
    assert_eq!(report.nodes[0].gaps.len(), 1);
}

#[test]
fn death_ids_are_written_as_rows() {
    let (first, second) = actor_dies_on_another_node();
    let alone = second.report().deaths[0].id;
    let report = joined(&[&first, &second]);
    let actor = death(&report, 1, 7);
    assert_ne!(actor.id, alone);
    let json = serde_json::to_value(actor).expect("JSON");
    assert_eq!(json["id"], alone.row());
    assert_eq!(json["recording_id"], 1);
    let driver = serde_json::to_value(death(&report, 0, 50)).expect("JSON");
    assert_eq!(driver["verdict"]["cause_link"]["death_id"], alone.row());
    assert_eq!(driver["verdict"]["cause_link"]["recording_id"], 1);
    assert_eq!(driver["verdict"]["cause_link"]["rule"], "actor-died");
}
