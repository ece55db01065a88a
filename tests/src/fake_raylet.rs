//! A shell that poses as a raylet, with a session folder that a test has made.

use std::{
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::wait;

/// The shell. Its name and its command line are a raylet's, and its environment holds secrets.
pub struct FakeRaylet(Child);

impl FakeRaylet {
    /// Starts it. The program that gives it its name is put into `folder`.
    pub fn start(folder: &Path, session: &Path) -> Result<Self> {
        Self::start_with_script(folder, session, "while :; do sleep 1; done")
    }

    /// Starts it with a shell script to run.
    pub fn start_with_script(folder: &Path, session: &Path, shell: &str) -> Result<Self> {
        Self::start_with_environment(folder, session, shell, &[])
    }

    /// Starts it with a shell script to run and more in its environment.
    pub fn start_with_environment(
        folder: &Path,
        session: &Path,
        shell: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let program = folder.join("raylet");
        // A link, because a copy may still be open for writing in a process that another test forks
        // now.
        symlink("/bin/sh", &program)?;
        let socket = session.join("sockets/raylet");
        let child = Command::new(program)
            .args(["-c", shell])
            .arg(format!("--raylet_socket_name={}", socket.display()))
            .arg(format!("--session-dir={}", session.display()))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("AWS_SECRET_ACCESS_KEY", "secret-of-another")
            .env("RAY_AUTH_TOKEN", "secret-of-ray")
            .env("RAY_memory_usage_threshold", "0.625")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()?;
        let started = Self(child);
        // The parent goes on before the kernel has set the child's name and arguments.
        let name = format!("/proc/{}/comm", started.pid());
        let arguments = format!("/proc/{}/cmdline", started.pid());
        let is_named = || fs::read_to_string(&name).is_ok_and(|name| name == "raylet\n");
        let has_arguments = || fs::read(&arguments).is_ok_and(|bytes| !bytes.is_empty());
        wait::until("a process named raylet", || is_named() && has_arguments());
        Ok(started)
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for FakeRaylet {
    fn drop(&mut self) {
        // Also ends what its shell has started.
        let _ended = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _status = self.0.wait();
    }
}

/// Returns what a raylet logs about a worker that it has started.
pub fn worker_started_line(pid: u32, worker_id: &str) -> String {
    format!(
        "[2026-11-21 00:00:00,000 I 1 1] (raylet) worker_pool.cc:1: Started worker process with pid {pid} worker_id={worker_id}"
    )
}
