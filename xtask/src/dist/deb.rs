//! Makes the Debian package with `dpkg-deb`, which every Debian has.
//!
//! cargo-deb would do the same, but compiling it takes minutes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{Parts, VERSION, make_empty};
use crate::{
    layout,
    process::{output, run_quietly},
};

/// The script after installation. It makes the group that may read recordings. It does not start
/// the service; that is left to the user.
const POSTINST: &str = r#"#!/bin/sh
set -e
if [ "$1" = configure ]; then
    getent group raytrace >/dev/null || groupadd --system raytrace
    install --directory --mode=0750 --group=raytrace /var/lib/raytrace
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        # After an upgrade a recorder that runs goes on with the new program.
        [ -z "$2" ] || systemctl try-restart raytrace.service raytrace-publish.service
    fi
fi
"#;
const PRERM: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now raytrace-publish.service raytrace.service
fi
"#;
const POSTRM: &str = r#"#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm --recursive --force /var/lib/raytrace /var/lib/raytrace-publish /var/lib/private/raytrace-publish /var/log/raytrace /var/log/private/raytrace
    ! getent group raytrace >/dev/null || groupdel raytrace
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
"#;

/// Returns the size of the installed package, in KiB.
fn installed_size(folder: &Path) -> Result<String> {
    let said = output(
        Command::new("du")
            .args(["--summarize", "--block-size=1024"])
            .arg(folder),
    )?;
    let size = said.split_whitespace().next();
    Ok(size.context("du says no size")?.to_owned())
}

/// Makes the package.
pub(super) fn make(parts: &Parts<'_>) -> Result<()> {
    let architecture = parts.architecture.debian;
    let folder = layout::target().join(format!("dist-deb-{architecture}"));
    make_empty(&folder)?;
    run_quietly(
        Command::new("cp")
            .arg("--archive")
            .arg(parts.tree.join("usr"))
            .arg(&folder),
    )?;
    let size = installed_size(&folder)?;
    let control = folder.join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::write(
        control.join("control"),
        format!(
            "Package: raytrace\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: admin\nPriority: optional\nInstalled-Size: {size}\n\
             Maintainer: The raytrace authors <raytrace@users.noreply.example>\nDepends: libc6 (>= 2.28), passwd\n\
             Description: flight recorder for memory deaths on Ray clusters\n \
             Records who ended each process of a Ray cluster and proves it: the kernel's OOM killer, Ray's memory\n \
             monitor, somebody else, or the process itself; and what grew until it had to die.\n"
        ),
    )?;
    for (name, script) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
        let path = control.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let file = parts
        .folder
        .join(format!("raytrace_{VERSION}_{architecture}.deb"));
    run_quietly(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zgzip", "--build"])
            .arg(&folder)
            .arg(&file),
    )?;
    println!("{}", file.display());
    Ok(())
}
