//! The users that a process runs as, from /proc/PID/status.

use crate::{ids::Pid, memory};

/// The user who started a process. Not the owner of its folder in /proc, who is the effective one: a set-uid program's is another.
#[must_use]
pub fn real_user(pid: Pid) -> Option<u32> {
    users(&memory::status(pid)?).next()
}

/// The one user of all four ids, by the text of the file; `None` where they differ.
pub(super) fn one_user(status: &str) -> Option<u32> {
    let mut all = users(status);
    let first = all.next()?;
    all.all(|id| id == first).then_some(first)
}

/// Real, effective, saved and file system user id.
fn users(status: &str) -> impl Iterator<Item = u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let ids = line.into_iter().flat_map(str::split_ascii_whitespace);
    ids.map_while(|id| id.parse().ok())
}
