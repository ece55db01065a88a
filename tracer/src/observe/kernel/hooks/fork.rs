//! Decodes a fork: a process was made by its parent.

use raytrace_ebpf::records::Fork;

use super::{
    Deaths, NO_FIELDS,
    bytes::{key, take},
};
use crate::event::Observation;

pub(super) const HOOK: Deaths = Deaths {
    is_needed: true,
    cost: "",
    offsets: NO_FIELDS,
    decode: |_, bytes| take(bytes, size_of::<Fork>()).map(|record| fork(&record)),
};

fn fork(record: &Fork) -> Observation {
    Observation::Fork {
        parent: key(record.parent),
        child: key(record.child),
    }
}
