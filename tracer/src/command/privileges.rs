//! What the recorder may do: once its hooks are attached, no more than it needs from then on.

use std::path::Path;

use caps::{CapSet, Capability, CapsHashSet};
use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    process::{Resource, getrlimit},
};

/// Attaching more hooks later; `/proc` and the files of others; the kernel's log and symbols.
const NEEDED: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_SYSLOG,
];

/// The capabilities without which acts cannot be observed, that this process lacks.
pub(super) fn missing() -> Vec<&'static str> {
    let effective = caps::read(None, CapSet::Effective).unwrap_or_default();
    let admin = effective.contains(&Capability::CAP_SYS_ADMIN);
    let wanted = [
        (Capability::CAP_BPF, "CAP_BPF", admin),
        (Capability::CAP_PERFMON, "CAP_PERFMON", admin),
        (Capability::CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false),
        (
            Capability::CAP_DAC_READ_SEARCH,
            "CAP_DAC_READ_SEARCH",
            effective.contains(&Capability::CAP_DAC_OVERRIDE),
        ),
        (Capability::CAP_SYSLOG, "CAP_SYSLOG", admin),
    ];
    wanted
        .into_iter()
        .filter(|(capability, _, implied)| !implied && !effective.contains(capability))
        .map(|(_, name, _)| name)
        .collect()
}

/// Gives up what is not needed, for this thread and those that it starts from now on. The threads that `start` starts make and remove
/// files in `folder` (`None`: they write none) with the rights of `user` alone, where these suffice. With a cgroup of its own the
/// right to remove that stays at hand: the folder of all cgroups is nobody's to write.
pub(super) fn reduce<T>(
    user: Option<(u32, u32)>,
    folder: Option<&Path>,
    own_cgroup: bool,
    start: impl FnOnce() -> T,
) -> T {
    let own_suffice = folder.is_none_or(may_write_without_override);
    let users_suffice = user.is_some_and(|(uid, gid)| {
        set_file_ids(uid, gid);
        folder.is_some_and(may_write)
    });
    if user.is_some() && !users_suffice {
        set_file_ids(0, 0);
    }
    if let Err(error) = keep_needed(!own_suffice && !users_suffice, own_cgroup) {
        tracing::info!("capabilities stay as they are: {error}");
    }
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        tracing::info!("programs may still give new privileges: {error}");
    }
    let started = start();
    if users_suffice {
        set_file_ids(0, 0);
    }
    started
}

fn keep_needed(override_modes: bool, override_later: bool) -> Result<(), caps::errors::CapsError> {
    let held = caps::read(None, CapSet::Permitted)?;
    let mut kept: CapsHashSet = NEEDED.into_iter().collect();
    if getrlimit(Resource::Memlock).current.is_some() {
        // Memory that is locked as it comes would be refused beyond the limit.
        kept.insert(Capability::CAP_IPC_LOCK);
    }
    if override_modes {
        kept.insert(Capability::CAP_DAC_OVERRIDE);
    }
    let kept: CapsHashSet = kept.intersection(&held).copied().collect();
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    let mut at_hand = kept;
    if override_later && held.contains(&Capability::CAP_DAC_OVERRIDE) {
        at_hand.insert(Capability::CAP_DAC_OVERRIDE);
    }
    caps::set(None, CapSet::Permitted, &at_hand)
}

/// For this thread and those that it starts from now on; back to 0 without any right, as that is who runs this.
fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: both take a number and change this thread's credentials only. The group goes first: the user may not change it.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

fn may_write(folder: &Path) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, folder, access, AtFlags::EACCESS).is_ok()
}

/// Whether this process may make files there by the folder's owner and mode.
fn may_write_without_override(folder: &Path) -> bool {
    let over = Capability::CAP_DAC_OVERRIDE;
    let _not_held = caps::drop(None, CapSet::Effective, over);
    let may = may_write(folder);
    let _not_held = caps::raise(None, CapSet::Effective, over);
    may
}
