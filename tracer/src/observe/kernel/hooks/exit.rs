//! Decodes an exit: the last thread of a process ended, with its status, last title and memory.

use raytrace_ebpf::records::Exit;

use super::{
    Deaths, Decoder,
    bytes::{arguments, key, memory, named, ns_pid, take, text},
    signal_generate,
};
use crate::{
    event::{self, Observation},
    ids::{BootTime, Pid},
};

pub(super) const HOOK: Deaths = Deaths {
    is_needed: true,
    cost: "",
    offsets: |fields, offsets| {
        offsets.task_exit_code = fields.need("task_struct", "exit_code")?;
        offsets.signal_live = fields.need("signal_struct", "live")?;
        offsets.signal_pending = fields.need("signal_struct", "shared_pending.signal")?;
        offsets.task_pending = fields.need("task_struct", "pending.signal")?;
        offsets.task_blocked = fields.need("task_struct", "blocked")?;
        Ok(())
    },
    // The last field of the record is cut to the bytes that were read.
    decode: |decoder, bytes| {
        take(bytes, std::mem::offset_of!(Exit, title)).map(|record| exit(decoder, &record))
    },
};

/// Returns the signal that the process had caught, if one was kept for its exit.
pub(super) fn caught(bytes: &[u8]) -> Option<(BootTime, Observation)> {
    let record: Exit = take(bytes, std::mem::offset_of!(Exit, title))?;
    let caught = &record.caught;
    (caught.time != 0).then(|| (BootTime(caught.time), signal_generate::caught(caught)))
}

fn exit(decoder: &Decoder, record: &Exit) -> Observation {
    let length = usize::try_from(record.title_length).ok();
    Observation::Exit(event::Exit {
        process: key(record.process),
        ns_pid: ns_pid(record.ns_pid, record.process.tgid),
        parent: (record.parent != 0).then_some(Pid(record.parent)),
        comm: text(&record.comm),
        status: Some(record.status & 0xffff),
        title: length
            .map(|length| arguments(record.title.get(..length).unwrap_or(&record.title)).join(" ")),
        memory: memory(&record.memory, decoder.page),
        mm: record.mm,
        uid: Some(record.uid),
        harvested: false,
        tracer: named(&record.tracer),
        pending: Some(event::PendingSignals {
            process: record.pending,
            threads: record.thread_pending,
            blocked: record.blocked,
        }),
        unrecorded: Some(record.lost != 0),
    })
}
