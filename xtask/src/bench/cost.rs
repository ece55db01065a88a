//! The cost of a program: its time, its processor time and its peak of memory.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result};

/// How often a command is run. The quickest run counts, because the first fills the page cache.
const RUNS: usize = 3;

/// The cost of one run.
pub(super) struct Cost {
    pub(super) wall: f64,
    pub(super) cpu: f64,
    pub(super) peak_mib: f64,
}

impl Cost {
    /// Runs a command of raytrace on a folder. Returns the cost of the run with the least of `time`.
    pub(super) fn least(
        raytrace: &Path,
        command: &str,
        folder: &Path,
        time: fn(&Self) -> f64,
    ) -> Result<Self> {
        let runs = (0..RUNS).map(|_| {
            let began = Instant::now();
            let mut run = Command::new(raytrace);
            run.arg(command).arg(folder).stdout(Stdio::null());
            let child = run.spawn().context("cannot start raytrace")?;
            let (cpu, peak_mib) = waited(&child)?;
            let wall = began.elapsed().as_secs_f64();
            Ok(Self {
                wall,
                cpu,
                peak_mib,
            })
        });
        let runs: Vec<Self> = runs.collect::<Result<_>>()?;
        let least = runs
            .into_iter()
            .min_by(|one, other| time(one).total_cmp(&time(other)));
        least.context("nothing was timed")
    }
}

/// Waits for a child. Returns its processor seconds and its peak of resident memory in MiB.
fn waited(child: &Child) -> Result<(f64, f64)> {
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage, which holds integers only.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live variables of this function, and nothing else waits for the
    // child with this pid.
    let ended = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    anyhow::ensure!(ended == pid, "cannot wait for raytrace");
    anyhow::ensure!(status == 0, "raytrace ended with status {status}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    Ok((cpu, usage.ru_maxrss as f64 / 1024.0))
}
