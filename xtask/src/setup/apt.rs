//! Installs Debian packages that are missing.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{print_not_needed, run_quietly, succeeds};

/// Installs those of `packages` that dpkg does not list as installed.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect();
    if missing.is_empty() {
        print_not_needed(&packages.join(", "));
        return Ok(());
    }
    eprintln!("    apt-get install {}", missing.join(" "));
    run_quietly(apt_get().arg("update"))?;
    run_quietly(
        apt_get()
            .args(["install", "-y", "--no-install-recommends"])
            .args(&missing),
    )
    .with_context(|| {
        format!(
            "needs Debian 12 or later and root; install by hand: {}",
            missing.join(" ")
        )
    })
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .arg("--quiet")
        // A machine that has just started may still be updating itself.
        .args(["-o", "DPkg::Lock::Timeout=600"]);
    command
}

fn is_installed(package: &str) -> bool {
    succeeds(Command::new("sh").args([
        "-c",
        "dpkg-query --show --showformat='${Status}' \"$1\" | grep --quiet 'ok installed'",
        "sh",
        package,
    ]))
}
