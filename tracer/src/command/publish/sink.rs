//! Writes JSON lines to stdout, or to a file that a log shipper follows.

use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::Value;

use super::rendered;

/// Stdout, or a file that is opened again when it was moved away.
pub(super) enum Sink {
    Stdout,
    File { path: PathBuf, file: File },
}

impl Sink {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        Ok(Self::File {
            path: path.to_owned(),
            file: open(path)?,
        })
    }

    /// Writes all lines, or fails.
    pub(super) fn write(&mut self, lines: &[Value]) -> anyhow::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = rendered(lines);
        match self {
            Self::Stdout => {
                let mut out = std::io::stdout().lock();
                let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                written.context("cannot write to stdout")
            }
            Self::File { path, file } => {
                // logrotate moves the file away.
                let there = std::fs::metadata(&*path)
                    .ok()
                    .map(|data| (data.dev(), data.ino()));
                let ours = file.metadata().ok().map(|data| (data.dev(), data.ino()));
                if there != ours {
                    *file = open(path)?;
                }
                let written = file.write_all(text.as_bytes());
                written.with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::options()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}
