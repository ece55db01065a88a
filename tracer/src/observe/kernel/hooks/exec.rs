//! Decodes an exec: a process runs a new program with these arguments.

use raytrace_ebpf::records::Exec;

use super::{
    Deaths, NO_FIELDS,
    bytes::{arguments, file, key, ns_pid, take, text},
};
use crate::{
    event::{self, Observation},
    ids::Pid,
};

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    cost: "",
    offsets: NO_FIELDS,
    // The last field of the record is cut to the bytes that were read.
    decode: |_, bytes| take(bytes, std::mem::offset_of!(Exec, argv)).map(|record| exec(&record)),
};

fn exec(record: &Exec) -> Observation {
    let length = (record.argv_length as usize).min(record.argv.len());
    Observation::Exec(event::Exec {
        process: key(record.process),
        parent: (record.parent != 0).then_some(Pid(record.parent)),
        ns_pid: ns_pid(record.ns_pid, record.process.tgid),
        comm: text(&record.comm),
        argv: arguments(&record.argv[..length]),
        uid: Some(record.uid),
        file: file(record.file),
    })
}
