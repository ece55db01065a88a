//! Runs a command in a cgroup namespace of its own that sees all of the machine's processes.
//!
//! That is how `docker run --privileged --pid=host` runs a container on cgroup v2.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};

const ROOT: &str = "/sys/fs/cgroup";
/// From linux/capability.h.
const CAP_SYS_ADMIN: libc::c_ulong = 21;

/// Runs the command in this cgroup. With `few` rights it may not enter another namespace.
pub(crate) fn run(cgroup: &Path, rights: &str, command: &[&str]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("which command?")?;
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())?;
    // SAFETY: unshare(2) takes a number, and this program has one thread.
    let done = unsafe { libc::unshare(libc::CLONE_NEWCGROUP | libc::CLONE_NEWNS) };
    ensure!(done == 0, "unshare: {}", std::io::Error::last_os_error());
    let alone = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", alone).context("cannot make mounts private")?;
    unmount(ROOT, UnmountFlags::DETACH).context("cannot unmount cgroups")?;
    mount("cgroup2", ROOT, "cgroup2", MountFlags::empty(), None).context("cannot mount cgroups")?;
    if rights == "few" {
        // SAFETY: these operands of prctl(2) are numbers.
        let done = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) };
        ensure!(done == 0, "prctl: {}", std::io::Error::last_os_error());
    }
    Err(Command::new(program).args(arguments).exec()).context("cannot run the command")
}
