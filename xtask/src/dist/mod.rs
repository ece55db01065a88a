//! `cargo xtask dist`: builds programs that need only glibc 2.28, and packs them.
//!
//! The packages are a wheel, a deb, an rpm, an image and a tarball.

mod check;
mod deb;
mod image;
pub(crate) mod notes;
mod rpm;
pub(crate) mod sbom;
mod tree;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::{
    layout,
    process::{run, run_quietly, step},
    setup, test,
};

/// The glibc of Debian 10 and Red Hat 8.
pub(crate) const GLIBC: [u32; 2] = [2, 28];
/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A processor architecture, with its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Architecture {
    /// Its name in Rust, rpm and Python.
    name: &'static str,
    /// Its name in Debian and container images.
    debian: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        name: "x86_64",
        debian: "amd64",
    },
    Architecture {
        name: "aarch64",
        debian: "arm64",
    },
];

impl Architecture {
    fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name)
    }

    /// Returns whether this machine runs its programs.
    fn runs_here(self) -> bool {
        self.name == std::env::consts::ARCH
    }
}

/// The parts of a package.
pub(crate) struct Parts<'a> {
    architecture: Architecture,
    /// The program.
    program: &'a Path,
    /// All installed files, the program among them.
    tree: &'a Path,
    /// The folder for the package.
    folder: &'a Path,
}

/// Builds, checks and packs each architecture, or those of `only`. If there is a `program`, it
/// builds nothing and packs that one, for this machine.
pub(crate) fn make(only: &[String], program: Option<&Path>) -> Result<()> {
    let folder = layout::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    setup::packaging()?;
    let wanted = ARCHITECTURES.into_iter().filter(|one| match program {
        Some(_) => one.runs_here(),
        None => only.is_empty() || only.iter().any(|name| name == one.name),
    });
    let wanted: Vec<Architecture> = wanted.collect();
    let mut programs = Vec::new();
    for architecture in wanted {
        let program = match program {
            Some(program) => program.to_owned(),
            None => built(architecture)?,
        };
        programs.push((architecture, program));
    }
    // Man pages and completions are the same for all architectures, so they come from a program
    // that runs here.
    let speaks = programs
        .iter()
        .find(|(architecture, _)| architecture.runs_here());
    let speaks = match speaks {
        Some((_, program)) => program.clone(),
        None => step("raytrace for this machine", test::build)?,
    };
    for (architecture, program) in &programs {
        pack(*architecture, program, &speaks, &folder)?;
    }
    checksums(&folder)
}

/// Packs a program of this machine for the tests of packages.
pub(crate) fn for_tests(program: &Path) -> Result<()> {
    let folder = layout::target().join("packed");
    make_empty(&folder)?;
    let here = ARCHITECTURES.into_iter().find(|one| one.runs_here());
    let here = here.context("no package for this processor")?;
    pack(here, program, program, &folder)
}

fn built(architecture: Architecture) -> Result<PathBuf> {
    let target = architecture.target();
    setup::old_systems(&[&target])?;
    let program = step(&format!("raytrace for {target}"), || build(&target))?;
    step("what it needs", || check::program(&program))?;
    Ok(program)
}

fn pack(architecture: Architecture, program: &Path, speaks: &Path, folder: &Path) -> Result<()> {
    let name = architecture.name;
    let tree = layout::target().join(format!("dist-tree-{name}"));
    step(&format!("files for {name}"), || {
        tree::make(&tree, program, speaks)
    })?;
    let parts = Parts {
        architecture,
        program,
        tree: &tree,
        folder,
    };
    step(&format!("wheel for {name}"), || wheel::make(&parts))?;
    step(&format!("deb for {name}"), || deb::make(&parts))?;
    step(&format!("rpm for {name}"), || rpm::make(&parts))?;
    step(&format!("image for {name}"), || image::make(&parts))?;
    step(&format!("tarball for {name}"), || tarball(&parts))
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

/// Packs everything below `usr`, and the manifests for Kubernetes, Prometheus and Grafana.
fn tarball(parts: &Parts<'_>) -> Result<()> {
    let name = format!("raytrace-{VERSION}-{}-linux", parts.architecture.name);
    let file = parts.folder.join(format!("{name}.tar.gz"));
    run_quietly(
        Command::new("tar")
            .args([
                "--create",
                "--gzip",
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
            ])
            .arg(format!("--transform=s,^,{name}/,"))
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(parts.tree)
            .arg("usr")
            .arg("--directory")
            .arg(layout::root())
            .args([
                "deploy",
                "README.md",
                "CHANGELOG.md",
                "LICENSE-MIT",
                "LICENSE-APACHE",
            ]),
    )?;
    println!("{}", file.display());
    Ok(())
}

/// Writes `SHA256SUMS` of all files in the folder, in the format of `sha256sum --check`.
fn checksums(folder: &Path) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && !path.ends_with("SHA256SUMS"))
        .collect();
    names.sort();
    let mut sums = String::new();
    for path in names {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        sums.push_str(&format!("{}  {name}\n", sha256(&fs::read(&path)?)));
    }
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex = digest.iter().map(|byte| format!("{byte:02x}"));
    hex.collect::<Vec<_>>().concat()
}

/// Makes an empty folder.
fn make_empty(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
