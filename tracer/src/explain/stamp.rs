//! Parses the times that logs print, to nanoseconds.

use jiff::{Timestamp, civil::DateTime, fmt::strtime};

use crate::{
    ids::{MINUTE_NS, SECOND_NS},
    ray::log::clock,
};

/// Parses `2026-11-21T00:11:38.555+08:00`, with or without the colon in the offset.
pub(super) fn zoned(text: &str) -> Option<i64> {
    let text = text.replace(',', ".");
    let parsed = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| Timestamp::strptime("%Y-%m-%dT%H:%M:%S%.f%z", &text).ok())?;
    i64::try_from(parsed.as_nanosecond()).ok()
}

/// Parses `2026-11-21 00:11:38,555` as if it were UTC.
pub(super) fn local(text: &str) -> Option<i64> {
    let unusual = || as_utc(text.replacen(',', ".", 1).parse().ok()?);
    clock::usual(text).or_else(unusual)
}

/// Parses `Sat Nov 21 00:23:48 2026` as if it were UTC.
pub(super) fn ctime(text: &str) -> Option<i64> {
    let parsed = strtime::parse("%a %b %e %H:%M:%S %Y", text).ok()?;
    as_utc(parsed.to_datetime().ok()?)
}

/// Parses `Nov 21 00:23:48` as if it were UTC, in 1972. That is a leap year.
pub(super) fn day(text: &str) -> Option<i64> {
    let text = format!("1972 {}", text.get(..15)?);
    let parsed = strtime::parse("%Y %b %e %H:%M:%S", text).ok()?;
    as_utc(parsed.to_datetime().ok()?)
}

/// Parses the month and day of a date without a year, and a time, in the same way.
pub(super) fn month_day(month: &str, day: &str, time: &str) -> Option<i64> {
    local(&format!("1972-{month}-{day} {time}"))
}

/// Parses `Sat, 21 Nov 2026 08:23:48 +0800`.
pub(super) fn mail(text: &str) -> Option<i64> {
    let time = jiff::fmt::rfc2822::parse(text).ok()?;
    i64::try_from(time.timestamp().as_nanosecond()).ok()
}

/// Parses seconds since boot, with microseconds.
pub(super) fn boot(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds: i64 = seconds.parse().ok()?;
    let microseconds: i64 = fraction.parse().ok()?;
    seconds
        .checked_mul(SECOND_NS)?
        .checked_add(microseconds.checked_mul(1000)?)
}

/// Converts seconds, milliseconds, microseconds or nanoseconds since 1970. The size of the number
/// tells the unit.
pub(super) fn epoch(number: i64) -> Option<i64> {
    let factor = match number {
        1_000_000_000..=9_999_999_999 => 1_000_000_000,
        1_000_000_000_000..=9_999_999_999_999 => 1_000_000,
        1_000_000_000_000_000..=9_999_999_999_999_999 => 1000,
        1_000_000_000_000_000_000..=i64::MAX => 1,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Returns a local time in UTC, if it is a zone and less than a minute apart from a time in UTC.
pub(super) fn whole_zones_from(local: i64, utc: i64) -> Option<i64> {
    const QUARTER_NS: i64 = 15 * MINUTE_NS;
    let apart = local.checked_sub(utc)?;
    let rest = (apart + QUARTER_NS / 2).rem_euclid(QUARTER_NS) - QUARTER_NS / 2;
    (rest.abs() < MINUTE_NS).then_some(utc + rest)
}

fn as_utc(civil: DateTime) -> Option<i64> {
    let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    i64::try_from(utc.timestamp().as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_formats_give_the_same_instant() {
        let want = Some(1_795_220_628_000_000_000);
        assert_eq!(zoned("2026-11-21T00:23:48Z"), want);
        assert_eq!(zoned("2026-11-21T08:23:48.000+08:00"), want);
        assert_eq!(zoned("2026-11-21T08:23:48+0800"), want);
        assert_eq!(zoned("2026-11-21T00:23:48,000000+00:00"), want);
        assert_eq!(local("2026-11-21 00:23:48,000"), want);
        assert_eq!(ctime("Sat Nov 21 00:23:48 2026"), want);
        assert_eq!(epoch(1_795_220_628), want);
        assert_eq!(epoch(1_795_220_628_000_000), want);
        assert_eq!(boot("2833.337115"), Some(2_833_337_115_000));
        assert_eq!(
            (zoned("Sat"), local(""), ctime("x"), epoch(7)),
            (None, None, None, None)
        );
    }
}
