//! Rotates the files of a recorder that always runs, and deletes the oldest ones.
//!
//! The writer's thread closes a file and opens the next one between two batches, so each event is
//! in one file. A reader of the new file alone needs to know the live processes; these are
//! [carried](super::carry) over.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{lock, place};
use crate::ids::WallTime;

/// After a new file could not be made, it is tried again this often.
const RETRY: Duration = Duration::from_secs(30);

/// Where the files are and how many are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The folder.
    pub folder: PathBuf,
    /// The host's name, which is part of each file's name.
    pub host: String,
    /// How long a file is written before the next one is begun.
    pub every: Duration,
    /// The number of files that are kept, including the one that is being written.
    pub keep_files: usize,
    /// The maximum size of all files together.
    pub max_total: u64,
}

/// A rotation under way.
#[derive(Debug)]
pub(super) struct Rotating {
    rotation: Rotation,
    due: Instant,
    /// The next file's number, from 1; the first file has 0.
    pub(super) part: u32,
}

impl Rotating {
    pub(super) fn new(rotation: Rotation) -> Self {
        Self {
            due: Instant::now() + rotation.every,
            rotation,
            part: 1,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Returns the path of a file that is begun at `now`.
    pub(super) fn next(&self, now: WallTime) -> PathBuf {
        let name = place::default_name(&self.rotation.host, now.timestamp());
        self.rotation.folder.join(name)
    }

    /// Notes that the next file was begun.
    pub(super) fn begun(&mut self) {
        self.due = Instant::now() + self.rotation.every;
        self.part += 1;
    }

    /// Notes that the next file could not be made.
    pub(super) fn failed(&mut self) {
        self.due = Instant::now() + RETRY.min(self.rotation.every);
    }

    /// Deletes the oldest files that exceed the limits. `current` is the file that is being
    /// written.
    pub(super) fn prune(&self, current: &Path) {
        for path in self.rotation.surplus(current) {
            for end in ["", "-wal", "-shm"] {
                let _not_there = std::fs::remove_file(place::beside(&path, end));
            }
        }
    }
}

impl Rotation {
    /// Returns the files that exceed the limits, the oldest first.
    fn surplus(&self, current: &Path) -> Vec<PathBuf> {
        let mut files = place::of_host(&self.folder, &self.host);
        files.retain(|path| path != current);
        let mut total: u64 = files.iter().map(|path| size(path)).sum::<u64>() + size(current);
        let mut count = files.len() + 1;
        let mut surplus = Vec::new();
        for path in files {
            if count <= self.keep_files && total <= self.max_total {
                break;
            }
            // Another recorder may write it.
            if lock::is_held(&path) {
                continue;
            }
            count -= 1;
            total = total.saturating_sub(size(&path));
            surplus.push(path);
        }
        surplus
    }
}

/// Returns a file's size, including its log.
fn size(path: &Path) -> u64 {
    let of = |end: &str| std::fs::metadata(place::beside(path, end)).map_or(0, |data| data.len());
    of("") + of("-wal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(folder: &Path) -> Rotation {
        Rotation {
            folder: folder.to_owned(),
            host: "node".into(),
            every: Duration::from_secs(60),
            keep_files: 3,
            max_total: 1 << 20,
        }
    }

    fn write(folder: &Path, name: &str, bytes: usize) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, vec![0; bytes]).expect("a file");
        path
    }

    /// Files of other hosts and with other names stay.
    #[test]
    fn oldest_files_of_this_host_are_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |day: u32, bytes| {
            let name = format!("raytrace-node-202611{day:02}T000000Z.raytrace");
            write(folder.path(), &name, bytes)
        };
        let files: Vec<PathBuf> = (1..=5).map(|day| at(day, 100)).collect();
        write(
            folder.path(),
            "raytrace-node-2-20261101T000000Z.raytrace",
            9,
        );
        write(folder.path(), "raytrace-other-20261101T000000Z.raytrace", 9);
        write(folder.path(), "mine.raytrace", 9);
        let rotation = rotation(folder.path());
        assert_eq!(rotation.surplus(&files[4]), files[..2]);
        let large = Rotation {
            keep_files: 28,
            max_total: 250,
            ..rotation
        };
        assert_eq!(large.surplus(&files[4]), files[..3]);
    }

    #[test]
    fn file_of_a_live_recorder_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = write(folder.path(), "raytrace-node-20261101T000000Z.raytrace", 10);
        let written = std::fs::File::open(&first).expect("a file");
        lock::hold(&written);
        let rotation = Rotation {
            keep_files: 1,
            ..rotation(folder.path())
        };
        let current = folder
            .path()
            .join("raytrace-node-20261102T000000Z.raytrace");
        assert_eq!(rotation.surplus(&current), Vec::<PathBuf>::new());
        drop(written);
        assert_eq!(rotation.surplus(&current), [first]);
    }
}
