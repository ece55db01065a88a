//! Measures a job in Python alone, with the recorder, under memray and under py-spy.
//!
//! The recorder reads its stacks. Each run is a process of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{FEW, compare_runs, load::Cost};
use crate::{layout, process::step};

/// Pairs of runs with the recorder. A run takes some seconds.
const PAIRS: usize = 31;

/// What the job runs under.
#[derive(Debug, Clone, Copy)]
enum JobWrapper {
    Nothing,
    Recorder,
    Memray,
    PySpy,
}

impl JobWrapper {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Recorder => "raytrace, with stacks",
            Self::Memray => "memray",
            Self::PySpy => "py-spy record",
        }
    }

    /// Runs the job and returns its cost, as the job itself prints it.
    fn run(self, raytrace: &Path, file: &Path) -> Result<Cost> {
        let bin = layout::bench().join("bin");
        let job = layout::root().join("xtask/src/bench/job.py");
        let python = bin.join("python");
        let of = |program: PathBuf| Command::new(program);
        let mut command = match self {
            Self::Nothing => of(python),
            Self::Recorder => {
                let mut record = of(raytrace.to_owned());
                record.args(["record", "--require-ebpf", "-o"]).arg(file);
                record.arg("--").arg(python);
                record
            }
            Self::Memray => {
                let mut memray = of(python);
                memray
                    .args(["-m", "memray", "run", "--quiet", "-o"])
                    .arg(file);
                memray
            }
            Self::PySpy => {
                let mut spy = of(bin.join("py-spy"));
                spy.args(["record", "--format", "raw", "-o"]).arg(file);
                spy.arg("--").arg(python);
                spy
            }
        };
        let output = command.arg(job).env("OPENBLAS_NUM_THREADS", "1").output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(
            output.status.success(),
            "{}: {}: {errors}",
            self.name(),
            output.status
        );
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().find(|line| line.starts_with('{'));
        let line = line.with_context(|| format!("the job under {} said nothing", self.name()))?;
        let written = matches!(self, Self::Nothing) || file.exists();
        anyhow::ensure!(written, "{} has recorded nothing", self.name());
        serde_json::from_str(line).context("the job did not print its cost")
    }
}

/// Returns the rows of the table.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let tools = [
        (JobWrapper::Recorder, PAIRS),
        (JobWrapper::Memray, FEW),
        (JobWrapper::PySpy, FEW),
    ];
    let mut rows = String::new();
    for (tool, count) in tools {
        let name = format!("a Python job: {count} runs under {}", tool.name());
        rows += &step(&name, || {
            compare_runs("Python job", tool.name(), count, |number| {
                let under = number.map_or(JobWrapper::Nothing, |_| tool);
                let name = format!("{}.{}", tool.name(), number.unwrap_or_default());
                under.run(raytrace, &folder.path().join(name))
            })
        })?;
    }
    Ok(rows)
}
