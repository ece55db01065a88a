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
    /// The time and the number of the rank that is being read.
    time: Option<i64>,
    number: Option<String>,
    root: Option<Place>,
    waiting: Vec<Rank>,
}

#[derive(Debug, Clone)]
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
        } else if let Some((_, number)) = text.split_once("rank      : ") {
            self.number = number.split(' ').next().map(|rank| format!("rank {rank}"));
        } else if text.contains(ROOT) {
            self.root = Some(line.place);
        } else if text.starts_with("exitcode  : ") {
            let (time, number) = (self.time.take(), self.number.take());
            for mut end in out.split_off(before) {
                end.subject.of = end.subject.of.or_else(|| number.clone());
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
            out.extend(waiting.map(|one| one.after(Some(&rank))));
            out.push(rank.end);
            return;
        }
        let last = self.waiting.last().map(|last| last.end.place);
        if !last.is_none_or(near) || self.waiting.len() >= MAX_RANKS {
            self.flush(out);
        }
        self.waiting.push(rank);
    }

    /// Hands over what still waits at the end of the text. In a report without its end, the others
    /// follow from the first rank that failed by itself.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        let waiting = std::mem::take(&mut self.waiting);
        let failed = waiting
            .iter()
            .filter(|rank| matches!(rank.end.claim, Claim::Exit { .. } | Claim::Crash { .. }));
        let dated = failed.filter(|rank| rank.time.is_some());
        let first = dated.min_by_key(|rank| rank.time).cloned();
        let ends = waiting.into_iter().map(|rank| rank.after(first.as_ref()));
        out.extend(ends);
    }
}

impl Rank {
    /// Returns the end of this rank, in a report by which `root` failed first.
    fn after(self, root: Option<&Self>) -> Statement {
        let Some(root) = root else {
            return self.end;
        };
        let later = root.time.zip(self.time).map(|(root, own)| own - root);
        if later.is_some_and(|later| later < 0) {
            return self.end;
        }
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
        why: format!("the rank of pid {first} had failed before"),
        for_memory: false,
        unit: None,
        after_part: false,
        after: Some(first),
    }
}
