//! `cargo xtask dist`: one program file for each architecture that needs glibc 2.28 and nothing else, so that it runs on systems of 2018.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    layout,
    process::{output, run, step},
    setup,
};

/// Debian 10's and Red Hat 8's.
const GLIBC: [u32; 2] = [2, 28];
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// What each glibc of that age has; `libnvidia-ml.so.1` is opened at run time.
const LIBRARIES: [&str; 6] = ["libc", "libm", "libpthread", "libdl", "librt", "ld-linux"];

/// Builds and checks all of them.
pub(crate) fn make() -> Result<()> {
    setup::old_systems(&TARGETS)?;
    let folder = layout::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for target in TARGETS {
        let built = step(&format!("raytrace for {target}"), || build(target))?;
        step("what it needs", || check(&built))?;
        let architecture = target.split('-').next().unwrap_or(target);
        let file = folder.join(format!(
            "raytrace-{}-{architecture}",
            env!("CARGO_PKG_VERSION")
        ));
        fs::copy(&built, &file).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

fn build(target: &str) -> Result<PathBuf> {
    let [major, minor] = GLIBC;
    let tools = layout::zig().join("bin");
    let mut path = tools.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    run(Command::new(tools.join("cargo-zigbuild"))
        .current_dir(layout::root())
        .args(["zigbuild", "--release", "--package", "raytrace"])
        .args(["--config", "profile.release.strip=\"debuginfo\""])
        .args(["--target", &format!("{target}.{major}.{minor}")])
        .env("PATH", path))?;
    Ok(layout::target().join(target).join("release/raytrace"))
}

/// No symbol of a newer glibc, no other library.
fn check(program: &Path) -> Result<()> {
    // readelf knows every architecture.
    let said = output(
        Command::new("readelf")
            .args(["--wide", "--version-info", "--dynamic"])
            .arg(program),
    )?;
    let newest = said.split("GLIBC_").skip(1).filter_map(version).max();
    let newest = newest.context("readelf names no version of glibc")?;
    if newest > GLIBC {
        bail!(
            "it needs glibc {newest:?}, and {GLIBC:?} is wanted: see readelf -V {}",
            program.display()
        );
    }
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    for library in needed.filter_map(|line| line.split(['[', ']']).nth(1)) {
        if !LIBRARIES.iter().any(|known| library.starts_with(known)) {
            bail!("it needs {library}, which not every system has");
        }
    }
    eprintln!("    glibc {}.{}", newest[0], newest[1]);
    Ok(())
}

/// The number that a text begins with: `2.28`, `2.2.5`.
fn version(text: &str) -> Option<[u32; 2]> {
    let number = text
        .split(|one: char| !(one.is_ascii_digit() || one == '.'))
        .next()?;
    let mut parts = number.split('.').map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("2.2.5 0x09691a75"), Some([2, 2]));
        assert!(version("2.9)") < version("2.28)"));
        assert_eq!(version("PRIVATE"), None);
    }
}
