//! Reads the kernel log from `/dev/kmsg` as it is written.

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

use crate::{
    event::{KernelLog, Probe, ProbeState},
    ids::{BootTime, SECOND_NS},
    kernel_log::{self, xid},
    observe::{clock, read_errors},
};

/// The reader of the kernel log. Each read gives one record.
pub struct Kmsg {
    file: File,
    /// Records that were overwritten before they were read.
    pub lost: u64,
    /// Errors of GPUs that were reported in the last second.
    late: Vec<(BootTime, KernelLog)>,
}

const KMSG: &str = "/dev/kmsg";
/// Records taken in one poll. A flood of the kernel log must not delay the other sources.
const RECORDS: usize = 4096;
/// A failing GPU writes hundreds of equal lines a second. One of each kind is reported each second,
/// and at most this many kinds.
const ALIKE_NS: i64 = SECOND_NS;
const MOST_KINDS: usize = 64;
/// Within this time a record is read, even on a busy machine.
const READ_WITHIN_NS: i64 = 5 * SECOND_NS;

impl Kmsg {
    /// Opens the kernel log at its end.
    pub fn open() -> std::io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(KMSG)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            lost: 0,
            late: Vec::new(),
        })
    }

    /// Takes the new records. Their times are approximate, and do not prove an order.
    pub fn poll(&mut self, mut sink: impl FnMut(BootTime, KernelLog)) {
        let mut buffer = [0u8; 8192];
        for _ in 0..RECORDS {
            match self.file.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => {
                    let record = String::from_utf8_lossy(&buffer[..read]);
                    if let Some((microseconds, message)) = kernel_log::kmsg_record(&record)
                        && let Some(line) = kernel_log::parse(message)
                    {
                        let stamp = BootTime(microseconds.saturating_mul(1000));
                        let time = written(stamp, clock::suspended_ns(), clock::boot());
                        if is_new(&mut self.late, time, &line) {
                            sink(time, line);
                        }
                    }
                }
                // EPIPE: records were overwritten. The next read continues after the gap.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => self.lost += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return read_errors::log_once(Path::new(KMSG), &error),
            }
        }
    }
}

/// Estimates when a record that is read `now` was written. Its timestamp is from the kernel's local
/// clock. That clock is never corrected, and it stops in most kinds of suspend. So the timestamp is
/// trusted only within the time in which records are read.
fn written(stamp: BootTime, suspended_ns: i64, now: BootTime) -> BootTime {
    stamp
        .plus(suspended_ns)
        .clamp(now.plus(-READ_WITHIN_NS), now)
}

/// Whether a line is not a repetition. `late` has what was reported in the last second.
fn is_new(late: &mut Vec<(BootTime, KernelLog)>, time: BootTime, line: &KernelLog) -> bool {
    if !matches!(line, KernelLog::Xid { .. }) {
        return true;
    }
    late.retain(|(told, _)| time.since(*told) < ALIKE_NS);
    if late.len() >= MOST_KINDS || late.iter().any(|(_, told)| xid::alike(told, line)) {
        return false;
    }
    late.push((time, line.clone()));
    true
}

impl AsFd for Kmsg {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the state of the probe.
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
        name: KMSG.into(),
        state,
        reason,
        required: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_time_survives_suspend_and_drift() {
        let second = 1_000_000_000;
        let at = |seconds: u64| BootTime(seconds * second);
        let slept = 3600 * second.cast_signed();
        assert_eq!(written(at(98), 0, at(100)), at(98));
        assert_eq!(written(at(98), slept, at(3700)), at(3698));
        // Some kinds of suspend do not stop the kernel's local clock.
        assert_eq!(written(at(3698), slept, at(3700)), at(3700));
        assert_eq!(written(at(3000), 0, at(3700)), at(3695));
    }

    #[test]
    fn equal_gpu_errors_are_one_a_second() {
        let xid = |code: u32| {
            let text = format!("NVRM: Xid (PCI:0000:65:00): {code}, pid=7, name=python, Ch 8");
            kernel_log::parse(&text).expect("an Xid")
        };
        let at = |milliseconds: u64| BootTime(milliseconds * 1_000_000);
        let mut late = Vec::new();
        let told: Vec<bool> = [(0, 31), (1, 31), (2, 43), (999, 31), (1000, 31), (1001, 31)]
            .map(|(time, code)| is_new(&mut late, at(time), &xid(code)))
            .into();
        assert_eq!(told, [true, false, true, false, true, false]);
        let many = (0..100).filter(|code| is_new(&mut late, at(1002), &xid(*code)));
        assert_eq!(many.count(), MOST_KINDS - 1, "kinds are bounded");
    }
}
