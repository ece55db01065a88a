//! Formats and parses times.
//!
//! They are in UTC with a `Z` unless another zone is asked for, or relative to a death.

use std::str::FromStr;

use jiff::{
    SignedDuration, Timestamp, Zoned,
    civil::{Date, DateTime, Time},
    tz::{Offset, TimeZone},
};

use crate::{ids::WallTime, judge::report::Utc};

/// Why a zone or a time is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The zone is neither an offset nor a known name.
    #[error(
        "unknown time zone {0:?}: give UTC, an offset like +08:00, or a name like Asia/Shanghai"
    )]
    Zone(String),
    /// The time is neither RFC 3339, nor a time of day, nor a span.
    #[error(
        "unknown time {0:?}: give a time of day like 08:41:07, 2026-11-20T08:41:07Z with its zone, or -10m for ten minutes before the end"
    )]
    Time(String),
}

/// The zone in which times are shown and read.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl FromStr for Zone {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
            return Ok(Self::default());
        }
        let zone = offset(text).map(TimeZone::fixed);
        zone.or_else(|| TimeZone::get(text).ok())
            .map(Self)
            .ok_or_else(|| TimeError::Zone(text.to_owned()))
    }
}

/// The two ends of a span of time, where they are given.
pub type Span = (Option<Utc>, Option<Utc>);

impl Zone {
    /// Returns the zone as the type of `jiff`.
    pub fn time_zone(&self) -> TimeZone {
        self.0.clone()
    }

    /// Formats a time as `08:41:07.482Z`.
    pub fn clock(&self, time: Utc) -> String {
        self.print(time, "%H:%M:%S%.3f")
    }

    /// Formats a time as `08:41:07Z`.
    pub fn seconds(&self, time: Utc) -> String {
        self.print(time, "%H:%M:%S")
    }

    /// Formats a time as `2026-11-20 08:41:07Z`.
    pub fn full(&self, time: Utc) -> String {
        self.print(time, "%Y-%m-%d %H:%M:%S")
    }

    /// Returns `2026-11-20 08:40:00Z–08:42:20Z`, with both dates if they differ.
    pub fn range(&self, began: Utc, ended: Utc) -> String {
        let day = self.date(began);
        if day != self.date(ended) {
            return format!("{} to {}", self.full(began), self.full(ended));
        }
        format!("{day} {}–{}", self.seconds(began), self.seconds(ended))
    }

    /// Returns the day of `time` in this zone.
    pub fn date(&self, time: Utc) -> Date {
        self.zoned(time).date()
    }

    /// Returns the offset from UTC at `time`, in seconds east.
    pub fn offset_s(&self, time: Utc) -> i32 {
        self.zoned(time).offset().seconds()
    }

    /// Parses a time that a user typed.
    ///
    /// It may be RFC 3339, a time of day, or a span before the end like `-10m`, `10m` or `10m ago`.
    /// A time of day is its last occurrence in the recording, which ran from `began` to `ended`, or
    /// else the one that is nearest to it.
    pub fn parse(&self, text: &str, began: Utc, ended: Utc) -> Result<Utc, TimeError> {
        let refused = || TimeError::Time(text.to_owned());
        if let Some(span) = text.strip_prefix('-') {
            return before(span, ended).ok_or_else(refused);
        }
        if !text.contains(':')
            && let Some(time) = before(text, ended)
        {
            return Ok(time);
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return utc(time).ok_or_else(refused);
        }
        if let Ok(time) = text.parse::<DateTime>()
            && text.contains('-')
        {
            return self.at(time).ok_or_else(refused);
        }
        let (time, zone) = self.of_day(text).ok_or_else(refused)?;
        let day = zone.date(ended);
        let days = [day.yesterday().ok(), Some(day), day.tomorrow().ok()];
        let on = |day: Date| zone.at(day.to_datetime(time));
        let at = days.into_iter().flatten().filter_map(on);
        let (before, after): (Vec<Utc>, Vec<Utc>) = at.partition(|at| *at <= ended);
        let (last, next) = (before.last().copied(), after.first().copied());
        let apart = |one: Utc, other: Utc| one.0.0 - other.0.0;
        match (last, next) {
            (Some(last), Some(next)) if last < began => {
                let is_nearer = apart(began, last) <= apart(next, ended);
                Ok(if is_nearer { last } else { next })
            }
            (last, next) => last.or(next).ok_or_else(refused),
        }
    }

    /// Parses the two ends of a span of time; an error names the option. If the end is a time of
    /// day, it is the first one after `since`.
    pub fn parse_span(
        &self,
        since: Option<&str>,
        until: Option<&str>,
        (began, ended): (Utc, Utc),
    ) -> Result<Span, (&'static str, TimeError)> {
        let parsed = |option, text: Option<&str>| {
            let moment = text.map(|text| self.parse(text, began, ended)).transpose();
            moment.map_err(|error| (option, error))
        };
        let (since, end) = (parsed("--since", since)?, parsed("--until", until)?);
        let on_the_day_of_since = || {
            let (time, zone) = self.of_day(until?)?;
            let day = zone.date(since?);
            let is_earlier = zone.date(end?) < day;
            is_earlier.then(|| zone.at(day.to_datetime(time)))?
        };
        Ok((since, on_the_day_of_since().or(end)))
    }

    /// Parses a time of day and the zone behind it: `08:41:07`, `08:41:07Z`, `16:41:07+08:00`.
    /// Without a zone, it is in this one.
    fn of_day(&self, text: &str) -> Option<(Time, Self)> {
        let (time, zone) = match text.find(['Z', 'z', '+', '-']) {
            Some(at) => (&text[..at], text[at..].parse().ok()?),
            None => (text, self.clone()),
        };
        Some((time.trim_end().parse().ok()?, zone))
    }

    fn at(&self, time: DateTime) -> Option<Utc> {
        utc(time.to_zoned(self.0.clone()).ok()?.timestamp())
    }

    fn zoned(&self, time: Utc) -> Zoned {
        time.0.timestamp().to_zoned(self.0.clone())
    }

    fn print(&self, time: Utc, format: &str) -> String {
        let zoned = self.zoned(time);
        let suffix = if self.0 == TimeZone::UTC {
            "Z".to_owned()
        } else {
            offset_name(zoned.offset().seconds())
        };
        format!("{}{suffix}", zoned.strftime(format))
    }
}

/// Formats an offset from UTC as `+08:00`.
pub fn offset_name(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Formats a span with its sign: `−12.4 s`, `+18 ms`, `+0.21 ms`.
pub fn relative(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { '−' } else { '+' };
    format!("{sign}{}", span(nanoseconds.unsigned_abs()))
}

/// Formats a span without a sign: `12.4 s`.
pub fn span(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        _ if seconds < 0.000_1 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 0.001 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 120.0 => format!("{seconds:.1} s"),
        _ if seconds < 7200.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn utc(time: Timestamp) -> Option<Utc> {
    let nanoseconds = i64::try_from(time.as_nanosecond()).ok()?;
    Some(Utc(WallTime(nanoseconds)))
}

/// Returns the moment that lies a span like `10m` or `1h 30m` before `ended`.
fn before(span: &str, ended: Utc) -> Option<Utc> {
    let span = span.parse::<SignedDuration>().ok()?;
    let span = i64::try_from(span.as_nanos()).ok()?.checked_abs()?;
    ended.0.0.checked_sub(span).map(|time| Utc(WallTime(time)))
}

fn offset(text: &str) -> Option<Offset> {
    let text = text.strip_prefix("UTC").unwrap_or(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let valid = (0..=18).contains(&hours) && (0..60).contains(&minutes);
    valid.then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Utc {
        utc(text.parse().expect("a timestamp")).expect("in range")
    }

    fn zone(text: &str) -> Zone {
        text.parse().expect("a zone")
    }

    #[test]
    fn utc_has_a_z_and_other_zones_their_offset() {
        let death = time("2026-11-20T08:41:07.482913Z");
        assert_eq!(Zone::default().clock(death), "08:41:07.482Z");
        assert_eq!(zone("+08:00").clock(death), "16:41:07.482+08:00");
        assert_eq!(zone("Asia/Shanghai").seconds(death), "16:41:07+08:00");
        assert_eq!(zone("UTC-0330").full(death), "2026-11-20 05:11:07-03:30");
    }

    #[test]
    fn unknown_zone_says_what_to_give() {
        for text in ["Beijing", "+99:00", "8", ""] {
            let refused = text.parse::<Zone>().expect_err(text).to_string();
            assert!(refused.contains("+08:00"), "{refused}");
        }
    }

    /// It is on the second day of the recording if only that fits.
    #[test]
    fn time_of_day_is_within_the_recording() {
        let (began, ended) = (time("2026-11-20T22:00:00Z"), time("2026-11-21T03:00:00Z"));
        let parse = |zone: &Zone, text| zone.parse(text, began, ended).expect(text);
        let utc = Zone::default();
        assert_eq!(parse(&utc, "23:10:00"), time("2026-11-20T23:10:00Z"));
        assert_eq!(parse(&utc, "02:10:00Z"), time("2026-11-21T02:10:00Z"));
        assert_eq!(
            parse(&utc, "2026-11-20T23:10:00+08:00"),
            time("2026-11-20T15:10:00Z")
        );
        assert_eq!(
            parse(&zone("+08:00"), "06:30:00"),
            time("2026-11-20T22:30:00Z")
        );
        assert_eq!(
            parse(&zone("+08:00"), "2026-11-21 06:30"),
            time("2026-11-20T22:30:00Z")
        );
        assert!(utc.parse("yesterday", began, ended).is_err());
    }

    #[test]
    fn time_of_day_uses_its_own_zone() {
        let (began, ended) = (time("2026-11-20T22:00:00Z"), time("2026-11-21T03:00:00Z"));
        let shanghai = zone("+08:00");
        for (text, expected) in [
            ("23:10:00Z", "2026-11-20T23:10:00Z"),
            ("02:10:00z", "2026-11-21T02:10:00Z"),
            ("06:30:00+08:00", "2026-11-20T22:30:00Z"),
            ("22:30:00-03:00", "2026-11-21T01:30:00Z"),
            ("07:10", "2026-11-20T23:10:00Z"),
        ] {
            assert_eq!(
                shanghai.parse(text, began, ended),
                Ok(time(expected)),
                "{text}"
            );
        }
        for text in ["06:30:00+99:00", "06:30:00 in Shanghai", "06:30:00Zz"] {
            assert!(shanghai.parse(text, began, ended).is_err(), "{text}");
        }
    }

    #[test]
    fn time_of_day_is_the_last_one_of_a_long_recording() {
        let span = (time("2026-11-14T06:00:00Z"), time("2026-11-20T08:15:00Z"));
        let parse = |text| Zone::default().parse(text, span.0, span.1);
        assert_eq!(parse("08:00:00"), Ok(time("2026-11-20T08:00:00Z")));
        assert_eq!(parse("09:00:00"), Ok(time("2026-11-19T09:00:00Z")));
        for (since, until, expected) in [
            (
                "08:00",
                "08:30",
                ("2026-11-20T08:00:00Z", "2026-11-20T08:30:00Z"),
            ),
            (
                "23:00",
                "01:00",
                ("2026-11-19T23:00:00Z", "2026-11-20T01:00:00Z"),
            ),
            // These are to be swapped.
            (
                "07:00",
                "06:00",
                ("2026-11-20T07:00:00Z", "2026-11-20T06:00:00Z"),
            ),
        ] {
            let expected = (Some(time(expected.0)), Some(time(expected.1)));
            let parsed = Zone::default().parse_span(Some(since), Some(until), span);
            assert_eq!(parsed, Ok(expected), "{since} {until}");
        }
    }

    #[test]
    fn time_of_day_outside_is_the_nearest_one() {
        let (began, ended) = (time("2026-11-20T22:00:00Z"), time("2026-11-21T03:00:00Z"));
        let parse = |text| Zone::default().parse(text, began, ended);
        assert_eq!(parse("21:00:00"), Ok(time("2026-11-20T21:00:00Z")));
        assert_eq!(parse("04:00:00"), Ok(time("2026-11-21T04:00:00Z")));
    }

    #[test]
    fn span_counts_back_from_the_end() {
        let (began, ended) = (time("2026-11-20T22:00:00Z"), time("2026-11-21T03:00:00Z"));
        let parse = |text| Zone::default().parse(text, began, ended);
        for span in ["-10m", "10m", "10m ago", "-600s"] {
            assert_eq!(parse(span), Ok(time("2026-11-21T02:50:00Z")), "{span}");
        }
        assert_eq!(parse("-1h30m"), Ok(time("2026-11-21T01:30:00Z")));
        assert_eq!(parse("-90s"), Ok(time("2026-11-21T02:58:30Z")));
        assert!(parse("-").is_err() && parse("-ten").is_err());
    }

    #[test]
    fn spans_keep_two_or_three_figures() {
        assert_eq!(relative(-12_400_000_000), "−12.4 s");
        assert_eq!(relative(18_000_000), "+18 ms");
        assert_eq!(relative(210_000), "+0.21 ms");
        assert_eq!(relative(-4_000), "−4 µs");
        assert_eq!(relative(600_000_000_000), "+10.0 min");
        assert_eq!(span(3 * 3_600_000_000_000), "3.0 h");
    }
}
