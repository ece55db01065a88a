//! `raytrace report` as a program: what it prints, where to, and its exit codes.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use raytrace::{
    event::{
        CgroupLevel, Cluster, Event, Exit, MemorySplit, Mode, NodeMemory, Observation, OomVictim,
        Process, RecordingStarted, Role, Sender, Signal, Source, Worker,
    },
    ids::{BootTime, Bytes, EventId, HexId, Pid, ProcessKey, WallTime},
    recording::Writer,
};

const RAYLET: u32 = 100;
const SECOND: u64 = 1_000_000_000;
/// 2026-11-20T08:00:00Z, when the staged recordings begin.
const EIGHT: i64 = 1_795_161_600_000_000_000;
/// A cgroup with a hundred bytes left.
const LIMIT: Bytes = Bytes(2 << 30);

/// Events in the order in which they are staged.
struct Stage {
    events: Vec<Event>,
    now: u64,
}

fn key(pid: u32) -> ProcessKey {
    ProcessKey::new(pid, u64::from(pid) * 10_000_000)
}

fn worker_id(pid: u32) -> String {
    format!("{pid:08x}{}", "ab".repeat(24))
}

impl Stage {
    /// A machine of 16 GiB, 12 of them in use, with a raylet.
    fn new() -> Self {
        let mut stage = Self {
            events: Vec::new(),
            now: 1000 * SECOND,
        };
        stage.push(
            Source::Recorder,
            Observation::RecordingStarted(RecordingStarted {
                raytrace: "0".into(),
                host: "gpu-07".into(),
                kernel: "6.18.0".into(),
                boot_id: "b".into(),
                memory_bytes: Bytes(16 << 30),
                cpus: 2,
                mode: Mode::Ebpf,
                wall: WallTime(EIGHT),
                pid_namespace: None,
            }),
        );
        stage.push(
            Source::Proc,
            Observation::Cluster(Cluster {
                raylet: key(RAYLET),
                raylet_ns_pid: Pid(RAYLET),
                session: Some("session_x".into()),
                session_dir: None,
                ray_version: Some("2.60.0".into()),
                node_id: HexId::parse(&"550e".repeat(14)),
                gcs_address: None,
                head: true,
                object_store_bytes: None,
                container_id: None,
                settings: Vec::new(),
                log_utc_offset_s: None,
            }),
        );
        stage.process(RAYLET, 1, "raylet", Role::Raylet);
        let node = NodeMemory {
            total: Bytes(16 << 30),
            available: Bytes(4 << 30),
            ..NodeMemory::default()
        };
        stage.push(Source::Proc, Observation::Node(node));
        stage
    }

    fn push(&mut self, source: Source, what: Observation) {
        self.now += 1000;
        self.events.push(Event {
            id: EventId(self.events.len() as u64 + 1),
            time: BootTime(self.now),
            source,
            what,
        });
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += seconds * SECOND;
        self
    }

    fn process(&mut self, pid: u32, parent: u32, comm: &str, role: Role) {
        let process = Process {
            process: key(pid),
            ns_pid: None,
            parent: Some(Pid(parent)),
            process_group: None,
            comm: comm.into(),
            argv: vec![comm.into()],
            exe: None,
            uid: Some(0),
            cgroup: None,
            container_id: None,
            cluster: Some(key(RAYLET)),
            role,
        };
        self.push(Source::Proc, Observation::Process(process));
    }

    fn worker(&mut self, pid: u32) {
        self.process(pid, RAYLET, "ray::hog", Role::Worker);
        let worker = Worker {
            process: key(pid),
            worker_id: HexId(worker_id(pid)),
            job_id: HexId::parse("01000000"),
            actor_class: None,
            driver: false,
            from: "test".into(),
        };
        self.push(Source::Proc, Observation::Worker(worker));
    }

    fn sigkill(&mut self, pid: u32, from: u32, comm: &str, code: i32) {
        let signal = Signal {
            target: key(pid),
            target_tid: Pid(pid),
            signal: 9,
            code,
            group: true,
            result: 0,
            group_exit: true,
            group_exit_code: 9,
            took_effect: true,
            parent_death_signal: 0,
            sender: Sender {
                process: key(from),
                tid: Pid(from),
                comm: comm.into(),
                uid: 1000,
                exiting: false,
                kernel_thread: false,
                exe: Some(format!("/home/lin/bin/{comm}")),
                cgroup: None,
                ancestors: Vec::new(),
                container_id: None,
            },
        };
        self.push(Source::Kernel, Observation::Signal(signal));
    }

    /// The kernel kills a worker at the limit of its cgroup.
    fn oom_kill(&mut self, pid: u32) -> &mut Self {
        self.worker(pid);
        self.sigkill(pid, pid, "ray::hog", 128);
        let victim = OomVictim {
            victim: key(pid),
            victim_tid: Pid(pid),
            signalled: true,
            mm: u64::from(pid),
            invoker: key(pid),
            invoker_comm: "ray::hog".into(),
            stack: vec!["oom_kill_process".into(), "mem_cgroup_out_of_memory".into()],
            cgroups: vec![CgroupLevel {
                path: "/job".into(),
                usage: LIMIT,
                limit: Some(LIMIT),
                shared_with_invoker: true,
            }],
            score_adj: 1000,
            memory: MemorySplit::default(),
        };
        self.push(Source::Kernel, Observation::OomVictim(victim));
        self.exit(pid, 9, Some("ray::hog"));
        self
    }

    /// Somebody kills a worker.
    fn user_kill(&mut self, pid: u32) -> &mut Self {
        self.worker(pid);
        self.sigkill(pid, 77, "bash", 0);
        self.exit(pid, 9, Some("ray::hog"));
        self
    }

    fn exit(&mut self, pid: u32, status: i32, title: Option<&str>) {
        let exit = Exit {
            process: key(pid),
            ns_pid: None,
            parent: None,
            comm: "x".into(),
            status: Some(status),
            title: title.map(str::to_owned),
            memory: MemorySplit {
                anon: Some(Bytes(1 << 30)),
                ..MemorySplit::default()
            },
            mm: u64::from(pid),
            uid: None,
            harvested: false,
        };
        self.push(Source::Kernel, Observation::Exit(exit));
    }

    /// Short subprocesses of a worker that end well.
    fn normal_exits(&mut self, count: u32) -> &mut Self {
        for pid in 10_000..10_000 + count {
            self.push(
                Source::Kernel,
                Observation::Fork {
                    parent: key(RAYLET),
                    child: key(pid),
                },
            );
            self.exit(pid, 0, None);
        }
        self
    }

    /// The recording, cleanly ended, in a folder of its own.
    fn record(&mut self) -> Recording {
        self.push(Source::Recorder, Observation::RecordingEnded);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("run.raytrace");
        let writer = Writer::create(&file, None).expect("a recording");
        let sender = writer.sender();
        for event in &self.events {
            sender.send(event.clone());
        }
        let summary = writer.finish();
        assert_eq!((summary.dropped, summary.failure), (0, None));
        Recording { folder, file }
    }
}

struct Recording {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Recording {
    fn report(&self, arguments: &[&str]) -> Ran {
        let mut command = raytrace(self.folder.path());
        command.arg("report").arg(&self.file).args(arguments);
        Ran::of(&mut command)
    }
}

fn raytrace(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raytrace"));
    command
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE");
    command
}

/// What a run of raytrace gave.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().expect("raytrace runs");
        Self {
            code: status.code(),
            out: String::from_utf8(stdout).expect("UTF-8"),
            err: String::from_utf8(stderr).expect("UTF-8"),
        }
    }

    fn refused(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        for text in says {
            assert!(self.err.contains(text), "{text} in {}", self.err);
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("JSON")
    }
}

/// An OOM kill at second 10, a user's kill at second 20, and a few normal exits.
fn two_kills() -> Recording {
    let mut stage = Stage::new();
    stage.after(10).oom_kill(4001);
    stage.after(10).user_kill(4002);
    stage.after(600).normal_exits(3).record()
}

fn harmless() -> Recording {
    Stage::new().after(10).normal_exits(3).record()
}

#[test]
fn a_report_leads_with_the_kills_and_says_what_to_type_next() {
    let recording = two_kills();
    let ran = recording.report(&[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    for text in [
        "gpu-07 · Linux 6.18.0 · Ray 2.60.0",
        "2 first causes, 2 deaths, 3 normal exits not listed (--all)",
        "the kernel killed hog (task, pid 4001, 1.0 GiB)",
        "/job 2.0 of 2.0 GiB",
        "SIGKILL from bash",
        "PROVEN",
        "--format markdown --redact",
    ] {
        assert!(ran.out.contains(text), "{text} in {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "no colour in a pipe");
}

#[test]
fn every_example_of_the_help_runs() {
    let recording = two_kills();
    let help = Ran::of(raytrace(recording.folder.path()).args(["report", "--help"]));
    assert_eq!(help.code, Some(0));
    let examples: Vec<&str> = help
        .out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("raytrace report run.raytrace "))
        .collect();
    assert!(examples.len() >= 6, "{}", help.out);
    for example in examples {
        let arguments = example.split("  ").next().unwrap_or(example);
        let arguments = arguments.split(" | ").next().unwrap_or(arguments);
        let arguments = arguments.replace("41877", "4001");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let ran = recording.report(&arguments);
        assert!(matches!(ran.code, Some(0 | 8)), "{arguments:?} {ran:?}");
    }
}

#[test]
fn without_a_file_the_newest_recording_of_the_folder_is_taken_and_named() {
    let recording = two_kills();
    let ran = Ran::of(raytrace(recording.folder.path()).arg("report"));
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("Reading ./run.raytrace"), "{}", ran.err);
}

#[test]
fn a_missing_file_is_refused_with_what_to_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = Ran::of(raytrace(folder.path()).args(["report", "gone.raytrace"]));
    ran.refused(
        2,
        &["cannot open gone.raytrace", "No such file", "ls *.raytrace"],
    );
}

#[test]
fn another_file_is_no_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("raylet.out"), "[2026-11-20] x\n").expect("a log");
    std::fs::write(folder.path().join("empty"), "").expect("an empty file");
    for file in ["raylet.out", "empty"] {
        let ran = Ran::of(raytrace(folder.path()).args(["report", file]));
        ran.refused(6, &["is not a raytrace recording", "raytrace explain"]);
    }
}

#[test]
fn a_damaged_recording_is_refused_with_what_saves_the_rest() {
    let recording = two_kills();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    bytes[100..].fill(0x5a);
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    ran.refused(6, &["run.raytrace is damaged", ".recover"]);
}

#[test]
fn what_is_left_of_a_damaged_recording_is_shown_and_its_exit_code_says_so() {
    let recording = Stage::new().oom_kill(4001).normal_exits(2000).record();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(
        ran.out.contains("killed hog (task, pid 4001"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("is damaged"), "{}", ran.out);
    assert!(ran.err.contains("is damaged"), "{}", ran.err);
}

#[test]
fn a_recording_of_a_newer_raytrace_is_refused_with_both_versions() {
    let recording = two_kills();
    let mut bytes = std::fs::read(&recording.file).expect("read");
    // `user_version` of the SQLite header, big-endian.
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&recording.file, bytes).expect("write");
    let ran = recording.report(&[]);
    ran.refused(6, &["has format 99", "reads up to 1", "newer raytrace"]);
}

#[test]
fn a_recording_without_events_says_that_it_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.raytrace");
    let _summary = Writer::create(&file, None).expect("create").finish();
    let ran = Recording { folder, file }.report(&[]);
    ran.refused(6, &["holds no events", "sudo raytrace record"]);
}

#[test]
fn one_kill_is_shown_alone_by_its_number_or_its_id() {
    let recording = two_kills();
    let all = recording.report(&["--format", "json"]).json();
    let id = all["deaths"][0]["id"].as_u64().expect("an id");
    for kill in ["1".to_owned(), format!("#{id}")] {
        let ran = recording.report(&["--kill", &kill]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("pid 4001") && !ran.out.contains("pid 4002"));
        assert!(ran.out.contains(&worker_id(4001)), "{}", ran.out);
    }
}

#[test]
fn an_unknown_kill_is_refused_with_those_that_there_are() {
    let recording = two_kills();
    recording
        .report(&["--kill", "3"])
        .refused(2, &["no first cause has the number 3", "there are 1 to 2"]);
    recording
        .report(&["--kill", "#999999"])
        .refused(2, &["no death has the id #999999"]);
    recording
        .report(&["--kill", "first"])
        .refused(2, &["the number after KILL or DEATH"]);
    harmless()
        .report(&["--kill", "1"])
        .refused(2, &["there is none"]);
}

#[test]
fn any_id_of_a_traceback_finds_its_death() {
    let recording = two_kills();
    for text in ["4001", &worker_id(4001)[..8], &worker_id(4001)] {
        let ran = recording.report(&["--match", text]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("pid 4001"), "{text}: {}", ran.out);
        assert!(!ran.out.contains("pid 4002"), "{text}: {}", ran.out);
    }
    for text in ["550e550e", "01000000", "hog"] {
        let deaths = recording
            .report(&["--match", text, "--format", "json"])
            .json();
        assert!(
            deaths["deaths"].as_array().expect("deaths").len() >= 2,
            "{text}"
        );
    }
}

#[test]
fn a_match_that_ended_normally_is_shown_too() {
    let ran = two_kills().report(&["--match", "10001"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.contains("pid 10001"), "{}", ran.out);
    assert!(!ran.out.contains("KILL 1"), "{}", ran.out);
}

#[test]
fn a_match_without_hit_is_refused_with_what_was_looked_at() {
    let recording = two_kills();
    recording
        .report(&["--match", "deadbeef"])
        .refused(2, &["none of 5 deaths has \"deadbeef\"", "--all"]);
    recording.report(&["--match", ""]).refused(2, &["--match"]);
}

#[test]
fn since_and_until_take_times_of_day_instants_and_spans_before_the_end() {
    let recording = two_kills();
    let pids = |arguments: &[&str]| -> Vec<u64> {
        let json = ["--format", "json"];
        let report = recording.report(&[arguments, &json].concat()).json();
        let deaths = report["deaths"].as_array().expect("deaths").iter();
        let pids = deaths.filter_map(|death| death["pid"].as_u64());
        pids.filter(|pid| *pid < 10_000).collect()
    };
    assert_eq!(pids(&["--since", "08:00:15"]), [4002]);
    assert_eq!(pids(&["--until", "2026-11-20T08:00:15Z"]), [4001]);
    assert_eq!(pids(&["--until", "16:00:15", "--tz", "+08:00"]), [4001]);
    assert_eq!(pids(&["--since", "-605s"]), [4002]);
    assert_eq!(pids(&["--since", "-1h"]), [4001, 4002]);
    recording
        .report(&["--since", "teatime"])
        .refused(2, &["--since", "unknown time \"teatime\"", "-10m"]);
    recording
        .report(&["--since", "08:00:15", "--until", "08:00:05"])
        .refused(2, &["is after --until", "swap them"]);
}

#[test]
fn times_are_in_the_zone_that_was_asked_for() {
    let recording = two_kills();
    let ran = recording.report(&["--tz", "Asia/Shanghai"]);
    assert!(ran.out.contains("16:00:10.0"), "{}", ran.out);
    let ran = recording.report(&["--tz", "-03:30"]);
    assert!(ran.out.contains("04:30:10.0"), "{}", ran.out);
    recording
        .report(&["--tz", "Mars"])
        .refused(2, &["unknown time zone", "+08:00"]);
}

#[test]
fn fail_on_gives_8_for_a_kill_for_memory_and_0_without_one() {
    let kills = two_kills();
    let ran = kills.report(&["--fail-on"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(
        ran.out.contains("KILL 1"),
        "the report is printed all the same"
    );
    assert!(
        ran.err.contains("1 death by kernel-oom-memcg"),
        "{}",
        ran.err
    );
    assert_eq!(kills.report(&["--fail-on", "crash,exit"]).code, Some(0));
    assert_eq!(kills.report(&["--fail-on=signal"]).code, Some(8));
    assert_eq!(
        kills.report(&["--fail-on", "--since", "08:00:15"]).code,
        Some(0)
    );
    assert_eq!(harmless().report(&["--fail-on"]).code, Some(0));
    kills
        .report(&["--fail-on", "oom"])
        .refused(2, &["unknown killer \"oom\"", "kernel-oom-memcg"]);
    let ran = Ran::of(raytrace(kills.folder.path()).args(["report", "--fail-on", "run.raytrace"]));
    ran.refused(2, &["FILE goes before --fail-on"]);
}

#[test]
fn fail_above_compares_the_peak_with_the_nearest_limit() {
    let recording = harmless();
    let ran = recording.report(&["--fail-above", "70%"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(
        ran.err
            .contains("the peak was 12.0 GiB, 75.0 % of the machine's memory 16.0 GiB"),
        "{}",
        ran.err
    );
    assert_eq!(recording.report(&["--fail-above", "80"]).code, Some(0));
    recording
        .report(&["--fail-above", "850%"])
        .refused(2, &["a percentage from 0 to 100"]);
    let ran = two_kills().report(&["--fail-above", "95%"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.err.contains("100.0 % of cgroup /job"), "{}", ran.err);
}

#[test]
fn an_output_that_exists_is_kept_unless_force_is_given() {
    let recording = two_kills();
    let output = recording.folder.path().join("report.md");
    let to = |more: &[&str]| {
        let output = output.to_str().expect("UTF-8");
        recording.report(&[&["--format", "markdown", "-o", output], more].concat())
    };
    let ran = to(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""));
    assert!(
        ran.err.contains("Wrote ") && ran.err.contains("report.md"),
        "{}",
        ran.err
    );
    std::fs::write(&output, "mine").expect("write");
    to(&[]).refused(2, &["report.md exists", "--force"]);
    assert_eq!(std::fs::read_to_string(&output).expect("read"), "mine");
    assert_eq!(to(&["--force"]).code, Some(0));
    let text = std::fs::read_to_string(&output).expect("read");
    assert!(text.starts_with("## "), "{text}");
    recording.report(&["--force"]).refused(2, &["--output"]);
}

#[test]
fn the_recording_itself_is_never_overwritten() {
    let recording = two_kills();
    let before = std::fs::read(&recording.file).expect("read");
    recording
        .report(&["-o", "run.raytrace", "--force"])
        .refused(2, &["is the recording itself"]);
    assert_eq!(std::fs::read(&recording.file).expect("read"), before);
}

#[test]
fn an_output_that_cannot_be_written_says_what_to_choose() {
    two_kills()
        .report(&["-o", "no/such/folder/report.txt"])
        .refused(
            1,
            &["cannot write no/such/folder/report.txt", "choose a folder"],
        );
}

#[test]
fn a_pipe_that_is_closed_early_is_no_error() {
    let recording = Stage::new().normal_exits(5000).record();
    let mut command = raytrace(recording.folder.path());
    command.arg("report").arg(&recording.file).arg("--all");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("raytrace runs");
    let mut stdout = child.stdout.take().expect("stdout");
    stdout.read_exact(&mut [0]).expect("a byte");
    drop(stdout);
    let output = child.wait_with_output().expect("raytrace ends");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""));
}

#[test]
fn a_run_without_kills_says_so_with_its_peak() {
    let ran = harmless().report(&[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.out.contains("0 kills. Peak 12.0 of 16.0 GiB (75.0 %)"),
        "{}",
        ran.out
    );
    let ran = harmless().report(&["--format", "markdown"]);
    assert!(
        ran.out.contains("- 0 kills. Peak 12.0 of 16.0 GiB"),
        "{}",
        ran.out
    );
}

#[test]
fn five_thousand_normal_exits_stay_one_count() {
    let recording = Stage::new().oom_kill(4001).normal_exits(5000).record();
    for format in ["text", "markdown"] {
        let ran = recording.report(&["--format", format]);
        assert!(ran.out.lines().count() < 40, "{}", ran.out);
        assert!(ran.out.contains("5,000 normal exits"), "{}", ran.out);
    }
    let json = recording.report(&["--format", "json"]).json();
    assert_eq!(json["deaths"].as_array().expect("deaths").len(), 5001);
}

#[test]
fn redacted_reports_name_no_host_user_or_path_in_any_format() {
    let recording = two_kills();
    for format in ["text", "markdown", "json"] {
        let ran = recording.report(&["--redact", "--format", format]);
        assert_eq!(ran.code, Some(0));
        for secret in ["gpu-07", "lin", "/home", "run.raytrace"] {
            // `Linux` is no user.
            let text = ran.out.replace("Linux", "");
            assert!(!text.contains(secret), "{format}: {secret} in {text}");
        }
        assert!(ran.out.contains("hog"), "names of tasks stay");
    }
}

#[test]
fn colour_is_for_terminals_and_never_in_a_file() {
    let recording = two_kills();
    let forced = |arguments: &[&str]| {
        let mut command = raytrace(recording.folder.path());
        command.env("CLICOLOR_FORCE", "1").arg("report");
        Ran::of(command.arg(&recording.file).args(arguments))
    };
    assert!(forced(&[]).out.contains("\u{1b}["));
    assert_eq!(forced(&["-o", "report.txt"]).code, Some(0));
    let file = recording.folder.path().join("report.txt");
    let text = std::fs::read_to_string(file).expect("read");
    assert!(text.contains("KILL 1") && !text.contains('\u{1b}'));
}
