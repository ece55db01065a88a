//! Reads the list of intended differences: `RECORDING PATH REASON`, where `*` is any text.

/// A line of the list.
pub(super) struct Listed {
    recording: String,
    path: String,
}

/// Reads the list. A line that begins with `#` is a comment.
pub(super) fn parse(list: &str) -> Vec<Listed> {
    let lines = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(line).collect()
}

fn line(line: &str) -> Listed {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    let listed = Listed {
        recording: word(),
        path: word(),
    };
    assert!(!word().is_empty(), "no reason is given: {line}");
    listed
}

impl Listed {
    /// Returns whether the list has this difference.
    pub(super) fn is(&self, recording: &str, path: &str) -> bool {
        fits(&self.recording, recording) && fits(&self.path, path)
    }
}

/// Returns whether `text` matches `form`, where `*` is any text.
fn fits(form: &str, text: &str) -> bool {
    let Some((before, after)) = form.split_once('*') else {
        return form == text;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let mut ends = rest.char_indices().map(|(place, _)| place);
    ends.any(|place| fits(after, &rest[place..])) || fits(after, "")
}

#[test]
fn star_matches_any_text() {
    assert!(fits("deaths[*].pid", "deaths[7].pid"));
    assert!(fits("*", ""));
    assert!(fits("deaths*", "deaths"));
    assert!(!fits("deaths[*].pid", "deaths[7].ppid"));
    assert!(!fits("deaths", "deaths[7]"));
}
