//! Tests session folders of several nodes: who died where, and because of which death elsewhere.

use super::{assert_nothing_is_proven, explain, killers};
use crate::{
    event::Role,
    ids::Pid,
    judge::report::{Certainty, Death, Killer, LinkRule, Report},
};

fn node_id(number: u32) -> String {
    format!("{:056x}", 0xabc_000 + number)
}

fn worker(number: u32) -> String {
    format!("{:056x}", 0x7_0000_0000_u64 + u64::from(number))
}

/// Returns the beginning of a raylet's log in Ray 2.60, followed by `lines`.
fn raylet(number: u32, lines: &str) -> String {
    format!(
        "[2026-11-21 00:19:55,694 I {0} {0}] (raylet) main.cc:711: Setting node ID node_id={1}\n{lines}",
        500 + number,
        node_id(number)
    )
}

fn started(pid: u32) -> String {
    format!(
        "[2026-11-21 00:20:00,000 I 501 501] (raylet) worker_pool.cc:600: Started worker process with pid {pid} worker_id={}\n",
        worker(pid)
    )
}

/// Returns a log of the GCS: the names of three nodes, and the loss of worker 41 of node 2.
fn gcs() -> String {
    let mut text = String::new();
    for number in 1..=3 {
        text.push_str(&format!(
            "[2026-11-21 00:19:56,000 I 400 400] (gcs_server) gcs_node_manager.cc:86: Registering new node. node_id={} node_name=node{number} node_address=192.0.2.{number}\n",
            node_id(number)
        ));
    }
    text + &format!(
        "[2026-11-21 00:21:00,100 W 400 400] (gcs_server) gcs_worker_manager.cc:55: Reporting worker exit, worker id = {}, node id = {}, address = 192.0.2.2, exit_type = SYSTEM_ERROR, exit_detail = Worker unexpectedly exits with a connection error code 2. End of file. Unintentional worker failures have been reported.\n",
        worker(41),
        node_id(2)
    )
}

/// Worker 51 of node 3 is ended because its owner, worker 41 of node 2, has died.
fn owner_died() -> String {
    started(51)
        + &format!(
            "[2026-11-21 00:21:00,300 I 503 503] (raylet) node_manager.cc:900: Killing leased worker because its owner died. worker_id={} owner_worker_id={}\n",
            worker(51),
            worker(41)
        )
}

fn explained(folders: [&str; 3]) -> Report {
    let logs =
        |folder: &str, file: &str| format!("{folder}/session_2026-11-21_00-19-51/logs/{file}");
    let texts = [
        (logs(folders[0], "raylet.out"), raylet(1, "")),
        (logs(folders[0], "gcs_server.out"), gcs()),
        (logs(folders[1], "raylet.out"), raylet(2, &started(41))),
        (logs(folders[2], "raylet.out"), raylet(3, &owner_died())),
    ];
    let texts: Vec<(&str, &str)> = (texts.iter())
        .filter(|(name, _)| !name.starts_with("without/"))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    explain(&texts)
}

fn death(report: &Report, pid: u32) -> &Death {
    let mut deaths = report.deaths.iter();
    let found = deaths.find(|death| death.process.pid == Pid(pid));
    found.expect("a death")
}

#[test]
fn worker_is_linked_to_remote_owners_death() {
    let report = explained(["/logs/gpu-01", "/logs/gpu-02", "/logs/gpu-03"]);
    assert_eq!(
        killers(&report),
        [(41, Killer::Unknown), (51, Killer::RayCollapse)]
    );
    assert_nothing_is_proven(&report);
    let (owner, worker) = (death(&report, 41), death(&report, 51));
    assert_eq!(owner.node.as_deref(), Some("gpu-02"));
    assert_eq!(worker.node.as_deref(), Some("gpu-03"));
    let link = worker.verdict.cause_link.as_ref().expect("a link");
    assert_eq!((link.rule, link.death_id), (LinkRule::OwnerDied, owner.id));
    assert_eq!(link.link_certainty, Certainty::Inferred);
    assert_eq!(link.node, "gpu-02");
    let nodes: Vec<(&str, u64)> = (report.nodes.iter())
        .map(|node| (node.name.as_str(), node.texts))
        .collect();
    assert_eq!(nodes, [("gpu-01", 2), ("gpu-02", 1), ("gpu-03", 1)]);
    assert!(report.recordings.is_empty());
}

/// A death there that the GCS reports is linked too.
#[test]
fn node_without_logs_is_named_by_gcs() {
    let report = explained(["gpu-01", "without", "gpu-03"]);
    let missing: Vec<_> = report
        .nodes
        .iter()
        .filter(|node| !node.is_known())
        .collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].name, "node2");
    assert!(missing[0].named_by.is_some() && missing[0].missing.is_some());
    let owner = report.deaths.iter().find(|death| {
        let id = death.work.worker_id.as_ref();
        id.is_some_and(|id| id.0 == worker(41))
    });
    assert_eq!(owner.expect("by the GCS").node.as_deref(), Some("node2"));
    let link = death(&report, 51).verdict.cause_link.as_ref();
    assert_eq!(link.expect("a link").node, "node2");
}

/// Nearness in time is not enough.
#[test]
fn nothing_is_linked_without_the_owners_id() {
    let text = owner_died();
    let (before, _) = text.split_once(" owner_worker_id").expect("an owner");
    let report = explain(&[
        ("a/logs/raylet.out", &raylet(1, "")),
        ("a/logs/gcs_server.out", &gcs()),
        ("b/logs/raylet.out", &raylet(2, &started(41))),
        ("c/logs/raylet.out", &raylet(3, before)),
    ]);
    assert!(
        report
            .deaths
            .iter()
            .all(|one| one.verdict.cause_link.is_none())
    );
}

#[test]
fn copied_logs_are_one_node() {
    let log = raylet(2, &started(41));
    let report = explain(&[("a/raylet.out", &log), ("b/raylet.out", &log)]);
    assert!(report.nodes.is_empty());
}

#[test]
fn force_killed_actor_is_linked_to_owner() {
    let log = format!("b/logs/python-core-worker-{}_51.log", worker(51));
    let asked = format!(
        "[2026-11-21 00:21:00,300 I 51 80] core_worker.cc:4500: Force kill actor request has received. exiting immediately... The actor is dead because its owner has died. Owner Id: {} Owner Ip address: 192.0.2.2 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's worker process has crashed.\n",
        worker(41)
    );
    let report = explain(&[
        ("a/logs/raylet.out", &raylet(2, &started(41))),
        ("b/logs/raylet.out", &raylet(3, &started(51))),
        ("c/logs/raylet.out", &raylet(1, "")),
        ("c/logs/gcs_server.out", &gcs()),
        (&log, &asked),
    ]);
    let actor = death(&report, 51);
    assert_eq!(actor.verdict.killer, Killer::RayCollapse);
    assert!(actor.listed);
    let link = actor.verdict.cause_link.as_ref().expect("a link");
    assert_eq!((link.rule, link.node.as_str()), (LinkRule::OwnerDied, "a"));
}

/// Only the node's dashboard agent reports the raylet's end.
#[test]
fn raylet_reported_by_agent_explains_workers() {
    let gone = "Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals. Last 20 lines of the Raylet logs:\n";
    let lost = "[2026-11-21 00:21:00,300 I 51 80] core_worker.cc:4500: Shutting down the core worker because the local raylet failed. Check out the raylet.out log file. Raylet pid: 503\n";
    let log = format!("b/logs/python-core-worker-{}_51.log", worker(51));
    let report = explain(&[
        ("a/logs/raylet.out", &raylet(1, "")),
        ("b/logs/raylet.out", &raylet(3, &started(51))),
        ("b/logs/dashboard_agent.log", gone),
        (&log, lost),
    ]);
    let deaths = report.deaths.iter();
    let raylets = deaths.filter(|death| death.process.role == Role::Raylet);
    let raylets: Vec<_> = raylets.collect();
    let [raylet] = raylets.as_slice() else {
        panic!("{raylets:?}");
    };
    assert_eq!(raylet.node.as_deref(), Some("b"));
    let worker = death(&report, 51);
    assert_eq!(worker.node.as_deref(), Some("b"));
    assert_eq!(worker.verdict.cause_death_id, Some(raylet.id));
}
