//! Reads the kernel's own feed of exits (taskstats), to compare raytrace's deaths with it.
//!
//! The feed is described in Documentation/accounting/taskstats.rst. raytrace itself does not use
//! it.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    sync::{Arc, Mutex},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Constants of linux/netlink.h, linux/genetlink.h and linux/taskstats.h.
const NLM_F_REQUEST: u16 = 1;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const TASKSTATS_CMD_GET: u8 = 1;
const TASKSTATS_CMD_ATTR_REGISTER_CPUMASK: u16 = 3;
const TASKSTATS_TYPE_PID: u16 = 1;
const TASKSTATS_TYPE_STATS: u16 = 3;
const TASKSTATS_TYPE_AGGR_PID: u16 = 4;
/// Length of a netlink header and a generic netlink header together.
const HEADER: usize = 20;
/// Offset of `ac_exitcode` in `struct taskstats`.
const EXIT_CODE: usize = 4;

/// The rows so far: a line `PID STATUS` for every thread that ended.
pub struct Feed(Arc<Mutex<String>>);

impl Feed {
    /// Subscribes to the exits on all processors. A thread reads them from now on.
    pub fn start() -> Result<Self> {
        // SAFETY: socket(2) takes numbers, and nothing else owns the descriptor that it returns.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC);
            ensure!(fd >= 0, "socket: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let room: libc::c_int = 16 << 20;
        // SAFETY: the value outlives the call.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const room).cast(),
                4,
            )
        };
        send(
            &socket,
            GENL_ID_CTRL,
            CTRL_CMD_GETFAMILY,
            CTRL_ATTR_FAMILY_NAME,
            b"TASKSTATS\0",
        )?;
        let reply = receive(&socket)?;
        let family = attribute(reply.get(HEADER..).unwrap_or_default(), CTRL_ATTR_FAMILY_ID)
            .and_then(|value| value.first_chunk())
            .context("this kernel has no taskstats")?;
        let processors = fs::read_to_string("/sys/devices/system/cpu/online")?;
        let mask = format!("{}\0", processors.trim());
        send(
            &socket,
            u16::from_le_bytes(*family),
            TASKSTATS_CMD_GET,
            TASKSTATS_CMD_ATTR_REGISTER_CPUMASK,
            mask.as_bytes(),
        )?;
        let rows = Arc::new(Mutex::new(String::new()));
        let kept = Arc::downgrade(&rows);
        thread::spawn(move || {
            while let Some(rows) = kept.upgrade() {
                let text = match receive(&socket) {
                    Ok(message) => row(&message).map(|(pid, status)| format!("{pid} {status}\n")),
                    // ENOBUFS: the reader was too slow.
                    Err(error) => Some(format!("lost {error}\n")),
                };
                if let (Some(text), Ok(mut rows)) = (text, rows.lock()) {
                    rows.push_str(&text);
                }
            }
        });
        Ok(Self(rows))
    }

    /// Returns all rows so far.
    pub fn text(&self) -> String {
        self.0.lock().map(|rows| rows.clone()).unwrap_or_default()
    }
}

/// The rows of a feed, by pid.
///
/// The feed has one row for each thread. If the leader's thread ended before others, its row has
/// the exit code of that thread and not of the process.
#[derive(Debug, Default)]
pub struct Exits(BTreeSet<(u64, u64)>);

impl Exits {
    /// Reads the rows of a feed. None may have been lost.
    pub fn parse(feed: &str) -> Result<Self> {
        let rows: BTreeSet<(u64, u64)> = feed
            .lines()
            .filter_map(|line| {
                let (pid, status) = line.split_once(' ')?;
                Some((pid.parse().ok()?, status.parse().ok()?))
            })
            .collect();
        let lost = feed.lines().filter(|line| line.starts_with("lost")).count();
        ensure!(
            !rows.is_empty() && lost == 0,
            "the kernel's feed of exits is not whole: {} rows, {lost} times something was lost",
            rows.len()
        );
        Ok(Self(rows))
    }

    /// Returns the wait statuses of the threads with this pid, without the core dump flag.
    fn statuses_of(&self, pid: u64) -> Vec<u64> {
        let rows = self.0.range((pid, 0)..=(pid, u64::MAX));
        rows.map(|(_, status)| *status & !0x80).collect()
    }

    /// Returns whether a thread with the death's pid ended by the death's signal.
    pub fn confirms_signal(&self, death: &Value) -> bool {
        let pid = death["pid"].as_u64().unwrap_or_default();
        let of_pid = self.statuses_of(pid);
        death["signal"]
            .as_u64()
            .is_some_and(|signal| of_pid.contains(&signal))
    }

    /// Describes the deaths whose wait status in the feed differs, or that the feed does not have.
    pub fn disagreements<'a>(
        &self,
        deaths: impl Iterator<Item = &'a Value>,
    ) -> impl Iterator<Item = String> {
        deaths.filter_map(|death| {
            let signal = death["signal"].as_u64().unwrap_or_default();
            let status = death["exit_code"].as_u64().unwrap_or_default() << 8 | signal;
            let told = self.statuses_of(death["pid"].as_u64()?);
            let leader_first = told == [0] && status == LEADER_FIRST;
            let summary = &death["verdict"]["summary"];
            // The kernel may lack the memory for the row of a victim of a global OOM kill
            // (`prepare_reply`, kernel/taskstats.c).
            let without_room = told.is_empty() && death["verdict"]["killer"] == "kernel-oom-global";
            let agrees = told.contains(&status) || leader_first || without_room;
            (!agrees).then(|| format!("taskstats has {told:x?}, not {status:x}, for {summary}"))
        })
    }
}

/// The status of `exit(7)`, called by another thread after the leader's thread has ended.
const LEADER_FIRST: u64 = 7 << 8;

/// Sends a request with one attribute.
fn send(socket: &OwnedFd, family: u16, command: u8, attribute: u16, value: &[u8]) -> Result<()> {
    let padded = value.len().next_multiple_of(4);
    let mut message = Vec::new();
    message.extend(u32::try_from(HEADER + 4 + padded)?.to_le_bytes());
    message.extend(family.to_le_bytes());
    message.extend(NLM_F_REQUEST.to_le_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(u16::try_from(4 + value.len())?.to_le_bytes());
    message.extend(attribute.to_le_bytes());
    message.extend(value);
    message.resize(HEADER + 4 + padded, 0);
    // SAFETY: the bytes outlive the call.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            message.as_ptr().cast(),
            message.len(),
            0,
        )
    };
    ensure!(sent > 0, "send: {}", std::io::Error::last_os_error());
    Ok(())
}

fn receive(socket: &OwnedFd) -> Result<Vec<u8>> {
    let mut buffer = vec![0u8; 16 << 10];
    // SAFETY: the length is that of the buffer, which outlives the call.
    let read = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    ensure!(read > 0, "recv: {}", std::io::Error::last_os_error());
    buffer.truncate(read.unsigned_abs());
    Ok(buffer)
}

/// Returns the value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while let [l0, l1, k0, k1, ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*l0, *l1]));
        if u16::from_le_bytes([*k0, *k1]) & 0x3fff == kind {
            return bytes.get(4..length);
        }
        bytes = bytes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// Returns the pid and wait status of a thread that ended.
fn row(message: &[u8]) -> Option<(u32, u32)> {
    let thread = attribute(message.get(HEADER..)?, TASKSTATS_TYPE_AGGR_PID)?;
    let pid = attribute(thread, TASKSTATS_TYPE_PID)?.first_chunk()?;
    let stats = attribute(thread, TASKSTATS_TYPE_STATS)?;
    let status = stats.get(EXIT_CODE..)?.first_chunk()?;
    Some((u32::from_le_bytes(*pid), u32::from_le_bytes(*status)))
}
