//! Lists the evidence of a death: a line for each piece, with its time relative to the act.

use crate::{
    judge::report::{Death, Evidence},
    ray::log::monitor_kill,
    show::{causes::Cause, sanitize, time::relative, view::View, words},
};

/// Maximum number of pieces of evidence that are shown, unless one first cause was asked for.
const MAX_PIECES: usize = 4;
/// Maximum number of log lines among these. They say what signals cannot.
const MAX_LOG_LINES: usize = 2;
/// Longest piece of evidence where space is short, in characters.
const SHORT: usize = 180;
/// Prefixes of Ray's log lines that say why it ended a process.
const REASONS: [&str; 4] = [
    "Killing ",
    "Force kill actor",
    "The leased worker",
    "Kill actor",
];
/// Prefixes of Ray's log lines that follow every end of a process, whatever its reason.
const BOOKKEEPING: [&str; 7] = [
    "Disconnecting worker",
    "DisconnectClient",
    "Reporting worker exit",
    "Actor creation task succeeded",
    "received notification on actor",
    "RayletIpcClient::Disconnect",
    "Actor is failed on worker",
];

/// Returns lines like `−43 ms raylet.out: Killing 1 worker(s) …`, and one that counts the pieces
/// left out.
pub fn lines(view: &View<'_>, cause: &Cause<'_>) -> Vec<String> {
    let death = cause.death;
    let all = &death.verdict.evidence;
    if view.shown.detail {
        let longest = |piece| line(death, piece, sanitize::LONGEST);
        let mut in_time: Vec<&Evidence> = all.iter().collect();
        // What has no time keeps its place behind the rest.
        in_time.sort_by_key(|piece| (piece.time.is_none(), piece.time));
        return in_time.into_iter().map(longest).collect();
    }
    let kept = strongest(death);
    let short = |piece: &&Evidence| {
        let what = monitor_kill::without_ids(&piece.what).into_owned();
        let piece = Evidence {
            what,
            ..(*piece).clone()
        };
        line(death, &piece, SHORT)
    };
    let mut lines: Vec<String> = kept.iter().map(short).collect();
    let left_out = all.len() - kept.len();
    if left_out > 0 {
        let more = words::count(left_out, "more piece", "more pieces");
        let number = cause.number;
        lines.push(format!("… {more} of evidence (--kill {number})"));
    }
    lines
}

fn line(death: &Death, piece: &Evidence, limit: usize) -> String {
    let source = sanitize::name(&piece.source);
    let what = sanitize::line(&piece.what, limit);
    let act = death.when.time.or(death.when.exit_time);
    match (piece.time, act) {
        (Some(time), Some(act)) => {
            let offset = time.0.0 - act.0.0;
            let moment = if offset == 0 {
                "0 ms".to_owned()
            } else {
                relative(offset)
            };
            format!("{moment} {source}: {what}")
        }
        _ => format!("{source}: {what}"),
    }
}

/// Ranks a log line by what it says about the reason: 0 is the reason itself, 2 is what follows
/// every end.
fn rank(piece: &Evidence) -> u8 {
    let begins = |words: &[&str]| words.iter().any(|word| piece.what.starts_with(word));
    if piece.source == "kmsg" || begins(&REASONS) {
        0
    } else if begins(&BOOKKEEPING) {
        2
    } else {
        1
    }
}

/// Returns the pieces to show if not all are shown: log lines with the reason, the sender's own
/// signal, then what is nearest to the act in time.
fn strongest(death: &Death) -> Vec<&Evidence> {
    let all = &death.verdict.evidence;
    if all.len() <= MAX_PIECES {
        return all.iter().collect();
    }
    let act = death.when.time.map_or(0, |time| time.0.0);
    let distance = |piece: &Evidence| piece.time.map(|time| (time.0.0 - act).unsigned_abs());
    let mut logs: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source != "kernel")
        .collect();
    logs.sort_by_key(|at| (rank(&all[*at]), distance(&all[*at])));
    logs.truncate(MAX_LOG_LINES);
    // Keep bookkeeping only if no other line says more.
    let first = logs.first().map(|at| rank(&all[*at]));
    logs.retain(|at| rank(&all[*at]) < 2 || first == Some(2));
    let mut acts: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source == "kernel")
        .collect();
    acts.sort_by_key(|at| (!all[*at].by_sender, distance(&all[*at])));
    acts.truncate(MAX_PIECES - logs.len());
    let mut kept: Vec<usize> = logs.into_iter().chain(acts).collect();
    // All evidence is in order of time.
    kept.sort_unstable();
    kept.into_iter().map(|at| &all[at]).collect()
}
