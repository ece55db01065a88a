//! Installs the Slurm that a test starts. A machine whose packages lack it skips that test.

use anyhow::Result;

use super::apt;
use crate::process::step;

const PACKAGES: [&str; 4] = ["slurmd", "slurmctld", "slurm-client", "munge"];

pub(super) fn install() -> Result<()> {
    let installed = step("Slurm and munge", || Ok(apt::install(&PACKAGES)))?;
    if let Err(why) = installed {
        eprintln!("    no Slurm, so tests/tests/slurm.rs will be skipped: {why:#}");
    }
    Ok(())
}
