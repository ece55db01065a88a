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
pub(super) struct Reading {
    bar: ProgressBar,
    began: Instant,
    /// Whether the bar is still to be shown. Never set if standard error is not a terminal.
    waits: Cell<bool>,
}

impl Reading {
    /// Creates a bar for `total` bytes, if the total is known.
    pub(super) fn of(total: Option<u64>) -> Self {
        Self::on(total, io::stderr().is_terminal())
    }

    fn on(total: Option<u64>, terminal: bool) -> Self {
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
        Self::on(None, false)
    }

    /// Counts the bytes that are read from `text`.
    pub(super) fn counts<R: Read>(&self, text: R) -> impl Read {
        Counted { text, of: self }
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

struct Counted<'a, R> {
    text: R,
    of: &'a Reading,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.text.read(buffer)?;
        self.of.add(got as u64);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reading: &Reading, text: &[u8]) {
        let copied = io::copy(&mut reading.counts(text), &mut io::sink());
        assert_eq!(copied.expect("bytes in memory"), text.len() as u64);
    }

    /// Only a terminal shows a bar.
    #[test]
    fn bar_appears_after_one_second() {
        let mut reading = Reading::on(Some(9), true);
        read(&reading, b"abc");
        assert!(reading.waits.get(), "a moment is no reason for a bar");
        reading.began = Instant::now()
            .checked_sub(2 * SOON)
            .expect("the machine has run for seconds");
        read(&reading, b"def");
        assert!(!reading.waits.get());
        assert_eq!(reading.bar.position(), 6);
        let mut reading = Reading::on(Some(9), false);
        reading.began = Instant::now()
            .checked_sub(2 * SOON)
            .expect("the machine has run for seconds");
        read(&reading, b"abc");
        assert!(reading.bar.is_hidden());
    }
}
