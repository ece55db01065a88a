//! Whether a recording is being written: its writer holds a lock on the file (`flock`), and the kernel releases it when the writer
//! ends, however it ends. A reader in another container or pid namespace sees it too.
//!
//! `flock` and the locks that SQLite takes (`fcntl`) do not see each other. Closing any descriptor of a file drops its process's `fcntl`
//! locks on it, however: the writer closes this one after its connection.

use std::{fs::File, path::Path, thread, time::Duration};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// A reader that looks at this moment holds it for some microseconds.
const TRIES: u32 = 50;

/// Takes the lock for as long as `file` is open. Where the file system has no locks, a recording only looks as if nobody wrote it.
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
