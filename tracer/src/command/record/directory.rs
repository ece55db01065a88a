//! `record --directory`: an agent that always runs writes one file after another.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

use super::{parse_duration, parse_size};
use crate::{
    command::Failure,
    event::{Mode, Previous},
    observe::{clock, host},
    recording::{Outline, Rotation, place},
};

/// Options of a recorder that always runs.
#[derive(Debug, clap::Args)]
pub(super) struct DirectoryArgs {
    /// Write one file after another into this folder, for a recorder that always runs.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "output",
        help_heading = "One file after another"
    )]
    pub(super) directory: Option<PathBuf>,
    /// Begin the next file after this time.
    #[arg(long, value_name = "TIME", default_value = "6h", requires = "directory", value_parser = parse_duration, help_heading = "One file after another")]
    rotate: Duration,
    /// Keep this many files and delete the oldest.
    #[arg(long, value_name = "N", default_value_t = 28, requires = "directory", help_heading = "One file after another",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    keep_files: usize,
    /// Keep all files together below this size by deleting the oldest.
    #[arg(long, value_name = "SIZE", default_value = "20GiB", requires = "directory", value_parser = parse_size, help_heading = "One file after another")]
    max_total: u64,
}

/// The folder is there and can be written, and what lies there of this host.
pub(super) struct Directory {
    /// The first file.
    pub(super) path: PathBuf,
    /// What follows it.
    pub(super) rotation: Rotation,
    /// The recording that an earlier recorder left.
    pub(super) previous: Option<Previous>,
}

impl DirectoryArgs {
    /// The first file and what follows; `None` without `--directory`.
    pub(super) fn open(&self) -> anyhow::Result<Option<Directory>> {
        let Some(folder) = self.directory.clone() else {
            return Ok(None);
        };
        std::fs::create_dir_all(&folder).with_context(|| {
            format!(
                "cannot make {}; choose a folder that you can write",
                folder.display()
            )
        })?;
        refuse_remote(&folder)?;
        let host = host::started(Mode::Procfs).host;
        let previous = place::of_host(&folder, &host);
        let previous = previous
            .iter()
            .rev()
            .find_map(|path| Outline::of(path).ok());
        let rotation = Rotation {
            folder: folder.clone(),
            every: self.rotate,
            keep_files: self.keep_files,
            max_total: self.max_total,
            host,
        };
        Ok(Some(Directory {
            path: folder.join(place::default_name(
                &rotation.host,
                clock::wall().timestamp(),
            )),
            rotation,
            previous: previous.as_ref().map(Outline::as_previous),
        }))
    }
}

fn refuse_remote(folder: &Path) -> anyhow::Result<()> {
    if let Some(kind) = place::remote(folder) {
        anyhow::bail!(Failure {
            code: 1,
            message: format!(
                "{} lies on {kind}, where SQLite's WAL does not work; choose a local folder: --directory {}",
                folder.display(),
                place::FALLBACK
            ),
        });
    }
    Ok(())
}
