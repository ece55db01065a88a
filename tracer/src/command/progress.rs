//! Shows a progress bar on a terminal when reading takes longer than a second.

use std::{
    cell::Cell,
    io::{self, IsTerminal as _, Read},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Reading that takes less time shows no bar.
const SOON: Duration = Duration::from_secs(1);

/// How much has been read, shown on standard error.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    /// Whether the bar is still to be shown. Never set if standard error is not a terminal.
    waits: Cell<bool>,
}

impl Progress {
    /// Creates a bar for `total` bytes, if the total is known.
    pub(super) fn of(total: Option<u64>) -> Self {
        Self::with_terminal(total, io::stderr().is_terminal())
    }

    fn with_terminal(total: Option<u64>, terminal: bool) -> Self {
        let template = match total {
            Some(_) => "reading {bytes} of {total_bytes} [{wide_bar}] {eta}",
            None => "reading {bytes} {spinner}",
        };
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            began: Instant::now(),
            waits: Cell::new(terminal),
        }
    }

    /// Creates a bar that is never shown.
    #[cfg(test)]
    pub(super) fn hidden() -> Self {
        Self::with_terminal(None, false)
    }

    /// Counts the bytes that are read from `text`.
    pub(super) fn wrap_read<R: Read>(&self, text: R) -> impl Read {
        CountingReader {
            text,
            progress: self,
        }
    }

    fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        if self.waits.get() && self.began.elapsed() > SOON {
            self.waits.set(false);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

struct CountingReader<'a, R> {
    text: R,
    progress: &'a Progress,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.text.read(buffer)?;
        self.progress.add(got as u64);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(progress: &Progress, text: &[u8]) {
        let copied = io::copy(&mut progress.wrap_read(text), &mut io::sink());
        assert_eq!(copied.expect("bytes in memory"), text.len() as u64);
    }

    /// Only a terminal shows a bar.
    #[test]
    fn bar_appears_after_one_second() {
        let mut progress = Progress::with_terminal(Some(9), true);
        read(&progress, b"abc");
        assert!(progress.waits.get(), "a moment is no reason for a bar");
        progress.began = Instant::now()
            .checked_sub(2 * SOON)
            .expect("the machine has run for seconds");
        read(&progress, b"def");
        assert!(!progress.waits.get());
        assert_eq!(progress.bar.position(), 6);
        let mut progress = Progress::with_terminal(Some(9), false);
        progress.began = Instant::now()
            .checked_sub(2 * SOON)
            .expect("the machine has run for seconds");
        read(&progress, b"abc");
        assert!(progress.bar.is_hidden());
    }
}
