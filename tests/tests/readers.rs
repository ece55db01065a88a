//! Readers never stand in the way of the writer.
//!
//! However many open, follow and close the file, its end is written whole, or the exit code says
//! that it is not.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use raytrace_tests::{
    recorder::{Recorder, raytrace, report},
    stream::Stream,
};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(120);

/// `raytrace top FILE` in a terminal of its own.
struct Top(Child);

impl Top {
    fn start(file: &Path) -> Self {
        let command = format!("exec {} top {}", raytrace().display(), file.display());
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--command", &command, "/dev/null"]);
        script.env("TERM", "xterm").stdin(Stdio::piped());
        script.stdout(Stdio::piped()).stderr(Stdio::null());
        Self(script.spawn().expect("a terminal"))
    }

    /// Waits until it draws. It has opened the file then.
    fn draws(&mut self) {
        use std::io::Read as _;
        let mut first = [0; 256];
        let screen = self.0.stdout.as_mut().expect("a screen");
        assert!(screen.read(&mut first).expect("a picture") > 0);
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Opens, reads and closes the file again and again, and counts how often.
fn reads(arguments: &[&str], file: &Path, over: &AtomicBool, times: &AtomicUsize) {
    while !over.load(Ordering::Relaxed) {
        let done = Command::new(raytrace())
            .args(arguments)
            .arg(file)
            .stdout(Stdio::null())
            .output()
            .expect("a reader");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
        times.fetch_add(1, Ordering::Relaxed);
    }
}

fn ended_among_readers(how: impl Fn(&mut Recorder, &Stream)) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let command = stream.command().expect("a command");
    let mut recorder = Recorder::start(&file, &command).expect("a recorder");
    recorder.wait_for("EXIT", PATIENCE).expect("a death");
    let live = &report(&file).expect("a report")["recordings"][0];
    assert_eq!(
        (&live["clean_end"], &live["still_recording"]),
        (&false.into(), &true.into())
    );
    let mut tops = [Top::start(&file), Top::start(&file)];
    tops.iter_mut().for_each(Top::draws);
    let (over, times) = (AtomicBool::new(false), AtomicUsize::new(0));
    let status = thread::scope(|scope| {
        for arguments in [&["report"][..], &["export", "--format", "jsonl"]] {
            let (file, over, times) = (&file, &over, &times);
            scope.spawn(move || reads(arguments, file, over, times));
        }
        let end = Instant::now() + PATIENCE;
        while times.load(Ordering::Relaxed) < 4 && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        how(&mut recorder, &stream);
        let status = recorder.wait(PATIENCE);
        over.store(true, Ordering::Relaxed);
        status
    });
    let said = format!("{:#?}", recorder.lines());
    assert!(status.expect("its end").success(), "{said}");
    for beside in ["-wal", "-shm"] {
        let beside = format!("{}{beside}", file.display());
        assert!(!Path::new(&beside).exists(), "{beside}: {said}");
    }
    let done = report(&file).expect("a report");
    let recording = &done["recordings"][0];
    assert_eq!(
        (&recording["clean_end"], &recording["still_recording"]),
        (&true.into(), &false.into())
    );
    assert_eq!(done["notes"], serde_json::json!([]));
    assert!(stream.missing(&done).expect("truth").is_empty());
    drop(tops);
}

#[test]
fn recording_ends_whole_among_four_readers() {
    for _ in 0..2 {
        ended_among_readers(|_, stream| stream.stop().expect("an end"));
    }
}

/// It says so however often it is read.
#[test]
fn killed_recorders_file_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let stream = Stream::new(folder.path()).expect("a stream");
    let command = stream.command().expect("a command");
    let mut recorder = Recorder::start(&file, &command).expect("a recorder");
    recorder.wait_for("EXIT", PATIENCE).expect("a death");
    recorder.signal(Signal::KILL).expect("a signal");
    recorder.wait(PATIENCE).expect("its end");
    let mut before = None;
    for _ in 0..3 {
        let report = report(&file).expect("a report");
        let recording = &report["recordings"][0];
        assert_eq!(
            (&recording["clean_end"], &recording["still_recording"]),
            (&false.into(), &false.into())
        );
        assert_eq!(report["notes"], serde_json::json!([]), "nothing is lost");
        let deaths = report["deaths"].as_array().map(Vec::len);
        assert!(before.is_none_or(|before| before == deaths));
        before = Some(deaths);
    }
    // A copy without its write-ahead log is reported to lack its end.
    let copy = folder.path().join("copy.raytrace");
    fs::copy(&file, &copy).expect("a copy");
    let said = text(&shown(&["report"], &copy));
    assert!(
        said.contains("the -wal file beside it is missing"),
        "{said}"
    );
}

fn shown(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(raytrace());
    command.args(arguments).arg(file).stdin(Stdio::null());
    command.output().expect("raytrace")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The disk is full when the recording ends.
#[test]
fn failed_end_has_an_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).expect("a folder");
    let script = "mount -t tmpfs -o size=400k none \"$1\"
        \"$2\" record --duration 4s -o \"$1/a.raytrace\" & recorder=$!
        until [ -s \"$1/a.raytrace-wal\" ]; do kill -0 $recorder || exit 99; sleep 0.05; done
        cat /dev/zero >\"$1/rest\" 2>/dev/null
        wait $recorder";
    let done = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .args([disk, raytrace()])
        .output()
        .expect("a run");
    let said = text(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("was not closed cleanly"), "{said}");
}

/// What is held for each kill does not grow with the number of kills: 8 MB of kills by Ray once
/// took 3 GiB.
#[test]
fn explain_of_many_kills_needs_little_memory() {
    const KILL: &str = include_str!("../../xtask/src/bench/explain/raylet-kill.txt");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("raylet.out");
    let kills = (0..1800).map(|number: u32| {
        let time = format!("2026-11-20 {:02}:{:02}:00,000", number / 60, number % 60);
        let id = |kind: u32| format!("{:056x}", kind * 10_000 + number);
        let gaps = [
            ("%time%", time),
            ("%self%", "7".to_owned()),
            ("%node%", id(0)),
            ("%pid%", (20_000 + number).to_string()),
            ("%worker%", id(2)),
            ("%actor%", id(3)[24..].to_owned()),
        ];
        let fill = |text: String, (gap, with): &(&str, String)| text.replace(gap, with);
        gaps.iter().fold(KILL.to_owned(), fill)
    });
    fs::write(&log, kills.collect::<String>()).expect("a log");
    let done = Command::new("prlimit")
        .arg("--as=1500000000")
        .arg(raytrace())
        .arg("explain")
        .arg(&log)
        .output()
        .expect("prlimit of util-linux");
    assert!(done.status.success(), "{}", text(&done));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("Ray's memory monitor killed"), "{said}");
}

#[test]
fn explain_reports_recordings_and_refuses_binaries() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.raytrace");
    let done = Command::new(raytrace())
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "exit 3"])
        .output()
        .expect("a recorder");
    assert_eq!(done.status.code(), Some(3), "{}", text(&done));
    let reported = shown(&["report"], &file);
    let explained = shown(&["explain"], &file);
    assert!(explained.status.success(), "{}", text(&explained));
    assert_eq!(explained.stdout, reported.stdout);
    let half = folder.path().join("half.raytrace");
    let whole = fs::read(&file).expect("bytes");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a half");
    for command in ["report", "explain"] {
        let done = shown(&[command], &half);
        let said = text(&done);
        assert_eq!(done.status.code(), Some(6), "{said}");
        assert_eq!(said.matches("cut short or damaged").count(), 1, "{said}");
    }
    let empty = folder.path().join("empty.log");
    fs::write(&empty, "").expect("a file");
    for (path, code, says) in [
        (raytrace().as_path(), 6, "is not text"),
        (empty.as_path(), 2, "is empty"),
        (folder.path().join("none.log").as_path(), 2, "No such file"),
    ] {
        let done = shown(&["explain"], path);
        let said = text(&done);
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert_eq!(said.matches(says).count(), 1, "{said}");
        assert!(done.stdout.is_empty(), "{said}");
    }
    let missing = folder.path().join("session_none");
    let done = shown(&["record", "--duration", "1s", "--session-dir"], &missing);
    assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    assert!(text(&done).contains("session_none"), "{}", text(&done));
}
