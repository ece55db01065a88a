//! Decodes a signal: its target, its sender, the sender's system call, and whether it took effect.

mod registers;
mod system_calls;

use raytrace_ebpf::records::{
    self, GROUP_EXIT, SENDER_COMPAT, SENDER_EXEC_SEEN, SENDER_EXITING, SENDER_KERNEL_THREAD,
    SENDER_PROCESS_EXITING, SENDER_SAME_ROOT, TOOK_EFFECT,
};

use super::{
    Deaths,
    bytes::{arguments, file, key, named, path, take, text},
};
use crate::{
    cgroup_path,
    event::{self, Observation, Sender},
    ids::Pid,
};

pub(super) const HOOK: Deaths = Deaths {
    is_needed: true,
    cost: "",
    offsets: |fields, offsets| {
        offsets.task_pdeath_signal = fields.need("task_struct", "pdeath_signal")?;
        offsets.task_stack = fields.optional("task_struct", "stack");
        offsets.task_sighand = fields.need("task_struct", "sighand")?;
        offsets.sighand_actions = fields.need("sighand_struct", "action")?;
        offsets.sigaction_handler = fields.need("k_sigaction", "sa.sa_handler")?;
        offsets.sigaction_size = fields.size("k_sigaction")?;
        *offsets = registers::find(fields.btf, offsets);
        Ok(())
    },
    decode: |_, bytes| take(bytes, size_of::<records::Signal>()).map(|record| signal(&record)),
};

fn signal(record: &records::Signal) -> Observation {
    let has = |flag: u32| record.flags & flag != 0;
    let cgroup: Vec<String> = record
        .cgroup
        .iter()
        .map(|name| text(name))
        .take_while(|name| !name.is_empty())
        .collect();
    let cgroup = path(&cgroup);
    let [uid, effective_uid, saved_uid] = record.sender_uids;
    let command = usize::try_from(record.command_length).unwrap_or(0);
    let command = record.command.get(..command).unwrap_or(&record.command);
    Observation::Signal(event::Signal {
        target: key(record.target),
        target_tid: Pid(record.target.tid),
        signal: record.signal,
        code: record.code,
        group: record.group != 0,
        result: record.result,
        group_exit: has(GROUP_EXIT),
        group_exit_code: record.group_exit_code,
        took_effect: has(TOOK_EFFECT),
        parent_death_signal: record.parent_death_signal,
        sender: Sender {
            process: key(record.sender),
            tid: Pid(record.sender.tid),
            comm: text(&record.sender_comm),
            uid,
            effective_uid: Some(effective_uid),
            saved_uid: Some(saved_uid),
            file: file(record.file),
            argv: arguments(command),
            exec_seen: has(SENDER_EXEC_SEEN),
            same_root: has(SENDER_SAME_ROOT),
            exiting: has(SENDER_EXITING),
            process_exiting: Some(has(SENDER_PROCESS_EXITING)),
            kernel_thread: has(SENDER_KERNEL_THREAD),
            exe: exe(&record.exe),
            container_id: cgroup_path::container(&cgroup),
            cgroup: Some(cgroup),
            ancestors: ancestors(&record.ancestors),
        },
        tracer: named(&record.tracer),
        call: system_calls::read(record.call, has(SENDER_COMPAT), record.arguments),
    })
}

/// Decodes a signal that was kept until the exit. Less is known of its sender.
pub(super) fn caught(record: &records::Caught) -> Observation {
    let [uid, effective_uid, saved_uid] = record.sender_uids;
    let compat = record.flags & SENDER_COMPAT != 0;
    Observation::Signal(event::Signal {
        target: key(record.target),
        target_tid: Pid(record.target.tid),
        signal: record.signal,
        code: record.code,
        group: record.group != 0,
        result: record.result,
        sender: Sender {
            process: key(record.sender),
            tid: Pid(record.sender.tid),
            comm: text(&record.sender_comm),
            uid,
            effective_uid: Some(effective_uid),
            saved_uid: Some(saved_uid),
            ..Sender::default()
        },
        call: system_calls::read(record.call, compat, record.arguments),
        ..event::Signal::default()
    })
}

fn exe(parts: &[[u8; records::EXE_PART]]) -> Option<String> {
    let names: Vec<String> = parts
        .iter()
        .map(|part| text(part))
        .take_while(|name| !name.is_empty())
        .collect();
    let whole = names.len() < parts.len();
    (!names.is_empty()).then(|| {
        if whole {
            path(&names)
        } else {
            format!("…{}", path(&names))
        }
    })
}

fn ancestors(records: &[records::Ancestor]) -> Vec<event::Ancestor> {
    records.iter().map_while(named).collect()
}
