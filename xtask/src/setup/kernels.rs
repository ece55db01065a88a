//! Downloads Debian's kernels for the virtual machines.
//!
//! apt fetches them with folders of its own. They are unpacked, never installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::apt;
use crate::{
    layout,
    process::{output, print_not_needed, run_quietly, step},
};

/// Suites, of which the newest kernel is taken: 5.10, 6.1, 6.12, and the one of backports (7.2 in
/// autumn 2026).
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "trixie-backports"];

/// The suite whose machines may have a network, and the modules that this needs.
const WITH_NETWORK: &str = "trixie";
const MODULES: [&str; 3] = ["failover.ko", "net_failover.ko", "virtio_net.ko"];

const MIRROR: &str = "http://deb.debian.org/debian";

/// Installs QEMU, and puts a kernel of each suite at `target/vm/SUITE/vmlinuz`.
pub(super) fn install() -> Result<()> {
    step("virtual machines: QEMU", || {
        apt::install(&["qemu-system-x86", "binutils", "debian-archive-keyring"])
    })?;
    for suite in SUITES {
        step(&format!("virtual machines: the kernel of {suite}"), || {
            kernel(suite)
        })?;
    }
    Ok(())
}

fn kernel(suite: &str) -> Result<()> {
    let folder = layout::target().join("vm").join(suite);
    let image = folder.join("vmlinuz");
    let modules = folder.join("modules");
    if image.exists() && (suite != WITH_NETWORK || modules.exists()) {
        print_not_needed(&image.display().to_string());
        return Ok(());
    }
    let settings = settings(&folder, suite)?;
    run_quietly(with_apt_config(&settings, "apt-get").arg("update"))?;
    let image_package = depends(&settings, "linux-image-cloud-amd64", "linux-image-")?;
    // From 7.0 on the image package is a stub. The kernel is in the binary package.
    let binary = depends(&settings, &image_package, "linux-binary-");
    let package = binary.unwrap_or(image_package);
    eprintln!("    {package}");
    // An interrupted run may have left another version, or an incomplete one.
    let unpacked = folder.join("unpacked");
    for left in fs::read_dir(&folder)? {
        let left = left?.path();
        if left == unpacked {
            fs::remove_dir_all(left)?;
        } else if left.extension().is_some_and(|ending| ending == "deb") {
            fs::remove_file(left)?;
        }
    }
    run_quietly(
        with_apt_config(&settings, "apt-get")
            .args(["download", &package])
            .current_dir(&folder),
    )?;
    let archive = find(&folder, |name| name.starts_with("linux-"))?;
    run_quietly(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(&archive)
            .arg(&unpacked),
    )?;
    let found = find(&unpacked, |name| name.starts_with("vmlinuz"))?;
    if suite == WITH_NETWORK {
        keep_modules(&unpacked, &modules)?;
    }
    fs::rename(found, &image)?;
    fs::remove_dir_all(unpacked)?;
    fs::remove_file(archive)?;
    Ok(())
}

/// Keeps the modules of a network card from the package, because they fit this kernel only.
fn keep_modules(unpacked: &Path, modules: &Path) -> Result<()> {
    if modules.exists() {
        fs::remove_dir_all(modules)?;
    }
    let mut found = Vec::new();
    for module in MODULES {
        found.push(find(unpacked, |name| {
            name.strip_prefix(module)
                .is_some_and(|ending| ending.is_empty() || ending.starts_with('.'))
        })?);
    }
    fs::create_dir(modules)?;
    for path in found {
        fs::copy(&path, modules.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Writes an apt configuration that touches nothing outside `folder`.
fn settings(folder: &Path, suite: &str) -> Result<PathBuf> {
    for part in ["lists/partial", "archives/partial"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let at = folder.display();
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let sources = folder.join("sources.list");
    fs::write(
        &sources,
        format!("deb [arch=amd64 signed-by={keys}] {MIRROR} {suite} main\n"),
    )?;
    let settings = folder.join("apt.conf");
    fs::write(
        &settings,
        format!(
            "Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"-\";\nDir::State::Lists \"{at}/lists\";\n\
             Dir::State::status \"/dev/null\";\nDir::Cache \"{at}\";\nAPT::Architecture \"amd64\";\n\
             APT::Sandbox::User \"root\";\n",
            sources.display()
        ),
    )?;
    Ok(settings)
}

fn with_apt_config(settings: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("APT_CONFIG", settings);
    command
}

/// Returns the package that `package` depends on and whose name begins with `prefix`.
fn depends(settings: &Path, package: &str, prefix: &str) -> Result<String> {
    let text = output(with_apt_config(settings, "apt-cache").args(["depends", package]))?;
    let mut lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    let found = lines.find(|name| name.starts_with(prefix));
    found
        .map(str::to_owned)
        .with_context(|| format!("{package} depends on no {prefix}*:\n{text}"))
}

/// Returns the first file below `folder` with a name that `pleases` accepts.
fn find(folder: &Path, pleases: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_str().is_some_and(&pleases) {
                return Ok(entry.path());
            }
        }
    }
    anyhow::bail!("nothing of that kind in {}", folder.display())
}
