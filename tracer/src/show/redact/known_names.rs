//! Removes known names from finished output, as the last pass of redaction.
//!
//! Redaction goes by the types of fields. A forgotten field, a name that holds an address, or a
//! sentence that quotes one could still let something through. So the finished output is searched
//! for all addresses, paths, hosts and users that the recording holds, as they are and as JSON and
//! HTML write them.

use std::{borrow::Cow, collections::BTreeMap};

use regex::{Captures, Regex, RegexBuilder};

/// Shorter paths identify nobody (`/x`).
const SHORTEST_PATH: usize = 4;
/// Shorter hosts and users may be parts of words.
const SHORTEST_NAME: usize = 3;
/// Users that every Ray image has, and words of the report itself. They identify nobody.
const COMMON: [&str; 32] = [
    "ray",
    "root",
    "daemon",
    "nobody",
    "ubuntu",
    "user",
    "users",
    "home",
    "host",
    "node",
    "worker",
    "driver",
    "raylet",
    "gcs",
    "dashboard",
    "agent",
    "descendant",
    "other",
    "signal",
    "crash",
    "exit",
    "unknown",
    "kill",
    "kernel",
    "python",
    "python3",
    "null",
    "true",
    "false",
    "proven",
    "inferred",
    "localhost",
];
/// Largest size of the compiled search, in bytes.
const LARGEST: usize = 256 << 20;

/// All known names, with their pseudonyms.
#[derive(Debug, Default)]
pub struct KnownNames {
    names: BTreeMap<String, String>,
    search: Option<Regex>,
}

impl KnownNames {
    /// Collects the names that identify. Each item of `given` has a kind, a value and its
    /// pseudonym.
    pub(super) fn new<'a>(given: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> Self {
        let mut names = BTreeMap::new();
        for (_, value, pseudonym) in given.filter(|(kind, value, _)| identifies(kind, value)) {
            for form in forms(value) {
                names.insert(form, pseudonym.to_owned());
            }
        }
        // Of two names that begin alike, the longer one must be found first.
        let mut longest: Vec<&String> = names.keys().collect();
        longest.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let parts: Vec<String> = longest
            .into_iter()
            .map(|name| regex::escape(name))
            .collect();
        let search = (!parts.is_empty()).then(|| {
            let search = RegexBuilder::new(&parts.join("|"))
                .size_limit(LARGEST)
                .build();
            search.ok()
        });
        Self {
            names,
            search: search.flatten(),
        }
    }

    /// Returns the text with all known names replaced.
    pub fn replace_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if let Some(search) = &self.search {
            return search.replace_all(text, |found: &Captures<'_>| {
                let found = found.get(0);
                found.map_or_else(String::new, |found| {
                    self.instead(text, found.start(), found.as_str())
                })
            });
        }
        // There is no name, or there are too many for one search.
        let mut text = Cow::Borrowed(text);
        for (name, pseudonym) in self.names.iter().rev() {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), pseudonym).into();
            }
        }
        text
    }

    /// Returns what replaces `found` at `start` of `text`. That is `found` itself if it is a part
    /// of a word or a key of JSON.
    fn instead(&self, text: &str, start: usize, found: &str) -> String {
        let before = text[..start].chars().next_back();
        let mut after = text[start + found.len()..].chars();
        let next = after.next();
        let letter = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_');
        let first = letter(found.chars().next());
        let last = letter(found.chars().next_back());
        let part = first && letter(before) || last && letter(next);
        let key = before == Some('"') && next == Some('"') && after.next() == Some(':');
        if part || key {
            return found.to_owned();
        }
        self.names.get(found).cloned().unwrap_or_default()
    }
}

/// Returns whether a value of this kind says who or where.
fn identifies(kind: &str, value: &str) -> bool {
    match kind {
        "address" => !matches!(value, "127.0.0.1" | "0.0.0.0" | "::" | "::1"),
        "path" => value.len() >= SHORTEST_PATH && value.starts_with(['/', '~']),
        "host" | "user" => value.len() >= SHORTEST_NAME && !COMMON.contains(&value),
        "url" | "token" => true,
        _ => false,
    }
}

/// Returns a value as text, JSON and HTML write it.
fn forms(value: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(value).to_string();
    let json = quoted.trim_matches('"').to_owned();
    let html = crate::show::sanitize::html(value);
    let both = crate::show::sanitize::html(&json);
    let mut forms = vec![value.to_owned(), json, html, both];
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest of two names that begin alike is found first, and keys of JSON stay.
    #[test]
    fn only_whole_known_names_are_replaced() {
        let given = [
            ("path", "/data/lin", "path-1"),
            ("path", "/data/lin/x", "path-2"),
            ("user", "lin", "user-1"),
            ("host", "name", "host-1"),
            ("address", "192.0.2.2", "address-1"),
            ("user", "ray", "user-2"),
            ("path", "/a\"b<c", "path-3"),
        ];
        let known = KnownNames::new(given.into_iter());
        for (text, want) in [
            ("at /data/lin/x and /data/lin/y", "at path-2 and path-1/y"),
            (
                "lin and lines of lin, lin.",
                "user-1 and lines of user-1, user-1.",
            ),
            (r#"{"name": "name"}"#, r#"{"name": "host-1"}"#),
            (
                "GCS 192.0.2.2:27379, 1192.0.2.22",
                "GCS address-1:27379, 1192.0.2.22",
            ),
            ("ray::f in ray stop", "ray::f in ray stop"),
            (r#""/a\"b<c""#, r#""path-3""#),
            ("/a&quot;b&lt;c", "path-3"),
        ] {
            assert_eq!(known.replace_in(text), want);
        }
        assert_eq!(KnownNames::default().replace_in("as it is"), "as it is");
    }
}
