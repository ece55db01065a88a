//! GPU memory is recorded for each device and process, in containers too.
//!
//! A library stands in for the driver's.

use std::{path::Path, process::Command};

use raytrace_tests::{
    recorder::{raytrace, report},
    skipped, staging,
};
use serde_json::Value;

const GIB: u64 = 1 << 30;

/// Builds the library that stands in for the driver's.
fn library(folder: &Path) {
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(staging::root().join("tests/staging/nvml.c"))
        .status()
        .expect("cc");
    assert!(built.success());
}

/// Records `gpu_job.py`, started by the command `around`. Returns the report and what the recorder
/// printed.
fn recorded(folder: &Path, around: &[&str]) -> (Value, String) {
    library(folder);
    let figures = folder.join("figures");
    std::fs::write(&figures, format!("{} 0\n", 80 * GIB)).expect("a file");
    let file = folder.join("gpu.raytrace");
    let done = Command::new(raytrace())
        .args(["record", "-o"])
        .arg(&file)
        .arg("--")
        .args(around)
        .arg("python3")
        .arg(staging::root().join("tests/staging/gpu_job.py"))
        .env("LD_LIBRARY_PATH", folder)
        .env("FAKE_NVML", &figures)
        .output()
        .expect("a recorder");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    (report(&file).expect("a report"), said)
}

fn checked(report: &Value, said: &str) -> u64 {
    assert!(said.contains("GPU memory: 1 through NVML"), "{said}");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["peak_bytes"], 60 * GIB, "{gpu}");
    assert_eq!(gpu["uncorrected_errors"], 2, "{gpu}");
    let deaths = report["deaths"].as_array().expect("deaths");
    let on_gpu = |death: &&Value| !death["gpu"].as_array().expect("a list").is_empty();
    let found: Vec<&Value> = deaths.iter().filter(on_gpu).collect();
    let [death] = found.as_slice() else {
        panic!("{deaths:#?}");
    };
    assert_eq!(death["gpu"][0]["used_bytes"], 20 * GIB);
    assert_eq!(death["exit_code"], 3);
    death["pid"].as_u64().expect("a pid")
}

/// The peak of the device is recorded too.
#[test]
fn gpu_memory_of_a_process_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (report, said) = recorded(folder.path(), &[]);
    checked(&report, &said);
}

#[test]
fn pid_inside_a_container_is_matched() {
    if !rustix::process::geteuid().is_root() {
        skipped("a pid namespace is made by root alone");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The process has pid 1 in its namespace.
    let (report, said) = recorded(folder.path(), &["unshare", "--pid", "--fork"]);
    assert_ne!(checked(&report, &said), 1);
}
