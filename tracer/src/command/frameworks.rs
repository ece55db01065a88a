//! Reads the tables of frameworks that `--frameworks` names.

use std::path::{Path, PathBuf};

use super::usage;
use crate::{
    bounded,
    ray::framework::{self, GivenTable},
};

/// Adds the tables in these files. It must be called before anything is judged.
pub(super) fn add(files: &[PathBuf]) -> anyhow::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let tables: anyhow::Result<Vec<GivenTable>> = files.iter().map(|file| read(file)).collect();
    framework::add(tables?);
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<GivenTable> {
    let name = file.display();
    let text = bounded::text(file, bounded::LARGE)
        .map_err(|error| usage(format!("cannot read the table {name}: {error}")))?;
    framework::parse(&text).map_err(|error| {
        usage(format!(
            "the table {name} is wrong: {error}; its fields are in docs/reference/frameworks.md"
        ))
    })
}
