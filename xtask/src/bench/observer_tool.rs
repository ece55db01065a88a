//! The tool that runs beside a load: the recorder, or another one for comparison.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Result;

/// By then every tool has attached and begun to watch.
const ATTACH: Duration = Duration::from_secs(1);

/// A tool that watches the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObserverTool {
    /// The recorder as it runs far from a limit.
    Recorder,
    /// The recorder as it runs near a limit.
    ArmedRecorder,
    /// bpftrace, which counts the same tracepoint by pid.
    Bpftrace,
    /// perf, which samples stacks.
    Perf,
    /// strace, which stops the process at each system call.
    Strace,
}

impl ObserverTool {
    pub(super) const OTHERS: [Self; 3] = [Self::Bpftrace, Self::Perf, Self::Strace];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Recorder => "raytrace",
            Self::ArmedRecorder => "raytrace, armed",
            Self::Bpftrace => "bpftrace, rss_stat by pid",
            Self::Perf => "perf record",
            Self::Strace => "strace",
        }
    }

    /// Starts the tool beside the process `pid`, and waits until it watches.
    pub(super) fn start(self, raytrace: &Path, file: &Path, pid: u32) -> Result<Child> {
        let mut command = Command::new(self.program(raytrace));
        let pid = pid.to_string();
        match self {
            Self::Recorder | Self::ArmedRecorder => {
                let of_load = ["--require-ebpf", "--raylet-pid", &pid];
                command.arg("record").args(of_load).arg("-o").arg(file);
                if self == Self::ArmedRecorder {
                    command.arg("--armed");
                }
            }
            Self::Bpftrace => {
                command.arg("-o").arg(file);
                command.args(["-e", "tracepoint:kmem:rss_stat { @[pid] = count(); }"]);
            }
            Self::Perf => {
                command.args(["record", "--quiet", "-p", &pid, "--output"]);
                command.arg(file);
            }
            Self::Strace => {
                command.args(["-f", "-p", &pid, "-o"]).arg(file);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        thread::sleep(ATTACH);
        Ok(child)
    }

    fn program(self, raytrace: &Path) -> &Path {
        match self {
            Self::Recorder | Self::ArmedRecorder => raytrace,
            Self::Bpftrace => Path::new("bpftrace"),
            Self::Perf => Path::new("perf"),
            Self::Strace => Path::new("strace"),
        }
    }

    /// Returns whether the tool can be started here.
    pub(super) fn is_installed(self) -> bool {
        let version = Command::new(self.program(Path::new("")))
            .arg("--version")
            .output();
        version.is_ok_and(|output| output.status.success())
    }
}
