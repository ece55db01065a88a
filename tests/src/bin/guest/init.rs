//! Init of the virtual machine: mounts what the recorder reads, records the staging, and hands out what came of it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::{
    mount::{MountFlags, mount},
    system::{RebootCommand, reboot},
};

use raytrace_tests::exits::Feed;

const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Runs everything, then switches the machine off whatever came of it.
pub(crate) fn run() -> Result<()> {
    if let Err(error) = everything() {
        eprintln!("init: {error:#}");
    }
    rustix::fs::sync();
    Ok(reboot(RebootCommand::Restart)?)
}

fn everything() -> Result<()> {
    for (kind, folder) in MOUNTS {
        fs::create_dir_all(folder)?;
        mount(kind, folder, kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {folder}"))?;
    }
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
    // Allocations never fail: the OOM killer decides.
    fs::write("/proc/sys/vm/overcommit_memory", "1")?;
    let mut out = File::create("/dev/ttyS1").context("no second serial port")?;
    let log = File::create("/tmp/log")?;
    let feed = Feed::start()?;
    let status = Command::new("/raytrace")
        .args([
            "record",
            "-o",
            "/tmp/x.raytrace",
            "--",
            "/init",
            "stage",
            "/tmp/truth",
        ])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()
        .context("cannot start raytrace")?;
    section(&mut out, "status", status.to_string().as_bytes())?;
    section(&mut out, "log", &read("/tmp/log"))?;
    section(&mut out, "truth", &read("/tmp/truth"))?;
    section(&mut out, "taskstats", feed.text().as_bytes())?;
    let report = Command::new("/raytrace")
        .args(["report", "--format", "json", "/tmp/x.raytrace"])
        .output()?;
    section(&mut out, "report", &report.stdout)?;
    section(&mut out, "errors", &report.stderr)?;
    section(&mut out, "end", b"")
}

fn read(path: &str) -> Vec<u8> {
    fs::read(Path::new(path)).unwrap_or_default()
}

/// `=== NAME`, then the text.
fn section(out: &mut File, name: &str, text: &[u8]) -> Result<()> {
    out.write_all(format!("=== {name}\n").as_bytes())?;
    out.write_all(text)?;
    Ok(out.write_all(b"\n")?)
}
