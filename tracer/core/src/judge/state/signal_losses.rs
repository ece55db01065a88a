//! Keeps when signals were lost, by the ledger of their hook.

use std::collections::VecDeque;

use crate::{event::Ledger, ids::BootTime};

/// The hook that reports signals.
const SIGNALS: &str = "signal/signal_generate";
/// At most this many spans are kept.
const MAX_SPANS: usize = 1_024;

/// Spans of time in which the hook lost signals.
#[derive(Debug, Default)]
pub(crate) struct SignalLosses {
    spans: VecDeque<(BootTime, BootTime)>,
    /// When the hook was last counted, and what it had lost by then.
    last: (BootTime, u64),
}

impl SignalLosses {
    pub(crate) fn counted(&mut self, time: BootTime, ledger: &Ledger) {
        if ledger.hook != SIGNALS {
            return;
        }
        let (since, before) = std::mem::replace(&mut self.last, (time, ledger.lost()));
        if ledger.lost() > before {
            if self.spans.len() >= MAX_SPANS {
                self.spans.pop_front();
            }
            self.spans.push_back((since, time));
        }
    }

    /// Whether a signal may have been lost from `began` to `ended`.
    pub(crate) fn within(&self, began: BootTime, ended: BootTime) -> bool {
        let mut spans = self.spans.iter();
        spans.any(|(since, until)| *since <= ended && began <= *until)
    }
}
