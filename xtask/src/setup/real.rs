//! Frameworks that train for real, on CPUs: Ray with `RLlib`, torch and verl 0.5.0, and random tiny models, under `target/real`.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::venv;
use crate::{
    layout,
    process::{already, run_quietly, step},
};

/// Its own requirements are programs for GPUs: what it needs of them is in `requirements.txt`.
const VERL: &str = "verl==0.5.0";

/// Name, vocabulary, width and layers: 0.2, 222 and 2 million parameters.
const MODELS: [(&str, &str, &str, &str); 3] = [
    ("small", "1024", "64", "2"),
    ("medium", "32000", "1024", "12"),
    // Qwen's own vocabulary.
    ("logits", "151936", "16", "2"),
];

/// Everything that `cargo xtask real` needs: 8 GB.
pub(super) fn install() -> Result<()> {
    let venv = layout::real().join("venv");
    step("torch, RLlib and verl in target/real", || packages(&venv))?;
    for (name, vocabulary, hidden, layers) in MODELS {
        let folder = layout::real().join("models").join(name);
        step(&format!("the model {name} in target/real/models"), || {
            if folder.join("test.parquet").exists() {
                already("made before");
                return Ok(());
            }
            let mut make = Command::new(venv.join("bin/python"));
            make.arg(layout::root().join("tests/real/make_model.py"));
            run_quietly(make.arg(&folder).args([vocabulary, hidden, layers]))
        })?;
    }
    Ok(())
}

fn packages(venv: &Path) -> Result<()> {
    let staging = layout::root().join("tests/real");
    let file = staging.join("requirements.txt");
    let text = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
    let wanted = text.lines().filter(|line| !line.starts_with('#'));
    venv::install(venv, &wanted.map(str::to_owned).collect::<Vec<_>>())?;
    let package = venv.join("lib/python3.11/site-packages/verl");
    if !package.exists() {
        let pip = venv.join("bin/pip");
        run_quietly(Command::new(pip).args(["install", "--no-input", "--no-deps", VERL]))?;
    }
    let mut change = Command::new(venv.join("bin/python"));
    run_quietly(change.arg(staging.join("patch_verl.py")).arg(package))
}
