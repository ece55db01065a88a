//! Checks on the real kernel that no process can harm the machine through the recorder.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use raytrace::{event::Observation, recording};
use raytrace_tests::{
    cgroup,
    recorder::{Recorder, peak_kib, raytrace, report},
    soak,
    stream::Stream,
    wait::{self, PATIENCE},
};
use rustix::{fs::Mode, process::Signal};
use serde_json::Value;

/// A user that no process has.
const USER: u32 = 12_345;
const MIB: u64 = 1 << 20;

/// Runs one test at a time, because the recorders of the others would see what it stages.
static STAGE: Mutex<()> = Mutex::new(());

fn stage() -> MutexGuard<'static, ()> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that runs an act of `machine`. It is killed when this is dropped.
struct Act {
    child: Child,
    /// The act ends when this is closed.
    input: ChildStdin,
    pids: Vec<u32>,
}

impl Act {
    fn start(words: &[&str]) -> Self {
        Self::of(Command::new(env!("CARGO_BIN_EXE_machine")).args(words))
    }

    /// Starts a process called `raylet` with this session that runs the act.
    fn of_raylet(folder: &Path, session: &Path, words: &[&str]) -> Self {
        let program = folder.join("raylet");
        if !program.exists() {
            symlink(env!("CARGO_BIN_EXE_machine"), &program).expect("a link");
        }
        let socket = session.join("sockets/raylet");
        let mut command = Command::new(program);
        command
            .args(words)
            .arg(format!("--raylet_socket_name={}", socket.display()))
            .arg(format!("--session-dir={}", session.display()));
        Self::of(&mut command)
    }

    fn of(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("machine");
        let mut line = String::new();
        let output = child.stdout.take().expect("output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert!(line.starts_with("ready"), "{line:?}");
        let pids = line.split_whitespace().skip(1);
        Self {
            pids: pids.map(|pid| pid.parse().expect("a pid")).collect(),
            input: child.stdin.take().expect("input"),
            child,
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the act continue with its next part.
    fn say_on(&mut self) {
        self.input.write_all(b"\n").expect("a line");
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    folder
}

/// Returns the events in the recording so far.
fn events(file: &Path) -> Vec<Observation> {
    let read = recording::read(file).map(|read| read.events);
    let events = read.unwrap_or_default().into_iter();
    events.map(|event| event.what).collect()
}

/// Returns the most MiB that a process has had in memory.
fn peak(pid: u32) -> u64 {
    peak_kib(pid).expect("a peak") / 1024
}

fn row<'a>(report: &'a Value, hook: &str) -> Option<&'a Value> {
    let rows = report["recordings"][0]["ledgers"].as_array();
    rows.into_iter().flatten().find(|row| row["hook"] == hook)
}

/// The environment is as long as the command line.
#[test]
fn long_command_line_takes_no_memory() {
    let _alone = stage();
    let bytes = 1u64 << 30;
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let session = "--session-dir=/tmp/session_long";
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let program = folder.path().join("raylet");
    symlink(env!("CARGO_BIN_EXE_machine"), &program).expect("a link");
    let long = [
        "long",
        &bytes.to_string(),
        "raylet",
        session,
        "--raylet_socket_name=/x/y",
    ];
    let act = Act::of(Command::new(program).args(long));
    for name in ["cmdline", "environ"] {
        let file = File::open(format!("/proc/{}/{name}", act.pid())).expect("a file");
        let all = std::io::copy(&mut file.take(2 * bytes), &mut std::io::sink());
        assert_eq!(all.expect("all of it"), bytes, "{name}");
    }
    let is_it = |what: &Observation| match what {
        Observation::Cluster(cluster) => cluster.raylet.pid.0 == act.pid(),
        _ => false,
    };
    wait::until("the raylet", || events(&file).iter().any(is_it));
    let found = events(&file).into_iter().find_map(|what| match what {
        Observation::Process(found) if found.process.pid.0 == act.pid() => Some(found.argv),
        _ => None,
    });
    let argv = found.expect("its command line");
    assert_eq!(
        argv.last().map(String::as_str),
        Some("--raylet_socket_name=/x/y")
    );
    let peak = peak(recorder.pid());
    eprintln!("a command line of 1 GiB: the recorder's peak is {peak} MiB");
    assert!(peak * MIB < bytes / 4, "{peak} MiB");
    recorder.stop().expect("a recording");
}

/// A shell script with which a wrapped command prints its own capabilities and descriptors.
const RIGHTS: &str = "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):' /proc/self/status >\"$1\"
    ls -l /proc/$$/fd >>\"$1\"";

/// It has neither a capability nor a descriptor of the recorder's.
#[test]
fn wrapped_command_gets_no_rights() {
    let _alone = stage();
    let folder = folder();
    chown(folder.path(), Some(USER), Some(USER)).expect("an owner");
    let (file, said) = (folder.path().join("a.raytrace"), folder.path().join("said"));
    let program = folder.path().join("raytrace");
    fs::copy(raytrace(), &program).expect("a copy");
    let five = "+bpf,+perfmon,+sys_ptrace,+dac_read_search,+syslog";
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    command.args(["--clear-groups", &format!("--inh-caps={five}")]);
    command.args([&format!("--ambient-caps={five}"), "--"]);
    command.arg(&program).args(["record", "-o"]).arg(&file);
    command.args(["--", "sh", "-c", RIGHTS, "sh"]).arg(&said);
    let output = command.output().expect("a run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert_eq!(
        report(&file).expect("a report")["recordings"][0]["mode"],
        "ebpf",
        "{text}"
    );
    let said = fs::read_to_string(&said).expect("its words");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(
            said.contains(&format!("{set}:\t0000000000000000")),
            "{said}"
        );
    }
    assert!(said.contains("NoNewPrivs:\t0"), "{said}");
    for kind in ["bpf", "kmsg", "anon_inode", "raytrace"] {
        let shown = said.lines().filter(|line| line.contains(" -> "));
        let mut targets = shown.filter_map(|line| line.rsplit_once(" -> "));
        assert!(
            !targets.any(|(_, target)| target.contains(kind)),
            "{kind}: {said}"
        );
    }
}

/// Once the recorder says that it records, its file can be read even if it is killed.
#[test]
fn kill_right_after_the_start_leaves_a_file() {
    let _alone = stage();
    for round in 0..10 {
        let folder = folder();
        let file = folder.path().join("a.raytrace");
        let mut recorder = Recorder::start(&file, &[]).expect("a recorder");
        recorder.signal(Signal::KILL).expect("a kill");
        recorder.wait(PATIENCE).expect("its end");
        let report = report(&file).unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        assert_eq!(report["recordings"][0]["clean_end"], false);
        let probes = report["recordings"][0]["probes"].as_array();
        assert!(
            probes.is_some_and(|probes| !probes.is_empty()),
            "round {round}"
        );
    }
}

/// Returns a time zone file (RFC 8536, version 1) of one zone without transitions, this many
/// seconds east.
fn zone(seconds: i32) -> Vec<u8> {
    let mut file = b"TZif\0".to_vec();
    file.extend([0; 15]);
    for count in [0u32, 0, 0, 0, 1, 4] {
        file.extend(count.to_be_bytes());
    }
    file.extend(seconds.to_be_bytes());
    file.extend([0, 0]);
    file.extend(b"XYZ\0");
    file
}

/// Starts a raylet with a root of its own. `make` makes its `/etc/localtime` and its cgroup files.
fn rooted(folder: &Path, name: &str, make: impl FnOnce(&Path)) -> Act {
    let root = folder.join(name);
    for inside in ["etc", "dev", "sys/fs/cgroup", "usr"] {
        fs::create_dir_all(root.join(inside)).expect("a folder");
    }
    make(&root);
    let (programs, session) = (folder.join(format!("{name}-bin")), folder.join("session_x"));
    fs::create_dir(&programs).expect("a folder");
    let root = root.to_str().expect("UTF-8");
    Act::of_raylet(&programs, &session, &["chroot", root])
}

/// They are read in that root, and endless files and FIFOs do not stop the recorder.
#[test]
fn files_in_a_containers_root_do_not_hang() {
    let _alone = stage();
    let folder = folder();
    let at = folder.path();
    let fifo = |path: PathBuf| {
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).expect("a FIFO");
    };
    let endless = rooted(at, "endless", |root| {
        let zero = rustix::fs::makedev(1, 5);
        let (mode, kind) = (Mode::RUSR, rustix::fs::FileType::CharacterDevice);
        let path = root.join("dev/zero");
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, zero).expect("a device");
        symlink("/dev/zero", root.join("etc/localtime")).expect("a link");
        let large = File::create(root.join("sys/fs/cgroup/memory.max")).expect("a file");
        large.set_len(1 << 40).expect("a length");
    });
    let waiting = rooted(at, "waiting", |root| {
        fifo(root.join("etc/localtime"));
        fifo(root.join("sys/fs/cgroup/memory.max"));
    });
    let linked = rooted(at, "linked", |root| {
        fs::write(root.join("usr/tokyo"), zone(9 * 3600)).expect("a zone");
        symlink("/usr/tokyo", root.join("etc/localtime")).expect("a link");
    });
    let file = at.join("a.raytrace");
    let stream = Stream::new(at).expect("a stream");
    let mut recorder =
        Recorder::start(&file, &stream.command().expect("a command")).expect("a recorder");
    let offset = |act: &Act| {
        let found = events(&file).into_iter().find_map(|what| match what {
            Observation::Cluster(found) if found.raylet.pid.0 == act.pid() => Some(found),
            _ => None,
        });
        found.map(|cluster| cluster.log_utc_offset_s)
    };
    wait::until("all raylets", || {
        [&endless, &waiting, &linked]
            .iter()
            .all(|act| offset(act).is_some())
    });
    assert_eq!(
        offset(&linked),
        Some(Some(9 * 3600)),
        "an absolute link, in its own root"
    );
    assert_eq!(offset(&endless), Some(Some(0)));
    assert_eq!(offset(&waiting), Some(Some(0)));
    let told = || stream.rows().is_ok_and(|rows| rows.len() > 20);
    wait::until("deaths go on", told);
    stream.stop().expect("an end");
    assert!(recorder.wait(PATIENCE).expect("its end").success());
    let report = report(&file).expect("a report");
    let missing = stream.missing(&report).expect("truth");
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// Runs `raytrace record` for a moment while the kernel refuses the programs of a hook.
fn refused(stem: &str, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_machine"))
        .args(["refuse", stem])
        .arg(raytrace())
        .args(["record", "--duration", "100ms", "-o"])
        .arg(file)
        .args(more)
        .output()
        .expect("a run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// The hook is one that proof rests on.
#[test]
fn refused_hook_means_procfs_mode() {
    let _alone = stage();
    let needed = [
        ("fork_", "sched/sched_process_fork"),
        ("exit_", "sched/sched_process_exit"),
        ("signal_generate", "signal/signal_generate"),
    ];
    let folder = folder();
    let file = |name: &str| folder.path().join(format!("{name}.raytrace"));
    for (stem, hook) in needed {
        let (code, said) = refused(stem, &file(stem), &["--require-ebpf"]);
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(hook), "{said}");
        assert!(!file(stem).exists(), "{stem}");
        let (code, said) = refused(stem, &file(stem), &[]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("mode procfs"), "{said}");
        let report = report(&file(stem)).expect("a report");
        let recording = &report["recordings"][0];
        assert_eq!(recording["mode"], "procfs", "{said}");
        assert_eq!(recording["probes"][0]["state"], "missing");
        let reason = recording["probes"][0]["reason"]
            .as_str()
            .unwrap_or_default();
        assert!(reason.contains(hook), "{reason}");
    }
    // A hook that only adds detail is reported as missing, and the mode stays eBPF.
    let (code, said) = refused("rename", &file("rename"), &["--require-ebpf"]);
    assert_eq!(code, Some(0), "{said}");
    let report = report(&file("rename")).expect("a report");
    assert_eq!(report["recordings"][0]["mode"], "ebpf");
    let probes = report["recordings"][0]["probes"]
        .as_array()
        .expect("probes");
    let rename = probes
        .iter()
        .find(|probe| probe["name"] == "task/task_rename");
    assert_eq!(rename.expect("its row")["state"], "missing");
}

/// Returns whether this program waits without end: it still exists after a moment, and is not
/// running.
fn hangs(child: &mut Child, name: &str) -> bool {
    thread::sleep(Duration::from_millis(200));
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let waits = [") D ", ") S "].iter().any(|state| stat.contains(state));
    waits && stat.contains(&format!("({name})")) && child.try_wait().expect("its state").is_none()
}

/// Runs a program again and again until one run hangs. All runs are added to `started`.
fn wait_until_it_hangs(name: &str, arguments: &[&str], started: &mut Vec<Child>) {
    wait::until(&format!("{name} {arguments:?} hangs"), || {
        let mut command = Command::new(name);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("a command");
        let hung = hangs(&mut child, name);
        started.push(child);
        hung
    });
}

/// Returns whether a recorder has this file in /proc open now, and so is reading it.
fn is_reading(recorder: u32, path: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{recorder}/fd")).expect("descriptors");
    let mut links = open
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| link == Path::new(path))
}

/// Returns how many helper threads of a recorder are busy.
fn stuck_helpers(recorder: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{recorder}/task")).expect("threads");
    let stuck = threads.flatten().filter(|thread| {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        read("comm").trim_end() == "helper" && !read("wchan").contains("futex")
    });
    stuck.count()
}

/// The processes of `machine hang`.
struct HungProcesses {
    roots: u32,
    driver: u32,
    raylet: u32,
    child: u32,
    /// Processes of further users.
    later: Vec<u32>,
}

impl HungProcesses {
    fn of(pids: &[u32]) -> Self {
        let [roots, driver, raylet, child, ref later @ ..] = pids[..] else {
            panic!("{pids:?}");
        };
        Self {
            roots,
            driver,
            raylet,
            child,
            later: later.to_vec(),
        }
    }

    /// Checks that plain reads of these processes hang, and those of another process do not.
    fn plain_reads_hang(&self, other: u32, started: &mut Vec<Child>) {
        let mut plain = Command::new("cat");
        let plain = plain.arg(of_proc(other, "cmdline"));
        let plain = plain.stdout(Stdio::null()).status();
        assert!(plain.expect("its end").success());
        for name in ["cmdline", "environ", "smaps_rollup", "pagemap"] {
            for pid in [self.roots, self.raylet, self.child] {
                wait_until_it_hangs("head", &["-c8", &of_proc(pid, name)], started);
            }
        }
        // Since Linux 6.17 this read does not need the lock any more.
        wait::until("maps are read or hang", || {
            let mut maps = Command::new("head");
            let maps = maps.args(["-c8", &of_proc(self.roots, "maps")]);
            let mut maps = maps.stdout(Stdio::null()).spawn().expect("a command");
            let hung = hangs(&mut maps, "head");
            let is_read = maps.try_wait().expect("its state").is_some();
            eprintln!("a plain read of maps hangs: {hung}");
            started.push(maps);
            hung || is_read
        });
        let descriptors = fs::read_dir(of_proc(self.driver, "fd")).expect("descriptors");
        let is_log = |path: &PathBuf| {
            let link = fs::read_link(path).unwrap_or_default();
            link.to_string_lossy().contains("python-core-driver")
        };
        let mut paths = descriptors.flatten().map(|entry| entry.path());
        let log = text(&paths.find(is_log).expect("its log"));
        wait_until_it_hangs("stat", &["-L", &log], started);
    }

    /// Waits until reads of a recorder hang, each in another way.
    fn reads_of(&self, recorder: u32) {
        let reads = |pid, name| is_reading(recorder, &of_proc(pid, name));
        wait::until("a command line", || reads(self.roots, "cmdline"));
        // These are read every 10 s and every minute, or later if many others are to be read.
        let child = || reads(self.child, "pagemap") || reads(self.child, "maps");
        wait::until_within(4 * PATIENCE, "pages", child);
        let raylet = || reads(self.raylet, "environ");
        wait::until_within(4 * PATIENCE, "an environment", raylet);
        wait::until("a descriptor", || stuck_helpers(recorder) == MOST_STUCK);
    }
}

fn of_proc(pid: u32, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

/// Returns how many deaths of the stream are in the file.
fn recorded_deaths(file: &Path) -> usize {
    let is_one =
        |what: &Observation| matches!(what, Observation::Exit(exit) if exit.status == Some(3 << 8));
    events(file).iter().filter(|what| is_one(what)).count()
}

/// Users besides the raylet's. Their processes hold their locks too.
const MORE_USERS: [&str; 3] = ["12346", "12346", "12347"];
/// The most reads that may hang at a time.
const MOST_STUCK: usize = 4;

#[test]
fn reads_that_hang_delay_no_death() {
    let _alone = stage();
    let folder = folder();
    let at = folder.path();
    let (mount, session) = (at.join("mount"), at.join("session_x"));
    fs::create_dir(&mount).expect("a folder");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let job = "ffffffffffffffffffffffffffffffffffffffffffffffff01000000";
    let log = |pid: &str| format!("python-core-driver-{job}_{pid}.log");
    let (mount, name, user) = (text(&mount), log("*"), USER.to_string());
    let other_session = text(&at.join("session_y"));
    let mut words = vec!["hang", &mount, &name, &other_session, &user];
    words.extend(MORE_USERS);
    let file = at.join("a.raytrace");
    let stream = Stream::new(at).expect("a stream");
    let mut recorder =
        Recorder::start(&file, &stream.command().expect("a command")).expect("a recorder");
    // This ends before the recorder, because no process can end while such a file system holds one
    // of its threads.
    let mut hang = Act::start(&words);
    let held = HungProcesses::of(&hang.pids);

    // Measure the usual latency first.
    let is_sample = |what: &Observation| match what {
        Observation::Memory(found) => found.process.pid.0 == held.child,
        _ => false,
    };
    wait::until("the raylet's child", || events(&file).iter().any(is_sample));
    wait::until("deaths", || recorded_deaths(&file) > 50);

    let usual_until = jiff::Timestamp::now();
    hang.say_on();
    let mut started = Vec::new();
    held.plain_reads_hang(hang.pid(), &mut started);
    let log = session.join("logs").join(log(&held.driver.to_string()));
    fs::write(log, "").expect("a log");
    // A new raylet makes the recorder read every command line again.
    let new = Act::of_raylet(at, &session, &["chroot", "/"]);
    held.reads_of(recorder.pid());

    // Further processes that hang must not cost more.
    hang.say_on();
    for pid in &held.later {
        wait_until_it_hangs("head", &["-c8", &of_proc(*pid, "cmdline")], &mut started);
    }
    let from = jiff::Timestamp::now();
    let before = recorded_deaths(&file);
    wait::until("deaths while reads hang", || {
        recorded_deaths(&file) > before + 50
    });
    assert_eq!(stuck_helpers(recorder.pid()), MOST_STUCK);
    let until = jiff::Timestamp::now();
    drop(hang);
    wait::until("helpers that come back", || {
        stuck_helpers(recorder.pid()) == 0
    });
    stream.stop().expect("an end");
    assert!(recorder.wait(PATIENCE).expect("its end").success());
    let lines = recorder.lines().to_vec();
    let report = report(&file).expect("a report");
    let missing = stream.missing(&report).expect("truth");
    assert!(missing.is_empty(), "missing: {missing:?}");
    // The reads that hung, and at least as many that were not begun.
    let left_out = row(&report, "reads that hang").expect("a row of the ledger");
    let missed = left_out["missed"].as_u64();
    assert!(missed >= Some(2 * MOST_STUCK as u64), "{left_out}");
    let usual = latencies(&lines, &report, jiff::Timestamp::MIN, usual_until);
    let late = latencies(&lines, &report, from, until);
    let median = |all: &[f64]| all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    eprintln!(
        "told after {:.0} ms (median of {}), while {MOST_STUCK} reads hung after {:.0} ms (of {}), {:.0} ms (last)",
        median(&usual),
        usual.len(),
        median(&late),
        late.len(),
        late.last().unwrap_or(&f64::NAN)
    );
    // A death that had to wait for a read would be at least 300 ms late.
    assert!(median(&late) < 10.0 * median(&usual) + 250.0);
    drop(new);
    for mut child in started {
        let _gone = child.kill();
        let _status = child.wait();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the milliseconds from each exit in a span of time to the moment when its line was read,
/// sorted.
fn latencies(
    lines: &[raytrace_tests::recorder::Line],
    report: &Value,
    from: jiff::Timestamp,
    until: jiff::Timestamp,
) -> Vec<f64> {
    let deaths = report["deaths"].as_array().expect("deaths");
    let exit = |pid: u64| deaths.iter().find(|death| death["pid"] == pid);
    let told = lines.iter().filter_map(|line| {
        let rest = line.text.split(" pid ").nth(1)?;
        let death = exit(rest.split_whitespace().next()?.parse().ok()?)?;
        let exited: jiff::Timestamp = death["exit_time"].as_str()?.parse().ok()?;
        let is_in = from <= exited && exited < until;
        is_in.then(|| (line.read_at - exited.as_nanosecond()) as f64 / 1e6)
    });
    let mut told: Vec<f64> = told.collect();
    told.sort_by(f64::total_cmp);
    told
}

/// Makes a fake session with a folder `logs`.
fn session(folder: &Path) -> PathBuf {
    let session = folder.join("session_x");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    session
}

/// What is left out is counted.
#[test]
fn many_files_and_raylets_are_bounded() {
    let _alone = stage();
    let (files, raylets) = if soak() {
        (200_000, 10_000)
    } else {
        (20_000, 300)
    };
    let folder = folder();
    let session = session(folder.path());
    for number in 0..files {
        let name = format!("python-core-driver-{}01000000_{number}.log", "f".repeat(48));
        File::create(session.join("logs").join(name)).expect("a log");
    }
    let own = Act::of_raylet(folder.path(), &session, &["chroot", "/"]);
    let file = folder.path().join("a.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let count =
        |counts: fn(&Observation) -> bool| events(&file).iter().filter(|what| counts(what)).count();
    let clusters = || count(|what| matches!(what, Observation::Cluster(_)));
    wait::until("the raylet", || clusters() > 0);
    let many = Act::of_raylet(folder.path(), &session, &["many", &raylets.to_string()]);
    wait::until("many raylets", || clusters() >= 128);
    let descriptors = || {
        let open = fs::read_dir(format!("/proc/{}/fd", recorder.pid()));
        open.expect("descriptors").count()
    };
    // The most log files of one cluster.
    wait::until("logs", || descriptors() > 256);
    let (open, peak) = (descriptors(), peak(recorder.pid()));
    eprintln!("{files} files, {raylets} raylets: {open} descriptors, {peak} MiB at the peak");
    assert!(open < 5000 && peak < 256, "{open} descriptors, {peak} MiB");
    let report = recorder.stop().expect("a recording").report;
    for hook in ["clusters", "drivers' logs of raylet "] {
        let rows = report["recordings"][0]["ledgers"].as_array();
        let mut rows = rows.into_iter().flatten();
        let found = rows.find(|row| {
            row["hook"]
                .as_str()
                .is_some_and(|name| name.starts_with(hook))
        });
        assert!(
            found.and_then(|row| row["missed"].as_u64()) > Some(0),
            "{hook}: {:?}",
            report["recordings"][0]["ledgers"]
        );
    }
    drop((own, many));
}

#[test]
fn user_option_records_no_other_users_cluster() {
    let _alone = stage();
    let folder = folder();
    let session = session(folder.path());
    let own = Act::of_raylet(folder.path(), &session, &["chroot", "/"]);
    let program = folder.path().join("raylet");
    let mut others = Command::new("setpriv");
    others.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    others
        .args(["--clear-groups", "--"])
        .arg(program)
        .args(["many", "0"]);
    others.args(["--raylet_socket_name=/x/sockets/raylet", "--session-dir=/x"]);
    let others = Act::of(&mut others);
    // A set-uid program acts for root, but belongs to the other user all the same.
    let set_uid = folder.path().join("set-uid");
    fs::create_dir(&set_uid).expect("a folder");
    let program = set_uid.join("raylet");
    fs::copy(env!("CARGO_BIN_EXE_machine"), &program).expect("a copy");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("a mode");
    let mut for_root = Command::new("setpriv");
    for_root.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
    for_root.args(["--clear-groups", "--"]).arg(program);
    for_root.args(["many", "0", "--raylet_socket_name=/y/sockets/raylet"]);
    let for_root = Act::of(&mut for_root);
    let owner = fs::metadata(format!("/proc/{}", for_root.pid())).expect("its folder");
    assert_eq!(owner.uid(), 0, "it acts for root");
    let found = |user: &str| {
        let file = folder.path().join(format!("{user}.raytrace"));
        let recorder = Recorder::start(&file, &["--user", user]).expect("a recorder");
        let report = recorder.stop().expect("a recording").report;
        let clusters = report["clusters"].as_array().expect("clusters").clone();
        let pids = clusters.iter().filter_map(|one| one["raylet_pid"].as_u64());
        pids.collect::<Vec<u64>>()
    };
    let [own, other, for_root] = [&own, &others, &for_root].map(|act| u64::from(act.pid()));
    let of_root = found("root");
    let foreign = |found: &[u64], pids: &[u64]| pids.iter().any(|pid| found.contains(pid));
    assert!(
        of_root.contains(&own) && !foreign(&of_root, &[other, for_root]),
        "{of_root:?}"
    );
    let of_user = found(&USER.to_string());
    assert!(
        of_user.contains(&other) && !foreign(&of_user, &[own, for_root]),
        "{of_user:?}"
    );
}

/// A shell script that mounts the cgroups of a new namespace, as in a container that sees the
/// machine's processes: `docker run --privileged --pid=host`.
const PRIVATE: &str = "umount -R /sys/fs/cgroup
    mkdir -p /sys/fs/cgroup
    if [ \"$1\" = v2 ]; then mount -t cgroup2 none /sys/fs/cgroup
    else mount -t tmpfs none /sys/fs/cgroup; mkdir /sys/fs/cgroup/memory; mount -t cgroup -o memory none /sys/fs/cgroup/memory; fi
    shift; exec \"$@\"";

/// Limits are those of the process, or are not known.
#[test]
fn limits_in_a_private_cgroup_namespace_are_right() {
    let _alone = stage();
    let memory = cgroup::memory();
    let theirs = memory.make("raytrace-theirs", 333 * MIB);
    let ours = memory.make("raytrace-ours", 777 * MIB);
    let folder = folder();
    let act = Act::of_raylet(folder.path(), &session(folder.path()), &["chroot", "/"]);
    fs::write(theirs.join("cgroup.procs"), act.pid().to_string()).expect("a member");
    let recorded = |rights: &[&str]| {
        let file = folder.path().join(format!("{}.raytrace", rights.len()));
        // The recorder joins its cgroup and makes that the root of what it sees.
        let join =
            "echo $$ >\"$1/cgroup.procs\"; shift; exec unshare --cgroup --mount sh -ec \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-ec", join, "sh"])
            .arg(&ours)
            .args([PRIVATE, "sh", memory.version]);
        command
            .args(rights)
            .arg(raytrace())
            .args(["record", "-o"])
            .arg(&file);
        let recorder = Recorder::run(command, &file).expect("a recorder");
        let limits = || -> Vec<(String, Option<u64>)> {
            let seen = events(&file).into_iter().filter_map(|what| match what {
                Observation::Cgroup(level) => {
                    Some((level.path, level.limit.map(|limit| limit.0 / MIB)))
                }
                _ => None,
            });
            seen.collect()
        };
        // Limits are read before the memory of processes is.
        let is_its = |what: &Observation| match what {
            Observation::Memory(found) => found.process.pid.0 == act.pid(),
            _ => false,
        };
        wait::until("a sample", || events(&file).iter().any(is_its));
        let processes = events(&file).into_iter().filter_map(|what| match what {
            Observation::Process(found) => found.cgroup,
            _ => None,
        });
        let paths: Vec<String> = processes.collect();
        let limits = limits();
        let report = recorder.stop().expect("a recording").report;
        assert!(!report.to_string().contains("/.."), "a path that leads out");
        assert!(!paths.iter().any(|path| path.contains("..")), "{paths:?}");
        assert!(
            !limits.iter().any(|(_, limit)| *limit == Some(777)),
            "its own: {limits:?}"
        );
        (limits, report)
    };
    if fs::read_link("/proc/1/ns/cgroup").is_ok() {
        let (limits, _) = recorded(&[]);
        let theirs =
            |(path, limit): &(String, Option<u64>)| *limit == Some(333) && path.contains("theirs");
        assert!(limits.iter().any(theirs), "{limits:?}");
    } else {
        raytrace_tests::skipped("the machine's init lets nobody enter its cgroup namespace here");
    }
    // The same without the right to enter the machine's namespace.
    let (limits, report) = recorded(&[
        "setpriv",
        "--bounding-set=-sys_admin",
        "--inh-caps=-sys_admin",
    ]);
    assert!(limits.is_empty(), "{limits:?}");
    let probes = report["recordings"][0]["probes"]
        .as_array()
        .expect("probes");
    let row = probes
        .iter()
        .find(|probe| probe["name"] == "cgroups")
        .expect("a row");
    assert_eq!(row["state"], "missing");
    drop(act);
    for cgroup in [theirs, ours] {
        wait::until("an empty cgroup", || fs::remove_dir(&cgroup).is_ok());
    }
}
