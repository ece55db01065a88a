//! `-- COMMAND`, as the recorder sees it: it starts the command, which is tracked with everything
//! that it starts, and waits for its end.

use std::{io::Write as _, path::Path};

use anyhow::Context as _;
use rustix::io::Errno;
use tokio::net::UnixStream;

use super::supervisor::{BYTES, Received, SIGNALLED, Start};
use crate::{
    collect::Collector,
    command::{Failure, code},
    ids::Pid,
};

/// The running command.
pub(super) struct Wrapped(UnixStream);

impl Wrapped {
    /// Starts the command. It is tracked from its first moment, because its process exists already
    /// and is tracked before it becomes the command.
    pub(super) fn start(
        start: Start,
        program: &str,
        collector: &mut Collector,
    ) -> anyhow::Result<Self> {
        let pid = Pid(start.command);
        let opened = collector.start_tracked(pid, || start.gate.open());
        opened.map_err(|error| cannot_run(program, &error))?;
        let mut stream = start.stream;
        let _supervisor_is_gone = stream.write_all(b".");
        stream
            .set_nonblocking(true)
            .context("cannot use a socket")?;
        let stream = UnixStream::from_std(stream).context("cannot use a socket")?;
        Ok(Self(stream))
    }

    /// Waits for the command to end, for its supervisor to be killed, or for a signal that the
    /// supervisor got. Without a command it never returns.
    pub(super) async fn wait(wrapped: Option<&Self>) -> Told {
        let Some(Self(stream)) = wrapped else {
            return std::future::pending().await;
        };
        loop {
            let mut kind = [0];
            if stream.readable().await.is_err() {
                return Told::Ended;
            }
            match stream.try_read(&mut kind) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(1) if kind == [SIGNALLED] => {
                    let mut bytes = [0; BYTES];
                    if stream.try_read(&mut bytes).is_ok_and(|read| read == BYTES) {
                        return Told::Signalled(Received::from_bytes(&bytes));
                    }
                }
                _ => return Told::Ended,
            }
        }
    }
}

/// What a supervisor told.
pub(super) enum Told {
    /// The command has ended, or its supervisor has.
    Ended,
    /// The supervisor got this signal.
    Signalled(Received),
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
}
