//! Joins an end with what the same text says right before: an error, Ctrl+C, or that systemd stops
//! the unit.

use std::collections::HashMap;

use libc::SIGTERM;

use crate::judge::from_text::claim::{Claim, Daemon, Stamp, Statement};

/// What Python raises at Ctrl+C.
pub(super) const INTERRUPT: &str = "KeyboardInterrupt";
/// What a row says of a unit that systemd stops.
const STOPPING: &str = "systemd stops it";
/// At most this many units that are stopped are kept.
const MAX_UNITS: usize = 256;
/// The main process of a unit that is stopped ends within this many lines.
const STOPPED_LINES: u64 = 100;
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
    /// The units that systemd stops, and the line of each.
    stopping: HashMap<String, u64>,
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
                Claim::ErrorBefore { says } if says == STOPPING => self.stops(one),
                Claim::ErrorBefore { .. } => self.error = Some(one),
                _ => self.with_reason(one, found),
            }
        }
    }

    fn stops(&mut self, one: Statement) {
        if self.stopping.len() >= MAX_UNITS {
            self.stopping.clear();
        }
        let line = one.place.line;
        self.stopping
            .extend(one.subject.of.map(|unit| (unit, line)));
    }

    /// Whether systemd sent this SIGTERM, because it stops the unit.
    fn is_stopped(&self, one: &Statement) -> bool {
        let unit = one.subject.of.as_ref();
        let above = unit.and_then(|unit| self.stopping.get(unit));
        let lines = above.map(|above| one.place.line.saturating_sub(*above));
        one.claim == Claim::Signalled(SIGTERM) && lines.is_some_and(|lines| lines <= STOPPED_LINES)
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
        if self.is_stopped(&one) {
            one.claim = Claim::Daemon(by_systemd());
        }
        found.push(one);
    }
}

fn by_systemd() -> Daemon {
    Daemon {
        name: "systemd".into(),
        pid: None,
        signal: Some(SIGTERM),
        why: "the unit was stopped".into(),
        for_memory: false,
        fix: None,
        unit: None,
        after_part: false,
        after: None,
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
