//! Decodes a mapping: the kernel found a range of addresses for it.

use raytrace_ebpf::records::{Mapped, MappedWithPython};

use super::{
    Memory,
    bytes::{key, native, take},
};
use crate::{
    event,
    ids::{BootTime, Bytes, Pid},
    observe::kernel::{MemoryRecord, Native, NewMapping},
};

pub(super) const HOOK: Memory = Memory {
    is_counted: true,
    offsets: |fields, offsets| {
        offsets.unmapped_length = fields.optional("vm_unmapped_area_info", "length");
    },
    decode: |bytes, _| {
        let record = take(bytes, size_of::<Mapped>())?;
        let native = native(bytes, size_of::<MappedWithPython>());
        Some(MemoryRecord::Mapped(mapping(&record, native)))
    },
};

fn mapping(record: &MappedWithPython, native: Option<Native>) -> NewMapping {
    let MappedWithPython { mapped, stack } = record;
    let frames = stack.iter().take(mapped.frames as usize);
    NewMapping {
        time: BootTime(mapped.header.time),
        mapped: event::Mapped {
            process: key(mapped.process),
            tid: Pid(mapped.process.tid),
            bytes: Bytes(mapped.bytes),
            all_bytes: Bytes(mapped.all_bytes),
            calls: mapped.calls,
        },
        address: mapped.address,
        stack: frames.copied().collect(),
        native,
    }
}
