//! The packages of `cargo xtask dist` are installed and run.
//!
//! The wheel is installed into a fresh environment, and the deb into a clean root file system. The
//! image runs in an OCI runtime with the capabilities and mounts of the `DaemonSet`.
//! `cargo xtask test` packs the program under test first. The packages are in `target/packed`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use raytrace::{event::Observation, recording};
use raytrace_tests::{
    cgroup,
    fake_raylet::{FakeRaylet, worker_started_line},
    recorder::report,
    skipped, soak, staging,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(90);
/// A user that no process has.
const USER: u32 = 12_345;

/// Returns the package whose name ends like this.
fn packed(end: &str) -> PathBuf {
    let folder = std::env::var_os("RAYTRACE_PACKED");
    let folder = folder.map_or_else(|| staging::target().join("packed"), PathBuf::from);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; cargo xtask test packs it", folder.display()));
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {}", folder.display()))
}

/// Runs a command, checks that it succeeds, and returns its output.
fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&stderr);
    assert!(
        status.success(),
        "{command:?} ended with {status}: {errors}"
    );
    String::from_utf8_lossy(&stdout).into_owned()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn recording_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|end| end == "raytrace"))
}

/// It records as root, and as a user without privileges.
#[test]
fn wheel_installs_and_records() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let venv = folder.path().join("venv");
    run(Command::new(staging::ray("2.60.0").join("bin/python"))
        .args(["-m", "venv"])
        .arg(&venv));
    run(Command::new(venv.join("bin/pip"))
        .args(["install", "--no-index", "--disable-pip-version-check"])
        .arg(packed(".whl")));
    let program = venv.join("bin/raytrace");
    let own = folder.path().join("own");
    fs::create_dir(&own).expect("a folder");
    chown(&own, Some(USER), Some(USER)).expect("an owner");
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={USER}"), format!("--regid={USER}")])
            .args(["--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
            .arg(&program)
            .args(arguments)
            .env("HOME", &own)
            .current_dir(&own)
            .stdin(Stdio::null());
        command
    };
    let log = own.join("job.log");
    fs::write(
        &log,
        "(raylet) Worker unexpectedly exits with a connection error code 2. End of file.\n",
    )
    .expect("a log");
    run(&mut as_user(&["explain", "job.log"]));
    let doctor = as_user(&["doctor"]).output().expect("doctor");
    // Exit code 9: without privilege there is something to change.
    assert!(matches!(doctor.status.code(), Some(0 | 9)), "{doctor:?}");
    let status = as_user(&[
        "record",
        "-o",
        "x.raytrace",
        "--",
        "sh",
        "-c",
        "sh -c 'sleep 2; kill -9 $$'; exit 3",
    ])
    .status()
    .expect("record");
    assert_eq!(status.code(), Some(3));
    let report = report(&own.join("x.raytrace")).expect("a report");
    assert_eq!(report["recordings"][0]["mode"], "procfs");
    let deaths = report["deaths"].as_array().expect("deaths");
    assert!(
        deaths.iter().any(|death| death["signal"] == 9),
        "{deaths:#?}"
    );
    proves_a_kill_as_root(&program, folder.path());
}

/// Runs the check of the installation in `docs/usage/install.md` from the fresh environment.
fn proves_a_kill_as_root(program: &Path, folder: &Path) {
    let file = folder.join("kill.raytrace");
    run(Command::new(program)
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "sh -c \"kill -9 \\$\\$\"; true"]));
    let report = report(&file).expect("a report");
    let deaths = report["deaths"].as_array().expect("deaths");
    let killed = deaths.iter().find(|death| death["signal"] == 9);
    assert_eq!(killed.expect("a kill")["verdict"]["certainty"], "proven");
}

/// A recorder in a container like the `DaemonSet`'s, possibly without one of its rights.
struct Container {
    name: &'static str,
    id: String,
    recordings: PathBuf,
    child: Child,
}

impl Container {
    fn start(folder: &Path, name: &'static str, without: &[&str]) -> Self {
        let own = folder.join(name);
        let (bundle, recordings) = (own.join("bundle"), own.join("recordings"));
        fs::create_dir_all(&recordings).expect("a folder");
        let mut python = Command::new(staging::target().join("packaging/bin/python"));
        python
            .arg(staging::root().join("tests/staging/oci.py"))
            .arg("--image")
            .arg(packed(".oci.tar"))
            .arg("--manifest")
            .arg(staging::root().join("deploy/kubernetes/daemonset.yaml"))
            .args(["--container", "record", "--bundle"])
            .arg(&bundle)
            .arg("--host")
            .arg(format!("/var/lib/raytrace={}", recordings.display()))
            .args(without);
        run(&mut python);
        let id = format!("raytrace-{}-{name}", std::process::id());
        let log = fs::File::create(own.join("log")).expect("a log");
        let child = Command::new("runc")
            .args(["run", "--bundle"])
            .arg(&bundle)
            .arg(&id)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("runc");
        let log = own.join("log");
        until("a recorder", || {
            let text = fs::read_to_string(&log).ok()?;
            text.contains("Recording to").then_some(())
        });
        Self {
            name,
            id,
            recordings,
            child,
        }
    }

    /// Waits until the container's recording holds such an event.
    fn waits_for(&self, what: &str, is_it: impl Fn(&Observation) -> bool) {
        until(&format!("{}: {what}", self.name), || {
            let read = recording::read(&recording_in(&self.recordings)?).ok()?;
            read.events
                .iter()
                .any(|event| is_it(&event.what))
                .then_some(())
        });
    }

    /// Ends the container as the kubelet does, and reads its recording.
    fn finish(mut self) -> Value {
        run(Command::new("runc").args(["kill", &self.id, "TERM"]));
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{}: {status}", self.name);
        let file = recording_in(&self.recordings).expect("a recording");
        report(&file).expect("a report")
    }
}

/// A memory cgroup of 16 MiB.
struct Small(PathBuf);

impl Small {
    fn new() -> Self {
        Self(cgroup::memory().make("raytrace-packages", 16 << 20))
    }

    fn name(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        format!("/{}", name.to_string_lossy())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _removed = fs::remove_dir(&self.0);
    }
}

/// What a recorder says about the process that died in the small cgroup.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    proven: bool,
    /// Ray's log was read.
    worker: bool,
    /// The raylet's environment was read.
    environment: bool,
    /// What was charged is known.
    charging: bool,
    /// The cgroup's use was sampled.
    limit: bool,
}

fn said(report: &Value, pid: u32, cgroup: &str) -> Said {
    let deaths = report["deaths"].as_array().expect("deaths");
    let death = deaths.iter().find(|death| death["pid"] == pid);
    let death = death.unwrap_or(&Value::Null);
    let verdict = &death["verdict"];
    let settings = report["settings"].as_array().expect("settings");
    let limits = report["limits"].as_array().expect("limits");
    Said {
        proven: verdict["killer"] == "kernel-oom-memcg" && verdict["certainty"] == "proven",
        worker: death["worker_id"].is_string(),
        environment: settings.iter().any(|setting| setting["value"] == "0.625"),
        charging: death["oom"]["charging"].is_string(),
        limit: limits.iter().any(|limit| limit["cgroup"] == cgroup),
    }
}

/// With all of them a kill is proven.
#[test]
fn image_needs_each_right_of_the_daemon_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = folder.path().join("session_2026-11-23_00-00-00_000000_1");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let small = Small::new();
    let procs = small.0.join("cgroup.procs");
    // The child waits until all recorders have sampled it, and then eats memory.
    let go = folder.path().join("go");
    let shell = format!(
        "(exec sh -c 'echo $$ > {}; while [ ! -e {} ]; do sleep 0.2; done; exec tail /dev/zero') & echo $! > {}; while :; do sleep 1; done",
        procs.display(),
        go.display(),
        folder.path().join("child").display()
    );
    let _raylet = FakeRaylet::start_with_script(folder.path(), &session, &shell).expect("a script");
    let child: u32 = until("a child", || {
        fs::read_to_string(folder.path().join("child"))
            .ok()?
            .trim()
            .parse()
            .ok()
    });
    let log = session.join("logs/raylet.out");
    fs::write(&log, worker_started_line(child, &"ab".repeat(28)) + "\n").expect("a log");
    // Ray's logs belong to another user.
    for path in [&log, &session.join("logs"), &session] {
        chown(path, Some(USER), Some(USER)).expect("an owner");
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let unit = staging::root().join("deploy/systemd/raytrace.service");
    let unit = unit.to_string_lossy();
    let variants: [(&'static str, &[&str]); 8] = [
        ("all", &[]),
        // The systemd unit allows fewer system calls, and they are enough.
        ("unit", &["--filter-of", &unit]),
        ("bpf", &["--without", "BPF"]),
        ("perfmon", &["--without", "PERFMON"]),
        ("ptrace", &["--without", "SYS_PTRACE"]),
        ("dac", &["--without", "DAC_READ_SEARCH"]),
        ("syslog", &["--without", "SYSLOG"]),
        ("cgroup", &["--without-mount", "/sys/fs/cgroup"]),
    ];
    let containers = variants.map(|(name, without)| Container::start(folder.path(), name, without));
    // The recorder reads the use of a process's cgroup before it samples the process.
    let is_sample = |what: &Observation| matches!(what, Observation::Memory(found) if found.process.pid.0 == child);
    for container in &containers {
        container.waits_for("a sample", is_sample);
    }
    fs::write(&go, "").expect("a file");
    let is_end = |what: &Observation| matches!(what, Observation::Exit(found) if found.process.pid.0 == child);
    for container in &containers {
        container.waits_for("the kill", is_end);
    }
    let mut wrong = Vec::new();
    for container in containers {
        let name = container.name;
        let report = container.finish();
        assert_eq!(report["recordings"][0]["host"]["name"], "node-7");
        let said = said(&report, child, &small.name());
        println!("{name}: {said:?}");
        let expected = match name {
            "all" | "unit" => {
                said.proven && said.worker && said.environment && said.charging && said.limit
            }
            "bpf" | "perfmon" | "syslog" => !said.proven && !said.charging,
            // Ray's session folder cannot be reached or read.
            "ptrace" | "dac" => said.proven && !said.worker,
            "cgroup" => said.proven && !said.limit,
            _ => false,
        };
        if !expected {
            wrong.push(format!("{name}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn manifests_are_valid_kubernetes() {
    for folder in ["deploy/kubernetes", "deploy/kubernetes-events"] {
        let said = run(Command::new(staging::target().join("packaging/bin/python"))
            .arg(staging::root().join("tests/staging/manifests.py"))
            .arg(staging::root().join(folder)));
        println!("{folder}: {said}");
        assert_eq!(said.contains("--k8s-events"), folder.ends_with("events"));
    }
}

#[test]
fn units_are_valid_systemd() {
    for unit in ["raytrace.service", "raytrace-publish.service"] {
        // The program and its man pages are not installed here, so another program stands in for
        // it.
        let text =
            fs::read_to_string(staging::root().join("deploy/systemd").join(unit)).expect("a unit");
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("Documentation="));
        let text: Vec<String> = lines
            .map(|line| line.replace("/usr/bin/raytrace", "/bin/true"))
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(unit);
        fs::write(&file, text.join("\n")).expect("a unit");
        let said = Command::new("systemd-analyze")
            .arg("verify")
            .arg(&file)
            .output()
            .expect("systemd-analyze");
        let about: Vec<String> = String::from_utf8_lossy(&said.stderr)
            .lines()
            .filter(|line| line.contains("raytrace"))
            .map(str::to_owned)
            .collect();
        assert_eq!(about, Vec::<String>::new());
        let security = run(Command::new("systemd-analyze")
            .args(["security", "--offline=yes"])
            .arg(&file));
        println!("{}", security.lines().last().unwrap_or_default());
    }
}

/// Makes a minimal Debian root file system.
fn clean_root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    run(Command::new("debootstrap")
        .args(["--variant=minbase", "bookworm"])
        .arg(&root));
    for (name, kind) in [("proc", "proc"), ("sys", "sysfs")] {
        run(Command::new("mount")
            .args(["--types", kind, kind])
            .arg(root.join(name)));
    }
    root
}

#[test]
fn deb_installs_upgrades_and_purges() {
    if !soak() {
        skipped("only in cargo xtask soak");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = clean_root(folder.path());
    let deb = packed(".deb");
    fs::copy(&deb, root.join("raytrace.deb")).expect("a package");
    let inside = |command: &str| {
        let done = Command::new("chroot")
            .arg(&root)
            .args(["sh", "-c", command])
            .output()
            .expect("chroot");
        assert!(
            done.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    inside("dpkg --install /raytrace.deb");
    inside(
        "getent group raytrace && test -d /var/lib/raytrace && test -e /usr/lib/systemd/system/raytrace.service",
    );
    inside("cd /root && raytrace record -o x.raytrace -- sh -c \"sh -c 'kill -9 \\$\\$'; true\"");
    let said = report(&root.join("root/x.raytrace")).expect("a report");
    let deaths = said["deaths"].as_array().expect("deaths");
    let killed = deaths
        .iter()
        .find(|death| death["signal"] == 9)
        .expect("a kill");
    assert_eq!(killed["verdict"]["certainty"], "proven");
    // An upgrade keeps the recordings.
    inside(
        "touch /var/lib/raytrace/kept.raytrace && mkdir /new && dpkg-deb --raw-extract /raytrace.deb /new \
        && sed --in-place 's/^Version: .*/Version: 99.0/' /new/DEBIAN/control && dpkg-deb --build /new /new.deb && dpkg --install /new.deb",
    );
    inside(
        "test -e /var/lib/raytrace/kept.raytrace && dpkg --status raytrace | grep --quiet '^Version: 99.0'",
    );
    inside(
        "dpkg --remove raytrace && test -e /var/lib/raytrace/kept.raytrace && ! test -e /usr/bin/raytrace",
    );
    inside("dpkg --purge raytrace && ! test -e /var/lib/raytrace && ! getent group raytrace");
    for name in ["proc", "sys"] {
        run(Command::new("umount").arg(root.join(name)));
    }
}
