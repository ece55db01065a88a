//! `raytrace doctor` with an NVML of the test's own making: which GPUs it counts and whom it names on them.

use std::{path::Path, process::Command};

use serde_json::Value;

/// The functions of NVML that `observe::gpu` calls: two GPUs, the process `FAKE_GPU_PID` with 3 GiB on the second.
const NVML: &str = r#"
#include <stdlib.h>
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance; unsigned compute_instance; } process;
int nvmlInit_v2(void) { return getenv("FAKE_GPU_BROKEN") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "?"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *found) {
    if ((long)device == 1) { *count = 0; return 0; }
    unsigned room = *count;
    *count = 1;
    if (room < 1 || !found) return 7;
    found[0] = (process){ (unsigned)atoi(getenv("FAKE_GPU_PID")), 3ull << 30, 0xffffffffu, 0xffffffffu };
    return 0;
}
"#;

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
fn gpus_are_counted_and_their_processes_named() {
    let folder = tempfile::tempdir().expect("a folder");
    library(folder.path());
    let path = folder.path().to_str().expect("text");
    let own = std::process::id().to_string();
    let checks = doctor(&[("LD_LIBRARY_PATH", path), ("FAKE_GPU_PID", &own)]);
    let said = texts(&checks).join("\n");
    assert!(said.contains("2 by NVML"), "{said}");
    assert!(
        said.contains("GPU 1: 3.0 GiB ") && said.contains(&format!("(pid {own})")),
        "{said}"
    );
    assert!(!said.contains("GPU 0:"), "{said}");
}

#[test]
fn an_nvml_that_refuses_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    library(folder.path());
    let path = folder.path().to_str().expect("text");
    let checks = doctor(&[("LD_LIBRARY_PATH", path), ("FAKE_GPU_BROKEN", "1")]);
    let said = texts(&checks).join("\n");
    assert!(
        said.contains("nvidia-smi") && said.lines().count() == 1,
        "{said}"
    );
}
