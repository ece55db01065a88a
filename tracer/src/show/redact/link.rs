//! What ties a death to one on another node, without names that identify anybody; ids stay.

use super::scrub::Scrubber;
use crate::judge::report::{Remote, Tie};

/// Redacts a tie.
pub(super) fn redact_tie(scrubber: &mut Scrubber, tie: &mut Tie) {
    match tie {
        Tie::NamesActor { source, .. }
        | Tie::NamesOwner { source, .. }
        | Tie::GcsGone { source }
        | Tie::PeerError { source, .. } => *source = scrubber.text(source),
        Tie::SameMachine => {}
    }
}

/// Redacts a cause on another node.
pub(super) fn redact_remote(scrubber: &mut Scrubber, remote: &mut Remote) {
    match remote {
        Remote::Owner | Remote::OwnersNode => {}
        Remote::Says(words) => *words = scrubber.text(words),
        Remote::Death { tie, comm, .. } => {
            redact_tie(scrubber, tie);
            *comm = scrubber.text(comm);
        }
        Remote::DeclaredDead { tie, node } => {
            redact_tie(scrubber, tie);
            *node = scrubber.host(node);
        }
        Remote::Unrecorded { tie, node } => {
            redact_tie(scrubber, tie);
            *node = node.as_deref().map(|node| scrubber.host(node));
        }
    }
}
