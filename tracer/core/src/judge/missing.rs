//! Names the evidence that would settle an unknown, for both judges.
//!
//! `show` says what to type for it.

/// What a verdict lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// How its signal was sent, in a mode that sees signals.
    Sending {
        /// Whether the process was seen from its start on.
        from_start: bool,
        /// Whether the kernel's log may say more.
        kernel_log: bool,
    },
    /// The sender of its signal, in a mode that sees none.
    Sender,
    /// The sender of its SIGKILL, in a mode that sees none. The kernel's log tells of its own
    /// kills.
    Killer,
    /// A SIGTERM that cannot be told from an exit. Ray's handler exits with code 1
    /// (`sigterm_handler`, `python/ray/_private/worker.py`), and does not always log that.
    Sigterm,
    /// The same, where Ray adds its guess about the memory limits of a pod.
    SigtermInPod,
    /// Whether it ended normally, which its own logs say.
    NormalEnd,
    /// The id of a worker, by which Ray's logs name it.
    WorkerId,
    /// An exit status.
    Status,
    /// The origin of a signal that no call asked for.
    SignalOrigin,
    /// A raylet's reason.
    RayletReason,
    /// Which memory was full.
    Scope,
    /// Which cgroup was at its limit.
    Limit,
    /// Why the kernel killed.
    KernelReason,
    /// The lines above an OOM kill, in the kernel's log.
    OomLines,
    /// The end of a raylet, in its logs and the kernel's.
    RayletEnd,
    /// Whether a kill is this death.
    SameDeath {
        /// The line at which the kernel reports it: `dmesg.txt:91`.
        kill: String,
        /// Whether it has the same pid.
        same_pid: bool,
        /// Whether only the time zone of Ray's logs is missing.
        zone: bool,
        /// Whether a raylet's log was read.
        raylet_read: bool,
    },
    /// What its node's logs say, the kernel's and the raylet's.
    NodeLogs {
        /// Whether the only thing known is a line that Ray prints for every sudden end.
        of_any_end: bool,
        /// Whether it is known which process it was.
        named: bool,
        /// Whether a kernel log was read.
        kernel_read: bool,
        /// Whether a raylet's log was read.
        raylet_read: bool,
    },
}

/// Returns what is missing if a signal was not seen: who sent it. The kernel logs no sender, but
/// its own kills.
pub(super) fn sender(saw_signals: bool, from_start: bool, killed: bool) -> Missing {
    match (saw_signals, killed) {
        (false, true) => Missing::Killer,
        (false, false) => Missing::Sender,
        (true, _) => Missing::Sending {
            from_start,
            kernel_log: killed,
        },
    }
}
