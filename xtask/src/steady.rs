//! A Ray cluster whose job never ends, and how fast it runs: what benchmarks and the soak run the recorder beside.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{layout, setup};

/// How far the job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Deserialize)]
pub(crate) struct Progress {
    /// Steps so far.
    pub(crate) steps: f64,
    /// In so many seconds.
    pub(crate) seconds: f64,
}

/// The cluster and its job; both end with it.
pub(crate) struct Steady {
    staging: Child,
    latest: Arc<Mutex<Progress>>,
}

impl Steady {
    /// Starts a cluster of so many workers, one of which is killed each `kill_every` seconds, none where that is 0.
    pub(crate) fn start(workers: u32, kill_every: f64) -> Result<Self> {
        let mut staging = Command::new(layout::ray(setup::DEMO_VERSION).join("bin/python"))
            .arg(layout::root().join("tests/staging/steady.py"))
            .args(["--workers", &workers.to_string()])
            .args(["--kill-every", &kill_every.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let told = staging.stdout.take().context("no stdout")?;
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        let ready = lines.any(|line| line == "ready");
        ensure!(ready, "the cluster of {workers} workers did not start");
        let latest = Arc::new(Mutex::new(Progress::default()));
        let last = Arc::clone(&latest);
        thread::spawn(move || {
            for progress in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = progress;
            }
        });
        Ok(Self { staging, latest })
    }

    /// What the job said last.
    pub(crate) fn progress(&self) -> Progress {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps a second over about so long.
    pub(crate) fn rate(&self, time: Duration) -> Result<f64> {
        let before = self.progress();
        thread::sleep(time);
        let after = self.progress();
        ensure!(after.seconds > before.seconds, "the job stands still");
        Ok((after.steps - before.steps) / (after.seconds - before.seconds))
    }

    /// Ends both.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.staging.stdin.take());
        self.staging.wait()?;
        Ok(())
    }
}
