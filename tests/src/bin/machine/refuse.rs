//! Runs a command whose eBPF programs with a certain prefix the kernel refuses to load.
//!
//! A filter of system calls asks this process about each `bpf(2)`: `seccomp_unotify(2)`.

use std::{
    fs::File,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{fs::FileExt as _, net::UnixStream, process::CommandExt as _},
    },
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

/// `struct seccomp_notif`. The answer to it follows.
#[repr(C)]
#[derive(Default)]
struct Asked {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    arguments: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const SECCOMP_IOCTL_NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const SECCOMP_IOCTL_NOTIF_SEND: libc::c_ulong = 0xc018_2101;
const GO_ON: u32 = 1;
const BPF_PROG_LOAD: u64 = 5;
/// Offset of the name in `union bpf_attr`. The name has 16 bytes.
const NAME_AT: u64 = 48;

pub(crate) fn run(prefix: &str, command: &[&str]) -> Result<ExitCode> {
    let (program, arguments) = command.split_first().context("which command?")?;
    let (here, there) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command.args(arguments);
    let filter = move || {
        let listener = listen()?;
        hand_over(&there, &listener)
    };
    // SAFETY: between fork and exec the filter makes system calls only, and this program has one
    // thread.
    unsafe { command.pre_exec(filter) };
    let mut child = command.spawn()?;
    let listener = received(&here)?;
    loop {
        let mut fds = [PollFd::new(&listener, PollFlags::IN)];
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        poll(&mut fds, Some(&moment))?;
        if fds[0].revents().contains(PollFlags::IN) {
            answer(&listener, prefix);
        }
        if let Some(status) = child.try_wait()? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
    }
}

/// Installs a filter that allows everything and asks about `bpf(2)`.
fn listen() -> std::io::Result<OwnedFd> {
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let bpf = u32::try_from(libc::SYS_bpf).unwrap_or_default();
    let mut steps = [
        // The number of the system call is the first word.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, bpf, 0, 1),
        step(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_USER_NOTIF,
            0,
            0,
        ),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program outlives the call, which returns a new descriptor.
    unsafe {
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        );
        match i32::try_from(listener) {
            Ok(listener @ 0..) => Ok(OwnedFd::from_raw_fd(listener)),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

fn hand_over(to: &UnixStream, listener: &OwnedFd) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let fds = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(b"x")], &mut message, SendFlags::empty())?;
    Ok(())
}

fn received(from: &UnixStream) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        from,
        &mut [IoSliceMut::new(&mut byte)],
        &mut message,
        RecvFlags::empty(),
    )?;
    for message in message.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            return fds.next().context("no descriptor came");
        }
    }
    bail!("no descriptor came")
}

fn answer(listener: &OwnedFd, prefix: &str) {
    let mut asked = Asked::default();
    let fd = listener.as_raw_fd();
    // SAFETY: the request takes a struct of this size, which the kernel fills.
    if unsafe { libc::ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } != 0 {
        return;
    }
    let refused = asked.arguments[0] == BPF_PROG_LOAD && is_named(&asked, prefix);
    let answer = Answer {
        id: asked.id,
        value: 0,
        error: if refused { -libc::EACCES } else { 0 },
        flags: if refused { 0 } else { GO_ON },
    };
    // SAFETY: the request takes a struct of this size. The process that asked may have ended.
    let _gone = unsafe { libc::ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
}

fn is_named(asked: &Asked, prefix: &str) -> bool {
    let mut name = [0; 16];
    let read = File::open(format!("/proc/{}/mem", asked.pid))
        .and_then(|memory| memory.read_exact_at(&mut name, asked.arguments[1] + NAME_AT));
    read.is_ok() && name.starts_with(prefix.as_bytes())
}
