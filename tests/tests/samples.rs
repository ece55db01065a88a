//! Memory samples of cgroups, processes and the machine match figures that the staging knows.

use std::process::Command;

use raytrace::{
    event::{CgroupState, Event, NodeMemory, Observation},
    ids::Bytes,
    recording,
};
use raytrace_tests::{
    recorder::{raytrace, report},
    skipped, staging,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What a recorder saw of its wrapped command, `staging/NAME`.
struct Recorded {
    events: Vec<Event>,
    report: Value,
    /// What the script printed.
    said: String,
}

fn recorded(name: &str) -> Recorded {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let done = Command::new(raytrace())
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "python3"])
        .arg(staging::root().join("tests/staging").join(name))
        .output()
        .expect("a recorder");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    Recorded {
        events: recording::read(&file).expect("a recording").events,
        report: report(&file).expect("a report"),
        said: String::from_utf8_lossy(&done.stdout).into_owned(),
    }
}

/// Records a script that needs a memory cgroup, if this user may make one.
fn recorded_in_a_cgroup(name: &str) -> Option<Recorded> {
    if !rustix::process::geteuid().is_root() {
        skipped("a memory cgroup is made by root alone");
        return None;
    }
    Some(recorded(name))
}

/// Returns whether `found` is within a twentieth of `wanted`.
fn is_about(found: Option<Bytes>, wanted: u64) -> bool {
    found.is_some_and(|found| found.0.abs_diff(wanted) * 20 <= wanted)
}

/// A line of `bursts.py`.
#[derive(Debug, serde::Deserialize)]
struct Burst {
    label: String,
    pid: u32,
    /// The peak by the kernel's own count.
    peak: u64,
    seconds: f64,
}

#[test]
fn growth_between_samples_has_its_true_peak() {
    let Recorded { report, said, .. } = recorded("bursts.py");
    if report["recordings"][0]["mode"] != "ebpf" {
        skipped("without eBPF nobody tells the peak of what has ended");
        return;
    }
    let bursts = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Burst>(line).ok());
    let bursts: Vec<Burst> = bursts.collect();
    assert_eq!(bursts.len(), 2, "{said}");
    let deaths = report["deaths"].as_array().expect("deaths");
    for one in &bursts {
        let death = deaths.iter().find(|death| death["pid"] == one.pid);
        let found = death.expect(&one.label)["memory"]["peak_bytes"].as_u64();
        println!(
            "{} took {:.2} s, peak {}: {found:?}",
            one.label, one.seconds, one.peak
        );
        assert!(is_about(found.map(Bytes), one.peak), "{one:?}: {found:?}");
    }
}

/// Its memory is recorded in parts: anonymous and shared memory.
#[test]
fn filling_cgroup_is_sampled_more_often() {
    let Some(Recorded { events, .. }) = recorded_in_a_cgroup("fill.py") else {
        return;
    };
    let states: Vec<&CgroupState> = events
        .iter()
        .filter_map(|event| match &event.what {
            Observation::Cgroup(state) if state.path.contains("raytrace-fill-") => Some(state),
            _ => None,
        })
        .collect();
    let fullest = states
        .iter()
        .max_by_key(|state| state.usage)
        .expect("states");
    println!("{} rows, the fullest: {fullest:?}", states.len());
    assert_eq!(fullest.limit, Some(Bytes(300 * MIB)));
    // Python itself takes some MiB.
    let anon = fullest
        .anon
        .map(|anon| Bytes(anon.0.saturating_sub(5 * MIB)));
    assert!(is_about(anon, 200 * MIB), "{fullest:?}");
    assert!(is_about(fullest.shmem, 60 * MIB), "{fullest:?}");
    // With one row a second there would be seven.
    assert!(states.len() >= 20, "{} rows", states.len());
    let private = |event: &Event| match &event.what {
        Observation::Memory(sample) => sample.memory.anon,
        _ => None,
    };
    let rows = events
        .iter()
        .filter(|event| private(event).is_some())
        .count();
    println!("{rows} rows of processes");
    assert!(rows >= 20, "{rows} rows of processes");
}

#[test]
fn memory_in_use_is_the_sum_of_its_parts() {
    let Some(Recorded { events, report, .. }) = recorded_in_a_cgroup("fill.py") else {
        return;
    };
    let nodes: Vec<&NodeMemory> = events
        .iter()
        .filter_map(|event| match &event.what {
            Observation::Node(node) => Some(node),
            _ => None,
        })
        .collect();
    let mut shares: Vec<f64> = nodes
        .iter()
        .filter_map(|node| {
            let used = node.total.0 - node.free.0;
            Some(node.remainder()? as f64 / used as f64)
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    println!(
        "{} rows, remainder of what is in use: {shares:.4?}",
        nodes.len()
    );
    let middle = shares.get(shares.len() / 2).copied().expect("a row");
    assert!((0.0..=0.01).contains(&middle), "{middle}");
    let sum = &report["in_use"];
    let head = |name: &str| sum[name].as_i64().expect("a figure");
    let heads = [
        "private_bytes",
        "others_private_bytes",
        "shared_bytes",
        "cache_bytes",
        "kernel_bytes",
        "remainder_bytes",
    ];
    let whole: i64 = heads.into_iter().map(head).sum();
    assert_eq!(whole, head("used_bytes"), "{sum}");
    println!("{sum}");
}
