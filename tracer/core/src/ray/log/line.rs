//! Parses one line of a component's log.
//!
//! The form is `[TIME LEVEL PID TID] (component) file.cc:N: MESSAGE`, or JSON
//! (`RAY_BACKEND_LOG_JSON=1`). The prefix is the same from 2.9 to 2.60.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::Value;

use super::clock;
use crate::ids::{HexId, SECOND_NS};

/// The parts of a line.
pub(crate) struct Line<'a> {
    pub(super) local_time: Option<i64>,
    /// The message, with its fields as ` key=value` behind it. Text lines have them there; JSON
    /// lines have them separately.
    pub(super) message: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Json {
    asctime: Option<String>,
    message: String,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

/// Keys of a JSON line that are not fields of its message.
const PREFIX_KEYS: [&str; 4] = ["levelname", "component", "filename", "lineno"];

impl Line<'_> {
    pub(super) fn worker_id(&self) -> Option<HexId> {
        id_field(&self.message, " worker_id=")
    }

    pub(super) fn job_id(&self) -> Option<HexId> {
        id_field(&self.message, " job_id=")
    }

    pub(super) fn node_id(&self) -> Option<HexId> {
        id_field(&self.message, " node_id=")
    }

    pub(super) fn actor_id(&self) -> Option<HexId> {
        id_field(&self.message, " actor_id=")
    }
}

/// Splits a line. Returns `None` for a line without a prefix, which continues the previous record.
pub(crate) fn parse(text: &str) -> Option<Line<'_>> {
    if text.starts_with('{') {
        return json(text);
    }
    let rest = text.strip_prefix('[')?;
    let (head, rest) = rest.split_once("] ")?;
    let local_time = time(head.get(..23)?)?;
    let rest = match rest.strip_prefix('(') {
        Some(inner) => inner.split_once(") ")?.1,
        None => rest,
    };
    // `file.cc:123: ` ends at the first colon followed by a space.
    let message = rest.split_once(": ").map_or("", |(_, message)| message);
    Some(Line {
        local_time: Some(local_time),
        message: Cow::Borrowed(message),
    })
}

fn json(text: &str) -> Option<Line<'_>> {
    let line: Json = serde_json::from_str(text).ok()?;
    let mut message = line.message;
    for (key, value) in &line.fields {
        if let (Value::String(value), false) = (value, PREFIX_KEYS.contains(&key.as_str())) {
            message.push_str(&format!(" {key}={value}"));
        }
    }
    Some(Line {
        local_time: line.asctime.as_deref().and_then(time),
        message: Cow::Owned(message),
    })
}

/// Parses `2026-11-21 00:11:38,555` as nanoseconds since 1970, without a zone.
fn time(text: &str) -> Option<i64> {
    clock::usual(text).or_else(|| unusual(text))
}

fn unusual(text: &str) -> Option<i64> {
    let (seconds, millis) = text.split_once(',')?;
    let civil: jiff::civil::DateTime = seconds.parse().ok()?;
    let utc = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let millis: i64 = millis.parse().ok()?;
    utc.as_second()
        .checked_mul(SECOND_NS)?
        .checked_add(millis.checked_mul(1_000_000)?)
}

/// Returns the id behind `key`, up to the first character that is not a hex digit.
pub(super) fn id_field(text: &str, key: &str) -> Option<HexId> {
    let rest = &text[text.find(key)? + key.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    HexId::parse(&rest[..end])
}

/// Returns the number behind `key`.
pub(super) fn number_field<T: std::str::FromStr>(text: &str, key: &str) -> Option<T> {
    let rest = &text[text.find(key)? + key.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '-')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the text between `key` and `end` (or the end of the text).
pub(super) fn text_field<'a>(text: &'a str, key: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(key)? + key.len()..];
    Some(rest.split(end).next().unwrap_or(rest))
}
