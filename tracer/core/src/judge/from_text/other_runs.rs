//! Finds deaths of other runs, which the logs of a host have too.
//!
//! The kernel log has all OOM kills since the machine started. Those from before the raylets' logs
//! begin, and from long after they end, are of other runs.

use std::collections::BTreeSet;

use super::{
    claim::{PidNamespace, Place, Stamp, Statement},
    claims::ProcessClaims,
    text_evidence::TextEvidence,
    zone::{self, Clock},
};
use crate::{ids::MINUTE_NS, path};

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

/// The deaths of other runs.
pub(super) struct OtherRuns {
    /// The first statement on each.
    places: BTreeSet<Place>,
    /// A note about them, if there are any.
    pub(super) note: Option<String>,
}

impl OtherRuns {
    /// Finds them.
    pub(super) fn of(gathered: &TextEvidence, clock: &Clock) -> Self {
        let mut others = Self {
            places: BTreeSet::new(),
            note: None,
        };
        if let Some(run) = Run::of(gathered, clock) {
            let hosts = gathered.claims.deaths();
            let hosts = hosts.filter(|one| one.subject.pid_namespace == PidNamespace::Host);
            let outside = hosts.filter(|host| run.is_before_or_after(gathered, clock, host));
            others.places = outside.filter_map(first_place).collect();
            others.note = run.note(gathered, &others.places);
        }
        others
    }

    /// Whether this is one of them.
    pub(super) fn has(&self, host: &ProcessClaims) -> bool {
        first_place(host).is_some_and(|place| self.places.contains(&place))
    }
}

fn first_place(host: &ProcessClaims) -> Option<Place> {
    host.statements.first().map(|one| one.place)
}

/// The time that the raylets' logs cover.
struct Run {
    begin: Bound,
    end: Bound,
    /// Whether the earliest log has its first line.
    from_start: bool,
}

impl Run {
    fn of(gathered: &TextEvidence, clock: &Clock) -> Option<Self> {
        let logs = gathered.texts.iter().enumerate();
        let begins = logs.clone().filter_map(|(number, text)| {
            let begin = bound(clock, number, text.times?.first)?;
            Some((begin, text.from_start))
        });
        let (begin, from_start) = begins.min_by_key(|(begin, _)| begin.earliest)?;
        let ends = logs.filter_map(|(number, text)| bound(clock, number, text.times?.last));
        let end = ends.max_by_key(|end| end.latest)?;
        Some(Self {
            begin,
            end,
            from_start,
        })
    }

    fn is_before_or_after(
        &self,
        gathered: &TextEvidence,
        clock: &Clock,
        host: &ProcessClaims,
    ) -> bool {
        let before = self.begin.earliest.saturating_sub(CLOCK_NS);
        let after = self.end.latest.saturating_add(SILENT_NS);
        let is_outside = |one: &Statement| {
            let time = clock.time(one.place, one.stamp);
            time.is_some_and(|time| (self.from_start && time < before) || time > after)
        };
        let pid = host.subject.pid;
        let is_raylet = pid.is_some_and(|pid| gathered.remarks.raylets.contains(&pid));
        !is_raylet && host.statements.iter().all(is_outside)
    }

    fn note(&self, gathered: &TextEvidence, places: &BTreeSet<Place>) -> Option<String> {
        let texts = places
            .iter()
            .filter_map(|place| gathered.texts.get(place.text));
        let names: BTreeSet<&str> = texts.map(|text| path::base(&text.name)).collect();
        let name = match (names.first()?, names.len()) {
            (name, 1) => (*name).to_owned(),
            (name, several) => format!("{name} and {} more", several - 1),
        };
        let printed = |bound: &Bound| zone::printed(bound.stamp).unwrap_or_default();
        let (deaths, are, them) = match places.len() {
            1 => ("death", "is", "it"),
            _ => ("deaths", "are", "them"),
        };
        // Of a day beside an unknown zone it is not known what is outside.
        let is_vague = |bound: &Bound| bound.earliest < bound.latest;
        let zone = if is_vague(&self.begin) || is_vague(&self.end) {
            "; others may not be either, because the zone of Ray's logs is unknown (--log-tz)"
        } else {
            ""
        };
        Some(format!(
            "{} {deaths} in {name} {are} not of this run: before Ray's logs begin ({}), or more than an hour after they end ({}){zone}; explain {name} alone to list {them}",
            places.len(),
            printed(&self.begin),
            printed(&self.end),
        ))
    }
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
