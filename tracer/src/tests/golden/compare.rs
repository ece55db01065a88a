//! Compares two JSON reports on one recording, by path: `deaths[346].verdict.killer`.
//!
//! Elements of a list are matched by their name (a death's id, a hook's name), not by their
//! position.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A typed field with another value than before.
pub(super) struct Difference {
    /// The path of the field.
    pub(super) path: String,
    /// The value that was reported before.
    pub(super) kept: String,
    /// The value that is reported now.
    pub(super) now: String,
}

/// Fields with sentences, by their path without keys. They are not compared.
const SENTENCES: [&str; 18] = [
    ".verdict.summary",
    ".verdict.missing",
    ".verdict.cause_remote",
    ".verdict.evidence[].what",
    ".then",
    "jobs[].because",
    "jobs[].survived[].how",
    "findings[].summary",
    "findings[].evidence",
    "findings[].remedy",
    "findings[].cost",
    "findings[].not_if",
    "findings[].contradicts",
    "recordings[].probes[].reason",
    "unread_stacks[].reason",
    "texts[].clock",
    "notes",
    // The version of raytrace.
    "raytrace",
];

/// Fields that name an element. The first that it has counts.
const NAMES: [&str; 12] = [
    "id", "hook", "name", "rule", "key", "class", "job_id", "death_id", "pid", "path", "source",
    "time",
];

/// Lists that may grow.
const MAY_GROW: [&str; 1] = [".verdict.evidence"];

fn is_one_of(list: &[&str], shape: &str) -> bool {
    list.iter().any(|one| match one.strip_prefix('.') {
        Some(_) => shape.ends_with(one),
        None => shape == *one,
    })
}

/// A position in a report: its path with the keys of elements, and without them.
#[derive(Clone, Default)]
struct Place {
    path: String,
    shape: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            path: format!("{}{dot}{name}", self.path),
            shape: format!("{}{dot}{name}", self.shape),
        }
    }

    fn element(&self, key: &str) -> Self {
        Self {
            path: format!("{}[{key}]", self.path),
            shape: format!("{}[]", self.shape),
        }
    }
}

/// Returns the typed fields of `kept` that are changed or missing in `now`, and new elements in
/// `now`.
pub(super) fn differences(kept: &Value, now: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&Place::default(), kept, now, &mut found);
    found
}

fn compare(at: &Place, kept: &Value, now: &Value, found: &mut Vec<Difference>) {
    if is_one_of(&SENTENCES, &at.shape) {
        return;
    }
    match (kept, now) {
        (Value::Object(kept), Value::Object(now)) => fields(at, kept, now, found),
        (Value::Array(kept), Value::Array(now)) => elements(at, kept, now, found),
        _ if kept == now => {}
        _ => found.push(Difference {
            path: at.path.clone(),
            kept: short(Some(kept)),
            now: short(Some(now)),
        }),
    }
}

fn fields(
    at: &Place,
    kept: &Map<String, Value>,
    now: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    for (name, kept) in kept {
        let at = at.field(name);
        match now.get(name) {
            Some(now) => compare(&at, kept, now, found),
            None => found.push(Difference {
                path: at.path,
                kept: short(Some(kept)),
                now: short(None),
            }),
        }
    }
}

fn elements(at: &Place, kept: &[Value], now: &[Value], found: &mut Vec<Difference>) {
    let (kept, now) = (by_name(kept), by_name(now));
    let places: BTreeMap<&str, (usize, &Value)> = now
        .iter()
        .enumerate()
        .map(|(place, (name, value))| (name.as_str(), (place, *value)))
        .collect();
    let mut last = 0;
    for (name, value) in &kept {
        let at = at.element(name);
        let Some((place, other)) = places.get(name.as_str()) else {
            found.push(Difference {
                path: at.path,
                kept: short(Some(value)),
                now: short(None),
            });
            continue;
        };
        if *place < last {
            found.push(Difference {
                path: format!("{}.order", at.path),
                kept: "after the one before".to_owned(),
                now: "earlier".to_owned(),
            });
        }
        last = *place;
        compare(&at, value, other, found);
    }
    if is_one_of(&MAY_GROW, &at.shape) {
        return;
    }
    for (name, value) in &now {
        if !kept.iter().any(|(known, _)| known == name) {
            found.push(Difference {
                path: at.element(name).path,
                kept: short(None),
                now: short(Some(value)),
            });
        }
    }
}

/// Returns each element with its name. The second one with a name is `NAME#2`; an element without a
/// name has its position as its name.
fn by_name(list: &[Value]) -> Vec<(String, &Value)> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut named = Vec::new();
    for (place, value) in list.iter().enumerate() {
        let name = NAMES.iter().find_map(|name| text(value.get(name)?));
        let name = name.unwrap_or_else(|| place.to_string());
        let time = times.entry(name.clone()).or_default();
        *time += 1;
        let name = match *time {
            1 => name,
            time => format!("{name}#{time}"),
        };
        named.push((name, value));
    }
    named
}

/// Returns a name without spaces, as in the list of differences.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.replace(' ', "_")),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn short(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".to_owned();
    };
    let text = value.to_string();
    let mut short: String = text.chars().take(100).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Returns the sentences of a report, each with its path without keys.
pub(super) fn sentences(report: &Value) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    collect(&Place::default(), report, &mut found);
    found
}

fn collect<'a>(at: &Place, value: &'a Value, found: &mut Vec<(String, &'a str)>) {
    let is_sentence = is_one_of(&SENTENCES, &at.shape) && at.shape != "raytrace";
    match value {
        Value::String(text) if is_sentence => found.push((at.shape.clone(), text)),
        Value::Array(list) if is_sentence => {
            let texts = list.iter().filter_map(Value::as_str);
            found.extend(texts.map(|text| (at.shape.clone(), text)));
        }
        Value::Array(list) => {
            for element in list.iter().filter(|element| !is_foreign(element)) {
                collect(&at.element(""), element, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                collect(&at.field(name), value, found);
            }
        }
        _ => {}
    }
}

/// Returns whether a piece of evidence quotes a log file.
fn is_foreign(element: &Value) -> bool {
    let source = element.get("source").and_then(Value::as_str);
    element.get("what").is_some()
        && source.is_some_and(|source| source.contains('.') || source == "kmsg")
}
