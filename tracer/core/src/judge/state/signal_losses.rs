//! Keeps when signals were lost, or acts of tracers and writers, by the ledger.

use std::collections::VecDeque;

use crate::{
    event::{Ledger, OF_FUNCTIONS, PROCESS_EVENTS},
    ids::BootTime,
};

const SIGNALS: &str = "signal/signal_generate";
/// At most this many spans are kept.
const MAX_SPANS: usize = 1_024;
/// At most this many rows of the ledger are followed. There are six.
const MAX_ROWS: usize = 32;

/// Spans of time in which one of the rows lost something.
#[derive(Debug, Default)]
pub(crate) struct SignalLosses {
    spans: VecDeque<Span>,
    /// The rows as they were last.
    last: Vec<(BootTime, Ledger)>,
}

#[derive(Debug)]
struct Span {
    since: BootTime,
    until: BootTime,
    /// Whether all of it is marked at the exits of the processes that it was about.
    is_marked: bool,
}

impl SignalLosses {
    pub(crate) fn counted(&mut self, time: BootTime, ledger: &Ledger) {
        let hook = ledger.hook.as_str();
        let mut functions = OF_FUNCTIONS.iter();
        let of_function = functions.any(|begin| hook.starts_with(begin));
        if hook != SIGNALS && hook != PROCESS_EVENTS && !of_function {
            return;
        }
        let at = self.last.iter().position(|(_, last)| last.hook == hook);
        let (since, before) = match at {
            Some(at) => std::mem::replace(&mut self.last[at], (time, ledger.clone())),
            None if self.last.len() < MAX_ROWS => {
                self.last.push((time, ledger.clone()));
                Default::default()
            }
            None => Default::default(),
        };
        if ledger.lost() > before.lost() {
            if self.spans.len() >= MAX_SPANS {
                self.spans.pop_front();
            }
            self.spans.push_back(Span {
                since,
                until: time,
                is_marked: unmarked(ledger) <= unmarked(&before),
            });
        }
    }

    /// Whether something about a process may have been lost from `began` to `ended`. `has_marks` is
    /// whether its exit says what the kernel saw and could not keep.
    pub(crate) fn within(&self, began: BootTime, ended: BootTime, has_marks: bool) -> bool {
        let mut spans = self.spans.iter();
        spans.any(|span| {
            span.since <= ended && began <= span.until && !(has_marks && span.is_marked)
        })
    }
}

/// Returns what a row has lost that no exit says: the program did not run, or what it had sent was
/// dropped.
fn unmarked(ledger: &Ledger) -> u64 {
    let marked = ledger.ring_full.saturating_add(ledger.map_full);
    ledger.lost().saturating_sub(marked)
}
