//! The tree of files that deb, rpm and tarball install: program, man pages, completions, units.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::make_empty;
use crate::{
    layout,
    process::{output, run_quietly},
};

/// Shells, and the paths of their completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/raytrace"),
    ("zsh", "usr/share/zsh/vendor-completions/_raytrace"),
    ("fish", "usr/share/fish/vendor_completions.d/raytrace.fish"),
];

/// Makes `tree` anew. `speaks` is a program of the same version that runs here.
pub(super) fn make(tree: &Path, program: &Path, speaks: &Path) -> Result<()> {
    make_empty(tree)?;
    copy(program, &tree.join("usr/bin/raytrace"), 0o755)?;
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    run_quietly(Command::new(speaks).arg("man").arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        run_quietly(
            Command::new("gzip")
                .args(["-9", "--no-name"])
                .arg(page?.path()),
        )?;
    }
    for (shell, path) in COMPLETIONS {
        let script = output(Command::new(speaks).args(["completions", shell]))?;
        let path = tree.join(path);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, script)?;
    }
    let deploy = layout::root().join("deploy");
    for unit in ["raytrace.service", "raytrace-publish.service"] {
        let from = deploy.join("systemd").join(unit);
        copy(
            &from,
            &tree.join("usr/lib/systemd/system").join(unit),
            0o644,
        )?;
    }
    let users = deploy.join("systemd/raytrace.sysusers");
    copy(
        &users,
        &tree.join("usr/lib/sysusers.d/raytrace.conf"),
        0o644,
    )?;
    let documents = tree.join("usr/share/doc/raytrace");
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"];
    for name in licences {
        copy(&layout::root().join(name), &documents.join(name), 0o644)?;
    }
    copy(
        &layout::root().join("LICENSE-MIT"),
        &documents.join("copyright"),
        0o644,
    )
}

/// Copies a file and sets its mode.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}
