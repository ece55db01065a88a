//! Joins a sudden end with what the same text says right before: an error, or Ctrl+C.

use crate::judge::from_text::claim::{Claim, Stamp, Statement};

/// What Python raises at Ctrl+C.
pub(super) const INTERRUPT: &str = "KeyboardInterrupt";
/// An error explains an end at most so much later.
const SHORTLY_NS: u64 = 1_000_000_000;
/// Where a text has no times, an error explains an end at most this many lines below.
const SHORTLY_LINES: u64 = 30;
/// After Ctrl+C, a driver stops its workers and ends itself within this many lines.
const INTERRUPTED_LINES: u64 = 400;

/// What a text said last.
#[derive(Debug, Default)]
pub(super) struct Said {
    error: Option<Statement>,
    interrupt: Option<Statement>,
}

impl Said {
    /// Keeps what has been read of the current line, from `before` on, or joins it with ends.
    pub(super) fn join(&mut self, before: usize, found: &mut Vec<Statement>) {
        if found.len() == before {
            return;
        }
        for one in found.split_off(before) {
            match &one.claim {
                Claim::ErrorBefore { says } if says == INTERRUPT => self.interrupt = Some(one),
                Claim::ErrorBefore { .. } => self.error = Some(one),
                _ => self.with_reason(one, found),
            }
        }
    }

    fn with_reason(&self, mut one: Statement, found: &mut Vec<Statement>) {
        let sudden = matches!(one.claim, Claim::Lost | Claim::Died);
        let error = self.error.as_ref();
        let error = error.filter(|error| sudden && is_short(error, &one));
        found.extend(error.map(|error| Statement {
            subject: one.subject.clone(),
            ..error.clone()
        }));
        let lines = |above: &Statement| one.place.line.saturating_sub(above.place.line);
        let interrupt = self.interrupt.as_ref();
        if let Claim::Crash { says, .. } = &mut one.claim
            && let Some(above) = interrupt.filter(|above| lines(above) <= INTERRUPTED_LINES)
        {
            says.push_str(", after Ctrl+C");
            found.push(Statement {
                subject: one.subject.clone(),
                ..above.clone()
            });
        }
        found.push(one);
    }
}

fn is_short(error: &Statement, end: &Statement) -> bool {
    let clocks: [fn(&Stamp) -> Option<i64>; 3] =
        [|stamp| stamp.utc, |stamp| stamp.local, |stamp| stamp.boot];
    let mut times = clocks
        .iter()
        .filter_map(|clock| clock(&error.stamp).zip(clock(&end.stamp)));
    match times.next() {
        Some((error, end)) => end >= error && end.abs_diff(error) <= SHORTLY_NS,
        None => end.place.line.saturating_sub(error.place.line) <= SHORTLY_LINES,
    }
}
