//! Hostile cases that need a machine of their own.
//!
//! One is a process with a command line of 1 TiB. The other is a recorder in a cgroup namespace of
//! its own, with cgroup v2.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use raytrace::{event::Observation, recording};
use serde_json::{Value, json};

use crate::{
    init::section,
    stage::{Cgroup, until},
};

const TERABYTE: u64 = 1 << 40;
/// How much of the command line is read to show that it is there.
const SOME: u64 = 32 << 20;

/// Runs both cases. Each writes a section.
pub(crate) fn run(out: &mut File) -> Result<()> {
    fs::create_dir_all("/tmp/session_x/logs")?;
    symlink("/machine", "/raylet")?;
    let long = long()?;
    section(out, "long", long.to_string().as_bytes())?;
    let (theirs, ours) = (
        Cgroup::new("theirs", Some(333))?,
        Cgroup::new("ours", Some(222))?,
    );
    let raylet = raylet(&["chroot", "/"])?;
    theirs.set("cgroup.procs", &raylet.0.id().to_string())?;
    for rights in ["all", "few"] {
        let seen = from_a_namespace_of_its_own(rights, raylet.0.id())?;
        section(out, rights, seen.to_string().as_bytes())?;
    }
    drop(ours);
    Ok(())
}

/// A process that is killed when this is dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

impl KillOnDrop {
    /// Ends a recorder with SIGINT, as Ctrl-C does.
    fn interrupted(mut self) -> Result<()> {
        let pid = i32::try_from(self.0.id())?;
        // SAFETY: kill(2) takes two numbers.
        ensure!(unsafe { libc::kill(pid, libc::SIGINT) } == 0, "kill");
        let ended = self.0.wait()?;
        ensure!(ended.success(), "the recorder ended with {ended}");
        Ok(())
    }
}

/// Starts a process called `raylet` that runs an act of `machine`.
fn raylet(act: &[&str]) -> Result<KillOnDrop> {
    let mut child = Command::new("/raylet")
        .args(act)
        .args(["--raylet_socket_name=/tmp/session_x/sockets/raylet"])
        .args(["--session-dir=/tmp/session_x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().context("no output")?;
    let running = KillOnDrop(child);
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.starts_with("ready"), "the raylet says {line:?}");
    Ok(running)
}

/// Starts a recorder by these words, and returns once it records.
fn recorder(words: &[&str], file: &str) -> Result<KillOnDrop> {
    let log = format!("{file}.log");
    let child = Command::new(words[0])
        .args(&words[1..])
        .args(["record", "-o", file])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .spawn()?;
    let running = KillOnDrop(child);
    let begun = until("a recorder", || said(file).contains("Recording to"));
    begun.with_context(|| said(file))?;
    Ok(running)
}

fn said(file: &str) -> String {
    fs::read_to_string(format!("{file}.log")).unwrap_or_default()
}

/// Returns the events in the recording so far.
fn events(file: &str) -> Vec<Observation> {
    let read = recording::read(Path::new(file)).map(|read| read.events);
    let events = read.unwrap_or_default().into_iter();
    events.map(|event| event.what).collect()
}

fn long() -> Result<Value> {
    let file = "/tmp/long.raytrace";
    let recorder = recorder(&["/raytrace"], file)?;
    let bytes = TERABYTE.to_string();
    let act = ["long", &bytes, "raylet", "--session-dir=/tmp/session_x"];
    let raylet = raylet(
        &[
            &act[..],
            &["--raylet_socket_name=/tmp/session_x/sockets/raylet"],
        ]
        .concat(),
    )?;
    let pid = raylet.0.id();
    let mut some = Vec::new();
    for name in ["cmdline", "environ"] {
        let length = File::open(format!("/proc/{pid}/{name}"))?;
        let read = std::io::copy(&mut length.take(SOME), &mut std::io::sink())?;
        some.push(read);
    }
    let is_it = |what: &Observation| match what {
        Observation::Cluster(cluster) => cluster.raylet.pid.0 == pid,
        _ => false,
    };
    until("the raylet of 1 TiB", || events(file).iter().any(is_it))?;
    let status = fs::read_to_string(format!("/proc/{}/status", recorder.0.id()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next());
    let peak: u64 = peak.context("no VmHWM")?.parse()?;
    recorder.interrupted()?;
    Ok(json!({"read": some, "peak_kib": peak}))
}

/// Returns what a recorder sees of limits if its own cgroup is the root of its namespace and it
/// sees all processes.
fn from_a_namespace_of_its_own(rights: &str, raylet: u32) -> Result<Value> {
    let file = &format!("/tmp/{rights}.raytrace");
    let words = [
        "/machine",
        "private",
        "/sys/fs/cgroup/ours",
        rights,
        "/raytrace",
    ];
    let recorder = recorder(&words, file)?;
    // Limits are read before the memory of processes is.
    let is_its = |what: &Observation| match what {
        Observation::Memory(found) => found.process.pid.0 == raylet,
        _ => false,
    };
    until("a sample", || events(file).iter().any(is_its))?;
    recorder.interrupted()?;
    let (mut limits, mut paths, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for what in events(file) {
        match what {
            Observation::Cgroup(level) => {
                let mib = level.limit.map(|limit| limit.0 >> 20);
                limits.push(json!([level.path, mib]));
            }
            Observation::Process(found) => paths.extend(found.cgroup),
            Observation::Probe(probe) if probe.name == "cgroups" => missing.extend(probe.reason),
            _ => {}
        }
    }
    Ok(json!({"limits": limits, "paths": paths, "missing": missing, "said": said(file)}))
}
