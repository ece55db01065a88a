//! Leaves out deaths of other runs, which the logs of a host have too.
//!
//! The kernel log has all OOM kills since the machine started. Those from before the raylets' logs
//! begin, and from long after they end, are of other runs.

use std::collections::BTreeSet;

use super::{
    claim::{Place, Stamp, Text},
    join::Case,
    text_evidence::TextEvidence,
    zone::{self, Clock},
};
use crate::{
    ids::{MINUTE_NS, Pid},
    path,
};

const HOUR_NS: i64 = 60 * MINUTE_NS;
/// How far the clock of the kernel log may be off.
const CLOCK_NS: i64 = 2 * MINUTE_NS;
/// A raylet logs its state every minute (`event_stats_print_interval_ms`, on by default in
/// `ray_config_def.h`), so one that has logged nothing for this long has ended.
const SILENT_NS: i64 = HOUR_NS;
/// The largest offsets of a time zone, east and west of Greenwich.
const EAST_NS: i64 = 14 * HOUR_NS;
const WEST_NS: i64 = 12 * HOUR_NS;

/// A time in a raylet's log: as printed, and the first and last UTC that it may stand for.
struct Bound {
    stamp: Stamp,
    earliest: i64,
    latest: i64,
}

/// Removes the deaths of other runs. Returns a note about them if there were any.
pub(super) fn leave_out(
    gathered: &TextEvidence,
    clock: &Clock,
    cases: &mut Vec<Case<'_>>,
) -> Option<String> {
    let logs = gathered.texts.iter().enumerate();
    let begin = logs.clone().filter_map(|(number, text)| {
        let begin = bound(clock, number, text.times?.first)?;
        Some((begin, text.from_start))
    });
    let (begin, from_start) = begin.min_by_key(|(begin, _)| begin.earliest)?;
    let ends = logs.filter_map(|(number, text)| bound(clock, number, text.times?.last));
    let end = ends.max_by_key(|end| end.latest)?;
    let kept: BTreeSet<Place> = cases
        .iter()
        .filter_map(|case| Some(case.candidate?.place))
        .collect();
    let mut texts: BTreeSet<usize> = BTreeSet::new();
    let mut left_out = 0_usize;
    let before = begin.earliest.saturating_sub(CLOCK_NS);
    let after = end.latest.saturating_add(SILENT_NS);
    let is_outside = |time: i64| (from_start && time < before) || time > after;
    cases.retain(|case| {
        let (None, Some(host)) = (case.ray, case.host) else {
            return true;
        };
        let is_raylet = |pid: Pid| gathered.remarks.raylets.contains(&pid);
        let may_be_of_this_run = host.subject.pid.is_some_and(is_raylet)
            || host.statements.iter().any(|one| {
                let time = clock.time(one.place, one.stamp);
                kept.contains(&one.place) || !time.is_some_and(is_outside)
            });
        if !may_be_of_this_run {
            left_out += 1;
            texts.extend(host.statements.first().map(|one| one.place.text));
        }
        may_be_of_this_run
    });
    let name = |number: &usize| {
        let text: Option<&Text> = gathered.texts.get(*number);
        text.map_or("", |text| path::base(&text.name))
    };
    let names: BTreeSet<&str> = texts.iter().map(name).collect();
    let name = match (names.first()?, names.len()) {
        (name, 1) => (*name).to_owned(),
        (name, several) => format!("{name} and {} more", several - 1),
    };
    let printed = |bound: &Bound| zone::printed(bound.stamp).unwrap_or_default();
    let (deaths, are, them) = match left_out {
        1 => ("death", "is", "it"),
        _ => ("deaths", "are", "them"),
    };
    // Of a day beside an unknown zone it is not known what is outside.
    let zone = if [&begin, &end].iter().any(|one| one.earliest < one.latest) {
        "; others may not be either, because the zone of Ray's logs is unknown (--log-tz)"
    } else {
        ""
    };
    Some(format!(
        "{left_out} {deaths} in {name} {are} not of this run: before Ray's logs begin ({}), or more than an hour after they end ({}){zone}; explain {name} alone to list {them}",
        printed(&begin),
        printed(&end),
    ))
}

/// Returns the bounds of a time of a text. Without a known zone it may be in any.
fn bound(clock: &Clock, text: usize, stamp: Stamp) -> Option<Bound> {
    let place = Place { text, line: 0 };
    let in_any_zone = || {
        let local = stamp.local?;
        Some((local.checked_sub(EAST_NS)?, local.checked_add(WEST_NS)?))
    };
    let known = clock.time(place, stamp).map(|time| (time, time));
    let (earliest, latest) = known.or_else(in_any_zone)?;
    Some(Bound {
        stamp,
        earliest,
        latest,
    })
}
