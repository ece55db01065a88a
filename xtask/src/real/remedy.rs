//! The first remedy of a report, and how it is applied: a setting of the job, or the change of a line that was written down before.

use serde_json::Value;

/// What `report` prints first under WHAT TO CHANGE.
#[derive(Debug, PartialEq)]
pub(super) struct First {
    /// As printed.
    pub(super) text: String,
    /// What it is expected to save, in bytes.
    pub(super) saving: Option<f64>,
    /// Of which class, or at the peak of which method.
    pub(super) whose: Option<String>,
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
    let saving = |key: &str| finding["saving"][key].as_str().map(str::to_owned);
    Some(First {
        text: finding["remedy"][0].as_str()?.to_owned(),
        saving: finding["saving"]["bytes"].as_f64(),
        whose: saving("task").or_else(|| saving("class")),
    })
}

/// How a text is applied to a job that keeps memory at `line`; `None` where it is neither: a limit or a threshold is none of both.
pub(super) fn applied(text: &str, line: &str) -> Option<Remedy> {
    if !line.is_empty() {
        let named = text.split_whitespace().any(|word| word == line);
        return named.then_some(Remedy::Line);
    }
    let words = text.split_whitespace();
    let settings: Vec<String> = words.map_while(setting).map(str::to_owned).collect();
    (!settings.is_empty()).then_some(Remedy::Settings(settings))
}

/// Keys that raise a limit, or change what the job computes.
const OTHER_RUNS: [&str; 3] = ["memory", "object_store_memory", "data.train_batch_size"];

/// A word that is `key=value` of the job.
fn setting(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([';', ',']);
    let (key, value) = word.split_once('=')?;
    let named = |letter: char| letter.is_ascii_alphanumeric() || "_.+".contains(letter);
    let allowed = !key.starts_with("RAY_") && !OTHER_RUNS.contains(&key);
    let own = allowed && key.chars().all(named) && !value.is_empty();
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
            applied("a.micro=16 b.micro=16 (now 64, 32): set both, …", ""),
            settings(&["a.micro=16", "b.micro=16"])
        );
        assert_eq!(
            applied("+a.dtype=bf16 b.ranks=1 (now unset, 2): set both, …", ""),
            settings(&["+a.dtype=bf16", "b.ranks=1"])
        );
        assert_eq!(applied("RAY_memory_usage_threshold=0.9", ""), None);
        assert_eq!(applied("write 12G to memory.max", ""), None);
        assert_eq!(applied("memory=900000000", ""), None);
        assert_eq!(
            applied("reward.py:80 compute_score: keep less", "reward.py:8"),
            None
        );
        assert_eq!(
            applied("reward.py:8 compute_score: keep less", "reward.py:8"),
            Some(Remedy::Line)
        );
        assert_eq!(applied("ref.micro=16 (now 64)", "reward.py:8"), None);
    }
}
