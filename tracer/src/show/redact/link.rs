//! Redacts the link of a death to one on another node. Ids stay.

use super::scrub::Scrubber;
use crate::judge::report::{LinkReason, Remote};

/// Redacts the reason of a link.
pub(super) fn redact_link_reason(scrubber: &mut Scrubber, reason: &mut LinkReason) {
    match reason {
        LinkReason::NamesActor { source, .. }
        | LinkReason::NamesOwner { source, .. }
        | LinkReason::GcsGone { source }
        | LinkReason::PeerError { source, .. } => *source = scrubber.text(source),
        LinkReason::SameMachine => {}
    }
}

/// Redacts a cause on another node.
pub(super) fn redact_remote(scrubber: &mut Scrubber, remote: &mut Remote) {
    match remote {
        Remote::Owner | Remote::OwnerNode => {}
        Remote::Says(words) => *words = scrubber.text(words),
        Remote::Death { reason, comm, .. } => {
            redact_link_reason(scrubber, reason);
            *comm = scrubber.text(comm);
        }
        Remote::DeclaredDead { reason, node } => {
            redact_link_reason(scrubber, reason);
            *node = scrubber.host(node);
        }
        Remote::Unrecorded { reason, node } => {
            redact_link_reason(scrubber, reason);
            *node = node.as_deref().map(|node| scrubber.host(node));
        }
    }
}
