//! A SIGKILL, a blocked disk, a deleted file, readers and a closed terminal must not lose data.
//!
//! None of them may end a recording or lose what it saw.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use raytrace::{
    event::{Event, Observation},
    recording,
};
use raytrace_tests::{
    recorder::{Recorder, raytrace, report},
    soak,
    stream::{Row, Stream},
    wait::{self, PATIENCE},
};
use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use serde_json::Value;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Starts a recorder of a stream of deaths that continues.
fn record(file: &Path, stream: &Stream, options: &[&str]) -> Recorder {
    let mut arguments = options.to_vec();
    arguments.extend(stream.command().expect("a command"));
    Recorder::start(file, &arguments).expect("a recorder")
}

/// Ends the stream, and so the recording.
fn end(mut recorder: Recorder, stream: &Stream) -> String {
    stream.stop().expect("an end");
    let status = recorder.wait(PATIENCE).expect("its end");
    let said = format!("{:#?}", recorder.lines());
    assert!(status.success(), "{said}");
    said
}

/// Checks that nothing of the stream is missing, and that the ledger says that nothing was lost.
fn complete(file: &Path, stream: &Stream) -> usize {
    let report = report(file).expect("a report");
    let missing = stream.missing(&report).expect("truth");
    assert!(missing.is_empty(), "missing: {missing:?}");
    assert_eq!(report["recordings"][0]["lost_events"], 0);
    stream.rows().expect("truth").len()
}

/// Returns the number of deaths in a recording that is being written.
fn deaths(file: &Path) -> usize {
    let read = recording::read(file);
    let is_exit = |event: &&Event| matches!(event.what, Observation::Exit(_));
    read.map_or(0, |read| read.events.iter().filter(is_exit).count())
}

fn boot_seconds() -> f64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the seconds from the first missing row to the end. A time in which the stream itself did
/// not run (nothing was written down) does not count.
fn lost_span(missing: &[Row], all: &[Row], end: f64) -> f64 {
    let Some(first) = missing.first() else {
        return 0.0;
    };
    let times = all.iter().map(|row| row.time).chain([end]);
    let times: Vec<f64> = times.filter(|time| *time >= first.time).collect();
    times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).clamp(0.0, 0.2))
        .sum()
}

/// The file can be opened, whenever the SIGKILL came.
#[test]
fn sigkill_loses_at_most_a_second() {
    let rounds = if soak() { 200 } else { 20 };
    let mut worst = 0.0f64;
    for round in 0..rounds {
        let folder = folder();
        let file = folder.path().join("a.raytrace");
        let stream = Stream::new(folder.path()).expect("a stream");
        let mut recorder = record(&file, &stream, &[]);
        thread::sleep(Duration::from_millis(fastrand::u64(..1500)));
        let killed = boot_seconds();
        recorder.signal(Signal::KILL).expect("a kill");
        recorder.wait(PATIENCE).expect("its end");
        let report = report(&file).unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        assert_eq!(report["recordings"][0]["clean_end"], false);
        let before = |rows: Vec<Row>| -> Vec<Row> {
            rows.into_iter().filter(|row| row.time < killed).collect()
        };
        let all = before(stream.rows().expect("truth"));
        let missing = before(stream.missing(&report).expect("truth"));
        let lost = lost_span(&missing, &all, killed);
        worst = worst.max(lost);
        assert!(
            lost <= 1.0,
            "round {round}: {lost:.2} s are lost: {missing:?} of {}",
            all.len()
        );
    }
    eprintln!("{rounds} times SIGKILL: each file opens, at most {worst:.2} s are lost");
}

#[test]
fn live_recording_can_always_be_reported() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let recorder = record(&file, &stream, &[]);
    let mut before = 0;
    for round in 0..100 {
        let report = report(&file).unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        let deaths = report["deaths"].as_array().map_or(0, Vec::len);
        assert!(deaths >= before, "round {round}: {deaths} after {before}");
        before = deaths;
    }
    end(recorder, &stream);
    let deaths = complete(&file, &stream);
    eprintln!("100 reports on a live recording, the last with {before} deaths of {deaths}");
}

#[test]
fn closed_terminal_does_not_end_a_recording() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let recorder = record(&file, &stream, &[]);
    recorder.signal(Signal::HUP).expect("a signal");
    let then = stream.rows().expect("truth").len();
    wait::until("more deaths", || {
        stream.rows().expect("truth").len() > then + 3
    });
    end(recorder, &stream);
    assert!(complete(&file, &stream) > then, "it went on");
}

/// The new file has everything that was recorded before.
#[test]
fn deleted_file_is_written_again() {
    for end_of_name in ["", "-wal"] {
        let folder = folder();
        let file = folder.path().join("a.raytrace");
        let stream = Stream::new(folder.path()).expect("a stream");
        let mut recorder = record(&file, &stream, &[]);
        let some = || deaths(&file) > 3;
        wait::until("deaths in the file", some);
        fs::remove_file(format!("{}{end_of_name}", file.display())).expect("it is there");
        recorder
            .wait_for("was deleted", PATIENCE)
            .expect("a word about it");
        end(recorder, &stream);
        complete(&file, &stream);
    }
}

/// A disk of its own: a file system in a file. It can be frozen.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: &Path) -> Self {
        let image = folder.join("image");
        let image_file = fs::File::create(&image).expect("a file");
        image_file.set_len(64 << 20).expect("room");
        run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        Self::mounted(folder)
    }

    /// Mounts the disk in the file `image` of `folder`.
    fn mounted(folder: &Path) -> Self {
        let (image, at) = (folder.join("image"), folder.join("disk"));
        fs::create_dir(&at).expect("a folder");
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&at));
        Self(at)
    }

    fn freezes(&self, option: &str) {
        run(Command::new("fsfreeze").arg(option).arg(&self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A frozen file system stays frozen after it is unmounted.
        let _thawed_already = Command::new("fsfreeze").arg("-u").arg(&self.0).output();
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

#[test]
fn disk_blocked_for_5_seconds_loses_nothing() {
    let folder = folder();
    let disk = Disk::new(folder.path());
    let file = disk.0.join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let mut recorder = record(&file, &stream, &[]);
    recorder.wait_for("EXIT", PATIENCE).expect("a death");
    disk.freezes("-f");
    thread::sleep(Duration::from_secs(1));
    let told = recorder.lines().len();
    thread::sleep(Duration::from_secs(4));
    let word = recorder.wait_for("EXIT", PATIENCE);
    let then = recorder.lines().len();
    disk.freezes("-u");
    word.expect("deaths are told while the disk blocks");
    assert!(then > told, "deaths are told while the disk blocks");
    end(recorder, &stream);
    let deaths = complete(&file, &stream);
    eprintln!(
        "a disk that blocked for 5 s: {deaths} deaths, none lost, {} told meanwhile",
        then - told
    );
}

/// A shell that writes to `$1`. A second shell beside it starts a process now and then as long as
/// `$2` exists.
const WRITER: &str =
    "(while [ -d \"${2%/*}\" ]; do echo x >>\"$1/written\"; sleep 0.05; done) & echo $! >\"$2\"
while [ -e \"$2\" ]; do /bin/true; sleep 0.05; done; wait";

/// The process dies when the disk answers.
#[test]
fn killed_while_waiting_for_a_disk_is_pending() {
    let folder = folder();
    let disk = Disk::new(folder.path());
    let (file, goes_on) = (folder.path().join("a.raytrace"), folder.path().join("pid"));
    let (at, until) = (disk.0.display().to_string(), goes_on.display().to_string());
    let command = ["--", "sh", "-c", WRITER, "sh", &at, &until];
    let mut recorder = Recorder::start(&file, &command).expect("a recorder");
    let written = disk.0.join("written");
    let end = Instant::now() + PATIENCE;
    while !written.exists() {
        assert!(Instant::now() < end, "nothing was written");
        thread::sleep(Duration::from_millis(50));
    }
    let pid = fs::read_to_string(&goes_on).expect("a pid");
    let pid: u64 = pid.trim().parse().expect("a number");
    disk.freezes("-f");
    // The process waits in the kernel, uninterruptibly.
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait::until("it waits for the disk", || stat().contains(") D "));
    run(Command::new("kill").args(["-9", &pid.to_string()]));
    let is_it = |death: &&Value| death["pid"] == pid;
    let waits = |report: &Value, list: &str| {
        let deaths = report[list].as_array().expect("a list");
        deaths.iter().find(is_it).cloned()
    };
    // The recorder has just begun, so there may be nothing in the file yet.
    let pending = || waits(&report(&file).ok()?, "pending");
    wait::until("it is pending", || pending().is_some());
    let stuck = report(&file).expect("a report");
    let pending = waits(&stuck, "pending").expect("it is pending");
    assert_eq!(pending["verdict"]["killer"], "signal", "{pending:#}");
    assert_eq!(pending["sender"]["comm"], "kill", "{pending:#}");
    assert_eq!(waits(&stuck, "deaths"), None, "no death is invented");
    disk.freezes("-u");
    fs::remove_file(&goes_on).expect("it is there");
    recorder.wait(PATIENCE).expect("its end");
    let done = report(&file).expect("a report");
    assert_eq!(waits(&done, "pending"), None);
    let death = waits(&done, "deaths").expect("it died");
    assert_eq!(death["verdict"]["killer"], "signal", "{death:#}");
    assert_eq!(death["time"], pending["time"], "when it was killed");
}

/// It holds no death that did not happen.
#[test]
fn power_failure_leaves_a_readable_file() {
    let folder = folder();
    let disk = Disk::new(folder.path());
    let file = disk.0.join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let recorder = record(&file, &stream, &[]);
    // Twice as long as ext4 takes to commit its journal by itself.
    thread::sleep(Duration::from_secs(12));
    wait::until("deaths in the file", || deaths(&file) > 3);
    // After a power failure only what the device has been given remains. The mount replays the file
    // system's journal.
    let left = folder.path().join("left");
    fs::create_dir(&left).expect("a folder");
    fs::copy(folder.path().join("image"), left.join("image")).expect("a copy");
    let failed = boot_seconds();
    let then = Disk::mounted(&left);
    let report = report(&then.0.join("a.raytrace")).expect("a report");
    assert_eq!(report["recordings"][0]["clean_end"], false);
    assert_eq!(report["pending"], Value::Array(Vec::new()));
    let known: Vec<u64> = stream
        .rows()
        .expect("truth")
        .iter()
        .map(|row| row.pid)
        .collect();
    let deaths = report["deaths"].as_array().expect("deaths");
    let invented = deaths.iter().find(|death| {
        let pid = death["pid"].as_u64();
        death["exit_code"] == 3 && !pid.is_some_and(|pid| known.contains(&pid))
    });
    assert_eq!(invented, None);
    let mut all = stream.rows().expect("truth");
    all.retain(|row| row.time < failed);
    let mut missing = stream.missing(&report).expect("truth");
    missing.retain(|row| row.time < failed);
    let lost = lost_span(&missing, &all, failed);
    eprintln!(
        "a power failure: {} deaths of {}, {lost:.1} s are lost",
        all.len() - missing.len(),
        all.len()
    );
    // A batch is on the disk within a second, but the machine may be busy.
    assert!(lost <= 5.0, "{lost:.1} s");
    end(recorder, &stream);
}

/// SIGTERM goes to the supervisor and its command at once, and nothing is lost.
#[test]
fn shutdown_ends_the_recording_cleanly() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let mut recorder = record(&file, &stream, &[]);
    wait::until("deaths in the file", || deaths(&file) > 3);
    let supervisor = recorder.supervisor().to_string();
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    let children = fs::read_to_string(children).expect("children");
    let shell = children.split_whitespace().next().expect("the shell");
    let then = boot_seconds();
    run(Command::new("kill").args(["-TERM", shell, &supervisor]));
    recorder.wait(PATIENCE).expect("its end");
    let report = report(&file).expect("a report");
    assert_eq!(report["recordings"][0]["clean_end"], true);
    let mut missing = stream.missing(&report).expect("truth");
    missing.retain(|row| row.time < then);
    assert!(missing.is_empty(), "{missing:?}");
}

/// It is removed at the end.
#[test]
fn own_cgroup_holds_the_recorder_alone() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let recorder = record(&file, &stream, &["--own-cgroup"]);
    let pid = recorder.pid();
    let cgroup = raytrace::observe::processes::cgroup(raytrace::ids::Pid(pid));
    let cgroup = cgroup.expect("a cgroup");
    assert_eq!(cgroup, format!("/raytrace-{pid}"));
    let mounts = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let there = |mount: &&str| Path::new(&format!("{mount}{cgroup}")).exists();
    let mount = mounts
        .iter()
        .find(|mount| there(mount))
        .expect("its folder");
    let members = fs::read_to_string(format!("{mount}{cgroup}/cgroup.procs")).expect("members");
    assert_eq!(
        members.trim(),
        pid.to_string(),
        "what it records stays outside"
    );
    end(recorder, &stream);
    complete(&file, &stream);
    assert!(!there(mount), "the cgroup is gone");
}

/// The kernel returns the type of a FUSE file system to a caller that does not own the mount
/// without asking its server.
#[test]
fn network_file_system_is_refused() {
    let folder = folder();
    let mount = "exec 3<>/dev/fuse
        mount --internal-only -t fuse -o fd=3,rootmode=40000,user_id=12345,group_id=12345 none \"$1\"
        shift; exec \"$@\"";
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            mount,
            "sh",
        ])
        .arg(folder.path())
        .arg(raytrace())
        .args(["record", "--duration", "1s", "-o"])
        .arg(folder.path().join("a.raytrace"))
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("FUSE") && said.contains("/var/lib/raytrace"),
        "{said}"
    );
}
