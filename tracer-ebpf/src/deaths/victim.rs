//! `oom/mark_victim(task | pid)`: reports the OOM killer's victim.
//!
//! Format (6.18): `pid, __data_loc comm, total_vm, anon_rss, …`. Before 6.9 and its backports the
//! argument is a pid alone; BTF says which one it is. The record has the kernel stack and the
//! cgroups at that moment, and what `out_of_memory` was called for. If the kernel did not send its own SIGKILL just before, the victim was
//! already dying. Rate: one per OOM kill. Without this hook no OOM kill is proven.

use aya_ebpf::{EbpfContext, helpers::generated};
use raytrace_ebpf::records::{
    CGROUP_NAME, CGROUPS, Cgroup, FRAMES, Hook, Kind, NOT_SEEN, OomControl, Victim, ledger,
};

use super::{
    hook,
    kernel::{
        css_directory, css_parent, current, directory_name, header, leader, leader_comm,
        memory_css, process, signal_struct, tgid,
    },
    maps::{
        DEATHS, KernelKill, LAST_KILL, OOM_CALL, TRACKED, VICTIM_SCRATCH, WAKEUP, count, offsets,
    },
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
    let Some(scratch) = VICTIM_SCRATCH.get_ptr_mut(0) else {
        return count(Hook::Victim, ledger::MAP_FULL);
    };
    // SAFETY: the pointer is to the only value of the map. Victims are marked one at a time, under
    // `oom_lock`.
    let record = unsafe { &mut *scratch };
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
    record.control = control(invoker);
    let levels = cgroups(record, task);
    record.levels = levels as u64;
    let size = core::mem::offset_of!(Victim, cgroups) + levels * size_of::<Cgroup>();
    // SAFETY: `size` is at most the size of the record.
    let sent = unsafe {
        generated::bpf_ringbuf_output(
            core::ptr::addr_of!(DEATHS).cast_mut().cast(),
            scratch.cast(),
            size as u64,
            WAKEUP,
        )
    };
    let outcome = if sent == 0 {
        ledger::SUBMITTED
    } else {
        ledger::RING_FULL
    };
    count(Hook::Victim, outcome);
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

/// Returns what was short of memory, if the call of `out_of_memory` that marks this victim was seen.
#[inline(always)]
fn control(invoker: u64) -> OomControl {
    let mut control = OomControl {
        memcg: 0,
        order: NOT_SEEN,
        constraint: NOT_SEEN,
    };
    let Some(call) = OOM_CALL.get_ptr(0) else {
        return control;
    };
    // SAFETY: the pointer is to the only value of the map, which holds plain integers. Its writer
    // is the running task, or returned before.
    let call = unsafe { &*call };
    if call.task != invoker {
        return control;
    }
    let memcg: u64 = read(call.control, offsets().oom_memcg);
    if memcg != 0 {
        control.memcg = cgroup_id(css_directory(memcg + u64::from(offsets().memcg_css)));
    }
    control.order = read(call.control, offsets().oom_order);
    control.constraint = read(call.control, offsets().oom_constraint);
    control
}

#[inline(always)]
fn cgroup_id(directory: u64) -> u64 {
    read(directory, offsets().kernfs_id)
}

/// Reads the victim's memory cgroups, from its own to the root. Returns their number.
///
/// The kernel charges memory to the cgroup of the leader, and chooses a victim by it.
#[inline(always)]
fn cgroups(record: &mut Victim, victim: u64) -> usize {
    let mut css = memory_css(leader::<false>(victim));
    let mut levels = 0;
    while levels < CGROUPS && css != 0 {
        let level = &mut record.cgroups[levels];
        let directory = css_directory(css);
        level.id = cgroup_id(directory);
        level.usage = read(css, offsets().memcg_usage);
        level.max = read(css, offsets().memcg_max);
        level.oom_events = read(css, offsets().memcg_oom_events);
        level.name[0] = 0;
        directory_name(directory, level.name.as_mut_ptr(), CGROUP_NAME);
        css = css_parent(css);
        levels += 1;
    }
    levels
}
