//! Reads the first remedies of a report, and how to apply them.
//!
//! A remedy is a setting of the job, a change of a line that was written down before, or a limit.

use serde_json::Value;

/// The first remedy of a finding under WHAT TO CHANGE.
#[derive(Debug, Clone, PartialEq)]
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
    /// Another threshold of Ray's, or another limit of the cgroup: options of `real.py`.
    Limit(Vec<String>),
}

/// Findings whose first remedy is another limit, which no setting of the job changes.
const LIMITS: [&str; 2] = ["hidden-limit", "low-threshold"];

/// Returns the first remedy that is printed, and the first that leaves limits alone if that is
/// another one.
pub(super) fn first(report: &Value) -> Vec<FirstRemedy> {
    let findings = report["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let of_limit = |finding: &&Value| {
        let rule = finding["rule"].as_str();
        rule.is_some_and(|rule| LIMITS.contains(&rule))
    };
    let first = findings.first().filter(of_limit);
    let other = findings.iter().find(|finding| !of_limit(finding));
    first
        .into_iter()
        .chain(other)
        .filter_map(remedy_of)
        .collect()
}

fn remedy_of(finding: &Value) -> Option<FirstRemedy> {
    let saving = |key: &str| finding["saving"][key].as_str().map(str::to_owned);
    Some(FirstRemedy {
        text: finding["remedy"][0].as_str()?.to_owned(),
        saving: finding["saving"]["bytes"].as_f64(),
        owner: saving("task").or_else(|| saving("class")),
    })
}

/// Returns how a text is applied to a job that keeps memory at `line`. Returns `None` if it names
/// neither a setting nor that line nor a limit.
pub(super) fn parse(text: &str, line: &str) -> Option<Remedy> {
    if let Some(options) = limit(text) {
        return Some(Remedy::Limit(options));
    }
    if !line.is_empty() {
        let named = text.split_whitespace().any(|word| word == line);
        return named.then_some(Remedy::Line);
    }
    let words = text.split_whitespace();
    let settings: Vec<String> = words.map_while(setting).map(str::to_owned).collect();
    (!settings.is_empty()).then_some(Remedy::Settings(settings))
}

/// Returns the options of `real.py` for a text that begins with a threshold, or that says what to
/// write to a cgroup's limit.
fn limit(text: &str) -> Option<Vec<String>> {
    let option = |name: &str, value: &str| Some(vec![name.to_owned(), value.to_owned()]);
    if let Some(rest) = text.strip_prefix("RAY_memory_usage_threshold=") {
        return option("--threshold", rest.split_whitespace().next()?);
    }
    let (_, value) = text.split_once(": write ")?;
    let (value, file) = value.split_once(" to its ")?;
    file.starts_with("memory.")
        .then(|| option("--limit", value))?
}

/// Keys that raise a limit or change what the job computes. Such settings are not applied.
const OTHER_RUNS: [&str; 3] = ["memory", "object_store_memory", "data.train_batch_size"];

/// Returns a word that is a setting of the job: `key=value` or `--key=value`.
fn setting(word: &str) -> Option<&str> {
    let word = word.trim_end_matches([';', ',']);
    let (key, value) = word.split_once('=')?;
    let named = |letter: char| letter.is_ascii_alphanumeric() || "_.+-".contains(letter);
    let allowed = !key.starts_with("RAY_") && !OTHER_RUNS.contains(&key);
    let own = allowed && key.chars().all(named) && !value.is_empty();
    own.then_some(word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_lines_and_limits_apply() {
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
        let limit = |name: &str, value: &str| {
            let options = [name, value].map(str::to_owned);
            Some(Remedy::Limit(options.into()))
        };
        assert_eq!(
            parse("RAY_memory_usage_threshold=0.9 in the environment", ""),
            limit("--threshold", "0.9")
        );
        assert_eq!(
            parse(
                "raise the limit of /a from 8 to 12: write 12G to its memory.max",
                "reward.py:8"
            ),
            limit("--limit", "12G")
        );
        assert_eq!(parse("memory=9 RAY_memory_usage_threshold=0.9", ""), None);
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

    #[test]
    fn limit_comes_with_what_leaves_limits_alone() {
        let finding = |rule: &str| json!({"rule": rule, "remedy": [rule], "saving": null});
        let texts = |rules: &[&str]| {
            let findings: Vec<Value> = rules.iter().map(|rule| finding(rule)).collect();
            let first = first(&json!({"findings": findings})).into_iter();
            first.map(|one| one.text).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(&["low-threshold", "call-grew"]),
            ["low-threshold", "call-grew"]
        );
        assert_eq!(texts(&["leak", "hidden-limit", "call-grew"]), ["leak"]);
        assert_eq!(texts(&["hidden-limit"]), ["hidden-limit"]);
        assert_eq!(texts(&[]), Vec::<String>::new());
    }
}
