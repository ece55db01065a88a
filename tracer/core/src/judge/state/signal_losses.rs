//! Keeps when signals were lost, or acts of tracers and writers, by the ledger of their hooks.

use std::collections::VecDeque;

use crate::{event::Ledger, ids::BootTime};

/// The hooks that report them.
const HOOKS: [&str; 4] = [
    "signal/signal_generate",
    "fexit/ptrace_attach",
    "fexit/mem_write",
    "fexit/mm_access",
];
/// At most this many spans are kept.
const MAX_SPANS: usize = 1_024;

/// Spans of time in which one of the hooks lost something.
#[derive(Debug, Default)]
pub(crate) struct SignalLosses {
    spans: VecDeque<(BootTime, BootTime)>,
    /// When each hook was last counted, and what it had lost by then.
    last: [(BootTime, u64); HOOKS.len()],
}

impl SignalLosses {
    pub(crate) fn counted(&mut self, time: BootTime, ledger: &Ledger) {
        let Some(hook) = HOOKS.iter().position(|hook| *hook == ledger.hook) else {
            return;
        };
        let (since, before) = std::mem::replace(&mut self.last[hook], (time, ledger.lost()));
        if ledger.lost() > before {
            if self.spans.len() >= MAX_SPANS {
                self.spans.pop_front();
            }
            self.spans.push_back((since, time));
        }
    }

    /// Whether something may have been lost from `began` to `ended`.
    pub(crate) fn within(&self, began: BootTime, ended: BootTime) -> bool {
        let mut spans = self.spans.iter();
        spans.any(|(since, until)| *since <= ended && began <= *until)
    }
}
