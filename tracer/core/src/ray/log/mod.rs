//! Parses Ray's log files into facts.
//!
//! These are the raylet, `gcs_server`, core-worker and worker logs of Ray 2.9 to 2.60, text and
//! JSON.
//!
//! Lines are pushed and records come out. A kill record of the memory monitor spans many lines. It
//! comes out at its last line, or by [`LogParser::flush`], which a follower calls when the file has
//! not changed for a moment.

pub mod after_effects;
mod attempts;
pub mod clock;
pub mod configuration;
mod died;
pub mod file_name;
pub mod gpu_moved;
mod line;
pub mod lost_children;
mod message;
pub mod monitor_kill;
mod step;
#[cfg(test)]
mod tests;
pub mod words;

use crate::{ids::HexId, ray::facts::RayFact};
use attempts::Attempts;
use configuration::Configuration;
use died::ExceptionReader;

/// Bytes of a record's text that are kept as evidence.
const TEXT_BYTES: usize = 1000;
/// Where older recordings cut the text. They did not mark the cut.
const OLD_TEXT_BYTES: usize = 300;
/// The largest kill record that is read whole. Ray lists every candidate.
const BLOCK_BYTES: usize = 256 << 10;

/// The component that writes a file. It decides what the file can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `raylet.out`, `raylet.err`.
    Raylet,
    /// `gcs_server.out`.
    Gcs,
    /// `python-core-worker-*.log`, `python-core-driver-*.log`: written by the worker or driver
    /// itself.
    CoreWorker,
    /// `worker-*.out`, `worker-*.err`, `job-driver-*.log`: whatever the user's code prints.
    WorkerOutput,
}

/// One fact, with the line that contains it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Local time of the writer, in nanoseconds since 1970 without a zone.
    pub local_time: Option<i64>,
    /// First line of the record, cut to 1000 bytes.
    pub text: String,
    /// Its number among the lines that were pushed, from 1.
    pub line: u64,
    /// What it says.
    pub fact: RayFact,
}

/// A parser of one file.
#[derive(Debug)]
pub struct LogParser {
    kind: FileKind,
    worker_id: Option<HexId>,
    lines: u64,
    open: Option<OpenBlock>,
    attempts: Attempts,
    configuration: Configuration,
    died: ExceptionReader,
}

/// A record of several lines that is not complete.
#[derive(Debug)]
struct OpenBlock {
    local_time: Option<i64>,
    line: u64,
    text: String,
}

impl LogParser {
    /// Creates a parser for a file of this kind. `worker_id` is the one in the file's name.
    pub fn new(kind: FileKind, worker_id: Option<HexId>) -> Self {
        Self {
            kind,
            worker_id,
            lines: 0,
            open: None,
            attempts: Attempts::default(),
            configuration: Configuration::default(),
            died: ExceptionReader::default(),
        }
    }

    /// Takes one line, without its newline.
    pub fn push(&mut self, text: &str, out: &mut Vec<Record>) {
        self.lines += 1;
        if self.kind == FileKind::WorkerOutput {
            return self.output_line(text, out);
        }
        let Some(parsed) = line::parse(text) else {
            return self.continuation(text, out);
        };
        self.flush(out);
        let begins =
            monitor_kill::begins(&parsed.message) || message::begins_shutdown(&parsed.message);
        if self.kind == FileKind::Raylet && begins {
            let mut block = OpenBlock {
                local_time: parsed.local_time,
                line: self.lines,
                text: parsed.message.into_owned(),
            };
            // JSON logs and 2.55, 2.56 put the whole record on one line.
            let whole = monitor_kill::complete(&block.text) || text.starts_with('{');
            block.text.push('\n');
            self.open = Some(block);
            if whole {
                self.flush(out);
            }
            return;
        }
        let fact = match self.kind {
            FileKind::Raylet => message::raylet(&parsed),
            FileKind::Gcs => message::gcs(&parsed),
            _ => message::core_worker(&parsed, self.worker_id.as_ref())
                .or_else(|| self.attempts.observe(&parsed.message)),
        };
        out.extend(fact.map(|fact| self.record(&parsed.message, parsed.local_time, fact)));
    }

    fn continuation(&mut self, text: &str, out: &mut Vec<Record>) {
        if let Some(open) = &mut self.open {
            if open.text.len() + text.len() < BLOCK_BYTES {
                open.text.push_str(text);
                open.text.push('\n');
            }
            if monitor_kill::ends(text) || message::ends_shutdown(text) {
                self.flush(out);
            }
            return;
        }
        let fact = match self.kind {
            FileKind::CoreWorker => message::failure_signal(text, self.worker_id.as_ref()),
            _ => None,
        };
        out.extend(fact.map(|fact| self.record(text, None, fact)));
    }

    fn output_line(&mut self, text: &str, out: &mut Vec<Record>) {
        let printed = self.configuration.push(text);
        let worker_id = self.worker_id.clone();
        let fact = if let Some(settings) = printed {
            Some(RayFact::Configuration {
                settings,
                worker_id,
            })
        } else {
            let died = self.died.push(text, worker_id.as_ref());
            died.or_else(|| message::worker_output(text, worker_id.as_ref()))
        };
        out.extend(fact.map(|fact| self.record(text, None, fact)));
    }

    /// Makes the record for the line that was just read.
    fn record(&self, text: &str, local_time: Option<i64>, fact: RayFact) -> Record {
        Record {
            local_time,
            text: cut(text),
            line: self.lines,
            fact,
        }
    }

    /// Returns a record that is still incomplete.
    pub fn flush(&mut self, out: &mut Vec<Record>) {
        let Some(open) = self.open.take() else { return };
        let fact = if message::begins_shutdown(&open.text) {
            message::shutdown(&open.text)
        } else {
            RayFact::MonitorKill(monitor_kill::parse(&open.text))
        };
        out.push(Record {
            local_time: open.local_time,
            text: cut(&open.text),
            line: open.line,
            fact,
        });
    }

    /// Whether a record is waiting for its last line.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

/// Returns the first line, at most [`TEXT_BYTES`] of it, cut between two characters. A text that
/// was cut ends in `…`.
fn cut(text: &str) -> String {
    let first = text.lines().next().unwrap_or("");
    if first.len() <= TEXT_BYTES {
        return first.to_owned();
    }
    let end = (0..=TEXT_BYTES)
        .rev()
        .find(|at| first.is_char_boundary(*at));
    format!("{}…", &first[..end.unwrap_or(0)])
}

/// Marks a kept text that was cut before cuts were marked.
pub fn marked(text: &str) -> String {
    let was_cut =
        text.len() <= OLD_TEXT_BYTES && text.len() > OLD_TEXT_BYTES - char::MAX.len_utf8();
    if was_cut && !text.ends_with('…') {
        format!("{text}…")
    } else {
        text.to_owned()
    }
}
