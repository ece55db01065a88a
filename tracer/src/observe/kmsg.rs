//! `/dev/kmsg`: the kernel log as it is written.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

use crate::{
    event::{KernelLog, Probe, ProbeState},
    ids::BootTime,
    kernel_log,
};

/// The reader; a record a read.
pub struct Kmsg {
    file: File,
    /// Records that were overwritten before they were read.
    pub lost: u64,
}

impl Kmsg {
    /// Opens it at its end.
    pub fn open() -> std::io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, lost: 0 })
    }

    /// Takes what is new. The stamps are the kernel's local clock, which stops in suspend: a hint, no proof of order.
    pub fn poll(&mut self, mut sink: impl FnMut(BootTime, KernelLog)) {
        let mut buffer = [0u8; 8192];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    let record = String::from_utf8_lossy(&buffer[..read]);
                    if let Some((microseconds, message)) = kernel_log::kmsg_record(&record)
                        && let Some(line) = kernel_log::parse(message)
                    {
                        sink(BootTime(microseconds * 1000), line);
                    }
                }
                // EPIPE: records were overwritten; the next read goes on behind the gap.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => self.lost += 1,
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Kmsg {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The state of the probe.
#[must_use]
pub fn probe(opened: &std::io::Result<Kmsg>) -> Probe {
    let (state, reason) = match opened {
        Ok(_) => (ProbeState::Ok, None),
        Err(error) => (
            ProbeState::Missing,
            Some(format!(
                "{error} (needs CAP_SYSLOG where kernel.dmesg_restrict is 1)"
            )),
        ),
    };
    Probe {
        name: "/dev/kmsg".into(),
        state,
        reason,
        required: false,
    }
}
