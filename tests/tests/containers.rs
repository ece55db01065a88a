//! Containers made of real namespaces.
//!
//! Either Ray runs in containers and the recorder outside them, or the recorder runs in a container
//! that shares the machine's pids.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use raytrace::{
    event::{Event, Observation},
    recording,
};
use raytrace_tests::{
    recorder::{Recorder, assert_balanced, assert_balanced_of, raytrace, report},
    staging,
    stream::Stream,
    truth::{Comparison, PrivilegeMode},
};
use serde_json::Value;

/// Returns the pids that processes have inside their container, by the cluster of each of these
/// raylets.
fn inside(events: &[Event], raylets: &[u32]) -> Vec<BTreeSet<u32>> {
    let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for event in events {
        if let Observation::Process(process) = &event.what
            && let Some((raylet, pid)) = process.cluster.zip(process.ns_pid)
            && raylets.contains(&raylet.pid.0)
        {
            found.entry(raylet.pid.0).or_default().insert(pid.0);
        }
    }
    found.into_values().collect()
}

/// The last log lines of a raylet are kept although its container's root is gone.
#[test]
fn raylets_in_containers_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("containers.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let script = staging::start("2.60.0", "containers.py", &[], folder.path()).expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let Comparison { deaths, wrong } = truth.compare(&recorded.report, PrivilegeMode::Full);
    if !wrong.is_empty() {
        let kept = folder.keep();
        panic!("kept in {}:\n{}", kept.display(), wrong.join("\n"));
    }
    assert!(deaths >= 4, "only {deaths} deaths were staged");
    assert_balanced_of(&recorded.report, &truth.raylets());
    let (staged, _) = truth.split_staged(&recorded.report);
    let by_a_shell =
        |death: &&Value| death["sender"]["comm"] == "bash" && death["role"] == "worker";
    let killed: Vec<&Value> = staged.into_iter().filter(by_a_shell).collect();
    assert_eq!(killed.len(), 2, "{killed:#?}");
    for death in killed {
        assert_ne!(death["ns_pid"], death["pid"]);
        assert!(death["worker_id"].is_string(), "matched by its pid inside");
        let evidence = death["verdict"]["evidence"].as_array().expect("evidence");
        let raylet = |piece: &Value| piece["source"] == "raylet.out";
        assert!(
            evidence.iter().any(raylet),
            "its raylet's words: {evidence:#?}"
        );
    }
    let events = recording::read(&file).expect("a recording").events;
    let pids = inside(&events, &truth.raylets());
    let [one, two] = pids.as_slice() else {
        panic!("two clusters: {pids:?}");
    };
    let same: Vec<&u32> = one.intersection(two).collect();
    eprintln!("{deaths} deaths in two containers, pids that both have inside: {same:?}");
    assert!(!same.is_empty(), "no pid is used in both: {pids:?}");
}

/// The mounts are private, as in a container that shares the machine's pids.
#[test]
fn hidden_tracefs_and_bpffs_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let hide = "for hidden in /sys/kernel/tracing /sys/kernel/debug /sys/fs/bpf; do
            mount -t tmpfs none $hidden
        done
        exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        hide,
        "sh",
    ]);
    command.arg(raytrace()).args(["record", "-o"]).arg(&file);
    command.args(stream.command().expect("a command"));
    let mut recorder = Recorder::run(command, &file).expect("a recorder");
    let end = Instant::now() + Duration::from_secs(60);
    while stream.rows().expect("truth").len() <= 5 {
        assert!(Instant::now() < end, "hardly anybody died");
        thread::sleep(Duration::from_millis(50));
    }
    stream.stop().expect("an end");
    let status = recorder.wait(Duration::from_secs(60)).expect("its end");
    assert!(status.success(), "{:#?}", recorder.lines());
    let report = report(&file).expect("a report");
    let recording = &report["recordings"][0];
    assert_eq!(recording["mode"], "ebpf");
    let probes = recording["probes"].as_array().into_iter().flatten();
    // Some kernels refuse programs at the entry or the exit of a function.
    let may_miss = |name: &str| name.starts_with("fentry/") || name.starts_with("fexit/");
    for probe in probes.filter(|probe| !probe["name"].as_str().is_some_and(may_miss)) {
        assert_eq!(probe["state"], "ok", "{probe}");
    }
    assert_balanced(&report);
    let missing = stream.missing(&report).expect("truth");
    assert!(missing.is_empty(), "missing: {missing:?}");
}
