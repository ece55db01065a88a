//! Writes a report to a file, which is never overwritten unasked, or to stdout in the width of its terminal.

use std::{
    fs::File,
    io::{ErrorKind, IsTerminal as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use anyhow::Context as _;

use super::super::usage;

/// Columns where no terminal says otherwise.
pub(super) const WIDTH: u16 = 100;
/// Narrower is cut by the terminal, wider is hard to read.
const WIDTHS: (u16, u16) = (40, 120);

/// Writes the file of `-o`.
pub(super) fn write(
    path: &Path,
    force: bool,
    recording: Option<&Path>,
    text: &str,
) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = create(path, force, recording)?;
    let text = anstream::adapter::strip_str(text).to_string();
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .with_context(|| format!("cannot write {shown}; is the disk full? df -h {shown}"))?;
    anstream::eprintln!("Wrote {shown} ({} lines)", text.lines().count());
    Ok(())
}

/// Opens the file of `-o`: one that does not exist, or may be overwritten, and is not the recording.
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

/// The columns of the terminal that stdout is.
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

/// Results go to stdout; whoever closes the pipe early (`| head`) has seen enough.
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
