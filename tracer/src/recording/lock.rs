//! Shows whether a recording is being written: its writer holds a lock on the file (`flock`).
//!
//! The kernel releases the lock when the writer ends, however it ends. A reader in another
//! container or pid namespace sees the lock too.
//!
//! `flock` and the locks that SQLite takes (`fcntl`) do not see each other. However, closing any
//! descriptor of a file drops all `fcntl` locks that its process has on it. So the writer closes
//! this descriptor after its connection.

use std::{fs::File, path::Path, thread, time::Duration};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// How often the lock is tried. A reader that is checking it holds it for some microseconds.
const TRIES: u32 = 50;

/// Takes the lock for as long as `file` is open. On a file system without locks, the recording only
/// looks as if it were not being written.
pub(super) fn hold(file: &File) {
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// Whether a writer has the recording at `path` open.
pub(super) fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}
