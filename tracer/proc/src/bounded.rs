//! Reads files with a bound on their size.
//!
//! Every file that another process can write or size is read through this module. A process chooses
//! how long its command line, its environment and its files are, and the recorder must not take
//! memory in proportion.
//!
//! `tracer/clippy.toml` forbids the standard library's functions that read a whole file in every
//! other module.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

use crate::{ids::Pid, read_errors};

/// The bound for a short file of the kernel: some lines, or the figures of one thing.
pub const SMALL: u64 = 64 << 10;
/// The bound for a long file: one line for each of many things.
pub const LARGE: u64 = 4 << 20;

/// Most files fit into this size: one call reads them, and a second one finds their end.
const FIRST: usize = 8 << 10;

/// Reads to the end, but no more than `most` bytes.
#[expect(clippy::disallowed_methods, reason = "the reader is bounded")]
pub fn read(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let first = usize::try_from(most).map_or(FIRST, |most| most.min(FIRST));
    let mut bytes = Vec::with_capacity(first);
    source.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file, but no more than `most` bytes. It is opened without waiting: a FIFO without a
/// writer is empty.
pub fn file(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    open(path)
        .and_then(|file| read(file, most))
        .inspect_err(|error| read_errors::log_once(path, error))
}

/// Reads a file as text, but no more than `most` bytes. Invalid UTF-8, such as in a name that a
/// process gave itself, is replaced.
pub fn text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    file(path, most).map(|bytes| into_text(&bytes))
}

/// Reads a file of `/proc/PID`.
pub fn of_process(pid: Pid, name: &str, most: u64) -> io::Result<Vec<u8>> {
    file(format!("/proc/{pid}/{name}"), most)
}

/// Reads a file of `/proc/PID` as text.
pub fn text_of_process(pid: Pid, name: &str, most: u64) -> io::Result<String> {
    of_process(pid, name, most).map(|bytes| into_text(&bytes))
}

/// Returns the whole lines of a text that may be cut: half a number would be another number.
pub fn whole_lines(mut text: String, most: u64) -> String {
    if text.len() as u64 >= most {
        text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    }
    text
}

fn into_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endless file is read up to the bound; a FIFO without a writer is empty.
    #[test]
    fn endless_file_and_empty_fifo_do_not_block() {
        assert_eq!(file("/dev/zero", 5).expect("zeros"), [0; 5]);
        let folder = tempfile::tempdir().expect("a folder");
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .expect("a FIFO");
        assert!(file(&fifo, 5).expect("nothing").is_empty());
    }

    #[test]
    fn line_cut_by_the_bound_is_left_out() {
        let text = |text: &str, most| whole_lines(text.to_owned(), most);
        assert_eq!(text("a 12\nb 34\n", 11), "a 12\nb 34\n");
        assert_eq!(text("a 12\nb 3", 8), "a 12\n");
        assert_eq!(text("a 12\nb 3", 9), "a 12\nb 3");
    }
}
