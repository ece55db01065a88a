//! Renders each event as one line of JSON.
//!
//! A line has the columns of the recording's table `events`, and the wall time.

use serde::Serialize;
use serde_json::Value;

use crate::{
    event::Event,
    ids::{BootTime, EventId},
    judge::report::Utc,
    recording::row,
    show::json,
};

#[derive(Serialize)]
struct Line<'a> {
    /// The host, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    id: EventId,
    /// ns of `CLOCK_BOOTTIME`.
    time: BootTime,
    wall: Option<Utc>,
    source: String,
    kind: &'a str,
    body: &'a Value,
}

/// Returns the line of one event at the wall time `wall`. `host` is given if there are several.
pub fn line(
    event: &Event,
    wall: Option<Utc>,
    host: Option<&str>,
) -> Result<String, serde_json::Error> {
    let body = row::body(&event.what);
    let line = serde_json::to_string(&Line {
        host,
        id: event.id,
        time: event.time,
        wall,
        source: row::source_name(event.source),
        kind: body.get("kind").and_then(Value::as_str).unwrap_or_default(),
        body: &body,
    })?;
    Ok(json::harmless(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{MemorySplit, Observation, Source},
        ids::ProcessKey,
        show::sanitize::is_harmless,
    };

    #[test]
    fn hostile_title_is_one_readable_line() {
        let title = "ray::\u{1b}[31m\n\u{202e}x\u{e0041}";
        let event = Event {
            id: EventId(3),
            time: BootTime(5),
            source: Source::Proc,
            what: Observation::Title {
                process: ProcessKey::new(7, 1),
                title: title.into(),
                memory: MemorySplit::default(),
            },
        };
        let line = line(&event, None, None).expect("a line");
        assert!(line.chars().all(is_harmless), "{line}");
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["body"]["title"], title);
        assert_eq!((&read["id"], &read["kind"]), (&3.into(), &"title".into()));
    }
}
