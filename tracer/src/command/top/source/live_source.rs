//! Runs observers for `top` without writing a recording.

use super::super::super::{
    attach,
    observer_loop::{ObserverLoop, Step},
    privileges,
    record::self_protection,
};
use crate::{collect::ClusterFilter, observe::timed_read, recording::Sender, show::top::Top};

/// The running observers.
pub(in super::super) struct LiveSource(ObserverLoop);

impl LiveSource {
    /// Starts the observers with only the rights that they need.
    pub(super) fn start() -> anyhow::Result<Self> {
        let attached = attach::attach(false, false)?;
        let mut observers = ObserverLoop::prepare(
            attached,
            Sender::discarding(),
            ClusterFilter::default(),
            None,
            None,
        )?;
        self_protection::protect();
        privileges::reduce(None, None, false, || observers.start())?;
        timed_read::begin();
        observers.collector.scan();
        Ok(Self(observers))
    }

    pub(super) fn refresh(&self, top: &mut Top) {
        top.update(self.0.collector.live());
    }

    /// Waits for new data, and returns whether there is anything to draw. May be cancelled while it
    /// waits.
    pub(super) async fn next(&mut self, top: &mut Top) -> bool {
        let second = self.0.step().await == Step::Second;
        if second {
            self.refresh(top);
        }
        let told = self.0.collector.take_updates();
        let changed = second || !told.is_empty();
        super::take(top, told, |deaths| self.0.collector.report_of(deaths));
        changed
    }

    /// Detaches.
    pub(super) async fn close(mut self) {
        self.0.finish(|_| {}).await;
    }
}
