//! A cgroup filled by a process outside Ray: the report names that process.
//!
//! The kernel kills a worker there.

use std::process::Command;

use raytrace_tests::{
    recorder::Recorder,
    staging,
    truth::{PrivilegeMode, Truth},
};
use serde::Deserialize;
use serde_json::Value;

/// What `outside_process.py` says about its process.
#[derive(Debug, Deserialize)]
struct Sidecar {
    pid: u32,
    bytes: u64,
    victim: u32,
}

/// The small worker that was killed for it is not.
#[test]
fn memory_outside_ray_is_the_suspect() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, truth) = (
        folder.path().join("a.raytrace"),
        folder.path().join("truth"),
    );
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let done = Command::new(staging::ray("2.60.0").join("bin/python"))
        .arg(staging::root().join("tests/staging/outside_process.py"))
        .arg("--truth")
        .arg(&truth)
        .output()
        .expect("a script");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let recorded = recorder.stop().expect("a recording");
    let wrong = Truth::read(&truth).expect("truth");
    let wrong = wrong.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let lines = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut lines = lines.lines().map(serde_json::from_str::<Sidecar>);
    let sidecar = lines.find_map(Result::ok).expect("a sidecar");
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let death = deaths.iter().find(|death| death["pid"] == sidecar.victim);
    let top = &death.expect("the worker's death")["top"];
    println!("{sidecar:?}: {top:#}");
    let biggest = &top[0];
    assert_eq!(biggest["pid"], sidecar.pid, "{top:#}");
    let found = biggest["private_bytes"].as_u64().expect("a size");
    assert!(
        found.abs_diff(sidecar.bytes) * 20 <= sidecar.bytes,
        "{top:#}"
    );
    let findings = recorded.report["findings"].as_array().expect("findings");
    let named = |finding: &&Value| {
        let summary = finding["summary"].as_str().unwrap_or_default();
        finding["rule"] == "victim-not-biggest" && summary.contains(&format!("pid {}", sidecar.pid))
    };
    assert!(
        findings.iter().any(|finding| named(&finding)),
        "{findings:#?}"
    );
}
