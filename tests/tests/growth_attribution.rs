//! Lines of Python that grew memory are found, with sizes that the staging knows.
//!
//! They are found from outside the process while the recorder runs.

use std::{
    path::Path,
    process::{Child, Command},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use raytrace::{
    event::{Event, Observation},
    ids::ProcessKey,
    recording,
};
use raytrace_tests::{
    recorder::{Recorder, raytrace, report, without_privilege},
    skipped, staging,
};
use serde_json::{Map, Value};

/// Runs one test at a time, because a recorder finds the clusters of all tests.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folders where Ray's actor finds its module, and some sites find their libraries:
/// `pip install --target target/sites/site-packages pandas pyarrow`.
fn path() -> String {
    let folders = [
        staging::root().join("tests/staging"),
        staging::target().join("sites/site-packages"),
    ];
    let names = folders.map(|folder| folder.display().to_string());
    names.join(":")
}

/// Sites that ask the kernel for one large mapping. It is known who fills it and how much of it is
/// held.
const MAPPED: [&str; 5] = [
    "grow_bytearray",
    "grow_numpy",
    "grow_pandas",
    "grow_torch",
    "grow_malloc",
];
/// From this size on at least nine tenths of a mapping are found.
const LARGE: u64 = 256 << 20;
/// Sites with libraries that allocate in calls of their own, and how the name of such a call
/// begins.
const CALLED: [(&str, &[&str]); 2] = [
    ("grow_numpy", &["_multiarray_umath."]),
    ("grow_torch", &["libtorch", "libc10"]),
];
/// Sites with libraries that may be missing.
const LIBRARIES: [&str; 4] = ["grow_numpy", "grow_pandas", "grow_arrow", "grow_torch"];

/// Records `grow.py`, and returns what the script says it grew by.
fn recorded(
    options: &[&str],
    file: &Path,
    python: &Path,
    arguments: &[&str],
) -> Map<String, Value> {
    let home = tempfile::tempdir().expect("a home");
    let done = Command::new(raytrace())
        .arg("record")
        .args(options)
        .arg("-o")
        .arg(file)
        .arg("--")
        .arg(python)
        .arg(staging::root().join("tests/staging/grow.py"))
        .args(arguments)
        .env("PYTHONPATH", path())
        .env("RAY_USAGE_STATS_ENABLED", "0")
        .env("HOME", home.path())
        .output()
        .expect("a recorder");
    let mut written = std::fs::read_dir(home.path()).expect("a home");
    assert!(written.next().is_none(), "it wrote into the home folder");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let text = String::from_utf8_lossy(&done.stdout);
    let line = text.lines().rev().find(|line| line.starts_with('{'));
    serde_json::from_str(line.expect("what it grew by")).expect("JSON")
}

fn bytes(line: &Value, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_default()
}

/// Checks the growth of each line.
///
/// No site is blamed for more than a tenth above its size, and a large mapping's site is blamed for
/// all of it. Some lines do not ask the kernel for their memory themselves (small objects from the
/// heap, the object store). That growth is found in steps, as far as the machine leaves time to
/// measure at each step.
fn each_line_has_its_share(report: &Value, class: &str, truth: &Map<String, Value>) {
    let growth = report["growth"].as_array().expect("growth");
    let owner = growth.iter().find(|growth| growth["class"] == class);
    let owner = owner.unwrap_or_else(|| panic!("no {class} in {growth:#?}"));
    let functions = owner["functions"].as_array().expect("functions");
    let mut wrong = Vec::new();
    for (site, size) in truth {
        let size = size.as_u64().expect("a size");
        let named = |line: &&Value| {
            line["function"]
                .as_str()
                .is_some_and(|name| name.starts_with(site.as_str()))
        };
        let found: Vec<&Value> = functions.iter().filter(named).collect();
        let grown: u64 = found.iter().map(|line| bytes(line, "grown_bytes")).sum();
        let shared: u64 = found.iter().map(|line| bytes(line, "shared_bytes")).sum();
        let held = found.iter().map(|line| line["held_bytes"].as_u64());
        let held: Option<u64> = held.sum();
        println!(
            "{site:16} {:5} MiB, found {:5}, of it shared {:5}, held {:?}",
            size >> 20,
            grown >> 20,
            shared >> 20,
            held.map(|held| held >> 20)
        );
        let no_more = grown <= size + size / 10;
        let all = grown >= size - size / 10;
        let is_right = match site.as_str() {
            "give_back" => grown > 0 && held.is_none_or(|held| held <= 20 << 20),
            // The kernel reports each 16 MiB.
            "grow_put" => no_more && grown >= size / 2 && grown <= shared + size / 10,
            "grow_objects" => no_more && grown >= size / 2,
            site if MAPPED.contains(&site) && size >= LARGE => no_more && all,
            _ => no_more,
        };
        if !is_right {
            wrong.push(site);
        }
        let native = found.iter().find_map(|line| line["native"].as_str());
        println!("{:16} in {native:?}", "");
        let begins = CALLED.iter().find(|(called, _)| called == site);
        if let Some((_, begins)) = begins {
            let its = |native: &str| begins.iter().any(|begin| native.starts_with(begin));
            assert!(native.is_some_and(its), "{site} called {native:?}");
        }
    }
    println!("no line: {}", owner["unsampled"]);
    for site in LIBRARIES.iter().filter(|site| !truth.contains_key(**site)) {
        skipped(format!("a site: {site}, its library is not installed"));
    }
    assert!(wrong.is_empty(), "{wrong:?} in {functions:#?}");
}

/// Keeps a core busy until it is dropped.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> Self {
        let mut child = Command::new("sh");
        let child = child.args(["-c", "while :; do :; done"]).spawn();
        Self(child.expect("a shell"))
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

/// Records an actor that grows, and checks each line.
fn an_actors_lines_have_their_growth(options: &[&str]) {
    let python = staging::ray("2.60.0").join("bin/python");
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let file = folder.path().join("a.raytrace");
    let ray = folder.path().join("ray").display().to_string();
    let truth = recorded(options, &file, &python, &["--ray", &ray]);
    let report = report(&file).expect("a report");
    each_line_has_its_share(&report, "Grower", &truth);
    let svg = Command::new(raytrace())
        .args(["export", "--format", "flamegraph"])
        .arg(&file)
        .output()
        .expect("an export");
    assert!(String::from_utf8_lossy(&svg.stdout).contains("grow_bytearray"));
}

#[test]
fn each_line_of_an_actor_has_its_growth() {
    let _alone = alone();
    an_actors_lines_have_their_growth(&[]);
}

/// As on a machine that is half as fast, and busy.
#[test]
fn half_of_the_time_is_enough_for_the_lines_of_an_actor() {
    let _alone = alone();
    let _busy = [BusyLoop::start(), BusyLoop::start()];
    an_actors_lines_have_their_growth(&["--stacks-time", "50"]);
}

#[test]
fn each_line_of_a_wrapped_program_has_its_growth() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    let python = staging::ray("2.60.0").join("bin/python");
    let truth = recorded(&[], &file, &python, &[]);
    let report = report(&file).expect("a report");
    each_line_has_its_share(&report, "python", &truth);
}

/// Returns the process of an event that is a memory sample.
fn sampled(event: &Event) -> Option<ProcessKey> {
    match &event.what {
        Observation::Memory(sample) => Some(sample.process),
        _ => None,
    }
}

/// Returns the process of an event that says that a stack could not be read.
fn refused(event: &Event) -> Option<ProcessKey> {
    match &event.what {
        Observation::NoStack { process, .. } => Some(*process),
        _ => None,
    }
}

/// Waits until a recording that is being written holds such an event of process `pid`.
fn recorded_until(file: &Path, pid: u32, of: fn(&Event) -> Option<ProcessKey>) {
    let is_its = |event: &Event| of(event).is_some_and(|process| process.pid.0 == pid);
    let end = Instant::now() + Duration::from_secs(120);
    while !recording::read(file).is_ok_and(|read| read.events.iter().any(is_its)) {
        assert!(Instant::now() < end, "it is not recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a file and returns the pid in it.
fn said_pid(file: &Path) -> u32 {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        match std::fs::read_to_string(file) {
            Ok(pid) => return pid.parse().expect("a pid"),
            Err(error) => assert!(Instant::now() < end, "{}: {error}", file.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn unreadable_process_is_reported_with_a_reason() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.raytrace");
    // A dumpable flag of 0 refuses every reader without the right capability, as Yama does in many
    // containers. The process grows once it is recorded, and ends once the refusal is.
    let closed = "import ctypes, os, sys, time\ndef wait(name):\n while not os.path.exists(sys.argv[1] + name): time.sleep(.05)\n\
        ctypes.CDLL(None).prctl(4, 0)\nwith open(sys.argv[1] + '/new', 'w') as file: file.write(str(os.getpid()))\n\
        os.rename(sys.argv[1] + '/new', sys.argv[1] + '/pid'); wait('/grow'); kept = bytearray(b'x') * (300 << 20); wait('/end')";
    let (name, cues) = (
        file.display().to_string(),
        folder.path().display().to_string(),
    );
    let command = ["record", "-o", &name, "--", "python3", "-c", closed, &cues];
    let command = without_privilege(&raytrace(), &command);
    let mut recorder = Recorder::run(command, &file).expect("a recorder");
    // Other processes on this machine may be unreadable too.
    let pid = said_pid(&folder.path().join("pid"));
    for (cue, told) in [
        ("grow", sampled as fn(&Event) -> Option<ProcessKey>),
        ("end", refused),
    ] {
        recorded_until(&file, pid, told);
        std::fs::write(folder.path().join(cue), "").expect("a cue");
    }
    let status = recorder.wait(Duration::from_secs(120)).expect("its end");
    assert!(status.success(), "{:#?}", recorder.lines());
    let report = report(&file).expect("a report");
    println!("{:#}", report["unread_stacks"]);
    let unread = report["unread_stacks"].as_array().expect("a list").iter();
    let unread: Vec<&Value> = unread.filter(|one| one["pid"] == pid).collect();
    assert_eq!(unread.len(), 1, "{unread:?}");
    assert!(!unread[0]["reason"].as_str().unwrap_or_default().is_empty());
    let owners = report["growth"].as_array().expect("growth").iter();
    let is_wrapped = |owner: &&Value| owner["class"] == "python3";
    for owner in owners.filter(is_wrapped) {
        for line in owner["lines"].as_array().expect("lines") {
            assert_eq!(
                line["file"], "",
                "a line of a process that was not read: {line}"
            );
        }
    }
}
