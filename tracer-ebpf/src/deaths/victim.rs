//! `oom/mark_victim(task | pid)`: reports the OOM killer's victim.
//!
//! Format (6.18): `pid, __data_loc comm, total_vm, anon_rss, …`. Before 6.9 and its backports the
//! argument is a pid alone; BTF says which one it is. The record has the kernel stack and the
//! cgroups at that moment. If the kernel did not send its own SIGKILL just before, the victim was
//! already dying. Rate: one per OOM kill. Without this hook no OOM kill is proven.

use aya_ebpf::{EbpfContext, helpers::generated};
use raytrace_ebpf::records::{CGROUPS, FRAMES, Hook, Kind, Victim, ledger};

use super::{
    hook,
    kernel::{
        css_name, css_parent, current, header, leader_comm, memory_css, process, signal_struct,
        tgid,
    },
    maps::{DEATHS, KernelKill, LAST_KILL, TRACKED, WAKEUP, count, offsets},
    memory,
};
use crate::read::read;

hook!(victim_btf, victim_raw, "mark_victim", marked, [0]);

#[inline(always)]
fn marked<const TYPED: bool, C: EbpfContext>(context: &C, argument: u64) {
    count(Hook::Victim, ledger::SEEN);
    let invoker = current();
    let last = last_kill();
    let by_kill = last.sender == invoker && last.target != 0;
    let task = if offsets().victim_is_task != 0 {
        argument
    } else if by_kill {
        last.target
    } else {
        0
    };
    if task == 0 {
        return count(Hook::Victim, ledger::FILTERED);
    }
    let victim_tgid = tgid::<false>(task);
    let signalled = by_kill && last.tgid == victim_tgid;
    // Since 6.16 a victim on another CPU may exit between its signal and this event. It has then
    // left the tracked set.
    let was_tracked = signalled && last.is_tracked != 0;
    if !was_tracked && TRACKED.get_ptr(victim_tgid).is_none() {
        return count(Hook::Victim, ledger::FILTERED);
    }
    let Some(mut entry) = DEATHS.reserve::<Victim>(0) else {
        return count(Hook::Victim, ledger::RING_FULL);
    };
    // SAFETY: the reservation has the size of the record. Every field is written below, and all are
    // plain bytes.
    let record = unsafe { &mut *entry.as_mut_ptr() };
    record.header = header(Kind::Victim);
    record.victim = process(task);
    record.invoker = process(invoker);
    leader_comm(invoker, record.invoker_comm.as_mut_ptr());
    record.mm = read(task, offsets().task_mm);
    record.signalled = u32::from(signalled);
    let shared = signal_struct::<false>(task);
    let adj: i16 = read(shared, offsets().signal_oom_score_adj);
    record.score_adj = i32::from(adj);
    record.memory = memory::of(record.mm, shared);
    // SAFETY: the destination has `FRAMES` entries of 8 bytes.
    record.stack_bytes = unsafe {
        generated::bpf_get_stack(
            context.as_ptr().cast(),
            record.stack.as_mut_ptr().cast(),
            (FRAMES * 8) as u32,
            0,
        )
    } as i64;
    cgroups(record, task, invoker);
    entry.submit(WAKEUP);
    count(Hook::Victim, ledger::SUBMITTED);
}

/// Returns this CPU's last SIGKILL by the kernel, and clears it, so that one kill explains one
/// victim.
#[inline(always)]
fn last_kill() -> KernelKill {
    let none = KernelKill {
        target: 0,
        sender: 0,
        tgid: 0,
        is_tracked: 0,
    };
    match LAST_KILL.get_ptr_mut(0) {
        // SAFETY: the pointer is to this CPU's slot, which holds plain integers. Since Linux 7.0
        // `signal_generate` may run in the middle of the read; a kill that is half read matches no
        // victim.
        Some(slot) => unsafe { core::mem::replace(&mut *slot, none) },
        None => none,
    }
}

/// Reads the victim's memory cgroups, from its own to the root, and which of them the invoker is in
/// too.
#[inline(always)]
fn cgroups(record: &mut Victim, victim: u64, invoker: u64) {
    let mut css = memory_css(victim);
    let mut others = [0u64; CGROUPS];
    let mut other = memory_css(invoker);
    for slot in others.iter_mut() {
        *slot = other;
        if other != 0 {
            other = css_parent(other);
        }
    }
    for level in record.cgroups.iter_mut() {
        level.valid = u32::from(css != 0);
        level.shared = 0;
        level.name[0] = 0;
        level.usage = 0;
        level.max = 0;
        if css == 0 {
            continue;
        }
        css_name(css, level.name.as_mut_ptr());
        level.usage = read(css, offsets().memcg_usage);
        level.max = read(css, offsets().memcg_max);
        for known in &others {
            if *known == css {
                level.shared = 1;
            }
        }
        css = css_parent(css);
    }
}
