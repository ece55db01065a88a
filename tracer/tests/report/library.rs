//! Tests the examples of the library: Rust on the crates, and Python on the JSON.

use std::{
    fs::File,
    io::copy,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::ran::{Recording, raytrace};

#[path = "../../../examples/library/memory_kills.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod memory_kills;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Unpacks a recording of a real job.
pub(crate) fn golden(name: &str) -> Recording {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.raytrace");
    let packed = root().join(format!("tests/golden/{name}.raytrace.gz"));
    let packed = File::open(packed).expect("a recording");
    let mut to = File::create(&file).expect("a file");
    copy(&mut flate2::read::GzDecoder::new(packed), &mut to).expect("gzip");
    Recording { folder, file }
}

#[test]
fn examples_list_the_same_memory_kills() {
    let recording = golden("verl-c");
    let by_rust = memory_kills::memory_kills(&recording.file).expect("a recording");
    let mut report = raytrace(recording.folder.path())
        .args(["report", "run.raytrace", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("raytrace runs");
    let by_python = Command::new("python3")
        .arg(root().join("examples/library/memory_kills.py"))
        .stdin(report.stdout.take().expect("a pipe"))
        .output()
        .expect("python3 runs");
    assert!(report.wait().expect("it ended").success());
    assert!(by_python.status.success(), "{by_python:?}");
    let by_python = String::from_utf8(by_python.stdout).expect("UTF-8");
    assert_eq!(by_python.lines().collect::<Vec<_>>(), by_rust);
    let first = by_rust.first().expect("a kill");
    assert_eq!(first, "kernel-oom-memcg WorkerDict 16336 01000000");
}
