//! `-- COMMAND`: supervises a command, and hands on to it the signals that are meant for it.
//!
//! The process that the user started becomes the supervisor, because whoever started it (a shell,
//! slurmstepd, a container runtime) signals and waits for that one. It makes three processes:
//! COMMAND, the recorder, and the [`witness`]. All stay in one process group, so the terminal
//! reaches COMMAND as if it had been started alone. The supervisor has COMMAND's user, hands on
//! what COMMAND has not got itself ([`handing_on`]), stops when COMMAND stops, and ends as COMMAND
//! has ended. If the recorder fails, COMMAND goes on.

mod command;
mod handing_on;
mod identity;
mod signals;
mod title;
mod witness;

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context as _;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    thread::set_no_new_privs,
};

use self::{handing_on::HandingOn, identity::Identity, witness::Witness};
pub(super) use command::Gate;
pub(super) use signals::{BYTES, Received};

/// What this process is after the split.
pub(super) enum Part {
    /// The recorder: it starts COMMAND and records.
    Recorder(Start),
    /// The supervisor, at its end.
    Supervisor(ExitCode),
}

/// What the supervisor tells the recorder: COMMAND has ended, or a signal follows ([`Received`]).
pub(super) const ENDED: u8 = b'.';
pub(super) const SIGNALLED: u8 = b's';

/// What the recorder needs to start COMMAND.
pub(super) struct Start {
    pub(super) supervisor: u32,
    pub(super) command: u32,
    pub(super) gate: Gate,
    /// The recorder writes a byte once COMMAND runs. The supervisor writes each SIGTERM that it
    /// gets, and [`ENDED`] when COMMAND has ended.
    pub(super) stream: UnixStream,
}

/// How a child has ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Exited(i32),
    Killed(i32),
}

/// Splits this process into the supervisor of a command and its recorder. It must have one thread.
/// The supervisor returns when both have ended.
pub(super) fn split(command: &[String], user: Option<(u32, u32)>) -> anyhow::Result<Part> {
    let identity = user.map(|(uid, gid)| Identity::new(uid, gid));
    title::hide(command);
    let mask = signals::set_mask(signals::ALL);
    let signals = signals::descriptor().context("cannot read signals")?;
    let gate = Gate::start(command, identity.as_ref(), mask).context("cannot start a process")?;
    let (stream, its) = UnixStream::pair().context("cannot make a socket")?;
    stream
        .set_nonblocking(true)
        .context("cannot use a socket")?;
    let (own, command) = (std::process::id(), gate.pid);
    let Some(recorder) = fork().context("cannot start the recorder")? else {
        return Ok(Part::Recorder(Start {
            supervisor: own,
            command: command.unsigned_abs(),
            gate,
            stream: its,
        }));
    };
    drop((gate, its));
    protect(identity.as_ref()).context("cannot become the user who ran sudo")?;
    let witness = Witness::start(&signals).context("cannot start a process")?;
    let supervisor = Supervisor {
        command,
        recorder,
        witness: Some(witness),
        signals,
        stream,
        handing_on: HandingOn::new([own, command.unsigned_abs()]),
        stopped_by: None,
        command_end: None,
        recorder_end: None,
    };
    Ok(Part::Supervisor(supervisor.run()))
}

/// Makes a process. Returns its pid, or `None` in the new process.
fn fork() -> io::Result<Option<i32>> {
    // SAFETY: this process has one thread, so the new one may do everything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Gives up all rights but those of COMMAND's user. The kernel does not choose this process as an
/// OOM victim, if that is allowed: whoever waits for it would take that for COMMAND's end.
fn protect(identity: Option<&Identity>) -> io::Result<()> {
    let _not_permitted = std::fs::write("/proc/self/oom_score_adj", "-1000");
    if let Some(identity) = identity {
        identity.enter()?;
    }
    if let Err(error) = identity::keep_only_kill() {
        tracing::info!("the supervisor's capabilities stay as they are: {error}");
    }
    Ok(set_no_new_privs(true)?)
}

struct Supervisor {
    command: i32,
    recorder: i32,
    /// `None` only if it was killed and no other could be started.
    witness: Option<Witness>,
    signals: OwnedFd,
    stream: UnixStream,
    handing_on: HandingOn,
    /// The signal that has stopped COMMAND.
    stopped_by: Option<i32>,
    command_end: Option<End>,
    recorder_end: Option<End>,
}

impl Supervisor {
    fn run(mut self) -> ExitCode {
        loop {
            self.reap();
            if let (Some(command), Some(recorder)) = (self.command_end, self.recorder_end) {
                let ran = self.stream.read(&mut [0]).is_ok_and(|read| read > 0);
                let is_its = ran || matches!(command, End::Killed(_));
                return exit_as(if is_its { command } else { recorder });
            }
            self.stop();
            self.wait();
            self.take_signals();
            self.hand_on();
        }
    }

    /// Waits for a signal, a word of the witness, or the next decision.
    fn wait(&self) {
        let witness = self.witness.as_ref().map(|witness| &witness.stream);
        let mut watched: Vec<PollFd<'_>> = [PollFd::new(&self.signals, PollFlags::IN)]
            .into_iter()
            .chain(witness.map(|stream| PollFd::new(stream, PollFlags::IN)))
            .collect();
        let rest = self.handing_on.next().map(|due| {
            let rest = due.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: rest.as_secs().cast_signed(),
                tv_nsec: rest.subsec_nanos().into(),
            }
        });
        let _tried_again = poll(&mut watched, rest.as_ref());
    }

    /// Takes what the supervisor and the witness got.
    fn take_signals(&mut self) {
        while let Some(signal) = signals::next(&self.signals) {
            self.tell(signal);
            self.handing_on.received(Instant::now(), signal);
        }
        while let Some(witness) = &mut self.witness
            && is_readable(&witness.stream)
            && let Some(signal) = witness.next()
        {
            self.handing_on.witnessed(Instant::now(), signal);
        }
    }

    /// Tells the recorder of a request to end. Without eBPF, it sees no other.
    fn tell(&mut self, signal: signals::Received) {
        if signal.number == libc::SIGTERM {
            let told = [&[SIGNALLED][..], &signal.to_bytes()].concat();
            let _recorder_is_gone_or_slow = self.stream.write(&told);
        }
    }

    /// Hands on what is due and COMMAND has not got.
    fn hand_on(&mut self) {
        let now = Instant::now();
        if self.handing_on.next().is_none_or(|due| now < due) {
            return;
        }
        for signal in self.witness.as_mut().map_or_else(Vec::new, Witness::ask) {
            self.handing_on.witnessed(now, signal);
        }
        for signal in self.handing_on.decide(now) {
            if self.command_end.is_none() {
                signal.send_to(self.command);
            }
        }
    }

    /// Takes the ends and stops of all children. As the init of a container, this process has
    /// children that it has not made.
    fn reap(&mut self) {
        loop {
            let mut status = 0;
            let options = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // SAFETY: waitpid(2) writes one number.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, options) };
            if pid <= 0 {
                break;
            }
            if libc::WIFSTOPPED(status) || libc::WIFCONTINUED(status) {
                if pid == self.command {
                    let is_stopped = libc::WIFSTOPPED(status);
                    self.stopped_by = is_stopped.then(|| libc::WSTOPSIG(status));
                }
            } else {
                self.ended(pid, status);
            }
        }
    }

    /// Stops as COMMAND has stopped, so that a shell sees its job stop. Returns once both are
    /// continued.
    fn stop(&mut self) {
        // If somebody has continued both meanwhile, the stop is over.
        let continued = signals::is_pending(libc::SIGCONT);
        if self.command_end.is_none()
            && !continued
            && let Some(signal) = self.stopped_by.take()
        {
            stop_by(signal);
        }
    }

    fn ended(&mut self, pid: i32, status: i32) {
        let end = if libc::WIFSIGNALED(status) {
            End::Killed(libc::WTERMSIG(status))
        } else {
            End::Exited(libc::WEXITSTATUS(status))
        };
        if pid == self.command {
            self.command_end = Some(end);
            let _recorder_is_gone = self.stream.write_all(&[ENDED]);
        } else if pid == self.recorder {
            self.recorder_end = Some(end);
            if let End::Killed(signal) = end {
                anstream::eprintln!("raytrace: signal {signal} ended the recorder");
            }
        } else if self.witness.as_ref().is_some_and(|own| own.pid == pid) {
            self.witness = Witness::start(&self.signals).ok();
        }
    }
}

fn is_readable(stream: &UnixStream) -> bool {
    let now = Timespec::default();
    let mut watched = [PollFd::new(stream, PollFlags::IN)];
    poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Stops this process by a signal.
fn stop_by(signal: i32) {
    // SAFETY: both take numbers and a constant of libc.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    // SIGSTOP stops at once. The others wait until they are not blocked.
    signals::set_mask(signals::all_but(signal));
    signals::set_mask(signals::ALL);
}

/// Returns the exit code of a child. If a signal has ended it, that signal ends this process too:
/// some callers (srun, Python's subprocess) tell such an end from an exit code of 128 and more.
fn exit_as(end: End) -> ExitCode {
    let code = match end {
        End::Exited(code) => code,
        End::Killed(signal) => {
            // SAFETY: all take numbers and constants of libc. There is nothing to dump: it is not
            // this process that has failed.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                libc::signal(signal, libc::SIG_DFL);
                libc::kill(libc::getpid(), signal);
            }
            signals::set_mask(signals::all_but(signal));
            // The init of a container is not ended by its own signals.
            128 + signal
        }
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
