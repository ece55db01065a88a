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
/// The main process of a unit that is stopped ends within this time (systemd's default for
/// `TimeoutStopSec=`), where a text has no times within this many lines.
const STOPPED_NS: i64 = 90_000_000_000;
const STOPPED_LINES: u64 = 30;
/// An error explains an end at most so much later.
const SHORTLY_NS: i64 = 1_000_000_000;
/// Where a text has no times, an error explains an end at most this many lines below.
const SHORTLY_LINES: u64 = 30;
/// After Ctrl+C, a driver stops its workers and ends itself within this many lines.
const INTERRUPTED_LINES: u64 = 400;

/// What a text said last.
#[derive(Debug, Default)]
pub(super) struct Said {
    error: Option<Statement>,
    interrupt: Option<Statement>,
    /// The units that systemd stops, each with its host, and what says so.
    stopping: HashMap<(Option<String>, String), Statement>,
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
        if let Some(unit) = unit(&one) {
            self.stopping.insert(unit, one);
        }
    }

    /// Whether systemd sent this SIGTERM, because it stops the unit. A stop explains one end.
    fn is_stopped(&mut self, one: &Statement) -> bool {
        let above = unit(one).and_then(|unit| self.stopping.remove(&unit));
        let is_near = |above: &Statement| {
            let near = match apart(above, one) {
                Some(apart) => (0..=STOPPED_NS).contains(&apart),
                None => one.place.line.saturating_sub(above.place.line) <= STOPPED_LINES,
            };
            near && above.subject.ip == one.subject.ip && above.subject.folder == one.subject.folder
        };
        one.claim == Claim::Signalled(SIGTERM) && above.as_ref().is_some_and(is_near)
    }

    fn with_reason(&mut self, mut one: Statement, found: &mut Vec<Statement>) {
        let sudden = matches!(one.claim, Claim::Lost | Claim::Died);
        let error = self.error.as_ref();
        let here = |error: &&Statement| error.subject.may_share_host(&one.subject);
        let error = error.filter(|error| sudden && is_short(error, &one) && here(error));
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

/// Returns the host and the unit of a statement.
fn unit(one: &Statement) -> Option<(Option<String>, String)> {
    let unit = one.subject.of.clone()?;
    Some((one.subject.host.clone(), unit))
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
    match apart(error, end) {
        Some(apart) => (0..=SHORTLY_NS).contains(&apart),
        None => end.place.line.saturating_sub(error.place.line) <= SHORTLY_LINES,
    }
}

/// Returns how much later the second was, if both have a time of one clock.
fn apart(first: &Statement, second: &Statement) -> Option<i64> {
    let clocks: [fn(&Stamp) -> Option<i64>; 4] = [
        |stamp| stamp.utc,
        |stamp| stamp.local,
        |stamp| stamp.boot,
        |stamp| stamp.day,
    ];
    let mut times = clocks
        .iter()
        .filter_map(|clock| clock(&first.stamp).zip(clock(&second.stamp)));
    times.next().map(|(first, second)| second - first)
}
