//! Who COMMAND runs as: the user who ran sudo, or else whoever runs raytrace.

use std::{ffi::CString, io};

use caps::{CapSet, Capability, CapsHashSet};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};

/// The most groups of a user that are read; Linux allows 65,536.
const MOST_GROUPS: i32 = 1024;

/// A user to become.
#[derive(Debug)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Identity {
    pub(super) fn new(uid: u32, gid: u32) -> Self {
        let name = std::env::var("SUDO_USER").unwrap_or_default();
        let groups = groups_of(&name, gid);
        Self { uid, gid, groups }
    }

    /// Becomes this user for good.
    pub(super) fn enter(&self) -> io::Result<()> {
        // SAFETY: only system calls, on a list that outlives them.
        let done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setgid(self.gid) == 0
                && libc::setuid(self.uid) == 0
        };
        done.then_some(()).ok_or_else(io::Error::last_os_error)
    }
}

/// Drops the capabilities that a command would inherit: they were given to the recorder, not to the
/// command.
///
/// A command that runs as root still has all of root's capabilities. `no_new_privs` is not set for
/// it, because it may run `sudo`.
pub(super) fn give_up_inherited() -> io::Result<()> {
    let held = capabilities(None)?;
    let none_inherited = CapabilitySets {
        inheritable: CapabilitySet::empty(),
        ..held
    };
    set_capabilities(None, none_inherited)?;
    Ok(clear_ambient_capability_set()?)
}

/// Drops all capabilities of this process but one. Root's COMMAND may change its user (`gosu`,
/// `setpriv`), and root may signal it then.
pub(super) fn keep_only_kill() -> Result<(), caps::errors::CapsError> {
    let held = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = [Capability::CAP_KILL].into_iter().collect();
    let kept: CapsHashSet = kept.intersection(&held).copied().collect();
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)
}

/// Returns all groups of a user, as at a login. Without the groups of video and render devices, a
/// job could not open its GPUs.
fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    let Some(name) = CString::new(name).ok().filter(|name| !name.is_empty()) else {
        return vec![gid];
    };
    let mut groups = vec![0; MOST_GROUPS as usize];
    let mut count = MOST_GROUPS;
    // SAFETY: the name ends with a NUL and the list has room for `count` groups.
    let found =
        unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
    if found < 0 {
        return vec![gid];
    }
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_has_the_groups_of_a_login() {
        let users = std::fs::read_to_string("/etc/passwd").expect("users");
        for user in users.lines() {
            let fields: Vec<&str> = user.split(':').collect();
            let output = std::process::Command::new("id")
                .args(["-G", fields[0]])
                .output();
            let expected = String::from_utf8(output.expect("id").stdout).expect("text");
            let groups = groups_of(fields[0], fields[3].parse().expect("a group"));
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            assert_eq!(groups.join(" "), expected.trim(), "{user}");
        }
        assert_eq!(groups_of("", 7), [7]);
    }
}
