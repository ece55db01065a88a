//! `-- COMMAND`: runs a program, which is tracked with everything that it starts.

use std::{ffi::CString, os::unix::process::ExitStatusExt, path::Path, process::ExitCode};

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    },
};
use tokio::process::{Child, Command};

use crate::{
    collect::Collector,
    command::{Failure, code},
    observe::cgroup_namespace,
};

/// The most groups of a user that are read; Linux allows 65,536.
const MOST_GROUPS: i32 = 1024;

/// The running command.
pub(super) struct Wrapped(Child);

impl Wrapped {
    /// Starts the command as the user who ran sudo. It is tracked from its first moment, because
    /// its parent is tracked while it forks.
    pub(super) fn start(
        command: &[String],
        user: Option<(u32, u32)>,
        collector: &mut Collector,
    ) -> anyhow::Result<Option<Self>> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(arguments);
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(give_up) };
        if let Some((uid, gid)) = user {
            let name = std::env::var("SUDO_USER").unwrap_or_default();
            let groups = groups_of(&name, gid);
            let become_user = move || {
                // SAFETY: only system calls, on a list that was made before the fork.
                let done = unsafe {
                    libc::setgroups(groups.len(), groups.as_ptr()) == 0
                        && libc::setgid(gid) == 0
                        && libc::setuid(uid) == 0
                };
                done.then_some(()).ok_or_else(std::io::Error::last_os_error)
            };
            // SAFETY: between fork and exec it makes system calls only.
            unsafe { command.pre_exec(become_user) };
        }
        let child = collector.spawn_tracked(|| command.spawn());
        let child = child.map_err(|error| cannot_run(program, &error))?;
        Ok(Some(Self(child)))
    }

    /// Waits for the command to end and returns its exit code. Without a command it never returns.
    pub(super) async fn wait(wrapped: &mut Option<Self>) -> ExitCode {
        let Some(Self(child)) = wrapped else {
            return std::future::pending().await;
        };
        let Ok(status) = child.wait().await else {
            return ExitCode::FAILURE;
        };
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

/// Fails if a program is neither a file nor in a folder of `PATH`.
pub(super) fn refuse_missing(program: &str) -> Result<(), Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = if program.contains('/') {
        Path::new(program).exists()
    } else {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if found {
        return Ok(());
    }
    Err(cannot_run(program, &Errno::NOENT.into()))
}

/// Returns the failure of a command that did not start, with the exit code that shells use.
fn cannot_run(program: &str, error: &std::io::Error) -> Failure {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => code::NOT_FOUND,
        _ => code::CANNOT_RUN,
    };
    Failure {
        code,
        message: format!("cannot run {program}: {error}"),
    }
}

/// Drops the capabilities that a command would inherit: they were given to the recorder, not to the
/// command.
///
/// A command that runs as root still has all of root's capabilities. `no_new_privs` is not set for
/// it, because it may run `sudo`.
fn give_up() -> std::io::Result<()> {
    cgroup_namespace::leave_machine_namespace()?;
    let held = capabilities(None)?;
    let none_inherited = CapabilitySets {
        inheritable: CapabilitySet::empty(),
        ..held
    };
    set_capabilities(None, none_inherited)?;
    Ok(clear_ambient_capability_set()?)
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
    fn command_that_cannot_run_has_shells_code() {
        let code = |program: &str| {
            let error = std::process::Command::new(program).spawn().map(drop);
            cannot_run(program, &error.expect_err("no program")).code
        };
        assert_eq!((code("/nowhere/a"), code("/etc/passwd")), (127, 126));
    }

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
