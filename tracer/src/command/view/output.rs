//! Writes a report to a file or to stdout.
//!
//! A file is not overwritten without `--force`. On stdout, lines have the width of the terminal.

use std::{
    fs::File,
    io::{self, BufWriter, ErrorKind, IsTerminal as _, Write},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use anyhow::Context as _;

use super::super::usage;

/// The width in columns if stdout is not a terminal.
pub(super) const WIDTH: u16 = 100;
/// The narrowest and the widest text. The terminal wraps a narrower one; a wider one is hard to
/// read.
const WIDTHS: (u16, u16) = (40, 120);

/// Writes what `make` makes to the file of `-o`.
pub(super) fn write(
    path: &Path,
    force: bool,
    recording: Option<&Path>,
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = Lines {
        inner: BufWriter::new(create(path, force, recording)?),
        count: 0,
    };
    make(&mut file)
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {shown}; is the disk full? df -h {shown}"))?;
    anstream::eprintln!("Wrote {shown} ({} lines)", file.count);
    Ok(())
}

/// Counts the lines that are written through it.
struct Lines<W> {
    inner: W,
    count: usize,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count += memchr::memchr_iter(b'\n', &bytes[..written]).count();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Opens the file of `-o`. It must not be the recording, and must not exist unless `force` is set.
pub(in crate::command) fn create(
    path: &Path,
    force: bool,
    recording: Option<&Path>,
) -> anyhow::Result<File> {
    let shown = path.display();
    if recording.is_some_and(|recording| same_file(recording, path)) {
        return Err(usage(format!(
            "-o {shown} is the recording itself: choose another name"
        )));
    }
    let mut options = File::options();
    options.write(true).create_new(!force);
    options.create(force).truncate(force);
    options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => usage(format!(
            "{shown} exists: choose another name for -o, or add --force to overwrite it"
        )),
        _ => anyhow::Error::new(error).context(format!(
            "cannot write {shown}; choose a folder that you can write to"
        )),
    })
}

fn same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|data| (data.dev(), data.ino()));
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// Returns the width of the terminal at stdout.
pub(in crate::command) fn width() -> u16 {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return WIDTH;
    }
    let size = rustix::termios::tcgetwinsize(&stdout);
    let columns = size.map_or(0, |size| size.ws_col);
    if columns == 0 {
        WIDTH
    } else {
        columns.clamp(WIDTHS.0, WIDTHS.1)
    }
}

/// Prints a result to stdout, in color on a terminal.
pub(in crate::command) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    print_to(&mut stdout, |stdout| stdout.write_all(text.as_bytes()))
}

/// Prints what `make` makes to stdout. It has no colors.
pub(super) fn print_plain(
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    print_to(&mut BufWriter::new(io::stdout().lock()), make)
}

/// A pipe that is closed early (`| head`) is not an error.
fn print_to(
    stdout: &mut dyn Write,
    make: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    match make(stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot write to stdout"),
    }
}
