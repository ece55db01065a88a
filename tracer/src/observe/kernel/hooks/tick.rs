//! Decodes growth: at a tick of a CPU, the process that ran there had grown by much.

use raytrace_ebpf::records::GrowthWithPython;

use super::{
    Memory,
    bytes::{key, native, take},
};
use crate::{
    ids::{BootTime, Bytes, Pid},
    observe::kernel::{MemoryRecord, Native, NewGrowth},
};

pub(super) const HOOK: Memory = Memory {
    // Its row counts ticks, not records.
    is_counted: false,
    offsets: |fields, offsets| {
        offsets.task_min_flt = fields.optional("task_struct", "min_flt");
    },
    decode: |bytes, page| {
        let record = take(bytes, size_of::<GrowthWithPython>())?;
        let native = native(bytes, size_of::<GrowthWithPython>());
        Some(MemoryRecord::Growth(growth(&record, native, page)))
    },
};

fn growth(record: &GrowthWithPython, native: Option<Native>, page: u64) -> NewGrowth {
    let GrowthWithPython { growth, stack } = record;
    let frames = stack.iter().take(growth.frames as usize);
    // Two CPUs that check one process at the same time may find that it shrank.
    let bytes = |pages: u64| {
        let pages = pages.cast_signed().max(0).unsigned_abs();
        Bytes(pages.saturating_mul(page))
    };
    NewGrowth {
        time: BootTime(growth.header.time),
        process: key(growth.process),
        tid: Pid(growth.process.tid),
        has_main_thread_stack: growth.of_main != 0,
        private: bytes(growth.private),
        shared: bytes(growth.shared),
        stack: frames.copied().collect(),
        native,
    }
}
