//! Blocks signals, reads them with their origin, and sends them again.
//!
//! The system calls are made directly, because glibc leaves signals 32 and 33 out of its sets. A
//! signal set of the kernel is 64 bits on every architecture that raytrace is built for.

use std::{
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// All signals. The kernel leaves SIGKILL and SIGSTOP out by itself.
pub(super) const ALL: u64 = u64::MAX;
/// Bytes of a signal set of the kernel.
const SET_BYTES: usize = 8;
/// Bytes of a stored [`Received`].
pub(in crate::command::record) const BYTES: usize = 24;

/// A signal that was received, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::command::record) struct Received {
    pub(in crate::command::record) number: i32,
    /// `si_code`.
    pub(in crate::command::record) code: i32,
    /// The sender, if a process sent it.
    pub(in crate::command::record) pid: u32,
    pub(in crate::command::record) uid: u32,
    /// The value of `sigqueue`.
    pub(in crate::command::record) value: u64,
}

/// `siginfo_t` of a queued signal, on 64-bit machines.
#[repr(C)]
struct Queued {
    number: i32,
    error: i32,
    code: i32,
    padding: i32,
    pid: u32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

impl Received {
    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&self.number.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.code.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.uid.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.value.to_ne_bytes());
        bytes
    }

    pub(in crate::command::record) fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[16..]);
        Self {
            number: i32::from_ne_bytes(word(0)),
            code: i32::from_ne_bytes(word(4)),
            pid: u32::from_ne_bytes(word(8)),
            uid: u32::from_ne_bytes(word(12)),
            value: u64::from_ne_bytes(value),
        }
    }

    /// Sends this signal to a child of this process. It names the original sender and its value.
    ///
    /// The kernel lets a process queue only negative codes, so the code is `SI_QUEUE`.
    pub(super) fn send_to(self, child: i32) {
        let queued = Queued {
            number: self.number,
            error: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            pid: self.pid,
            uid: self.uid,
            value: self.value,
            rest: [0; 12],
        };
        // SAFETY: the kernel reads a siginfo_t of 128 bytes, which `queued` is.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_rt_sigqueueinfo,
                child,
                self.number,
                &raw const queued,
            )
        };
        if sent != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
            // The user's queue is full. Without a value the signal needs no place there.
            // SAFETY: kill(2) takes two numbers.
            unsafe { libc::kill(child, self.number) };
        }
    }
}

/// Returns all signals but one.
pub(super) fn all_but(number: i32) -> u64 {
    ALL & !(1 << (number - 1))
}

/// Sets the signal mask of this thread. Returns the mask before.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut before = 0;
    // SAFETY: both pointers are to sets of the size that is given.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut before,
            SET_BYTES,
        )
    };
    before
}

/// Whether a blocked signal waits for this process.
pub(super) fn is_pending(number: i32) -> bool {
    let mut pending = 0u64;
    // SAFETY: the pointer is to a set of the size that is given.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, SET_BYTES) };
    pending & (1 << (number - 1)) != 0
}

/// Returns a descriptor from which blocked signals are read, each process its own.
pub(super) fn descriptor() -> io::Result<OwnedFd> {
    let all = ALL;
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the pointer is to a set of the size that is given.
    let made = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const all, SET_BYTES, flags) };
    let made = i32::try_from(made).unwrap_or(-1);
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Returns the next signal that waits for this process.
pub(super) fn next(descriptor: &OwnedFd) -> Option<Received> {
    // SAFETY: all bytes of it may be 0.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info);
    // SAFETY: the buffer has `size` bytes.
    let read = unsafe { libc::read(descriptor.as_raw_fd(), (&raw mut info).cast(), size) };
    (usize::try_from(read) == Ok(size)).then(|| Received {
        number: i32::try_from(info.ssi_signo).unwrap_or_default(),
        code: info.ssi_code,
        pid: info.ssi_pid,
        uid: info.ssi_uid,
        value: info.ssi_ptr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_signal_is_the_same() {
        let received = Received {
            number: 64,
            code: -1,
            pid: 7,
            uid: u32::MAX,
            value: 1 << 60,
        };
        assert_eq!(Received::from_bytes(&received.to_bytes()), received);
        assert_eq!(size_of::<Queued>(), size_of::<libc::siginfo_t>());
    }
}
