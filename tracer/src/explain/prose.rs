//! Finds reports that a sentence quotes: `LSF then prints "TERM_MEMLIMIT: job killed …"`.

/// Words after which a sentence quotes what a program prints.
const BEFORE_QUOTE: [&str; 26] = [
    "a",
    "and",
    "are",
    "as",
    "emits",
    "is",
    "like",
    "means",
    "normally",
    "or",
    "print",
    "prints",
    "reads",
    "saw",
    "say",
    "says",
    "see",
    "sees",
    "show",
    "shows",
    "sometimes",
    "that",
    "the",
    "usually",
    "when",
    "with",
];
/// Verbs after which a sentence needs no quotation mark, but a colon.
const VERBS: [&str; 9] = [
    "emit", "emits", "print", "prints", "reads", "say", "says", "show", "shows",
];
const MARKS: [char; 6] = ['"', '\'', '`', '“', '‘', '«'];

/// Returns whether this text, which stands in a line before a report, is a sentence that quotes it.
/// A program that wraps the report of another one writes keys, brackets and stamps before it.
pub(super) fn quotes(before: &str) -> bool {
    // A report may be found by what stands behind its first letter, which can be a capital.
    let words = before.trim_end_matches(char::is_alphanumeric).trim_end();
    let quotes = before.rfind(MARKS).is_some_and(|mark| {
        let open = before[..mark].trim_end_matches(MARKS);
        let is_apart = open.ends_with(char::is_whitespace);
        is_apart && last_word(open).is_some_and(|word| BEFORE_QUOTE.contains(&&*word))
    });
    let verb = words.strip_suffix(':').and_then(last_word);
    quotes || verb.is_some_and(|word| VERBS.contains(&&*word))
}

fn last_word(text: &str) -> Option<String> {
    let word = text.split_whitespace().next_back()?;
    let word = word.trim_end_matches(',');
    let is_word = word.chars().all(char::is_alphabetic);
    is_word.then(|| word.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_quotes_what_wrapper_does_not() {
        for before in [
            "LSF normally ends jobs that go over this limit and emits the `",
            "normally Slurm prints ``",
            "If a pod is evicted, the message is \"",
            "Usually \"",
            "The docs say that “",
            "The docs say that \"mpirun noticed that process rank 0 ",
            "earlyoom prints: ",
            "earlyoom prints: s",
        ] {
            assert!(quotes(before), "{before}");
        }
        for before in [
            "",
            "slurmstepd: ",
            "time=\"2024-01-01T00:00:00Z\" level=error msg=\"",
            "{\"message\": \"",
            "rpc error: code = Unknown desc = failed: \"",
            "kernel: ",
            "command failed with exit status: ",
            "4m11s  Warning  Evicted  pod/egg  ",
            "WARNING said: ",
        ] {
            assert!(!quotes(before), "{before}");
        }
    }
}
