//! When signals were lost, by the ledger of their hook.

use std::collections::VecDeque;

use crate::{event::Ledger, ids::BootTime};

/// The hook that tells signals.
const SIGNALS: &str = "signal/signal_generate";
/// Spans that are kept.
const MAX_SPANS: usize = 1_024;

/// Spans of time in which the hook counted signals that it could not hand on.
#[derive(Debug, Default)]
pub(in crate::judge) struct SignalLosses {
    spans: VecDeque<(BootTime, BootTime)>,
    /// When the hook was last counted, and what it had lost by then.
    last: (BootTime, u64),
}

impl SignalLosses {
    pub(in crate::judge) fn counted(&mut self, time: BootTime, ledger: &Ledger) {
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

    /// Whether one may have been lost from `began` to `ended`.
    pub(in crate::judge) fn within(&self, began: BootTime, ended: BootTime) -> bool {
        let mut spans = self.spans.iter();
        spans.any(|(since, until)| *since <= ended && began <= *until)
    }
}
