//! Makes the events of the trace, one function for each kind.
//!
//! Times are in µs of the wall clock, as in Ray's timeline.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::rows::Place;
use crate::{
    ids::{Bytes, WallTime},
    judge::{
        report::{Death, Utc},
        timeline::{CallSeries, ProcessSeries, Timeline},
    },
    ray::identify,
    show::{sanitize, words},
};

/// Returns whole microseconds, so that nested slices stay nested. A fraction of so large a number
/// would be rounded.
fn microseconds(time: Utc) -> i64 {
    time.0.0.div_euclid(1000)
}

fn slice(category: &str, name: &str, place: Place, from: Utc, to: Utc, args: &Value) -> Value {
    let (start, end) = (microseconds(from), microseconds(to));
    json!({
        "ph": "X", "cat": category, "name": name, "pid": place.node, "tid": place.row,
        "ts": start, "dur": (end - start).max(1), "args": args,
    })
}

/// Makes the slice of a process's lifetime, from its start to its end or to that of the recording.
/// The slice of its death lies inside.
pub(super) fn lifetime(
    timeline: &Timeline,
    process: &ProcessSeries,
    death: Option<&Death>,
    most_calls: usize,
    place: Place,
) -> Value {
    let first = process.private.first().map(|(time, _)| *time);
    let mut from = process.started.or(first).unwrap_or(timeline.began);
    let mut to = process.ended.unwrap_or(timeline.ended).max(from);
    if let Some((act, ended)) = death.and_then(|death| span(death, process)) {
        (from, to) = (from.min(act), to.max(ended));
    }
    let peak = process.private.iter().map(|(_, bytes)| bytes.0).max();
    let name = words::name_of_series(process);
    let args = json!({
        "pid": process.process.pid.0,
        "role": process.role,
        "worker_id": process.worker_id.as_ref().map(|id| sanitize::line(&id.0, 64)),
        "private_peak_bytes": peak,
        "outlived_the_recording": process.ended.is_none(),
        "short_calls_left_out": process.calls.len().saturating_sub(most_calls),
    });
    slice("lifetime", &name, place, from, to, &args)
}

/// Returns the span from the act that killed to the exit, at least a microsecond.
fn span(death: &Death, process: &ProcessSeries) -> Option<(Utc, Utc)> {
    let ended = death.when.exit_time.or(process.ended);
    let act = death.when.time.or(ended)?;
    let ended = ended.unwrap_or(act);
    let act = act.min(ended);
    let least = Utc(WallTime(act.0.0.saturating_add(1000)));
    Some((act, ended.max(least)))
}

/// Makes slices of what a worker ran: `most` of its calls if the kernel reported them, else what
/// its titles said when they were read.
pub(super) fn methods(
    timeline: &Timeline,
    process: &ProcessSeries,
    most: usize,
    place: Place,
) -> Vec<Value> {
    if process.calls.is_empty() {
        return titles(timeline, process, place);
    }
    let end = process.ended.unwrap_or(timeline.ended);
    let calls = longest(&process.calls, end, most).into_iter();
    calls
        .map(|call| {
            let args = json!({
                "call": call.nth,
                "private_before_bytes": call.before,
                "private_after_bytes": call.after,
            });
            let name = sanitize::name(&call.task);
            let ended = call.ended.unwrap_or(end);
            slice("method", &name, place, call.began, ended, &args)
        })
        .collect()
}

/// Keeps at most `most` calls, in order of time: those that never ended, and the longest.
fn longest(calls: &[CallSeries], end: Utc, most: usize) -> Vec<&CallSeries> {
    let mut kept: Vec<&CallSeries> = calls.iter().collect();
    if kept.len() <= most {
        return kept;
    }
    let lasted = |call: &CallSeries| call.ended.unwrap_or(end).0.0 - call.began.0.0;
    kept.sort_by_key(|call| Reverse((call.ended.is_none(), lasted(call))));
    kept.truncate(most);
    kept.sort_by_key(|call| call.began);
    kept
}

/// Makes slices from titles. A title begins when it was first seen.
fn titles(timeline: &Timeline, process: &ProcessSeries, place: Place) -> Vec<Value> {
    let end = process.ended.unwrap_or(timeline.ended);
    let ends = process
        .titles
        .iter()
        .skip(1)
        .map(|(time, _)| *time)
        .chain([end]);
    process
        .titles
        .iter()
        .zip(ends)
        .filter_map(|((from, title), to)| {
            let title = identify::title(title)?;
            let name = sanitize::name(&title.task.or(title.actor_class)?);
            let args = json!({"seen_in": "title"});
            Some(slice("method", &name, place, *from, to, &args))
        })
        .collect()
}

/// Makes the slice of a death, from the act that killed to the exit, with its evidence.
pub(super) fn death(
    death: &Death,
    process: &ProcessSeries,
    place: Place,
    label: &str,
) -> Option<Value> {
    let (act, ended) = span(death, process)?;
    let evidence: Vec<String> = death
        .verdict
        .evidence
        .iter()
        .map(|piece| {
            let source = sanitize::name(&piece.source);
            format!(
                "{source}: {}",
                sanitize::line(&piece.what, sanitize::EVIDENCE)
            )
        })
        .collect();
    let args = json!({
        "death_id": death.id.0,
        "pid": death.process.pid.0,
        "killer": death.verdict.killer.name(),
        "certainty": words::certainty(death),
        "summary": words::headline(death),
        "job_id": death.work.job_id.as_ref().map(|id| sanitize::name(&id.0)),
        "cause_death_id": death.verdict.cause_death_id.map(|id| id.0),
        "private_bytes": death.memory.own.private(),
        "evidence": evidence,
    });
    let name = format!("{label}: {}", death.verdict.killer.name());
    let mut made = slice("death", &name, place, act, ended, &args);
    // No task of Ray has this colour.
    made["cname"] = "terrible".into();
    Some(made)
}

/// Makes an arrow between two slices.
pub(super) fn flow(
    id: u64,
    name: &str,
    from: (Option<Utc>, Place),
    to: (Option<Utc>, Place),
) -> Vec<Value> {
    let ((Some(start), here), (Some(end), there)) = (from, to) else {
        return Vec::new();
    };
    let end = microseconds(end.max(start));
    let step = |phase: &str, place: Place, time: i64| {
        json!({
            "ph": phase, "bp": "e", "cat": "cause", "name": name, "id": id,
            "pid": place.node, "tid": place.row, "ts": time,
        })
    };
    vec![step("s", here, microseconds(start)), step("f", there, end)]
}

/// Makes the counter of the machine's memory at one moment.
pub(super) fn node(place: Place, time: Utc, [used, shared]: [u64; 2]) -> Value {
    json!({
        "ph": "C", "name": "memory in use (bytes)", "pid": place.node, "ts": microseconds(time),
        "args": {"shared memory": shared, "other": used.saturating_sub(shared)},
    })
}

/// Makes the counter of a process's private memory. It is 0 after the end of the process.
pub(super) fn counter(
    process: &ProcessSeries,
    place: Place,
    points: &[(Utc, Bytes)],
) -> Vec<Value> {
    let class = words::name_of_series(process);
    let name = format!("private bytes: {class} (pid {})", process.process.pid);
    let at = |(time, bytes): (Utc, Bytes)| {
        json!({
            "ph": "C", "name": name, "pid": place.node, "ts": microseconds(time),
            "args": {"private": bytes},
        })
    };
    let end = process.ended.filter(|_| !points.is_empty());
    let end = end.map(|ended| (ended, Bytes(0)));
    points.iter().copied().chain(end).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(nth: u32, began: i64, ended: Option<i64>) -> CallSeries {
        let at = |time| Utc(WallTime(time));
        CallSeries {
            task: "Rollout.generate".into(),
            nth,
            began: at(began),
            ended: ended.map(at),
            before: None,
            after: None,
        }
    }

    #[test]
    fn longest_and_unended_calls_are_kept() {
        let calls = [
            call(1, 0, Some(5)),
            call(2, 10, Some(90)),
            call(3, 100, Some(101)),
            call(4, 110, Some(140)),
            call(5, 150, None),
        ];
        let kept = |most| -> Vec<u32> {
            let kept = longest(&calls, Utc(WallTime(151)), most);
            kept.iter().map(|call| call.nth).collect()
        };
        assert_eq!(kept(3), [2, 4, 5]);
        assert_eq!(kept(5), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn nested_slices_stay_nested_in_microseconds() {
        let place = Place { node: 1, row: 1 };
        let made = |from: i64, to: i64| {
            let at = |time| Utc(WallTime(1_795_326_093_864_000_000 + time));
            let slice = slice("death", "one", place, at(from), at(to), &json!({}));
            let figure = |key: &str| slice[key].as_i64().expect("an integer");
            (figure("ts"), figure("ts") + figure("dur"))
        };
        for (from, to) in [(1, 2999), (999, 2001), (1999, 2999)] {
            let (outer, inner) = (made(0, 3000), made(from, to));
            assert!(
                outer.0 <= inner.0 && inner.1 <= outer.1,
                "{outer:?} {inner:?}"
            );
        }
    }
}
