//! Tests that no format of a redacted report contains a name from any field of a recording.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    event::Event,
    ids::{BootTime, EventId},
    judge::{Judge, timeline::TimelineBuilder},
    recording::row,
    show::select::Selection,
};

/// One row of each kind that recordings have.
const ROWS: &str = include_str!("rows.jsonl");

/// Names that must not appear in the output.
#[derive(Debug, Clone)]
struct Secrets {
    address: String,
    address6: String,
    path: String,
    host: String,
    user: String,
}

impl Secrets {
    fn all(&self) -> [&str; 5] {
        [
            &self.address,
            &self.address6,
            &self.path,
            &self.host,
            &self.user,
        ]
    }

    /// Puts all secrets into one field.
    fn within(&self, field: &str) -> String {
        let Self {
            address,
            address6,
            path,
            host,
            user,
        } = self;
        let words = format!(
            "{field} {address} [{address6}]:6379 ({path}) {user}@{host} on {host}, by {user} in /home/{user}/x"
        );
        words.trim().to_owned()
    }
}

fn secrets() -> impl Strategy<Value = Secrets> {
    let words = (
        "[a-z]{4}[0-9]{2}[a-z]{3}",
        "[a-z]{3}[0-9]{2}[a-z]{2}",
        "[a-z]{5}[0-9]{2}",
    );
    (1..255_u8, 1..255_u8, 4096..65_535_u32, words).prop_map(
        |(one, two, three, (folder, host, user))| Secrets {
            address: format!("198.51.{one}.{two}"),
            address6: format!("2001:db8:{three:x}::{one:x}"),
            path: format!("/srv/{folder}/x{two}.bin"),
            host: format!("{host}-gpu"),
            user: format!("u{user}"),
        },
    )
}

/// Makes all rows describe one worker of one cluster, so that most of their content gets into the
/// report.
fn joined(value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) if fields.len() == 2 && fields.contains_key("start") => {
            let of_raylet = matches!(name, "cluster" | "raylet");
            let (pid, start) = if of_raylet { (100, 1000) } else { (7, 70) };
            fields.insert("pid".into(), pid.into());
            fields.insert("start".into(), start.into());
        }
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(name, value)| joined(value, name)),
        Value::Array(all) => all.iter_mut().for_each(|value| joined(value, name)),
        Value::String(id) if name == "worker_id" => *id = "ab".repeat(28),
        _ => {}
    }
}

/// Collects JSON pointers (RFC 6901) to all strings.
fn strings(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                strings(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Array(all) => {
            for (number, value) in all.iter().enumerate() {
                strings(value, &format!("{at}/{number}"), found);
            }
        }
        Value::String(_) => found.push(at.to_owned()),
        _ => {}
    }
}

/// Puts `secrets` into each field of a row that accepts any text, and returns the number of fields.
fn filled(body: &mut Value, secrets: &Secrets) -> usize {
    let mut found = Vec::new();
    strings(body, "", &mut found);
    let mut count = 0;
    for at in found {
        let before = body.clone();
        if let Some(field) = body.pointer_mut(&at) {
            let text = field.as_str().unwrap_or_default();
            // The field for the host takes only a host name.
            *field = match at.as_str() {
                "/host" => secrets.host.clone().into(),
                _ => secrets.within(text).into(),
            };
        }
        // A field with fixed words, such as a role, accepts no other text.
        if row::read(&body.to_string()).is_some() {
            count += 1;
        } else {
            *body = before;
        }
    }
    count
}

fn events(secrets: &Secrets) -> (Vec<Event>, usize) {
    let mut fields = 0;
    let event = |line: &str| {
        let mut row: Value = serde_json::from_str(line).expect("a row");
        let mut body = row["body"].take();
        joined(&mut body, "");
        fields += filled(&mut body, secrets);
        Event {
            id: EventId(row["id"].as_u64().expect("an id")),
            time: BootTime(row["time"].as_u64().expect("a time")),
            source: row::source(row["source"].as_str().expect("a source")),
            what: row::read(&body.to_string()).expect("a row"),
        }
    };
    (ROWS.lines().map(event).collect(), fields)
}

fn printed(format: Format, events: &[Event], redact: bool) -> String {
    let (mut judge, mut taken) = (Judge::default(), TimelineBuilder::default());
    for event in events {
        judge.observe(event);
        taken.observe(event);
    }
    let args = ViewArgs {
        format,
        redact,
        ..ViewArgs::default()
    };
    let all = Selection {
        all: true,
        ..Selection::default()
    };
    let report = judge.report();
    let timeline = args.draws().then(|| judge.timeline(taken)).flatten();
    let charts = timeline.map(|timeline| ChartSeries::of(&report, timeline, 1));
    let shown = select(report.clone(), &all);
    let file = Path::new("/srv/recordings/run.raytrace");
    args.text(shown, vec![charts], Some(file))
        .expect("a text")
        .0
}

const FORMATS: [Format; 4] = [Format::Text, Format::Json, Format::Markdown, Format::Html];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn redacted_formats_contain_no_secret_of_any_row(secrets in secrets()) {
        let (events, fields) = events(&secrets);
        prop_assert!(fields > 100, "{fields} fields");
        for format in FORMATS {
            let text = printed(format, &events, true);
            for secret in secrets.all() {
                let at = text.find(secret);
                let around = at.map(|at| {
                    let from = text.floor_char_boundary(at.saturating_sub(200));
                    &text[from..text.floor_char_boundary(at + 80)]
                });
                prop_assert!(at.is_none(), "{format:?}: {secret} in {around:?}");
            }
        }
    }
}

#[test]
fn secrets_appear_without_redaction() {
    let secrets = Secrets {
        address: "198.51.100.7".into(),
        address6: "2001:db8:abcd::7".into(),
        path: "/srv/abcd11efg/x7.bin".into(),
        host: "abc12de-gpu".into(),
        user: "uabcde12".into(),
    };
    let (events, _) = events(&secrets);
    let text = printed(Format::Json, &events, false);
    for secret in secrets.all() {
        assert!(text.contains(secret), "{secret}");
    }
}
