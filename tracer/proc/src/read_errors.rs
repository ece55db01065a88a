//! Logs each read error once.
//!
//! A file that cannot be read is tried again and again.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// How many errors are logged at most. File names are foreign input.
const MOST: usize = 128;

/// The errors that were logged, each with the name of its file.
static LOGGED: Mutex<BTreeSet<(OsString, Option<i32>)>> = Mutex::new(BTreeSet::new());

/// Logs why a file could not be read, once for each file name and error. Does not log that the
/// process or the file is gone.
pub fn log_once(path: &Path, error: &io::Error) {
    let gone = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH));
    if !gone && tracing::enabled!(tracing::Level::DEBUG) && is_first(path, error) {
        tracing::debug!(
            "{path:?} cannot be read: {error} (further errors on files of this name are not logged)"
        );
    }
}

/// Returns what was read. If the read failed, [logs](log_once) why and returns `None`.
pub fn ok_or_log<T, E: Into<io::Error>>(path: &Path, read: Result<T, E>) -> Option<T> {
    read.map_err(|error| log_once(path, &error.into())).ok()
}

fn is_first(path: &Path, error: &io::Error) -> bool {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_owned();
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    logged.len() < MOST && logged.insert((name, error.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_logged_once_per_file_name() {
        let refused = io::Error::from_raw_os_error(libc::EACCES);
        let broken = io::Error::from_raw_os_error(libc::EIO);
        let is_first = |path, error| is_first(Path::new(path), error);
        assert!(is_first("/proc/7/a-test", &refused));
        assert!(!is_first("/proc/8/a-test", &refused));
        assert!(is_first("/proc/8/a-test", &broken));
    }
}
