//! A shell that passes for a raylet, with a session folder that a test has made.

use std::{
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};

/// Its name and its command line are those of a raylet; its environment holds secrets.
pub struct FakeRaylet(Child);

impl FakeRaylet {
    /// Starts it; its name lies in `folder`.
    pub fn start(folder: &Path, session: &Path) -> Result<Self> {
        Self::doing(folder, session, "while :; do sleep 1; done")
    }

    /// The same, with what its shell does.
    pub fn doing(folder: &Path, session: &Path, shell: &str) -> Result<Self> {
        Self::with(folder, session, shell, &[])
    }

    /// The same, with more in its environment.
    pub fn with(
        folder: &Path,
        session: &Path,
        shell: &str,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let program = folder.join("raylet");
        // A file of its own may still be open for writing in what another test starts at this moment.
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
        Ok(Self(child))
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for FakeRaylet {
    fn drop(&mut self) {
        // What its shell has started too.
        let _ended = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _status = self.0.wait();
    }
}

/// What a raylet logs of a worker that it has started.
#[must_use]
pub fn started(pid: u32, worker_id: &str) -> String {
    format!(
        "[2026-11-21 00:00:00,000 I 1 1] (raylet) worker_pool.cc:1: Started worker process with pid {pid} worker_id={worker_id}"
    )
}
