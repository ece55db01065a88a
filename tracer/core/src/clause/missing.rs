//! What a verdict lacks, in words: what to look at and what to type.

use jiff::civil::DateTime;

use crate::{
    ids::{SECOND_NS, WallTime},
    judge::missing::{Missing, Moment},
};

/// Around a death, so many seconds of the kernel's log are asked for.
const AROUND_S: i64 = 60;
const GREP: &str = "grep -i -E 'oom|killed process|segfault'";
const SENDING: &str =
    "who sent the signal: it came before the recorder attached, or a tracer injected it";

/// `on its node: journalctl -k …`.
#[must_use]
pub fn missing(missing: &Missing) -> String {
    match missing {
        Missing::Sending { log: None } => SENDING.into(),
        Missing::Sending { log: Some(log) } => {
            format!("{SENDING}; on the host: {}", kernel_log(*log))
        }
        Missing::Sender => "the sender; to see it next time: sudo raytrace record".into(),
        Missing::Killer { log } => format!(
            "the killer; on the host: {}; next time: sudo raytrace record",
            kernel_log(*log)
        ),
        Missing::Sigterm => "whether a SIGTERM came before; to see it next time: sudo raytrace record".into(),
        Missing::WorkerId => {
            "its worker id, which could not be read: look for its pid in raylet.out and in the names of python-core-worker-*.log"
                .into()
        }
        Missing::Status => {
            "its exit status: record on the host as root, or on Linux 6.15 or later"
                .into()
        }
        Missing::Way => {
            "how the signal was sent: the process that ran then made no call that sends one".into()
        }
        Missing::RayletsLine => {
            "the raylet's own line; look for it: grep -n -e 'Killing' -e 'Stop:' raylet.out".into()
        }
        Missing::Scope => "whether a cgroup or the machine was full: the kernel's log says it (dmesg, needs CAP_SYSLOG)".into(),
        Missing::KernelsReason => format!(
            "the kernel's reason: no oom/mark_victim and no line of its log names this pid: {}",
            kernel_log(Moment::Unknown)
        ),
        Missing::OomLines { log } => format!("the lines before the kill; to see them: {}", kernel_log(*log)),
        Missing::RayletsEnd { log } => format!(
            "why its raylet ended; on that node: {}; and the end of its raylet.out and raylet.err",
            kernel_log(*log)
        ),
        Missing::ExitType { log, worker_id } => format!(
            "who ended it; on its node: {}; and `ray list workers --detail --filter worker_id={worker_id}` for its exit type (NODE_OUT_OF_MEMORY is Ray's own kill)",
            kernel_log(*log)
        ),
        Missing::NodesLogs { log } => format!(
            "who ended it; on its node: {}; and its raylet.out",
            kernel_log(*log)
        ),
    }
}

/// The command that prints the kernel's log around a moment.
fn kernel_log(at: Moment) -> String {
    let asked = match at {
        Moment::Unknown => None,
        Moment::At(time) => Some(around(time)),
        Moment::Local(time) => around_local(time),
    };
    asked.unwrap_or_else(|| format!("dmesg -T | {GREP}"))
}

fn around(time: WallTime) -> String {
    let moment = |offset: i64| {
        let moved = WallTime(time.0.saturating_add(offset * SECOND_NS));
        moved
            .timestamp()
            .strftime("%Y-%m-%d %H:%M:%S UTC")
            .to_string()
    };
    journal(&moment(-AROUND_S), &moment(AROUND_S))
}

fn around_local(time: DateTime) -> Option<String> {
    let span = jiff::SignedDuration::from_secs(AROUND_S);
    let show = |time: DateTime| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let since = show(time.checked_sub(span).ok()?);
    let until = show(time.checked_add(span).ok()?);
    Some(format!(
        "{} (times are the log's own: set TZ to its zone)",
        journal(&since, &until)
    ))
}

fn journal(since: &str, until: &str) -> String {
    format!("journalctl -k -o short-iso --since \"{since}\" --until \"{until}\" | {GREP}")
}
