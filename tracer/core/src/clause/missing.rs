//! What a verdict lacks, in words: what to look at and what to type.

use jiff::civil::DateTime;

use crate::{
    ids::{SECOND_NS, WallTime},
    judge::missing::{Missing, Moment},
};

/// Around a death, so many seconds of the kernel's log are asked for.
const AROUND_S: i64 = 60;
const GREP: &str = "grep -i -E 'oom|killed process|segfault'";
const SENDING: &str = "its sending, before the recorder attached or injected by a tracer";

/// `on its node: journalctl -k …`.
#[must_use]
pub fn missing(missing: &Missing) -> String {
    match missing {
        Missing::Sending { log: None } => SENDING.into(),
        Missing::Sending { log: Some(log) } => {
            format!("{SENDING}; on the host: {}", kernel_log(*log))
        }
        Missing::Sender => "the sender: sudo raytrace record".into(),
        Missing::Killer { log } => format!(
            "on the host: {}; next time: sudo raytrace record",
            kernel_log(*log)
        ),
        Missing::Sigterm => "whether a SIGTERM came before: sudo raytrace record".into(),
        Missing::WorkerId => {
            "its worker id, which could not be read: look for its pid in raylet.out and in the names of python-core-worker-*.log"
                .into()
        }
        Missing::Status => {
            "its exit status: run `sudo raytrace record` on the host, or a kernel of 6.15 or later"
                .into()
        }
        Missing::Way => {
            "which way the signal came: no call of the process that ran then asked for it".into()
        }
        Missing::RayletsLine => {
            "the raylet's own line: grep -n -e 'Killing' -e 'Stop:' raylet.out".into()
        }
        Missing::Scope => "the kernel's stack at that moment, or its log: CAP_SYSLOG, dmesg".into(),
        Missing::KernelsReason => format!(
            "oom/mark_victim or a kernel log line for this pid: {}",
            kernel_log(Moment::Unknown)
        ),
        Missing::OomLines { log } => format!("the lines before the kill: {}", kernel_log(*log)),
        Missing::RayletsEnd { log } => format!(
            "on its node: {}; and the end of its raylet.out and raylet.err",
            kernel_log(*log)
        ),
        Missing::ExitType { log, worker_id } => format!(
            "on its node: {}; and `ray list workers --detail --filter worker_id={worker_id}` for its exit type (NODE_OUT_OF_MEMORY is Ray's own kill)",
            kernel_log(*log)
        ),
        Missing::NodesLogs { log } => format!(
            "on its node: {}; and raylet.out of that node",
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
