//! Decodes an OOM victim, with its cgroups and the stack of the task that asked for memory.

use raytrace_ebpf::records::{self, Victim};

use super::{
    Deaths, Decoder,
    bytes::{key, memory, path, take, text},
};
use crate::{
    event::{CgroupLevel, Observation, OomVictim},
    ids::{Bytes, Pid},
};

/// This many pages mean "no limit": `PAGE_COUNTER_MAX` is `LONG_MAX / PAGE_SIZE`.
const NO_LIMIT_PAGES: u64 = (1 << 63) / 4096 - 1;

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    offsets: |fields, offsets| {
        let css = fields.need("mem_cgroup", "css")?;
        offsets.memcg_usage = fields.need("mem_cgroup", "memory.usage")? - css;
        offsets.memcg_max = fields.need("mem_cgroup", "memory.max")? - css;
        offsets.signal_oom_score_adj = fields.need("signal_struct", "oom_score_adj")?;
        let is_task = fields.btf.first_argument_is_pointer("mark_victim");
        offsets.victim_is_task = u32::from(is_task.unwrap_or(false));
        Ok(())
    },
    decode: |decoder, bytes| {
        take(bytes, size_of::<Victim>()).map(|record| victim(decoder, &record))
    },
};

fn victim(decoder: &Decoder, record: &Victim) -> Observation {
    let frames = usize::try_from(record.stack_bytes).unwrap_or(0) / 8;
    let stack = record.stack.iter().take(frames);
    Observation::OomVictim(OomVictim {
        victim: key(record.victim),
        victim_tid: Pid(record.victim.tid),
        signalled: record.signalled != 0,
        mm: record.mm,
        invoker: key(record.invoker),
        invoker_comm: text(&record.invoker_comm),
        stack: stack
            .filter_map(|address| decoder.symbols.name(*address))
            .map(str::to_owned)
            .collect(),
        cgroups: levels(&record.cgroups, decoder.page),
        score_adj: record.score_adj,
        memory: memory(&record.memory, decoder.page),
    })
}

fn levels(records: &[records::Cgroup], page: u64) -> Vec<CgroupLevel> {
    let valid: Vec<&records::Cgroup> = records
        .iter()
        .take_while(|level| level.valid != 0)
        .collect();
    let names: Vec<String> = valid.iter().map(|level| text(&level.name)).collect();
    let level = |(at, level): (usize, &&records::Cgroup)| CgroupLevel {
        path: path(&names[at..]),
        usage: Bytes(level.usage.saturating_mul(page)),
        limit: (level.max < NO_LIMIT_PAGES).then(|| Bytes(level.max.saturating_mul(page))),
        shared_with_invoker: level.shared != 0,
    };
    valid.iter().enumerate().map(level).collect()
}
