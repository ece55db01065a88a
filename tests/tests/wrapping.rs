//! `raytrace record -- COMMAND`: signals, stops and the end of COMMAND are those of COMMAND alone.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::{
        fd::{FromRawFd as _, OwnedFd},
        unix::{
            fs::PermissionsExt as _,
            process::{CommandExt as _, ExitStatusExt as _},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use raytrace_tests::recorder::{raytrace, report, without_privilege};

const PATIENCE: Duration = Duration::from_secs(60);
/// A user who is not root.
const USER: u32 = 65_534;
/// The signal that marks the end of an act. No act sends it with this value.
const LAST: (i32, i32) = (64, 4711);

/// How the recorder is run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Alone,
    Root,
    Procfs,
    Sudo,
}

/// `machine signals`, alone or wrapped.
struct Counted {
    child: Child,
    log: PathBuf,
    /// The process that writes the log.
    command: i32,
    read: usize,
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    folder
}

/// Waits until a condition holds.
fn wait_for<T>(what: &str, mut is_there: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = is_there() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a command that records a program, in a way.
fn record(way: Way, file: &Path, program: &[&str]) -> Command {
    let file = file.to_str().expect("text");
    let arguments = [&["record", "-o", file, "--"], program].concat();
    let mut command = match way {
        Way::Alone => {
            let mut command = Command::new(program[0]);
            command.args(&program[1..]);
            return command;
        }
        Way::Procfs => without_privilege(&raytrace(), &arguments),
        Way::Root | Way::Sudo => {
            let mut command = Command::new(raytrace());
            command.args(arguments);
            command
        }
    };
    if way == Way::Sudo {
        let user = USER.to_string();
        command.env("SUDO_UID", &user).env("SUDO_GID", &user);
    }
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

impl Counted {
    fn start(way: Way, folder: &Path) -> Self {
        let program = folder.join("machine");
        if !program.exists() {
            fs::copy(env!("CARGO_BIN_EXE_machine"), &program).expect("a copy");
        }
        let place = folder.join(format!("{way:?}"));
        fs::create_dir(&place).expect("a folder");
        // Root without capabilities and the user write there.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("its mode");
        let log = place.join("log");
        let words = [program.to_str(), Some("signals"), log.to_str()];
        let words = words.map(|word| word.expect("text"));
        let mut command = record(way, &place.join("a.raytrace"), &words);
        let child = command.process_group(0).spawn().expect("a start");
        let command = wait_for("its first line", || {
            let text = fs::read_to_string(&log).ok()?;
            text.lines().next()?.strip_prefix("ready ")?.parse().ok()
        });
        Self {
            child,
            log,
            command,
            read: 1,
        }
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Returns what has come since the last call, sorted, once all of it has come: the number and
    /// the value of each signal.
    fn taken(&mut self) -> Vec<(i32, i32)> {
        queue(self.pid(), LAST);
        let (pid, log, read) = (std::process::id().to_string(), self.log.clone(), self.read);
        let lines = wait_for("the last signal", || {
            let text = fs::read_to_string(&log).ok()?;
            let lines: Vec<(i32, i32)> = text.lines().skip(read).filter_map(line).collect();
            lines
                .contains(&LAST)
                .then_some((text.lines().count(), lines))
        });
        let text = fs::read_to_string(&self.log).expect("the log");
        let senders = text.lines().skip(read).map(|line| line.split(' ').nth(2));
        // pkill and the like send some of them.
        assert!(senders.flatten().any(|sender| sender == pid), "{text}");
        self.read = lines.0;
        let mut taken = lines.1;
        taken.retain(|signal| *signal != LAST);
        taken.sort_unstable();
        taken
    }
}

fn line(line: &str) -> Option<(i32, i32)> {
    let mut words = line.split(' ');
    Some((words.next()?.parse().ok()?, words.nth(2)?.parse().ok()?))
}

/// Sends a signal with a value.
fn queue(pid: i32, (signal, value): (i32, i32)) {
    let value = libc::sigval {
        sival_ptr: std::ptr::with_exposed_provenance_mut(value.unsigned_abs() as usize),
    };
    // SAFETY: sigqueue(3) takes numbers and a value that nobody follows.
    let sent = unsafe { libc::sigqueue(pid, signal, value) };
    assert_eq!(sent, 0, "{signal}");
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: kill(2) takes two numbers.
    let sent = unsafe { libc::kill(pid, signal) };
    assert_eq!(sent, 0, "{signal} to {pid}");
}

/// All signals that can be caught. Those that stop remove one that continues, if that waits, and
/// the other way round, so they are sent in turns.
fn turns() -> [Vec<i32>; 2] {
    let all = (1..=64).filter(|signal| ![6, 9, 19].contains(signal));
    all.partition::<Vec<i32>, _>(|signal| *signal != libc::SIGCONT)
        .into()
}

/// The processes of a group.
fn members(group: i32) -> Vec<i32> {
    let listed = Command::new("pgrep")
        .args(["-g", &group.to_string()])
        .output();
    let listed = String::from_utf8(listed.expect("pgrep").stdout).expect("text");
    listed.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// Sends signals in several ways, and returns what came of each act.
fn acts(counted: &mut Counted) -> Vec<(String, Vec<(i32, i32)>)> {
    let mut found = Vec::new();
    for turn in turns() {
        let signals = || turn.iter().copied();
        signals().for_each(|signal| kill(counted.pid(), signal));
        found.push((format!("kill PID {turn:?}"), counted.taken()));
        signals().for_each(|signal| kill(-counted.pid(), signal));
        found.push((format!("kill -PGID {turn:?}"), counted.taken()));
        signals().for_each(|signal| queue(counted.pid(), (signal, signal * 3)));
        found.push((format!("sigqueue {turn:?}"), counted.taken()));
        // As slurmstepd does with proctrack/linuxproc.
        for signal in signals().filter(|signal| [1, 10, 12, 15, 18, 40].contains(signal)) {
            for pid in members(counted.pid()) {
                kill(pid, signal);
            }
        }
        found.push((format!("to each process {turn:?}"), counted.taken()));
    }
    for value in 0..5 {
        queue(counted.pid(), (34, value));
    }
    found.push(("five of a real-time signal".into(), counted.taken()));
    kill(counted.command, libc::SIGUSR1);
    found.push(("to the command itself".into(), counted.taken()));
    let log = counted.log.display().to_string();
    let status = Command::new("pkill").args(["-USR1", "-f", &log]).status();
    assert!(status.expect("pkill").success());
    found.push(("pkill -f".into(), counted.taken()));
    found
}

/// It gets each signal as often as without raytrace: once.
#[test]
fn each_signal_reaches_the_command_once() {
    let folder = folder();
    let mut alone = Counted::start(Way::Alone, folder.path());
    let expected = acts(&mut alone);
    assert_eq!(expected[0].1.len(), 60, "{:?}", expected[0]);
    kill(alone.pid(), libc::SIGABRT);
    let status = alone.child.wait().expect("its end");
    for way in [Way::Root, Way::Procfs, Way::Sudo] {
        let mut wrapped = Counted::start(way, folder.path());
        for (expected, found) in expected.iter().zip(acts(&mut wrapped)) {
            assert_eq!(*expected, found, "{way:?}");
        }
        kill(wrapped.pid(), libc::SIGABRT);
        assert_eq!(wrapped.child.wait().expect("its end"), status, "{way:?}");
    }
}

/// The recorder's caller cannot tell it from the command.
#[test]
fn end_is_the_commands_own() {
    let folder = folder();
    for script in ["exit 7", "kill -9 $$", "kill -TERM $$", "kill -USR1 $$"] {
        for way in [Way::Root, Way::Procfs] {
            let file = folder.path().join("a.raytrace");
            let run = |way| {
                record(way, &file, &["sh", "-c", script])
                    .status()
                    .expect("a run")
            };
            assert_eq!(run(way), run(Way::Alone), "{way:?} {script}");
            report(&file).expect("a report");
            fs::remove_file(&file).expect("the recording");
        }
    }
}

/// The command goes on if the recorder is killed, and still gets its signals.
#[test]
fn end_of_the_recorder_is_not_the_commands() {
    let folder = folder();
    let mut wrapped = Counted::start(Way::Root, folder.path());
    let (pid, command) = (wrapped.pid(), wrapped.command);
    let of_raytrace = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.trim() == "raytrace"
    };
    let recorder = members(pid)
        .into_iter()
        .filter(of_raytrace)
        .find(|it| *it != pid);
    kill(recorder.expect("a recorder"), libc::SIGKILL);
    kill(pid, libc::SIGUSR2);
    assert_eq!(wrapped.taken(), [(libc::SIGUSR2, 0)]);
    kill(command, libc::SIGABRT);
    let status = wrapped.child.wait().expect("its end");
    assert!(status.success(), "{status}");
}

/// raytrace does not appear as the one who ended it.
#[test]
fn verdict_names_the_first_sender() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let ready = folder.path().join("ready");
    let script = format!(": >{}; exec sleep 60", ready.display());
    let mut command = record(Way::Root, &file, &["sh", "-c", &script]);
    let mut child = command.spawn().expect("a start");
    wait_for("the command", || ready.exists().then_some(()));
    kill(child.id().cast_signed(), libc::SIGTERM);
    let status = child.wait().expect("its end");
    assert_eq!(status.signal(), Some(libc::SIGTERM));
    let report = report(&file).expect("a report");
    // Other tests' processes may die at the same time.
    let mut deaths = report["deaths"].as_array().expect("deaths").iter();
    let death = deaths.find(|death| death["comm"] == "sleep" && death["signal"] == libc::SIGTERM);
    let death = death.expect("the command's death");
    assert_eq!(death["verdict"]["certainty"], "proven", "{death:#}");
    assert_eq!(death["sender"]["pid"], std::process::id(), "{death:#}");
    assert_eq!(death["sender"]["mechanism"], "kill", "{death:#}");
}

/// A shell with job control on a terminal of its own.
struct Terminal {
    shell: Child,
    keys: fs::File,
    screen: Receiver<String>,
    seen: String,
}

impl Terminal {
    fn run(script: &str) -> Self {
        let (mut ours, mut its) = (-1, -1);
        let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: openpty(3) writes two numbers, and accepts null for the rest.
        let made = unsafe { libc::openpty(&raw mut ours, &raw mut its, name, modes, size) };
        assert_eq!(made, 0);
        // SAFETY: these descriptors have just been made, and nothing else has them.
        let (ours, its) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(its)) };
        let mut command = Command::new("bash");
        command.args(["-c", &format!("set -m\n{script}")]);
        let copy = || its.try_clone().expect("a copy");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let lead = || {
            // SAFETY: both calls take numbers. The terminal is the standard input.
            let done = unsafe { libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 };
            done.then_some(()).ok_or_else(std::io::Error::last_os_error)
        };
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(lead) };
        let shell = command.spawn().expect("a shell");
        let mut screen = fs::File::from(ours.try_clone().expect("a copy"));
        let (lines, receiver) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                let _over = lines.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
            }
        });
        Self {
            shell,
            keys: ours.into(),
            screen: receiver,
            seen: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a key");
    }

    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let more = self.screen.recv_timeout(PATIENCE);
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {}", self.seen));
            self.seen.push_str(&more);
        }
    }
}

/// Ctrl-C, Ctrl-\\ and Ctrl-Z come from the terminal alone, and not from the supervisor again.
#[test]
fn terminal_signals_reach_the_command_once() {
    let folder = folder();
    let (file, log) = (folder.path().join("a.raytrace"), folder.path().join("log"));
    let mut terminal = Terminal::run(&format!(
        "{} record -o {} -- {} signals {}; echo over $?",
        raytrace().display(),
        file.display(),
        env!("CARGO_BIN_EXE_machine"),
        log.display()
    ));
    let command: i32 = wait_for("its first line", || {
        let text = fs::read_to_string(&log).ok()?;
        text.lines().next()?.strip_prefix("ready ")?.parse().ok()
    });
    terminal.press("\x03\x1c\x1a");
    // SAFETY: getpgid(2) takes a number.
    let supervisor = unsafe { libc::getpgid(command) };
    // The supervisor decides in order: when this one is handed on, the others are decided.
    queue(supervisor, LAST);
    let numbers = wait_for("the last signal", || {
        let text = fs::read_to_string(&log).ok()?;
        let lines: Vec<(i32, i32)> = text.lines().skip(1).filter_map(line).collect();
        lines.contains(&LAST).then_some(lines)
    });
    let mut numbers: Vec<i32> = numbers.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    // The terminal may change the size of its window at any time.
    numbers.retain(|number| *number != libc::SIGWINCH);
    assert_eq!(numbers, [2, 3, 20, 64]);
    kill(supervisor, libc::SIGABRT);
    terminal.wait_for("over 0");
    assert!(terminal.shell.wait().expect("its end").success());
}

/// The shell sees its job stop, and `fg` continues it.
#[test]
fn stopped_command_stops_the_job() {
    let folder = folder();
    let file = folder.path().join("a.raytrace");
    let command = format!(
        "{} record -o {} -- cat",
        raytrace().display(),
        file.display()
    );
    let mut terminal = Terminal::run(&format!("{command}; echo stopped $?; fg; echo over $?"));
    terminal.wait_for("Ends with the command.\r\n");
    terminal.press("one\n");
    // The terminal shows what is typed, and `cat` repeats it.
    terminal.wait_for("one\r\none\r\n");
    terminal.press("\x1a");
    // `fg` prints the command. What is typed before that stands above it.
    terminal.wait_for(&format!("stopped 148\r\n{command}\r\n"));
    terminal.press("two\n");
    terminal.wait_for("two\r\ntwo\r\n");
    terminal.press("\x04");
    terminal.wait_for("over 0");
    assert!(terminal.shell.wait().expect("its end").success());
}
