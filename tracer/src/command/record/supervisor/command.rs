//! Starts COMMAND. Its process is made first, and waits until the recorder is ready.
//!
//! It has its own signal mask and user while it waits. So whoever ends it in that time, with Ctrl-C
//! for example, ends it as if it had been started alone.

use std::{
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::Command,
};

use super::{
    fork,
    identity::{self, Identity},
    signals,
};

/// The process that waits to become COMMAND. Dropping this without opening ends that process.
pub(in crate::command::record) struct Gate {
    pub(super) pid: i32,
    gate: PipeWriter,
    failure: PipeReader,
}

impl Gate {
    /// Makes the process. `mask` is the signal mask that it gets.
    pub(super) fn start(
        command: &[String],
        identity: Option<&Identity>,
        mask: u64,
    ) -> io::Result<Self> {
        let (is_open, gate) = io::pipe()?;
        let (failure, report) = io::pipe()?;
        if let Some(pid) = fork()? {
            return Ok(Self { pid, gate, failure });
        }
        drop((gate, failure));
        signals::set_mask(mask);
        run(command, identity, is_open, report);
        // SAFETY: _exit(2) takes a number and runs nothing of this program.
        unsafe { libc::_exit(127) }
    }

    /// Lets the process become COMMAND. Fails if it cannot.
    pub(in crate::command::record) fn open(mut self) -> io::Result<()> {
        // A signal may have ended it. That is its end, and no failure.
        let _ended = self.gate.write_all(b"!");
        let mut number = [0; 4];
        match self.failure.read_exact(&mut number) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
            // The kernel closes the pipe at exec.
            Err(_) => Ok(()),
        }
    }
}

/// Becomes the command once the gate is open. Returns if it cannot, or if the gate was closed.
fn run(
    command: &[String],
    identity: Option<&Identity>,
    mut is_open: PipeReader,
    mut report: PipeWriter,
) {
    let prepared =
        identity::give_up_inherited().and_then(|()| identity.map_or(Ok(()), Identity::enter));
    if is_open.read_exact(&mut [0]).is_err() {
        return;
    }
    let error = match (prepared, command.split_first()) {
        (Ok(()), Some((program, arguments))) => Command::new(program).args(arguments).exec(),
        (Err(error), _) => error,
        (Ok(()), None) => return,
    };
    let number = error.raw_os_error().unwrap_or(libc::EINVAL);
    let _recorder_is_gone = report.write_all(&number.to_ne_bytes());
}
