//! Removes the file of a recorder that failed before it began to record.

use std::path::PathBuf;

use crate::recording::place;

/// A file that was just made. It is removed when this is dropped, unless it is kept.
pub(super) struct NewFile(pub(super) PathBuf);

impl NewFile {
    /// Keeps the file.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.0.as_os_str().is_empty() {
            return;
        }
        for end in ["", "-wal", "-shm"] {
            let _not_there = std::fs::remove_file(place::beside(&self.0, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_recorder_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.raytrace");
        for (keep, left) in [(true, 3), (false, 0)] {
            for end in ["", "-wal", "-shm"] {
                std::fs::write(place::beside(&path, end), "").expect("a file");
            }
            let new = NewFile(path.clone());
            if keep {
                new.keep();
            } else {
                drop(new);
            }
            let files = std::fs::read_dir(folder.path()).expect("a folder");
            assert_eq!(files.count(), left);
        }
    }
}
