//! A process that gets what everybody in COMMAND's process group gets, and says so.
//!
//! It is in the same process group, session and cgroup as COMMAND and has the same user. Nobody
//! has a reason to signal it alone. It does nothing else, and ends with the supervisor.

use std::{
    ffi::CStr,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    fork,
    signals::{self, BYTES, Received},
    title,
};

/// Its name. Patterns for raytrace or for COMMAND do not match it.
const NAME: &CStr = c"signal-witness";
/// How long to wait for its answer. It is longer only if somebody has stopped it.
const ANSWER: Duration = Duration::from_secs(1);
/// The answer to a question. No signal has this number.
const ALL_TOLD: Received = Received {
    number: 0,
    code: 0,
    pid: 0,
    uid: 0,
    value: 0,
};

/// The witness, as the supervisor sees it.
pub(super) struct Witness {
    pub(super) pid: i32,
    pub(super) stream: UnixStream,
}

impl Witness {
    /// Starts it. All signals must be blocked.
    pub(super) fn start(signals: &OwnedFd) -> io::Result<Self> {
        let (stream, its) = UnixStream::pair()?;
        if let Some(pid) = fork()? {
            stream.set_read_timeout(Some(ANSWER))?;
            return Ok(Self { pid, stream });
        }
        drop(stream);
        title::set(NAME);
        let _supervisor_is_gone = bear(signals, its);
        // SAFETY: _exit(2) takes a number and runs nothing of this program.
        unsafe { libc::_exit(0) }
    }

    /// Returns the next signal that it got, for a stream that is readable.
    pub(super) fn next(&mut self) -> Option<Received> {
        let mut bytes = [0; BYTES];
        let read = self.stream.read_exact(&mut bytes).ok();
        read.map(|()| Received::from_bytes(&bytes))
            .filter(|signal| *signal != ALL_TOLD)
    }

    /// Returns all that it has got so far and has not told yet.
    pub(super) fn ask(&mut self) -> Vec<Received> {
        if self.stream.write_all(b"?").is_err() {
            return Vec::new();
        }
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// Tells each signal that this process gets, until the supervisor is gone.
fn bear(signals: &OwnedFd, mut stream: UnixStream) -> io::Result<()> {
    loop {
        let mut watched = [
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&stream, PollFlags::IN),
        ];
        poll(&mut watched, None)?;
        let is_asked = !watched[1].revents().is_empty();
        if is_asked {
            stream.read_exact(&mut [0])?;
        }
        while let Some(signal) = signals::next(signals) {
            stream.write_all(&signal.to_bytes())?;
        }
        if is_asked {
            stream.write_all(&ALL_TOLD.to_bytes())?;
        }
    }
}
