//! Decodes an OOM victim, with its cgroups and the stack of the task that asked for memory.

use raytrace_ebpf::records::{self, BY_HAND, NONE, NOT_SEEN, OomControl, Victim};

use super::{
    Deaths, Decoder,
    bytes::{key, memory, path, take, text},
};
use crate::{
    event::{CgroupLevel, Observation, OomVictim, ShortOf},
    ids::{Bytes, Pid},
};

/// This many pages mean "no limit": `PAGE_COUNTER_MAX` is `LONG_MAX / PAGE_SIZE`.
const NO_LIMIT_PAGES: u64 = (1 << 63) / 4096 - 1;

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    cost: "",
    offsets: |fields, offsets| {
        let css = fields.need("mem_cgroup", "css")?;
        offsets.memcg_css = css;
        offsets.memcg_usage = fields.need("mem_cgroup", "memory.usage")? - css;
        offsets.memcg_max = fields.need("mem_cgroup", "memory.max")? - css;
        let events = fields.need("mem_cgroup", "memory_events_local")? - css;
        let oom = fields.btf.enumerator("memcg_memory_event", "MEMCG_OOM");
        offsets.memcg_oom_events = oom.map_or(NONE, |oom| events + 8 * oom);
        offsets.kernfs_id = fields.need("kernfs_node", "id")?;
        offsets.oom_memcg = fields.need("oom_control", "memcg")?;
        offsets.oom_order = fields.need("oom_control", "order")?;
        offsets.oom_constraint = fields.need("oom_control", "constraint")?;
        offsets.signal_oom_score_adj = fields.need("signal_struct", "oom_score_adj")?;
        let is_task = fields.btf.first_argument_is_pointer("mark_victim");
        offsets.victim_is_task = u32::from(is_task.unwrap_or(false));
        Ok(())
    },
    // The last field of the record is cut to the levels that were read.
    decode: |decoder, bytes| {
        take(bytes, std::mem::offset_of!(Victim, cgroups)).map(|record| victim(decoder, &record))
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
        short_of: short_of(record.control),
        cgroups: levels(record, decoder.page),
        score_adj: record.score_adj,
        memory: memory(&record.memory, decoder.page),
    })
}

/// Decodes what was short of memory (`enum oom_constraint` of include/linux/oom.h, 5.8 to 7.3).
fn short_of(control: OomControl) -> Option<ShortOf> {
    match (control.order, control.memcg, control.constraint) {
        (NOT_SEEN, ..) => None,
        (BY_HAND, ..) => Some(ShortOf::ByHand),
        (_, 0, 0) => Some(ShortOf::Machine),
        (_, 0, 1) => Some(ShortOf::Cpuset),
        (_, 0, 2) => Some(ShortOf::Mempolicy),
        (_, 0, _) => None,
        (_, id, _) => Some(ShortOf::Cgroup { id }),
    }
}

/// Decodes the levels. If a name could not be read, there are none above it: then they do not end
/// with the root, and no path is known.
fn levels(record: &Victim, page: u64) -> Vec<CgroupLevel> {
    let count = usize::try_from(record.levels).unwrap_or(0);
    let read = record.cgroups.get(..count).unwrap_or(&record.cgroups);
    let names: Vec<String> = read.iter().map(|level| text(&level.name)).collect();
    let named = |(at, name): (usize, &String)| !name.is_empty() || at + 1 == count;
    let known = names
        .iter()
        .enumerate()
        .take_while(|one| named(*one))
        .count();
    let level = |(at, level): (usize, &records::Cgroup)| CgroupLevel {
        id: level.id,
        path: path(&names[at..known]),
        usage: Bytes(level.usage.saturating_mul(page)),
        limit: (level.max < NO_LIMIT_PAGES).then(|| Bytes(level.max.saturating_mul(page))),
        oom_events: level.oom_events,
    };
    read[..known].iter().enumerate().map(level).collect()
}
