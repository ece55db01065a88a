//! Finds reports that a sentence quotes: `LSF then prints "TERM_MEMLIMIT: job killed …"`. A change of
//! a document quotes them too.

/// Words after which a sentence quotes what a program prints.
const BEFORE_QUOTE: [&str; 13] = [
    "emits",
    "grep",
    "like",
    "means",
    "normally",
    "print",
    "prints",
    "say",
    "says",
    "shows",
    "sometimes",
    "that",
    "usually",
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
        // `emits the`.
        let open = open.trim_end();
        let open = open.strip_suffix(" the").unwrap_or(open);
        is_apart && last_word(open).is_some_and(|word| BEFORE_QUOTE.contains(&&*word))
    });
    let verb = words.strip_suffix(':').and_then(last_word);
    let of_change = before.starts_with("+ ") || matches!(before.trim_end(), "+" | "-");
    quotes || of_change || verb.is_some_and(|word| VERBS.contains(&&*word))
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
            "Usually \"",
            "The docs say that “",
            "The docs say that \"mpirun noticed that process rank 0 ",
            "earlyoom prints: ",
            "earlyoom prints: s",
            "user@node1:~$ sudo grep '",
            "+  ",
            "+  Worker exit type: SYSTEM_ERROR Worker exit detail: ",
            "-",
        ] {
            assert!(quotes(before), "{before}");
        }
        for before in [
            "",
            "slurmstepd: ",
            "time=\"2024-01-01T00:00:00Z\" level=error msg=\"",
            "{\"message\": \"",
            "pod train-0 failed, message is \"",
            "job ended with \"",
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
