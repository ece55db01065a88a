//! Writes a report to a file or to stdout.
//!
//! A file is not overwritten without `--force`. On stdout, lines have the width of the terminal.

use std::{
    fs::File,
    io::{BufWriter, ErrorKind, IsTerminal as _, Write},
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

/// Writes the file of `-o`.
pub(super) fn write(
    path: &Path,
    force: bool,
    recording: Option<&Path>,
    text: &str,
) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = BufWriter::new(create(path, force, recording)?);
    write!(file, "{}", anstream::adapter::strip_str(text))
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {shown}; is the disk full? df -h {shown}"))?;
    anstream::eprintln!("Wrote {shown} ({} lines)", text.lines().count());
    Ok(())
}

/// Writes what `write` makes to the file of `-o`, or to stdout without one. It must not contain
/// styles of the terminal.
pub(super) fn stream(
    path: Option<&Path>,
    force: bool,
    recording: Option<&Path>,
    write: impl FnOnce(&mut Lines<Box<dyn Write>>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let inner: Box<dyn Write> = match path {
        Some(path) => Box::new(BufWriter::new(create(path, force, recording)?)),
        None => Box::new(BufWriter::new(std::io::stdout().lock())),
    };
    let mut output = Lines { inner, count: 0 };
    let written = write(&mut output).and_then(|()| output.flush());
    match (written, path) {
        (written, Some(path)) => {
            let shown = path.display();
            written.with_context(|| {
                format!("cannot write {shown}; is the disk full? df -h {shown}")
            })?;
            anstream::eprintln!("Wrote {shown} ({} lines)", output.count);
            Ok(())
        }
        (Err(error), None) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        (written, None) => written.context("cannot write to stdout"),
    }
}

/// Counts the lines that are written through it.
pub(super) struct Lines<W> {
    inner: W,
    count: usize,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count += memchr::memchr_iter(b'\n', &bytes[..written]).count();
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
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

/// Prints a result to stdout. A pipe that is closed early (`| head`) is not an error.
pub(in crate::command) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    let printed = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match printed {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("cannot write to stdout"),
    }
}
