//! Tests `--redact`: no view of a report names the host, people, paths, addresses or arguments.

use raytrace::event::Role;

use crate::{
    ran::Recording,
    stage::{Stage, two_kills},
};

/// Texts that must not appear in the output.
const SECRETS: [&str; 9] = [
    "gpu-07",
    "zoltan",
    "/home",
    "/mnt",
    "sk-secret-123",
    "corpus",
    "10.1.2.3",
    "patient",
    "run.raytrace",
];

/// Returns a recording with secrets in every place where a recording can have them.
fn with_secrets() -> Recording {
    let mut stage = Stage::new();
    stage.lives_in("/home/zoltan/ray/session_x", "10.1.2.3:6379");
    stage.program(
        60,
        Role::Driver,
        &[
            "python3",
            "/home/zoltan/train.py",
            "--api-key=sk-secret-123",
            "data=/mnt/corpus/patients.parquet",
        ],
    );
    stage.job(60);
    stage.cgroup("/user.slice/zoltan/job");
    stage.after(10).oom_kill(4001);
    stage.says(
        "ValueError: cannot read /mnt/corpus/patients.parquet from 10.1.2.3 as zoltan@gpu-07",
    );
    stage.after(10).user_kill(4002);
    stage.after(1).ends(60, 1 << 8);
    stage.after(600).normal_exits(3).record()
}

#[test]
fn redacted_report_contains_no_secret() {
    let recording = with_secrets();
    for format in ["text", "markdown", "json", "html"] {
        for more in [&[][..], &["--all"], &["--kill", "1"]] {
            let open = recording.report(&[&["--format", format], more].concat());
            let ran = recording.report(&[&["--redact", "--format", format], more].concat());
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            for secret in SECRETS {
                let at = ran.out.find(secret);
                let around = at.map(|at| ran.out.get(at.saturating_sub(80)..at + 40));
                assert_eq!(around, None, "{format} {more:?}: {secret}");
            }
            assert!(open.out.contains("gpu-07"), "{format}: it was there");
            assert!(ran.out.contains("hog"), "names of tasks stay");
        }
    }
}

#[test]
fn secrets_appear_without_redaction() {
    let open = with_secrets().report(&["--all"]).out;
    for secret in ["gpu-07", "/home/zoltan", "/mnt/corpus", "10.1.2.3"] {
        assert!(open.contains(secret), "{secret} in {open}");
    }
    let ran = two_kills().report(&["--redact"]);
    assert!(ran.out.contains("pid 4001"), "ids stay: {}", ran.out);
}
