//! Parses the time at the beginning of a record.
//!
//! Each record has one. A time in the usual form is read here, without a general parser.

use jiff::{civil::DateTime, tz::TimeZone};

const MILLISECOND_NS: i32 = 1_000_000;

/// Parses `2026-11-21 00:11:38,555` as nanoseconds since 1970, as if it were UTC. Returns `None`
/// for any other form, and for a time that does not exist.
pub fn usual(text: &str) -> Option<i64> {
    let bytes: &[u8; 23] = text.as_bytes().try_into().ok()?;
    let signs = [
        (4, b'-'),
        (7, b'-'),
        (10, b' '),
        (13, b':'),
        (16, b':'),
        (19, b','),
    ];
    if signs.iter().any(|(at, sign)| bytes[*at] != *sign) {
        return None;
    }
    let number = |from: usize, to: usize| number(&bytes[from..to]);
    let small = |from: usize, to: usize| i8::try_from(number(from, to)?).ok();
    let year = number(0, 4)?;
    let (month, day) = (small(5, 7)?, small(8, 10)?);
    let (hour, minute, second) = (small(11, 13)?, small(14, 16)?, small(17, 19)?);
    let nanosecond = i32::from(number(20, 23)?) * MILLISECOND_NS;
    let time = DateTime::new(year, month, day, hour, minute, second, nanosecond).ok()?;
    let utc = TimeZone::UTC.to_timestamp(time).ok()?;
    i64::try_from(utc.as_nanosecond()).ok()
}

fn number(digits: &[u8]) -> Option<i16> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| i16::from(digit - b'0'))?;
        Some(sum * 10 + digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::usual;

    fn by_jiff(text: &str) -> Option<i64> {
        let time: jiff::civil::DateTime = text.replace(',', ".").parse().ok()?;
        let utc = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        i64::try_from(utc.as_nanosecond()).ok()
    }

    #[test]
    fn other_time_forms_are_refused() {
        assert_eq!(usual("1970-01-02 00:00:01,002"), Some(86_401_002_000_000));
        for other in [
            "",
            "2026-11-21T00:11:38,555",
            "2026-11-21 00:11:38.555",
            "2026-02-29 00:11:38,555",
            "2026-11-21 24:11:38,555",
            "2026-11-21 00:11:60,555",
            "2026-11-21 00:11:38,55",
            "2026-11-21 00:11:3８,555",
        ] {
            assert_eq!(usual(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn usual_form_is_read_like_jiff(
            year in 0i64..10_000, month in 0u8..14, day in 0u8..33,
            hour in 0u8..25, minute in 0u8..61, second in 0u8..60, millisecond in 0u16..1000,
        ) {
            let text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{millisecond:03}");
            prop_assert_eq!(usual(&text), by_jiff(&text), "{}", text);
        }

        #[test]
        fn any_text_is_refused_or_read(text in ".{0,30}") {
            let _ = usual(&text);
        }
    }
}
