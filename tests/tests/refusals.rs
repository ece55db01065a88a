//! What `raytrace record` refuses or does without: the text and the exit code of each case.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use raytrace_tests::recorder::{Recorder, raytrace, without_privilege};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns `raytrace record` in a mount namespace. The shell runs `setup` there first.
fn record_after(setup: &str, file: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-ec"])
        .arg(format!("{setup}\nexec \"$@\""))
        .arg("sh")
        .arg(raytrace())
        .args(["record", "-o"])
        .arg(file)
        .args(arguments);
    command
}

/// It prints what is missing and the command that helps.
#[test]
fn unprivileged_records_in_procfs_mode() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let file = file.to_str().expect("text");
    let arguments = ["record", "-o", file, "--duration", "1s"];
    let output = without_privilege(&raytrace(), &arguments)
        .output()
        .expect("a run");
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("mode procfs"), "{said}");
    assert!(
        said.contains("CAP_BPF") && said.contains("CAP_PERFMON"),
        "{said}"
    );
    assert!(
        said.contains("raytrace record") || said.contains("docker run") || said.contains("kubectl"),
        "{said}"
    );
}

/// The pids that the kernel reports are not those of the namespace.
#[test]
fn own_pid_namespace_means_procfs_mode() {
    let folder = folder();
    let record = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
            .arg(raytrace())
            .args(["record", "--duration", "1s", "-o"]);
        command
            .arg(folder.path().join("a.raytrace"))
            .args(arguments);
        command.output().expect("a run")
    };
    let output = record(&["--require-ebpf"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let output = record(&[]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("mode procfs") && said.contains("pid namespace") && said.contains("hostPID"),
        "{said}"
    );
}

#[test]
fn unprivileged_require_ebpf_ends_with_3() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let arguments = [
        "record",
        "--require-ebpf",
        "-o",
        file.to_str().expect("text"),
    ];
    let output = without_privilege(&raytrace(), &arguments)
        .output()
        .expect("a run");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("CAP_BPF"), "{said}");
    assert!(!file.exists(), "no recording is left behind");
}

/// Otherwise it records in procfs mode, and says that BTF is missing.
#[test]
fn missing_btf_ends_with_4_if_ebpf_is_required() {
    let folder = folder();
    let hide = "mount -t tmpfs none /sys/kernel/btf";
    let strict = record_after(hide, &folder.path().join("a.raytrace"), &["--require-ebpf"])
        .output()
        .expect("a run");
    let said = text(&strict);
    assert_eq!(strict.status.code(), Some(4), "{said}");
    assert!(said.contains("/sys/kernel/btf/vmlinux"), "{said}");

    let goes_on = record_after(
        hide,
        &folder.path().join("b.raytrace"),
        &["--duration", "1s"],
    )
    .output()
    .expect("a run");
    let said = text(&goes_on);
    assert!(goes_on.status.success(), "{said}");
    assert!(
        said.contains("mode procfs") && said.contains("/sys/kernel/btf/vmlinux"),
        "{said}"
    );
}

/// It prints where it looked.
#[test]
fn require_ray_without_ray_ends_with_5() {
    let folder = folder();
    // Other tests run Ray at the same time. A new pid namespace has none.
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc"])
        .arg(raytrace())
        .args(["record", "--require-ray", "-o"])
        .arg(folder.path().join("a.raytrace"));
    let output = command.output().expect("a run");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("raylet") && said.contains("/proc") && said.contains("ray start"),
        "{said}"
    );
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "no file is left");
}

#[test]
fn command_that_is_missing_leaves_no_file() {
    let folder = folder();
    let mut command = Command::new(raytrace());
    command.args(["record", "-o"]).arg(folder.path().join("a"));
    let output = command.args(["--", "nosuchcommand"]).output();
    let output = output.expect("a run");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(said.contains("cannot run nosuchcommand"), "{said}");
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "no file is left");
}

/// A file that exists is left alone.
#[test]
fn existing_or_impossible_output_is_refused() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    std::fs::write(&file, "mine").expect("a file");
    let record = |path: &Path| {
        let mut command = Command::new(raytrace());
        command.args(["record", "--duration", "1s", "-o"]).arg(path);
        command.output().expect("a run")
    };
    let output = record(&file);
    assert!(!output.status.success());
    assert!(text(&output).contains("exists"), "{}", text(&output));
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "mine");

    let output = record(&folder.path().join("nowhere/a.raytrace"));
    assert!(!output.status.success());
    assert!(text(&output).contains("nowhere"), "{}", text(&output));

    let read_only = record_after(
        &format!("mount -t tmpfs -o ro none {}", folder.path().display()),
        &folder.path().join("b.raytrace"),
        &["--duration", "1s"],
    );
    let output = { read_only }.output().expect("a run");
    assert!(!output.status.success());
    assert!(text(&output).contains("b.raytrace"), "{}", text(&output));
}

/// What was written can be read.
#[test]
fn full_disk_does_not_end_the_recording() {
    let folder = folder();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let setup = format!("mount -t tmpfs -o size=200k none {}", disk.display());
    let file = disk.join("full.raytrace");
    let job = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); sh -c 'exit 3' 2>/dev/null; done; sleep 3; exit 0";
    // The file is in the recorder's own mount namespace, so it is copied out before that ends.
    let keep = folder.path().join("kept.raytrace");
    let script = format!(
        "{setup}\n\"$@\"\ncode=$?\nfor part in '' -wal; do [ -e {0}$part ] && cp {0}$part {1}$part; done\nexit $code",
        file.display(),
        keep.display()
    );
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            "sh",
        ])
        .arg(raytrace())
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", job])
        .output()
        .expect("a run");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("cannot be written"), "{said}");
    let report = Command::new(raytrace())
        .arg("report")
        .arg(&keep)
        .output()
        .expect("a report");
    assert!(
        matches!(report.status.code(), Some(0 | 6)),
        "{}",
        text(&report)
    );
    assert!(!report.stdout.is_empty(), "{}", text(&report));
}

#[test]
fn waits_for_ray_if_there_is_none() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(raytrace())
        .args(["record", "--duration", "2s", "-o"])
        .arg(&file);
    let mut recorder = Recorder::run(command, &file).expect("a recorder");
    let status = recorder.wait(Duration::from_secs(60)).expect("its end");
    assert!(status.success());
    let said = format!("{:#?}", recorder.lines());
    assert!(
        said.contains("Waiting for Ray") && said.contains("raytrace report"),
        "{said}"
    );
}

/// Its deaths are recorded.
#[test]
fn wrapped_command_gives_its_exit_code() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let output = Command::new(raytrace())
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "sh -c 'kill -9 $$'; exit 7"])
        .output()
        .expect("a run");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    let report = raytrace_tests::recorder::report(&file).expect("a report");
    let deaths = report["deaths"].as_array().expect("deaths");
    let killed = deaths
        .iter()
        .find(|death| death["signal"] == 9)
        .expect("the child");
    assert_eq!(killed["verdict"]["killer"], "crash");
    assert_eq!(killed["verdict"]["certainty"], "proven");
    let shell = deaths
        .iter()
        .find(|death| death["exit_code"] == 7)
        .expect("the shell");
    assert_eq!(shell["verdict"]["killer"], "exit");
}
