//! A Ray cluster with a job that never ends, and how fast the job runs.
//!
//! Benchmarks and the soak run the recorder beside it.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result};

use crate::{layout, setup};

/// The progress of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Deserialize)]
pub(crate) struct Progress {
    /// Steps so far.
    pub(crate) steps: f64,
}

/// The cluster and its job. Both end when this is dropped.
pub(crate) struct Steady {
    staging: Child,
    latest: Arc<Mutex<Progress>>,
    /// The folder of the session. Nothing else on the machine is to be recorded.
    pub(crate) session: PathBuf,
}

/// The settings of the job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Job {
    pub(crate) workers: u32,
    /// Seconds between two kills of a worker. With 0 none is killed.
    pub(crate) kill_every: f64,
    /// Seconds between two steps. With 0 the job runs as fast as it can.
    pub(crate) pause: f64,
}

impl Steady {
    /// Starts a cluster and its job.
    pub(crate) fn start(job: Job) -> Result<Self> {
        let workers = job.workers;
        let mut staging = Command::new(layout::ray(setup::DEMO_VERSION).join("bin/python"))
            .arg(layout::root().join("tests/staging/steady.py"))
            .args(["--workers", &workers.to_string()])
            .args(["--kill-every", &job.kill_every.to_string()])
            .args(["--pause", &job.pause.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let told = staging.stdout.take().context("no stdout")?;
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        let ready = lines.find_map(|line| line.strip_prefix("ready ").map(PathBuf::from));
        let session =
            ready.with_context(|| format!("the cluster of {workers} workers did not start"))?;
        let latest = Arc::new(Mutex::new(Progress::default()));
        let last = Arc::clone(&latest);
        thread::spawn(move || {
            for progress in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = progress;
            }
        });
        Ok(Self {
            staging,
            latest,
            session,
        })
    }

    /// Returns the job's last report of its progress.
    pub(crate) fn progress(&self) -> Progress {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the job and the cluster.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.staging.stdin.take());
        self.staging.wait()?;
        Ok(())
    }
}
