//! The first remedy of a report, and how it is applied: a setting of the job, or the change of a line that was written down before.

use serde_json::Value;

/// What `report` prints first under WHAT TO CHANGE.
#[derive(Debug, PartialEq)]
pub(super) struct First {
    /// As printed.
    pub(super) text: String,
    /// What it is expected to save, in bytes.
    pub(super) saving: Option<f64>,
    /// Of which class.
    pub(super) class: Option<String>,
}

/// What to do of it.
#[derive(Debug, PartialEq)]
pub(super) enum Remedy {
    /// `key=value`, for the job's command line.
    Settings(Vec<String>),
    /// The line that the truth names is changed.
    Line,
}

/// The first remedy that is printed.
pub(super) fn first(report: &Value) -> Option<First> {
    let finding = report["findings"].as_array()?.first()?;
    Some(First {
        text: finding["remedy"][0].as_str()?.to_owned(),
        saving: finding["saving"]["bytes"].as_f64(),
        class: finding["saving"]["class"].as_str().map(str::to_owned),
    })
}

/// How a text is applied to a job that keeps memory at `line`; `None` where it is neither: a limit or a threshold is none of both.
pub(super) fn applied(text: &str, line: &str) -> Option<Remedy> {
    if !line.is_empty() {
        return text.contains(line).then_some(Remedy::Line);
    }
    let words = text.split_whitespace();
    let settings: Vec<String> = words.map_while(setting).map(str::to_owned).collect();
    (!settings.is_empty()).then_some(Remedy::Settings(settings))
}

/// A word that is `key=value` of the job.
fn setting(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([';', ',']);
    let (key, value) = word.split_once('=')?;
    let named = |letter: char| letter.is_ascii_alphanumeric() || "_.+".contains(letter);
    let own = key.chars().all(named) && !key.starts_with("RAY_") && !value.is_empty();
    own.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_or_the_line_is_applied_and_a_threshold_is_not() {
        let settings = |all: &[&str]| {
            Some(Remedy::Settings(
                all.iter().map(ToString::to_string).collect(),
            ))
        };
        assert_eq!(
            applied("a.micro=16 b.micro=16 (now 64, 32)", ""),
            settings(&["a.micro=16", "b.micro=16"])
        );
        assert_eq!(applied("RAY_memory_usage_threshold=0.9", ""), None);
        assert_eq!(applied("write 12G to memory.max", ""), None);
        assert_eq!(
            applied("reward.py:8 compute_score: keep less", "reward.py:8"),
            Some(Remedy::Line)
        );
        assert_eq!(applied("ref.micro=16 (now 64)", "reward.py:8"), None);
    }
}
