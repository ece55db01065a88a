//! Tests how `raytrace doctor` counts GPUs and names their processes, with a fake NVML.

use std::{path::Path, process::Command};

use serde_json::Value;

/// Replaces the driver's library.
const NVML: &str = include_str!("../../tests/staging/nvml.c");

fn library(folder: &Path) {
    let source = folder.join("nvml.c");
    std::fs::write(&source, NVML).expect("a source");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(&source)
        .status()
        .expect("cc, which links Rust too");
    assert!(built.success());
}

fn doctor(environment: &[(&str, &str)]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_raytrace"))
        .args(["doctor", "--format", "json"])
        .envs(environment.iter().copied())
        .output()
        .expect("a run");
    let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    object["checks"].as_array().expect("checks").clone()
}

fn texts(checks: &[Value]) -> Vec<&str> {
    let gpu = checks.iter().filter(|check| check["section"] == "gpu");
    gpu.filter_map(|check| check["text"].as_str()).collect()
}

#[test]
fn gpus_and_their_processes_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    library(folder.path());
    let path = folder.path().to_str().expect("text");
    let own = std::process::id().to_string();
    let figures = folder.path().join("figures");
    std::fs::write(
        &figures,
        format!("{} {}\n{own} {}\n", 80u64 << 30, 3u64 << 30, 3u64 << 30),
    )
    .expect("a file");
    let checks = doctor(&[
        ("LD_LIBRARY_PATH", path),
        ("FAKE_NVML", figures.to_str().expect("text")),
        ("FAKE_NVML_COUNT", "2"),
    ]);
    let said = texts(&checks).join("\n");
    assert!(said.contains("NVML reports 2"), "{said}");
    assert!(
        said.contains("GPU 1: 3.0 GiB ") && said.contains(&format!("(pid {own})")),
        "{said}"
    );
    assert!(!said.contains("GPU 0:"), "{said}");
}

#[test]
fn failing_nvml_gives_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    library(folder.path());
    let path = folder.path().to_str().expect("text");
    let checks = doctor(&[("LD_LIBRARY_PATH", path)]);
    let said = texts(&checks).join("\n");
    assert!(
        said.contains("nvidia-smi") && said.lines().count() == 1,
        "{said}"
    );
}
