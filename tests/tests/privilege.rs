//! The recorder's rights, the owner of its files, and what it reads of others.
//!
//! Five capabilities are enough.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use raytrace::{event::Observation, recording};
use raytrace_tests::{
    fake_raylet::{FakeRaylet, worker_started_line},
    recorder::{Recorder, raytrace, report},
    stream::Stream,
    wait::{self, PATIENCE},
};

/// A little more than the time between two searches for logs.
const LOOKS_EACH: Duration = Duration::from_millis(1100);
/// A user that no process has.
const USER: u32 = 12_345;
/// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYSLOG, CAP_PERFMON, CAP_BPF (linux/capability.h).
const NEEDED: u64 = 1 << 2 | 1 << 19 | 1 << 34 | 1 << 38 | 1 << 39;
/// Kept if locked memory has a limit.
const IPC_LOCK: u64 = 1 << 14;
const NAMES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog";

/// Makes a folder that `user` owns and everybody may enter.
fn folder_of(user: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    chown(folder.path(), Some(user), Some(user)).expect("an owner");
    folder
}

/// Returns a field of each thread's /proc/PID/task/TID/status.
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("tasks");
    tasks
        .flatten()
        .filter_map(|task| {
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            Some(line.trim().to_owned())
        })
        .collect()
}

fn capabilities(pid: u32, set: &str) -> u64 {
    let sets = of_threads(pid, set);
    let number = |text: &String| u64::from_str_radix(text, 16).expect("a set");
    sets.iter().map(number).fold(0, |all, one| all | one)
}

/// Waits until the recorder has given up its rights and some processes of the stream have died.
fn under_way(recorder: &Recorder, stream: &Stream) {
    let given_up = || {
        let flags = of_threads(recorder.pid(), "NoNewPrivs:");
        flags.len() >= 3 && flags.iter().all(|one| one == "1")
    };
    wait::until("rights given up", given_up);
    let some = || stream.rows().is_ok_and(|rows| rows.len() > 5);
    wait::until("deaths of the stream", some);
}

/// Ends the stream, and so the recording, and checks the file and its report.
fn end(mut recorder: Recorder, stream: &Stream, file: &Path, owner: u32) {
    stream.stop().expect("an end");
    let status = recorder.wait(PATIENCE).expect("its end");
    assert!(status.success(), "{:#?}", recorder.lines());
    let data = fs::metadata(file).expect("the file");
    assert_eq!((data.uid(), data.mode() & 0o777), (owner, 0o600));
    for beside in ["-wal", "-shm"] {
        let beside = PathBuf::from(format!("{}{beside}", file.display()));
        assert!(!beside.exists(), "{} is left behind", beside.display());
    }
    let report = report(file).expect("a report");
    assert_eq!(
        report["recordings"][0]["mode"],
        "ebpf",
        "{:#?}",
        recorder.lines()
    );
    let missing = stream.missing(&report).expect("truth");
    assert!(missing.is_empty(), "missing: {missing:?}");
    assert!(stream.rows().expect("truth").len() > 5);
    let deaths = report["deaths"].as_array().expect("deaths");
    let proven = |death: &&serde_json::Value| death["exit_code"] == 3;
    for death in deaths.iter().filter(proven) {
        assert_eq!(death["verdict"]["certainty"], "proven");
    }
}

/// No thread keeps more than it needs.
#[test]
fn capabilities_are_dropped_after_the_attach() {
    let folder = folder_of(0);
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let recorder =
        Recorder::start(&file, &stream.command().expect("a command")).expect("a recorder");
    under_way(&recorder, &stream);
    for set in ["CapEff:", "CapPrm:", "CapInh:"] {
        let more = capabilities(recorder.pid(), set) & !(NEEDED | IPC_LOCK);
        assert_eq!(more, 0, "{set} {more:#x} more than is needed");
    }
    assert!(
        of_threads(recorder.pid(), "NoNewPrivs:")
            .iter()
            .all(|one| one == "1")
    );
    assert!(of_threads(recorder.pid(), "Name:").len() >= 3, "threads");
    end(recorder, &stream, &file, 0);
}

/// They are made with the rights of the user who called sudo.
#[test]
fn sudo_file_and_command_are_the_users() {
    let folder = folder_of(USER);
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    chown(folder.path().join("goes-on"), Some(USER), None).expect("an owner");
    let mut command = Command::new(raytrace());
    command.args(["record", "-o"]).arg(&file);
    command.args(stream.command().expect("a command"));
    command
        .env("SUDO_UID", USER.to_string())
        .env("SUDO_GID", USER.to_string());
    let recorder = Recorder::run(command, &file).expect("a recorder");
    under_way(&recorder, &stream);
    let truth = fs::metadata(folder.path().join("truth")).expect("truth");
    assert_eq!(truth.uid(), USER, "the command runs as the user");
    let files = of_threads(recorder.pid(), "Uid:");
    let users = format!("0\t0\t0\t{USER}");
    assert!(files.contains(&users), "the writer's rights: {files:?}");
    let wal = fs::metadata(format!("{}-wal", file.display())).expect("a log");
    assert_eq!((wal.uid(), wal.mode() & 0o777), (USER, 0o600));
    end(recorder, &stream, &file, USER);
}

/// Returns a command that runs `command` as a user with the five capabilities only.
fn with_five(command: &Path) -> Command {
    let listed: Vec<String> = NAMES
        .split(',')
        .map(|name| format!("+{}", name.trim_start_matches("cap_")))
        .collect();
    let listed = listed.join(",");
    let mut all = Command::new("setpriv");
    all.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    all.args(["--clear-groups", &format!("--inh-caps={listed}")]);
    all.arg(format!("--ambient-caps={listed}"));
    all.arg("--").arg(command);
    all
}

fn five_are_enough(command: impl FnOnce(&Path) -> Command) {
    let folder = folder_of(USER);
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let program = folder.path().join("raytrace");
    fs::copy(raytrace(), &program).expect("a copy");
    let mut command = command(&program);
    command.args(["record", "-o"]).arg(&file);
    command.args(stream.command().expect("a command"));
    let recorder = Recorder::run(command, &file).expect("a recorder");
    under_way(&recorder, &stream);
    assert_eq!(capabilities(recorder.pid(), "CapEff:"), NEEDED);
    end(recorder, &stream, &file, USER);
}

#[test]
fn five_capabilities_are_enough() {
    five_are_enough(with_five);
}

/// A plain user starts the program.
#[test]
fn five_file_capabilities_are_enough() {
    five_are_enough(|program| {
        let status = Command::new("setcap")
            .arg(format!("{NAMES}+ep"))
            .arg(program)
            .status();
        assert!(status.expect("setcap").success());
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
        command.args(["--clear-groups", "--"]).arg(program);
        command
    });
}

/// Waits until the recorder has found a raylet and has searched for its logs since. It searches
/// each second, before it samples the machine.
fn looked_for_logs(file: &Path) {
    let counted = |counts: fn(&Observation) -> bool| {
        recording::read(file).map_or(0, |read| {
            let events = read.events.iter();
            events.filter(|event| counts(&event.what)).count()
        })
    };
    let clusters = || counted(|what| matches!(what, Observation::Cluster(_)));
    let samples = || counted(|what| matches!(what, Observation::Node(_)));
    wait::until("a raylet", || clusters() > 0);
    thread::sleep(LOOKS_EACH);
    // A figure that moves is written as a row of the machine at once. One that does not move is
    // written only after a minute.
    let before = samples();
    let mut moved = tempfile::tempfile_in("/dev/shm").expect("a file");
    moved.write_all(&vec![1; 64 << 20]).expect("64 MiB");
    wait::until("a look at the machine", || samples() > before);
}

/// Returns what a recording holds if `make` makes the folder `logs` of the raylet's session. Its
/// second argument is another user's folder.
fn recorded_of(make: impl FnOnce(&Path, &Path)) -> String {
    let folder = folder_of(0);
    let (session, there) = (
        folder.path().join("session_x"),
        folder.path().join("private"),
    );
    for folder in [&session, &there] {
        fs::create_dir(folder).expect("a folder");
    }
    let line = format!("{}\n", worker_started_line(77, "abcdef77"));
    fs::write(there.join("raylet.out"), line).expect("a log");
    make(&session.join("logs"), &there);
    let raylet = FakeRaylet::start(folder.path(), &session).expect("a script");
    let file = folder.path().join("a.raytrace");
    let pid = raylet.pid().to_string();
    let recorder = Recorder::start(&file, &["--raylet-pid", &pid]).expect("a recorder");
    looked_for_logs(&file);
    recorder.stop().expect("a recording");
    String::from_utf8_lossy(&fs::read(&file).expect("a file")).into_owned()
}

#[test]
fn planted_links_and_secrets_are_not_recorded() {
    let plain = recorded_of(|logs, there| fs::rename(there, logs).expect("a folder"));
    assert!(plain.contains("abcdef77"), "a log that is one is read");
    assert!(plain.contains("0.625"), "Ray's own settings are kept");
    let linked = recorded_of(|logs, there| symlink(there, logs).expect("a link"));
    assert!(!linked.contains("abcdef77"), "a planted folder is read");
    let file = recorded_of(|logs, there| {
        fs::create_dir(logs).expect("a folder");
        symlink(there.join("raylet.out"), logs.join("raylet.out")).expect("a link");
    });
    assert!(!file.contains("abcdef77"), "a planted file is read");
    for recording in [plain, linked, file] {
        assert!(
            !recording.contains("secret-of-another"),
            "a value of the environment"
        );
        assert!(!recording.contains("secret-of-ray"), "a token");
    }
}
