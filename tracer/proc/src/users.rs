//! Reads the users that a process runs as from /proc/PID/status.

use crate::{ids::Pid, memory};

/// Returns the user who started a process. The owner of its folder in /proc is the effective user,
/// which differs for a set-uid program.
pub fn real_user(pid: Pid) -> Option<u32> {
    users(&memory::status(pid)?).next()
}

/// Returns the user if all four ids are equal; `None` where they differ.
pub(super) fn one_user(status: &str) -> Option<u32> {
    let mut all = users(status);
    let first = all.next()?;
    all.all(|id| id == first).then_some(first)
}

/// Parses the real, effective, saved and file system user ids.
fn users(status: &str) -> impl Iterator<Item = u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let ids = line.into_iter().flat_map(str::split_ascii_whitespace);
    ids.map_while(|id| id.parse().ok())
}
