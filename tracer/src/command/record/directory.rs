//! `record --directory`: writes one file after another, for a recorder that runs permanently.

use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;

use super::{parse_duration, parse_size};
use crate::{
    event::{Mode, Previous},
    observe::{clock, host},
    recording::{Outline, Rotation, place},
};

/// Options of a recorder that always runs.
#[derive(Debug, clap::Args)]
pub(super) struct DirectoryArgs {
    /// Write one file after another into this folder, for a recorder that runs permanently.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "output",
        help_heading = "Rotation"
    )]
    pub(super) directory: Option<PathBuf>,
    /// Start a new file after this time.
    #[arg(long, value_name = "TIME", default_value = "6h", requires = "directory", value_parser = parse_rotate, help_heading = "Rotation")]
    rotate: Duration,
    /// Keep at most this many files, the current one included; delete the oldest.
    #[arg(long, value_name = "N", default_value_t = 28, requires = "directory", help_heading = "Rotation",
          value_parser = parse_count)]
    keep_files: usize,
    /// When a new file starts, delete the oldest until all are together below this size.
    #[arg(long, value_name = "SIZE", default_value = "20GiB", requires = "directory", value_parser = parse_size, help_heading = "Rotation")]
    max_total: u64,
    /// Create this folder, where the recorder's group may write: for the state of `publish`.
    #[arg(
        long,
        value_name = "DIR",
        requires = "directory",
        help_heading = "Rotation"
    )]
    group_folder: Option<PathBuf>,
}

/// Each file first repeats the processes that are alive. Shorter files would contain little else.
const SHORTEST: Duration = Duration::from_secs(1);

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "give a number: 1 or more".to_owned())
}

fn parse_rotate(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    (every >= SHORTEST).then_some(every).ok_or_else(|| {
        format!("a file of {text} holds nothing: minimum 1s; for example --rotate 6h")
    })
}

/// A folder that can be written to, and what it holds from this host.
pub(super) struct Directory {
    /// The first file.
    pub(super) path: PathBuf,
    /// When and how the next files are started.
    pub(super) rotation: Rotation,
    /// The recording that an earlier recorder left.
    pub(super) previous: Option<Previous>,
}

impl DirectoryArgs {
    /// Opens the folder, and returns its first file and the rotation; `None` without `--directory`.
    pub(super) fn open(&self) -> anyhow::Result<Option<Directory>> {
        let Some(folder) = self.directory.clone() else {
            return Ok(None);
        };
        std::fs::create_dir_all(&folder).with_context(|| {
            format!(
                "cannot create {}; choose a folder that you can write to",
                folder.display()
            )
        })?;
        refuse_remote(&folder)?;
        if let Some(shared) = &self.group_folder {
            open_to_group(shared)
                .with_context(|| format!("cannot open {} to the group", shared.display()))?;
        }
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

/// Creates a folder in which the recorder's group may write. The kubelet may have made it before,
/// where only root may write.
fn open_to_group(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    chown(folder, None, Some(rustix::process::getegid().as_raw()))?;
    std::fs::set_permissions(folder, Permissions::from_mode(0o770))
}

fn refuse_remote(folder: &Path) -> anyhow::Result<()> {
    if let Some(kind) = place::remote(folder) {
        anyhow::bail!(
            "{} is on {kind}, where SQLite's WAL does not work; choose a local folder: --directory {}",
            folder.display(),
            place::FALLBACK
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_may_write_to_its_folder() {
        let held = tempfile::tempdir().expect("a folder");
        let folder = held.path().join("publish");
        for _ in 0..2 {
            open_to_group(&folder).expect("opened");
            let mode = std::fs::metadata(&folder).expect("a folder").permissions();
            assert_eq!(mode.mode() & 0o777, 0o770);
        }
    }

    #[test]
    fn too_short_rotation_is_refused() {
        for text in ["0s", "900ms"] {
            let error = parse_rotate(text).expect_err("too short");
            assert!(
                error.contains(text) && error.contains("--rotate 6h"),
                "{error}"
            );
        }
        assert_eq!(parse_rotate("6h"), Ok(Duration::from_secs(21_600)));
    }
}
