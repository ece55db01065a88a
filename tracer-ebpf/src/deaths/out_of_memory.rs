//! `out_of_memory(struct oom_control *oc)`: keeps which call it is, for the victims that it marks.
//!
//! `oc` says what was short of memory: the cgroup at its limit, or the machine. The function is in
//! mm/oom_kill.c; its callers hold `oom_lock`. An `fentry` program needs Linux 5.5 on x86-64, 6.0
//! on aarch64. Rate: one call for each allocation that fails for want of memory, which can be many
//! thousands a second while a victim exits; a call costs two stores. Without this hook, which
//! cgroup was at its limit is known from the kernel log, or from the counts of its cgroups.

use aya_ebpf::{macros::fentry, programs::FEntryContext};

use super::{
    kernel::current,
    maps::{OOM_CALL, OomCall},
};

#[fentry(function = "out_of_memory")]
pub(crate) fn out_of_memory(context: FEntryContext) -> i32 {
    if let Some(slot) = OOM_CALL.get_ptr_mut(0) {
        let call = OomCall {
            task: current(),
            control: context.arg::<*const u8>(0) as u64,
        };
        // SAFETY: the pointer is to the only value of the map. `oom_lock` allows one writer.
        unsafe { *slot = call };
    }
    0
}
