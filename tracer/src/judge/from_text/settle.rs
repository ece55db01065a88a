//! What would settle an unknown: the exact command, with the time of the death filled in.

use crate::{
    event::Role,
    ids::WallTime,
    judge::report::{Certainty, Death, Killer},
};

/// Around a death, so many seconds of the kernel's log are asked for.
const AROUND_S: i64 = 60;

/// Fills in what is missing to know, for deaths whose killer is not known.
pub(super) fn add(deaths: &mut [Death]) {
    for death in deaths {
        if death.verdict.certainty == Certainty::Unknown || death.verdict.killer == Killer::Unknown
        {
            death.verdict.missing = Some(missing(death));
        }
    }
}

fn missing(death: &Death) -> String {
    let kernel = kernel_log(death);
    if death.oom.is_some() {
        return format!("the lines before the kill: {kernel}");
    }
    match (death.role, &death.worker_id) {
        (Role::Raylet, _) => {
            format!("on its node: {kernel}; and the end of its raylet.out and raylet.err")
        }
        (_, Some(worker)) => format!(
            "on its node: {kernel}; and `ray list workers --detail --filter worker_id={worker}` for its exit type (NODE_OUT_OF_MEMORY is Ray's own kill)"
        ),
        _ => format!("on its node: {kernel}; and raylet.out of that node"),
    }
}

fn kernel_log(death: &Death) -> String {
    let grep = "grep -i -E 'oom|killed process|segfault'";
    if let Some(time) = death.time.or(death.exit_time) {
        let moment = |offset: i64| {
            let moved = WallTime(time.0.0.saturating_add(offset * 1_000_000_000));
            let text = format!("{:.0}", moved.timestamp());
            text.replace('T', " ").replace('Z', " UTC")
        };
        return format!(
            "journalctl -k -o short-iso --since \"{}\" --until \"{}\" | {grep}",
            moment(-AROUND_S),
            moment(AROUND_S)
        );
    }
    // Times without a zone are the node's own, as journalctl takes them.
    let stamp = death
        .stamp
        .as_deref()
        .filter(|stamp| !stamp.starts_with('['));
    if let Some(moments) = stamp.and_then(around) {
        return format!(
            "journalctl -k -o short-iso --since \"{}\" --until \"{}\" | {grep} (times are the log's own: set TZ to its zone)",
            moments.0, moments.1
        );
    }
    format!("dmesg -T | {grep}")
}

fn around(stamp: &str) -> Option<(String, String)> {
    let civil: jiff::civil::DateTime = stamp.parse().ok()?;
    let span = jiff::SignedDuration::from_secs(AROUND_S);
    let show = |time: jiff::civil::DateTime| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    Some((
        show(civil.checked_sub(span).ok()?),
        show(civil.checked_add(span).ok()?),
    ))
}
