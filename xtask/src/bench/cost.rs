//! The cost of a finished child: its processor time and its peak of memory.

use anyhow::Result;

/// Waits for a child. Returns its processor seconds and its peak of resident memory in MiB.
pub(super) fn waited(child: &std::process::Child) -> Result<(f64, f64)> {
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
