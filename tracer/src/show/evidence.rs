//! The evidence of a death, each piece on a line with its time relative to the act.

use crate::{
    judge::report::{Death, Evidence},
    show::{causes::Cause, sanitize, time::relative, view::View, words},
};

/// Pieces of evidence that are shown unless one first cause was asked for.
const MAX_PIECES: usize = 4;
/// Of these, lines of logs: they say what signals cannot.
const MAX_LOG_LINES: usize = 2;
/// Length of one piece where space is short.
const SHORT: usize = 180;

/// `−43 ms raylet.out: Killing 1 worker(s) …`, and how many pieces are left out.
#[must_use]
pub fn lines(view: &View<'_>, cause: &Cause<'_>) -> Vec<String> {
    let death = cause.death;
    let all = &death.verdict.evidence;
    if view.shown.detail {
        let longest = |piece| line(death, piece, sanitize::LONGEST);
        return all.iter().map(longest).collect();
    }
    let kept = telling(death);
    let mut lines: Vec<String> = kept.iter().map(|piece| line(death, piece, SHORT)).collect();
    if kept.len() < all.len() {
        let more = words::count(all.len() - kept.len(), "more piece", "more pieces");
        lines.push(format!("… {more} of evidence (--kill {})", cause.number));
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

/// The pieces that say most where not all are shown: the sender's own signal, lines of logs, then what lies nearest to the act.
fn telling(death: &Death) -> Vec<&Evidence> {
    let all = &death.verdict.evidence;
    if all.len() <= MAX_PIECES {
        return all.iter().collect();
    }
    let act = death.when.time.map_or(0, |time| time.0.0);
    let distance = |piece: &Evidence| piece.time.map(|time| (time.0.0 - act).unsigned_abs());
    let mut logs: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source != "kernel")
        .collect();
    logs.sort_by_key(|at| distance(&all[*at]));
    logs.truncate(MAX_LOG_LINES);
    let mut acts: Vec<usize> = (0..all.len())
        .filter(|at| all[*at].source == "kernel")
        .collect();
    acts.sort_by_key(|at| (!all[*at].by_sender, distance(&all[*at])));
    acts.truncate(MAX_PIECES - logs.len());
    let mut kept: Vec<usize> = logs.into_iter().chain(acts).collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| &all[at]).collect()
}
