//! Reads the ring of deaths, and the exits that did not fit into it.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::Arc,
};

use aya::maps::{HashMap, MapData, RingBuf};
use raytrace_ebpf::records::{Exit, Hook};

use super::{
    hooks::{Decoder, NewTitle},
    ledger::Received,
};
use crate::{event::Observation, ids::BootTime};

/// A record taken from the ring.
pub enum FromRing<'a> {
    /// A new title, borrowed from the ring.
    Title(NewTitle<'a>),
    /// Anything else.
    Other(Observation),
}

impl From<FromRing<'_>> for Observation {
    fn from(told: FromRing<'_>) -> Self {
        match told {
            FromRing::Title(new) => new.into(),
            FromRing::Other(what) => what,
        }
    }
}

/// The reader of the ring.
pub struct Ring {
    ring: RingBuf<MapData>,
    unsent: HashMap<MapData, u32, [u8; size_of::<Exit>()]>,
    decoder: Decoder,
    received: Arc<Received>,
}

impl Ring {
    pub(super) fn new(
        ring: RingBuf<MapData>,
        unsent: HashMap<MapData, u32, [u8; size_of::<Exit>()]>,
        decoder: Decoder,
        received: Arc<Received>,
    ) -> Self {
        Self {
            ring,
            unsent,
            decoder,
            received,
        }
    }

    /// Takes all records that are in the ring now, in the order in which they were written.
    pub fn drain(&mut self, mut sink: impl FnMut(BootTime, FromRing<'_>)) {
        while let Some(item) = self.ring.next() {
            if let Some((time, new)) = self.decoder.title(&item) {
                self.received.add(Hook::Rename);
                sink(time, FromRing::Title(new));
            } else if let Some((hook, time, what)) = self.decoder.decode(&item) {
                self.received.add(hook);
                if let Some((time, caught)) = Decoder::caught(&item) {
                    sink(time, FromRing::Other(caught));
                }
                sink(time, FromRing::Other(what));
            }
        }
    }

    /// Takes the exits that did not fit into the ring.
    pub fn harvest(&mut self, mut sink: impl FnMut(BootTime, Observation)) {
        let pids: Vec<u32> = self.unsent.keys().filter_map(Result::ok).collect();
        for pid in pids {
            let Ok(bytes) = self.unsent.get(&pid, 0) else {
                continue;
            };
            if let Some((_, time, Observation::Exit(mut exit))) = self.decoder.decode(&bytes) {
                exit.harvested = true;
                if let Some((time, caught)) = Decoder::caught(&bytes) {
                    sink(time, caught);
                }
                sink(time, Observation::Exit(exit));
            }
            let _gone_already = self.unsent.remove(&pid);
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to the map that `self` owns, and lives as long as it.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}
