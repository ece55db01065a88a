//! Converts the times that texts print to UTC.
//!
//! The zone comes from the user, from lines that are dated twice, or from a death that two texts
//! date, one with its zone and one without. The second may be the kernel's, for a kill of the same
//! pid and name.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{civil::DateTime, tz::TimeZone};

use super::{
    claim::{Claim, Clocks, PidNamespace, Place, Stamp, Statement, Text},
    claims::{AllClaims, ProcessClaims},
    names,
    text_evidence::TextEvidence,
};
use crate::{
    ids::{MINUTE_NS, Pid, SECOND_NS, WallTime},
    judge::report::Utc,
    ray::log::file_name,
};

/// Zones are multiples of a quarter hour.
const QUARTER_NS: i64 = 15 * MINUTE_NS;
/// Two records of one death are at most this far apart.
const SAME_DEATH_NS: i64 = 5 * SECOND_NS;

/// At most this many kills of one pid are compared.
const MAX_KILLS: usize = 16;

/// The zone of each text.
#[derive(Debug)]
pub(super) struct Clock {
    zones: Vec<Zone>,
    given: Option<TimeZone>,
    /// Texts that tell of deaths in lines without a time only.
    undated: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
struct Zone {
    offset_s: Option<i32>,
    how: String,
}

impl Clock {
    pub(super) fn new(gathered: &TextEvidence, given: Option<&TimeZone>) -> Self {
        let zones = gathered.texts.iter().map(of_text).collect();
        let mut clock = Self {
            zones,
            given: given.cloned(),
            undated: undated(gathered),
        };
        if given.is_none() {
            clock.learn(gathered.claims.all());
            clock.learn_from_kills(&gathered.claims);
            clock.share(&gathered.texts);
        }
        clock
    }

    /// Learns the zone of a text from a death that another text dates with its zone.
    fn learn(&mut self, processes: &[ProcessClaims]) {
        let mut candidates: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for claims in processes {
            // A line that only ties a pid to a worker may be of its start.
            let ends = claims.statements.iter();
            let ends = ends.filter(|one| !matches!(one.claim, Claim::Identity));
            let known = ends.clone().find_map(|one| self.utc(one));
            let Some(known) = known else { continue };
            for one in ends {
                let local = one.stamp.local.filter(|_| self.utc(one).is_none());
                if let Some(local) = local {
                    candidates
                        .entry(one.place.text)
                        .or_default()
                        .push(local - known);
                }
            }
        }
        self.settle(candidates, ["death is also dated", "deaths are also dated"]);
    }

    /// Learns the zone of a text from a worker whose kill the kernel dates: it has the pid and the
    /// name, and the two times differ by a zone.
    fn learn_from_kills(&mut self, claims: &AllClaims) {
        let (hosts, rays): (Vec<&ProcessClaims>, Vec<&ProcessClaims>) = claims
            .deaths()
            .partition(|one| one.subject.pid_namespace == PidNamespace::Host);
        let mut kills: BTreeMap<Pid, Vec<(&ProcessClaims, i64)>> = BTreeMap::new();
        for host in hosts {
            let time = host.statements.iter().find_map(|one| one.stamp.utc);
            if let Some((pid, time)) = host.subject.pid.zip(time) {
                kills.entry(pid).or_default().push((host, time));
            }
        }
        let mut candidates: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for ray in rays {
            let of_pid = ray.subject.pid.and_then(|pid| kills.get(&pid));
            for (host, killed) in of_pid.into_iter().flatten().take(MAX_KILLS) {
                if names::name_agrees(&ray.subject, &host.subject) != Some(true) {
                    continue;
                }
                let ends = ray.statements.iter();
                let ends = ends.filter(|one| !matches!(one.claim, Claim::Identity));
                for one in ends.filter(|one| self.utc(one).is_none()) {
                    if let Some(local) = one.stamp.local {
                        let of_text = candidates.entry(one.place.text).or_default();
                        of_text.push(local - killed);
                    }
                }
            }
        }
        self.settle(candidates, ["kill is also dated", "kills are also dated"]);
    }

    /// Sets the zone of each text whose differences from UTC are one number of quarter hours.
    fn settle(&mut self, candidates: BTreeMap<usize, Vec<i64>>, what: [&str; 2]) {
        for (text, differences) in candidates {
            let quarter = |difference: &i64| (difference + QUARTER_NS / 2).div_euclid(QUARTER_NS);
            let first = quarter(&differences[0]);
            let sound = differences.iter().all(|one| {
                quarter(one) == first && (one - first * QUARTER_NS).abs() < SAME_DEATH_NS
            });
            if sound && first.abs() <= 60 {
                let [one, many] = what;
                self.zones[text] = Zone {
                    offset_s: i32::try_from(first * 900).ok(),
                    how: match differences.len() {
                        1 => format!("1 {one} in another text"),
                        count => format!("{count} {many} in another text"),
                    },
                };
            }
        }
    }

    /// Shares zones between Ray's logs of one folder, which are written on one node. Logs with a
    /// known zone give it to the others, if they agree. What else is in the folder may be from
    /// anywhere.
    fn share(&mut self, texts: &[Text]) {
        let folder = |text: &Text| {
            let (folder, name) = text.name.rsplit_once('/')?;
            file_name::parse(name).map(|_| folder.to_owned())
        };
        let mut known: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
        for (text, zone) in texts.iter().zip(&self.zones) {
            if let Some((folder, offset)) = folder(text).zip(zone.offset_s) {
                known.entry(folder).or_default().insert(offset);
            }
        }
        for (text, zone) in texts.iter().zip(&mut self.zones) {
            let offsets = folder(text).and_then(|folder| known.get(&folder));
            let unknown = zone.offset_s.is_none() && text.clocks.local;
            if let Some(offsets) = offsets.filter(|offsets| unknown && offsets.len() == 1) {
                zone.offset_s = offsets.first().copied();
                zone.how = "as other logs of its folder".into();
            }
        }
    }

    fn utc(&self, statement: &Statement) -> Option<i64> {
        self.time(statement.place, statement.stamp)
    }

    /// Returns the time in UTC, if it can be known.
    pub(super) fn time(&self, place: Place, stamp: Stamp) -> Option<i64> {
        if stamp.utc.is_some() {
            return stamp.utc;
        }
        let local = stamp.local?;
        if let Some(zone) = &self.given {
            return in_zone(local, zone);
        }
        let offset = self.zones.get(place.text)?.offset_s?;
        local.checked_sub(i64::from(offset) * SECOND_NS)
    }

    /// Returns the offset of a text, and how it is known or which clock the text has.
    pub(super) fn describe(&self, number: usize, text: &Text) -> (Option<i32>, String) {
        let (offset_s, how) = self.zone(number, text);
        let has_clock = text.clocks != Clocks::default();
        if has_clock && self.undated.contains(&number) {
            return (offset_s, format!("{how}; the lines on deaths have no time"));
        }
        (offset_s, how)
    }

    fn zone(&self, number: usize, text: &Text) -> (Option<i32>, String) {
        let zone = self.zones.get(number).cloned().unwrap_or_default();
        if self.given.is_some() && text.clocks.local {
            return (None, "local times, in the zone that was given".into());
        }
        if zone.offset_s.is_some() {
            return (zone.offset_s, zone.how);
        }
        let clocks = text.clocks;
        let how = match (clocks.utc, clocks.local, clocks.boot) {
            (false, false, _) if clocks.day => {
                "dates without a year; journalctl -o short-iso-precise prints it"
            }
            (_, true, _) if self.undated.contains(&number) => "local times of an unknown zone",
            (_, true, _) => {
                "local times of an unknown zone, put in order as if they were UTC; set it with --log-tz"
            }
            (true, false, _) => "times with their zone",
            (false, false, true) => "seconds since boot only",
            (false, false, false) => "no times",
        };
        (None, how.into())
    }
}

/// Returns the texts that tell of deaths, but in no line with a time.
fn undated(gathered: &TextEvidence) -> BTreeSet<usize> {
    let named = gathered.claims.deaths().flat_map(|one| &one.statements);
    let named = named.filter(|one| !matches!(one.claim, Claim::Identity));
    let mut dated: BTreeMap<usize, bool> = BTreeMap::new();
    for one in named.chain(&gathered.claims.nameless) {
        *dated.entry(one.place.text).or_default() |= !one.stamp.is_empty();
    }
    let undated = dated.into_iter().filter(|(_, dated)| !dated);
    undated.map(|(text, _)| text).collect()
}

/// Returns the zone of a text by the lines that have both times, if all of them agree.
fn of_text(text: &Text) -> Zone {
    let mut offsets = text.offsets.iter();
    let (Some((quarters, count)), None) = (offsets.next(), offsets.next()) else {
        return Zone::default();
    };
    let lines = if *count == 1 {
        "1 line is".to_owned()
    } else {
        format!("{count} lines are")
    };
    Zone {
        offset_s: Some(quarters * 900),
        how: format!("{lines} also dated with a zone"),
    }
}

fn in_zone(local: i64, zone: &TimeZone) -> Option<i64> {
    let civil: DateTime = TimeZone::UTC.to_datetime(WallTime(local).timestamp());
    let timestamp = civil.to_zoned(zone.clone()).ok()?.timestamp();
    i64::try_from(timestamp.as_nanosecond()).ok()
}

/// Returns the time as the text prints it, for a text without a known zone.
pub(super) fn printed(stamp: Stamp) -> Option<String> {
    if let Some(local) = stamp.local {
        let civil = TimeZone::UTC.to_datetime(WallTime(local).timestamp());
        // A text with whole seconds only gets no milliseconds.
        let form = if local % SECOND_NS == 0 {
            "%Y-%m-%d %H:%M:%S"
        } else {
            "%Y-%m-%d %H:%M:%S%.3f"
        };
        return Some(civil.strftime(form).to_string());
    }
    if let Some(day) = stamp.day {
        let civil = TimeZone::UTC.to_datetime(WallTime(day).timestamp());
        return Some(civil.strftime("%b %-d %H:%M:%S (no year)").to_string());
    }
    let boot = stamp.boot?;
    Some(format!("{:.6} s after boot", boot as f64 / 1e9))
}

pub(super) fn utc(nanoseconds: i64) -> Utc {
    Utc(WallTime(nanoseconds))
}
