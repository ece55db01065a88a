//! Describes a signal that a process of this program received, with its sender as /proc shows it.

use super::processes;
use crate::{
    event::{Sender, Signal},
    ids::{BootTime, Pid, ProcessKey},
};

/// Returns the signal (number and `si_code`) that `target` received from a process and its user.
pub fn received(target: ProcessKey, (signal, code): (i32, i32), (pid, uid): (Pid, u32)) -> Signal {
    let shown = processes::stat(pid);
    let start = shown.as_ref().map_or(BootTime(0), |stat| stat.start);
    let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    Signal {
        target,
        target_tid: target.pid,
        signal,
        code,
        group: true,
        sender: Sender {
            process: ProcessKey { pid, start },
            tid: pid,
            comm: shown.map(|stat| stat.comm).unwrap_or_default(),
            uid,
            exe: exe.map(|path| path.to_string_lossy().into_owned()),
            argv: processes::argv(pid),
            ..Sender::default()
        },
        ..Signal::default()
    }
}
