//! At a tick of a CPU the process that runs there had grown by much.

use raytrace_ebpf::records::GrewBy;

use super::{
    Memory,
    bytes::{key, native, take},
};
use crate::{
    ids::{BootTime, Bytes, Pid},
    observe::kernel::{MemoryRecord, Native, NewGrowth},
};

pub(super) const HOOK: Memory = Memory {
    // What it sees are ticks.
    is_counted: false,
    offsets: |fields, offsets| {
        offsets.task_min_flt = fields.optional("task_struct", "min_flt");
    },
    decode: |bytes, page| {
        let record = take(bytes, size_of::<GrewBy>())?;
        let native = native(bytes, size_of::<GrewBy>());
        Some(MemoryRecord::Grew(growth(&record, native, page)))
    },
};

fn growth(record: &GrewBy, native: Option<Native>, page: u64) -> NewGrowth {
    let GrewBy { grew, stack } = record;
    let frames = stack.iter().take(grew.frames as usize);
    // Two CPUs that look at one process at once may find that it fell.
    let bytes = |pages: u64| {
        let pages = pages.cast_signed().max(0).unsigned_abs();
        Bytes(pages.saturating_mul(page))
    };
    NewGrowth {
        time: BootTime(grew.header.time),
        process: key(grew.process),
        tid: Pid(grew.process.tid),
        of_main: grew.of_main != 0,
        private: bytes(grew.private),
        shared: bytes(grew.shared),
        stack: frames.copied().collect(),
        native,
    }
}
