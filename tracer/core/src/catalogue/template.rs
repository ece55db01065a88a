//! Makes a pattern of a text with holes.
//!
//! A hole is `{name}` or `{name:type}`; a type with `|` is a choice of words. A `^` at the begin
//! ties the text to the begin of the line.

use regex::Regex;

/// A piece of a text.
enum Piece<'a> {
    Fixed(&'a str),
    Hole { name: &'a str, kind: &'a str },
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut rest = text.strip_prefix('^').unwrap_or(text);
    let mut pieces = Vec::new();
    while let Some((fixed, behind)) = rest.split_once('{') {
        if !fixed.is_empty() {
            pieces.push(Piece::Fixed(fixed));
        }
        let Some((hole, behind)) = behind.split_once('}') else {
            return pieces;
        };
        let (name, kind) = hole.split_once(':').unwrap_or((hole, hole));
        pieces.push(Piece::Hole { name, kind });
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Fixed(rest));
    }
    pieces
}

/// Returns the longest part of a text that has no holes.
pub(super) fn longest_fixed(text: &str) -> &str {
    let fixed = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Fixed(fixed) => Some(fixed),
        Piece::Hole { .. } => None,
    });
    fixed.max_by_key(|fixed| fixed.len()).unwrap_or_default()
}

/// Returns the pattern of a text.
pub(super) fn compile(text: &str) -> Option<Regex> {
    let begin = if text.starts_with('^') { r"^\s*" } else { "" };
    let pieces = pieces(text).into_iter().map(|piece| match piece {
        Piece::Fixed(fixed) => regex::escape(fixed),
        Piece::Hole { name: "", kind } => format!("(?:{})", of_kind(kind)),
        Piece::Hole { name, kind } => format!("(?P<{name}>{})", of_kind(kind)),
    });
    let pattern: String = std::iter::once(begin.to_owned()).chain(pieces).collect();
    Regex::new(&pattern).ok()
}

/// Returns the pattern of what may stand in a hole.
fn of_kind(kind: &str) -> String {
    let known = match kind {
        "pid" => r"\d{1,10}",
        "pids" => r"\d{1,10}(?:, \d{1,10})*",
        "n" => r"\d{1,20}",
        // A job that never ran had none.
        "cpus" => r"[1-9]\d{0,6}",
        "code" => r"-?\d{1,9}",
        "status" => r"\d{1,3}",
        "signal" => r"SIG[A-Z][A-Z0-9]{1,8}|\d{1,2}",
        "fault" => {
            "Killed|Terminated|Hangup|Interrupt|Quit|User defined signal [12]|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception"
        }
        "comm" => "[^()]+?",
        "title" => ".+?",
        "quoted" => r#"[^"]*"#,
        "worker" | "node" => "[0-9a-f]{56}",
        "driver" => "[0-9a-f]{8}f{48}",
        "task" => "[0-9a-f]{48}",
        "ip" => r"[^,)\s]+",
        "at" => r"\d{4}-\d\d-\d\dT[\d:.]{5,15}(?:Z|[+-]\d\d:?\d\d)?",
        "job" => r"\d+(?:_\d+)?(?:\+\d+)?",
        "step" => r"\d+(?:_\d+)?(?:\+\d+)?\.\w+(?:\+\d+)?",
        "stepname" => r"\d[\w.+]*\w",
        "unit" | "host" | "word" => r"[^\s:]+",
        "path" => r"\S+",
        "cgroup" => r"/\S+",
        // What bash prints between how a job ended and the job's program, which need not be there.
        "core" => r"\s*(?:\(core dumped\)\s*)?(?:\w+=\S* )*",
        "program" => r"[\w./+-]*",
        "quote" => r#"['"]"#,
        "resource" => r"[\w-]+(?:[./][\w-]+)*",
        "used" => r"used \(.*",
        "pressure" => r"pressure for .*",
        "why" | "full" | "all" => ".*",
        "blanks" => r"\s*",
        // What must follow a word for it to be whole.
        "closed" => r"\s*(?:[,}\]]|$)",
        "nodigit" => r"(?:\D|$)",
        "end" => r"\s*$",
        // A table's next column may follow.
        "gap" => r"(?:\s{2,}|\s*$)",
        "stop" => r"\.?\s*(?:$|[;:(]|, )",
        "size" => r"\(unknown\)|\d+",
        "symbol" => r"(?:\(anonymous namespace\)|[A-Za-z_~]).*",
        "exceeds" => r"exceeds the .*",
        "above" => r"\d+ > \d+",
        "badness" => r"badness:? \d+.*",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    if kind.contains('|') {
        let words: Vec<String> = kind.split('|').map(regex::escape).collect();
        return words.join("|");
    }
    ".*?".to_owned()
}

/// Fills the holes of a sentence.
pub(super) fn fill<'a>(sentence: &str, value: impl Fn(&str) -> &'a str) -> String {
    let filled = pieces(sentence).into_iter().map(|piece| match piece {
        Piece::Fixed(fixed) => fixed,
        Piece::Hole { name, .. } => value(name),
    });
    filled.collect()
}
