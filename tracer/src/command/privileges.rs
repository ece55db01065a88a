//! Reduces the recorder's privileges to what it needs once its hooks are attached.

use std::path::Path;

use caps::{CapSet, Capability, CapsHashSet};
use rustix::{
    fs::{Access, AtFlags, CWD, accessat},
    process::{Resource, getrlimit},
};

/// For attaching more hooks later, for `/proc` and the files of other users, and for the kernel's
/// log and symbols.
const NEEDED: [Capability; 5] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_SYSLOG,
];

/// Returns the capabilities that are needed to observe acts and that this process lacks.
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

/// Drops capabilities that are not needed, for this thread and the threads that it starts from now
/// on.
///
/// The threads that `start` starts create and remove files in `folder` with the rights of `user`
/// alone, if these suffice; with `None` they write no files. With `own_cgroup`, the capability to
/// remove that cgroup is kept in the permitted set, because the root of the cgroup hierarchy is not
/// writable for users.
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
        // Without it, memory that is locked on fault would be refused beyond the limit.
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

/// Sets the file user and group ids of this thread and of the threads that it starts from now on.
/// Setting them back to 0 needs no capability, because the process runs as 0.
fn set_file_ids(uid: u32, gid: u32) {
    // SAFETY: both take a number and change only this thread's credentials. The group is set first,
    // because the user may not be allowed to change it.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}

fn may_write(folder: &Path) -> bool {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, folder, access, AtFlags::EACCESS).is_ok()
}

/// Returns whether this process may create files in a folder by its owner and mode alone.
fn may_write_without_override(folder: &Path) -> bool {
    let over = Capability::CAP_DAC_OVERRIDE;
    let _not_held = caps::drop(None, CapSet::Effective, over);
    let may = may_write(folder);
    let _not_held = caps::raise(None, CapSet::Effective, over);
    may
}
