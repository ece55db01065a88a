//! Why a recording could not be made or read.

use std::path::{Path, PathBuf};

/// Returns what to type when a recording cannot be opened.
fn hint(source: &std::io::Error) -> String {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "read it with sudo; members of the group raytrace can read the systemd service's files"
                .to_owned()
        }
        _ => "list recordings with: ls *.raytrace".to_owned(),
    }
}

/// Whether another process's lock is in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// Why a recording could not be made or read. Each message says what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The output file exists already.
    #[error("{path} exists; choose another name with -o, or remove it: rm {path}", path = .0.display())]
    Exists(PathBuf),
    /// The folder cannot be written.
    #[error("cannot write {path}: {source}; choose a folder that you can write with -o", path = .path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no such file.
    #[error("cannot open {path}: {source}; {hint}", path = .path.display(), hint = hint(.source))]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is empty, or has no first event.
    #[error("{path} is empty, it holds no events: its recorder was ended before it wrote any, or a copy of it failed; record again: sudo raytrace record", path = .0.display())]
    Empty(PathBuf),
    /// The file is something else.
    #[error("{path} is not a raytrace recording; list recordings with: ls *.raytrace (logs are read by: raytrace explain {path})", path = .0.display())]
    NotARecording(PathBuf),
    /// A newer raytrace wrote it.
    #[error("{path} has format {found}, this raytrace reads up to {known}: use a newer raytrace", path = .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// The file is cut short or damaged, and no event is left.
    #[error("{path} is cut short or damaged, and no event of it can be read (look for what is left with: sqlite3 {path} .recover): {reason}", path = .path.display())]
    Cut {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// SQLite cannot make sense of it.
    #[error("{path} is cut short or damaged, or a copy without the -wal file beside it (look for what is left with: sqlite3 {path} .recover): {source}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

impl RecordingError {
    /// Returns how an error of SQLite is told as one of the recording at `path`.
    pub(super) fn damaged(path: &Path) -> impl Fn(rusqlite::Error) -> Self + Copy {
        move |source| Self::Damaged {
            path: path.to_owned(),
            source,
        }
    }

    /// Returns how an error of a file is told as one of opening the recording at `path`.
    pub(super) fn open(path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |source| Self::Open {
            path: path.to_owned(),
            source,
        }
    }
}
