//! Attaches the probes as `record` would, and detaches them again.

use super::super::attach;
use crate::{
    event::{Mode, Probe},
    observe::{kernel, kmsg},
};

/// Finds out in which mode this machine can be recorded, and with which probes.
pub(super) fn probe() -> (Option<Mode>, Vec<Probe>) {
    let log = kmsg::probe(&kmsg::Kmsg::open());
    let (mode, mut probes) = match kernel::attach(false) {
        Ok(attached) => (Mode::Ebpf, attached.probes),
        Err(error) => (Mode::Procfs, vec![attach::missing(&error)]),
    };
    probes.push(log);
    (Some(mode), probes)
}
