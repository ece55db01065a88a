//! Decodes the delivery of a signal. Its default action ends the process with a core dump.

use raytrace_ebpf::records::Delivered;

use super::{
    Deaths,
    bytes::{key, take},
};
use crate::event::Observation;

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    cost: "",
    offsets: |fields, offsets| {
        offsets.sigaction_handler = fields.need("k_sigaction", "sa.sa_handler")?;
        Ok(())
    },
    decode: |_, bytes| take(bytes, size_of::<Delivered>()).map(|record| delivered(&record)),
};

fn delivered(record: &Delivered) -> Observation {
    Observation::Delivered {
        process: key(record.process),
        signal: record.signal,
        code: record.code,
    }
}
