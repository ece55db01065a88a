//! Checks disks: ended sessions that still take space, and a full disk below a session folder.

use super::{Check, State, facts::Machine};
use crate::{ids::size, phrase};

/// `RAY_local_fs_capacity_threshold`: Ray creates no more objects on a disk that is this full.
const FULL: f64 = 0.95;

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let old = machine.old_sessions.iter().map(|old| {
        let text = format!(
            "{} in {}, {}",
            phrase::count(old.sessions as usize, "old session", "old sessions"),
            old.folder,
            size(old.bytes)
        );
        Check::new("disk.old-sessions", State::Note, text)
            .word("")
            .value(&old.bytes.0)
            .command(format!("ls -td {}/session_20*", old.folder))
    });
    let mut checks: Vec<Check> = old.collect();
    for node in &machine.nodes {
        let Some(disk) = &node.session_disk else {
            continue;
        };
        let used = disk.total.0.saturating_sub(disk.free.0) as f64 / disk.total.0.max(1) as f64;
        if used >= FULL {
            let text = format!(
                "{} is on a disk that is {:.0} % full: Ray no longer spills objects",
                disk.path,
                used * 100.0
            );
            checks.push(
                Check::new("disk.full", State::Problem, text)
                    .word("DISK FULL")
                    .of(node.pid())
                    .value(&format!("{used:.3}"))
                    .expected(&format!("below {FULL}"))
                    .command(format!("df -h {}", disk.path)),
            );
        }
    }
    checks
}
