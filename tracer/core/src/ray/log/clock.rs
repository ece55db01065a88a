//! The time at the beginning of a record: each record has one, so that it is read without a general parser where it has its usual form.

use crate::ids::SECOND_NS;

const MILLISECOND_NS: i64 = 1_000_000;
const SECONDS_OF_DAY: i64 = 86_400;
/// From the first day of the year 1 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;

/// `2026-11-21 00:11:38,555` as nanoseconds since 1970, as if it were UTC. `None` for any other form, and for what is no time.
#[must_use]
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
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let millisecond = number(20, 23)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days(year, month, day)? * SECONDS_OF_DAY + hour * 3600 + minute * 60 + second;
    seconds
        .checked_mul(SECOND_NS)?
        .checked_add(millisecond * MILLISECOND_NS)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        Some(sum * 10 + digit)
    })
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month - 1).ok()?;
    let length = *lengths.get(before)?;
    if day < 1 || day > length {
        return None;
    }
    let months: i64 = lengths[..before].iter().sum();
    // The years before this one, and the days that were added in them.
    let past = year - 1;
    let leaps = past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    Some(past * 365 + leaps + months + day - 1 - DAYS_TO_1970)
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
    fn only_the_usual_form_is_read() {
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
        fn it_is_what_jiff_reads(
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
