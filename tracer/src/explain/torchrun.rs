//! Reads which ranks torchrun ended itself, in its report on all failures of a node.
//!
//! The report has the rank that failed first at its end. torchrun sends SIGTERM to the others, and
//! later SIGKILL.

use libc::{SIGKILL, SIGTERM};

use super::{line::LogLine, stamp};
use crate::{
    ids::{Pid, SECOND_NS},
    judge::from_text::claim::{Claim, Daemon, Place, Stamp, Statement},
};

/// What stands above the rank that failed first.
const ROOT: &str = "Root Cause (first observed failure)";
/// A rank takes so many lines of the report.
const RANK_LINES: u64 = 8;
/// At most this many ranks of a report wait for its end.
const MAX_RANKS: usize = 256;
/// torchrun sends SIGKILL this much later than SIGTERM. The report has whole seconds.
const GRACE_NS: i64 = 29 * SECOND_NS;

/// The ranks of a report whose end has not been read.
#[derive(Debug, Default)]
pub(super) struct Torchrun {
    /// The time of the rank that is being read.
    time: Option<i64>,
    root: Option<Place>,
    waiting: Vec<Rank>,
}

#[derive(Debug)]
struct Rank {
    time: Option<i64>,
    end: Statement,
}

impl Torchrun {
    /// Reads a line. The statements from `before` on are those of this line.
    pub(super) fn line(&mut self, line: &LogLine, before: usize, out: &mut Vec<Statement>) {
        let text = line.text.trim();
        if let Some((_, at)) = text.split_once("time      : ") {
            self.time = stamp::local(&at.replacen('_', " ", 1));
        } else if text.contains(ROOT) {
            self.root = Some(line.place);
        } else if text.starts_with("exitcode  : ") {
            let time = self.time.take();
            for mut end in out.split_off(before) {
                if end.stamp.is_empty() {
                    let local = time;
                    end.stamp = Stamp { local, ..end.stamp };
                }
                self.rank(Rank { time, end }, out);
            }
        }
    }

    fn rank(&mut self, rank: Rank, out: &mut Vec<Statement>) {
        let place = rank.end.place;
        let near = |above: Place| place.line.saturating_sub(above.line) <= RANK_LINES;
        if self.root.take().is_some_and(near) {
            let waiting = self.waiting.drain(..);
            out.extend(waiting.map(|one| one.after(&rank)));
            out.push(rank.end);
            return;
        }
        let last = self.waiting.last().map(|last| last.end.place);
        if !last.is_none_or(near) || self.waiting.len() >= MAX_RANKS {
            self.flush(out);
        }
        self.waiting.push(rank);
    }

    /// Hands over what still waits at the end of the text.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        out.extend(self.waiting.drain(..).map(|rank| rank.end));
    }
}

impl Rank {
    /// Returns the end of this rank, in a report by which `root` failed first.
    fn after(self, root: &Self) -> Statement {
        let later = root.time.zip(self.time).map(|(root, own)| own - root);
        let ended = match self.end.claim {
            // Somebody else may have sent the SIGTERM to all of them.
            Claim::Signalled(SIGTERM) if root.end.claim != self.end.claim => Some(SIGTERM),
            Claim::Signalled(SIGKILL) => Some(SIGKILL).filter(|_| later >= Some(GRACE_NS)),
            _ => None,
        };
        let Some((signal, first)) = ended.zip(root.end.subject.pid) else {
            return self.end;
        };
        Statement {
            claim: Claim::Daemon(by_torchrun(signal, first)),
            ..self.end
        }
    }
}

fn by_torchrun(signal: i32, first: Pid) -> Daemon {
    Daemon {
        fix: None,
        name: "torchrun".into(),
        pid: None,
        signal: Some(signal),
        why: format!("the rank of pid {first} had failed first"),
        for_memory: false,
        unit: None,
        after_part: false,
        after: Some(first),
    }
}
