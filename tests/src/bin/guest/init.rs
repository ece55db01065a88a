//! Init of the virtual machine: mounts what the recorder reads, runs an act, writes its result.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use flate2::{Compression, write::GzEncoder};
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

/// Runs `act`, which writes to the second serial port, and then switches the machine off.
pub(crate) fn run(act: fn(&mut File) -> Result<()>) -> Result<()> {
    if let Err(error) = everything(act) {
        eprintln!("init: {error:#}");
    }
    rustix::fs::sync();
    Ok(reboot(RebootCommand::Restart)?)
}

fn everything(act: fn(&mut File) -> Result<()>) -> Result<()> {
    for (kind, folder) in MOUNTS {
        fs::create_dir_all(folder)?;
        mount(kind, folder, kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {folder}"))?;
    }
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
    // Allocations never fail, so the OOM killer decides.
    fs::write("/proc/sys/vm/overcommit_memory", "1")?;
    let mut out = File::create("/dev/ttyS1").context("no second serial port")?;
    act(&mut out)?;
    section(&mut out, "end", b"")
}

/// Records a death of every kind that can be staged.
pub(crate) fn matrix(out: &mut File) -> Result<()> {
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
    section(out, "status", status.to_string().as_bytes())?;
    section(out, "log", &read("/tmp/log"))?;
    section(out, "truth", &read("/tmp/truth"))?;
    section(out, "taskstats", feed.text().as_bytes())?;
    let report = Command::new("/raytrace")
        .args(["report", "--format", "json", "/tmp/x.raytrace"])
        .output()?;
    section(out, "report", &report.stdout)?;
    section(out, "errors", &report.stderr)?;
    // The kernel passes an unknown word of its command line to init as an environment variable.
    if std::env::var_os("keep").is_some() {
        section(out, "recording", &packed("/tmp/x.raytrace")?)?;
    }
    Ok(())
}

pub(crate) fn read(path: &str) -> Vec<u8> {
    fs::read(Path::new(path)).unwrap_or_default()
}

/// Returns a file compressed by gzip, as hexadecimal digits. The port is slow and changes line
/// feeds.
fn packed(path: &str) -> Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&fs::read(path)?)?;
    let bytes = packer.finish()?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect::<String>().into_bytes())
}

/// Writes `=== NAME` and then the text.
pub(crate) fn section(out: &mut File, name: &str, text: &[u8]) -> Result<()> {
    out.write_all(format!("=== {name}\n").as_bytes())?;
    out.write_all(text)?;
    Ok(out.write_all(b"\n")?)
}
