//! Writes what the program is made of: a bill of materials in `CycloneDX`'s JSON, by cargo-cyclonedx.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use super::{VERSION, checksums};
use crate::{
    layout,
    process::{cargo, run_quietly},
};

/// The name of the file that cargo-cyclonedx writes beside each manifest of the workspace.
const NAME: &str = "raytrace-sbom";

/// Writes the bill of `raytrace` into `target/dist`, and the checksums there anew.
pub(crate) fn make() -> Result<()> {
    let folder = layout::target().join("dist");
    fs::create_dir_all(&folder)?;
    run_quietly(
        cargo("cyclonedx")
            .args(["--format", "json", "--override-filename", NAME])
            .env("PATH", layout::path_with_tools()),
    )
    .context("cargo install cargo-cyclonedx")?;
    let written = format!("{NAME}.json");
    let kept = folder.join(format!("raytrace-{VERSION}.cdx.json"));
    fs::copy(layout::root().join("tracer").join(&written), &kept)
        .with_context(|| format!("cannot write {}", kept.display()))?;
    remove_each(&layout::root(), &written, 2)?;
    println!("{}", kept.display());
    checksums(&folder)
}

/// Removes the bills that were written for the other crates.
fn remove_each(folder: &Path, name: &str, depth: usize) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == name {
            fs::remove_file(entry.path())?;
        } else if depth > 0 && entry.file_type()?.is_dir() {
            remove_each(&entry.path(), name, depth - 1)?;
        }
    }
    Ok(())
}
