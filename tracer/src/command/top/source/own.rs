//! Observers of `top`'s own.

use super::super::super::{
    observing::{Observing, Step},
    record::{attach, own, privileges},
};
use crate::{collect::ClusterFilter, observe::stall, recording::Sender, show::top::Top};

/// They run, and nothing is written.
pub(in super::super) struct Own(Observing);

impl Own {
    /// Starts them, with the rights that they need and no others.
    pub(super) fn start() -> anyhow::Result<Self> {
        let attached = attach::attach(false, false)?;
        let mut observing =
            Observing::prepare(attached, Sender::nowhere(), ClusterFilter::default(), None)?;
        own::survive();
        privileges::reduce(None, None, false, || observing.start())?;
        stall::begin();
        observing.collector.scan();
        Ok(Self(observing))
    }

    pub(super) fn refresh(&self, top: &mut Top) {
        top.update(self.0.collector.live());
    }

    /// Waits for what comes next; whether there is anything to draw. May be cancelled while it waits.
    pub(super) async fn next(&mut self, top: &mut Top) -> bool {
        let second = self.0.step().await == Step::Second;
        if second {
            self.refresh(top);
        }
        let told = self.0.collector.take_updates();
        let changed = second || !told.is_empty();
        for told in told {
            top.died(told.death);
        }
        changed
    }

    /// Detaches.
    pub(super) async fn close(mut self) {
        self.0.finish(|_| {}).await;
    }
}
