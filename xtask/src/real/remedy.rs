//! Reads the first remedy of a report, and how to apply it.
//!
//! A remedy is a setting of the job, or a change of a line that was written down before.

use serde_json::Value;

/// The remedy that `report` prints first under WHAT TO CHANGE, without those that raise a limit.
#[derive(Debug, PartialEq)]
pub(super) struct FirstRemedy {
    /// The text, as printed.
    pub(super) text: String,
    /// The saving that is expected, in bytes.
    pub(super) saving: Option<f64>,
    /// The class whose memory is saved, or the method at whose peak it is.
    pub(super) owner: Option<String>,
}

/// A change that can be applied to a job.
#[derive(Debug, PartialEq)]
pub(super) enum Remedy {
    /// `key=value`, for the job's command line.
    Settings(Vec<String>),
    /// The change of the line that the truth names.
    Line,
}

/// Findings whose first remedy is another limit, which no setting of the job changes.
const LIMITS: [&str; 2] = ["hidden-limit", "low-threshold"];

/// Returns the first remedy that is printed and leaves limits alone.
pub(super) fn first(report: &Value) -> Option<FirstRemedy> {
    let mut findings = report["findings"].as_array()?.iter();
    let of_limit = |rule: &str| LIMITS.contains(&rule);
    let finding = findings.find(|one| !one["rule"].as_str().is_some_and(of_limit))?;
    let saving = |key: &str| finding["saving"][key].as_str().map(str::to_owned);
    Some(FirstRemedy {
        text: finding["remedy"][0].as_str()?.to_owned(),
        saving: finding["saving"]["bytes"].as_f64(),
        owner: saving("task").or_else(|| saving("class")),
    })
}

/// Returns how a text is applied to a job that keeps memory at `line`. Returns `None` if it names
/// neither a setting nor that line, as with a limit or a threshold.
pub(super) fn parse(text: &str, line: &str) -> Option<Remedy> {
    if !line.is_empty() {
        let named = text.split_whitespace().any(|word| word == line);
        return named.then_some(Remedy::Line);
    }
    let words = text.split_whitespace();
    let settings: Vec<String> = words.map_while(setting).map(str::to_owned).collect();
    (!settings.is_empty()).then_some(Remedy::Settings(settings))
}

/// Keys that raise a limit or change what the job computes. Such settings are not applied.
const OTHER_RUNS: [&str; 3] = ["memory", "object_store_memory", "data.train_batch_size"];

/// Returns a word that is a setting `key=value` of the job.
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
    fn settings_and_lines_apply_thresholds_do_not() {
        let settings = |all: &[&str]| {
            Some(Remedy::Settings(
                all.iter().map(ToString::to_string).collect(),
            ))
        };
        assert_eq!(
            parse("a.micro=16 b.micro=16 (now 64 and 32): set both, …", ""),
            settings(&["a.micro=16", "b.micro=16"])
        );
        assert_eq!(
            parse("+a.dtype=bf16 b.ranks=1 (now 2): set both, …", ""),
            settings(&["+a.dtype=bf16", "b.ranks=1"])
        );
        assert_eq!(parse("RAY_memory_usage_threshold=0.9", ""), None);
        assert_eq!(parse("write 12G to memory.max", ""), None);
        assert_eq!(parse("memory=900000000", ""), None);
        assert_eq!(
            parse("reward.py:80 compute_score: keep less", "reward.py:8"),
            None
        );
        assert_eq!(
            parse("reward.py:8 compute_score: keep less", "reward.py:8"),
            Some(Remedy::Line)
        );
        assert_eq!(parse("ref.micro=16 (now 64)", "reward.py:8"), None);
    }
}
