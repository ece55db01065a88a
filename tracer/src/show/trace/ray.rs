//! Reads what `ray timeline` wrote, in either of its forms.
//!
//! Ids are strings (`ray.timeline()`, Ray 2.60's `_private/state.py`), or integers with names in
//! metadata (the dashboard's, `_private/profiling.py`).

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A timeline that Ray wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct RayTimeline {
    events: Vec<Map<String, Value>>,
    /// Names that metadata gives to nodes, and below to rows of a node.
    nodes: HashMap<String, String>,
    rows: HashMap<(String, String), String>,
}

/// Why a file is not a timeline.
#[derive(Debug, thiserror::Error)]
pub enum RayTimelineError {
    /// The file is not JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// The file is JSON of another kind.
    #[error("no list of trace events: give the file that `ray timeline` wrote")]
    NotEvents,
}

impl RayTimeline {
    /// Reads the text of the file.
    pub fn parse(text: &str) -> Result<Self, RayTimelineError> {
        let listed = match serde_json::from_str(text)? {
            Value::Array(events) => events,
            Value::Object(mut object) => match object.remove("traceEvents") {
                Some(Value::Array(events)) => events,
                _ => return Err(RayTimelineError::NotEvents),
            },
            _ => return Err(RayTimelineError::NotEvents),
        };
        let mut timeline = Self {
            events: Vec::new(),
            nodes: HashMap::new(),
            rows: HashMap::new(),
        };
        for event in listed {
            let Value::Object(event) = event else {
                return Err(RayTimelineError::NotEvents);
            };
            if !timeline.name(&event) {
                timeline.events.push(event);
            }
        }
        Ok(timeline)
    }

    /// Stores a name from metadata. Returns whether the event was one.
    fn name(&mut self, event: &Map<String, Value>) -> bool {
        let kind = event.get("name").and_then(Value::as_str);
        let given = event.get("args").and_then(|args| args.get("name"));
        let metadata = event.get("ph").and_then(Value::as_str) == Some("M");
        let (true, Some(given)) = (metadata, given.and_then(Value::as_str)) else {
            return false;
        };
        let (pid, tid) = (id(event, "pid"), id(event, "tid"));
        match kind {
            Some("process_name") => self.nodes.insert(pid, given.to_owned()),
            Some("thread_name") => self.rows.insert((pid, tid), given.to_owned()),
            _ => return false,
        };
        true
    }

    /// Returns each event, with the names of its node and of its row.
    pub(super) fn events(&self) -> impl Iterator<Item = (&Map<String, Value>, (String, String))> {
        self.events.iter().map(|event| (event, self.names(event)))
    }

    /// Returns each row that has an event, as the names of its node and of itself.
    pub(super) fn named_rows(&self) -> impl Iterator<Item = (String, String)> {
        self.events().map(|(_, names)| names)
    }

    fn names(&self, event: &Map<String, Value>) -> (String, String) {
        let (pid, tid) = (id(event, "pid"), id(event, "tid"));
        let node = match self.nodes.get(&pid) {
            Some(name) => name.clone(),
            None => format!("Node {pid}"),
        };
        let row = self.rows.get(&(pid, tid.clone())).cloned();
        (node, row.unwrap_or(tid))
    }
}

/// Returns a pid or tid as text, whatever its form.
fn id(event: &Map<String, Value>, key: &str) -> String {
    match event.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
