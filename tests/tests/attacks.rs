//! What a user of the machine does on purpose costs the recorder little, and other clusters nothing.
//!
//! One cluster does all at once, as fast as it can: thousands of processes rename themselves, tens
//! of thousands of files are named like drivers' logs of living processes, and its raylet's log
//! grows by 100 MB a second. Meanwhile processes of another cluster are killed.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use raytrace::{event::Observation, recording};
use raytrace_tests::{
    fake_raylet::{FakeRaylet, worker_started_line},
    recorder::{Recorder, peak_kib},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROCESSES: usize = 3_000;
const FILES: usize = 50_000;
const MB_A_SECOND: usize = 100;
const KILLS: usize = 16;
/// Between two kills.
const PAUSE: Duration = Duration::from_millis(500);
/// The attack does not end before each kill is told, so this only ends a test that fails. On an
/// idle machine a kill is told within 500 ms.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most resident memory of the recorder during the attack, and when thousands of its processes
/// end at once, as in `floods.rs`.
const BOUND_MIB: u64 = 110;
const BOUND_AT_END_MIB: u64 = 160;
/// The most CPU time of the recorder by the clock, in percent of a core. A release build takes at
/// most 8 %. The build under test is not optimized, and a busy machine makes the same work slower.
const BOUND_PERCENT: f64 = 75.0;

/// A cluster that a shell poses as, with its session's folder.
struct Cluster {
    raylet: FakeRaylet,
    log: PathBuf,
}

impl Cluster {
    /// Starts it. `script` gets the path of the raylet's log.
    fn start(folder: &Path, script: impl FnOnce(&str) -> String) -> Self {
        let session = folder.join("session_x");
        fs::create_dir_all(session.join("logs")).expect("a folder");
        let log = session.join("logs/raylet.out");
        fs::write(&log, "").expect("a log");
        let script = script(log.to_str().expect("text"));
        let raylet =
            FakeRaylet::start_with_script(folder, &session, &script).expect("a fake raylet");
        Self { raylet, log }
    }

    fn logs(&self) -> &Path {
        self.log.parent().expect("a folder")
    }
}

/// Makes files that are named like the logs of drivers, with the pids of living processes.
fn make_files(logs: &Path) {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pids: Vec<u32> = pids.collect();
    for (number, pid) in pids.iter().cycle().take(FILES).enumerate() {
        let name = format!("python-core-driver-01000000{number:048x}_{pid}.log");
        File::create(logs.join(name)).expect("a log");
    }
}

/// Writes a line about the process into the raylet's log, and kills it. Waits until that is told,
/// and returns when it was.
fn kill(recorder: &mut Recorder, cluster: &Cluster, victim: u32) -> i128 {
    let log = File::options().append(true).open(&cluster.log);
    let line = worker_started_line(victim, &format!("{victim:056x}"));
    writeln!(log.expect("the raylet's log"), "{line}").expect("a line");
    let pid = Pid::from_raw(victim.cast_signed()).expect("a pid");
    kill_process(pid, Signal::KILL).expect("a kill");
    let told = recorder.wait_for(&format!(" pid {victim} "), PATIENCE);
    told.unwrap_or_else(|error| panic!("{error:#}")).read_at
}

/// Returns the CPU time of all threads of a process, in seconds.
fn cpu_time(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its figures");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn peak_mib(pid: u32) -> u64 {
    peak_kib(pid).expect("its peak") >> 10
}

/// Checks that each has its killer. Returns the milliseconds from each exit to its line, sorted.
fn check_deaths(report: &Value, told: &[(u32, i128)]) -> Vec<f64> {
    let deaths = report["deaths"].as_array().expect("deaths");
    let mut late = Vec::new();
    for (victim, read_at) in told {
        let death = deaths.iter().find(|death| death["pid"] == *victim);
        let death = death.unwrap_or_else(|| panic!("{victim} is missing"));
        let (verdict, sender) = (&death["verdict"], &death["sender"]);
        assert_eq!(verdict["killer"], "signal", "{death:#}");
        assert_eq!(verdict["certainty"], "proven", "{death:#}");
        assert_eq!(sender["pid"], std::process::id(), "{death:#}");
        let exited: jiff::Timestamp = death["exit_time"]
            .as_str()
            .and_then(|time| time.parse().ok())
            .expect("a time");
        late.push((read_at - exited.as_nanosecond()) as f64 / 1e6);
    }
    late.sort_by(f64::total_cmp);
    late
}

/// Returns how many lines of this raylet's logs are in the recording.
fn log_records(file: &Path, raylet: u32) -> usize {
    let read = recording::read(file).expect("a recording");
    let is_its = |what: &Observation| match what {
        Observation::RayLog(log) => log.cluster.is_some_and(|cluster| cluster.pid.0 == raylet),
        _ => false,
    };
    let events = read.events.iter();
    events.filter(|event| is_its(&event.what)).count()
}

/// Returns what was left out of this raylet's logs, by the ledger.
fn left_out(report: &Value, raylet: u32) -> u64 {
    let rows = report["recordings"][0]["ledgers"].as_array();
    let rows = rows.into_iter().flatten();
    let hook = format!("logs of raylet {raylet}");
    let own = rows.filter(|row| {
        row["hook"]
            .as_str()
            .is_some_and(|name| name.ends_with(&hook))
    });
    own.filter_map(|row| row["missed"].as_u64()).sum()
}

#[test]
fn kills_beside_an_attack_are_told_with_their_killer() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("a folder");
        path
    };
    let (own, attack) = (at("own"), at("attack"));
    let (go, pids) = (attack.join("go"), own.join("pids"));
    let victims = format!(
        "for i in $(seq {KILLS}); do sleep 600 & echo $! >>{0}.new; done; mv {0}.new {0}; wait",
        pids.display()
    );
    let quiet = Cluster::start(&own, |_| victims);
    // Whatever the attack takes from the machine, the recorder shall get its turn: this is about
    // the recorder's own work.
    let flood = env!("CARGO_BIN_EXE_flood");
    let line = worker_started_line(77, &"ab".repeat(28));
    let attacker = Cluster::start(&attack, |log| {
        format!(
            "until [ -e {} ]; do sleep 0.1; done
             nice -n 19 {flood} names {PROCESSES} & nice -n 19 {flood} log {MB_A_SECOND} {log} '{line}' & wait",
            go.display()
        )
    });
    make_files(attacker.logs());
    let file = folder.path().join("a.raytrace");
    let mut recorder = Recorder::start(&file, &[]).expect("a recorder");
    while !pids.exists() {
        thread::sleep(Duration::from_millis(50));
    }
    let victims = fs::read_to_string(&pids).expect("pids");
    let victims: Vec<u32> = victims.lines().filter_map(|pid| pid.parse().ok()).collect();
    let (pid, before) = (recorder.pid(), cpu_time(recorder.pid()));
    let began = Instant::now();
    fs::write(&go, "").expect("a word");
    let (last, victims) = victims.split_last().expect("victims");
    let mut told = Vec::new();
    for victim in victims {
        thread::sleep(PAUSE);
        told.push((*victim, kill(&mut recorder, &quiet, *victim)));
    }
    let took = began.elapsed();
    let share = (cpu_time(pid) - before) / took.as_secs_f64() * 100.0;
    let (raylet, attacking) = (quiet.raylet.pid(), attacker.raylet.pid());
    let peak = peak_mib(pid);
    // Thousands of processes end at once.
    drop(attacker.raylet);
    told.push((*last, kill(&mut recorder, &quiet, *last)));
    let at_end = peak_mib(pid);
    let report = recorder.stop().expect("a recording").report;
    let lost = left_out(&report, attacking);
    let late = check_deaths(&report, &told);
    eprintln!(
        "attacked for {:.0} s: the recorder took {share:.0} % of a core and {peak} MiB, {at_end} MiB as it ended; {} kills were told after {:.0} ms (median) and {:.0} ms (the last one); left out of the attacker's logs: {lost}",
        took.as_secs_f64(),
        late.len(),
        late[late.len() / 2],
        late[late.len() - 1],
    );
    assert_eq!(
        log_records(&file, raylet),
        KILLS,
        "lines of the other cluster"
    );
    assert_eq!(left_out(&report, raylet), 0, "of the other cluster");
    assert!(lost > 0, "the attack was no attack");
    assert!(share < BOUND_PERCENT, "{share:.0} % of a core");
    assert!(peak < BOUND_MIB, "{peak} MiB");
    assert!(at_end < BOUND_AT_END_MIB, "{at_end} MiB");
}
