//! Makes foreign text harmless before it is printed.
//!
//! Task names, process names, paths and log lines come from whoever ran the job, and are printed on
//! somebody else's terminal. Every view passes such text through [`line()`].
//!
//! Control characters, escape sequences, and characters that reorder or hide text become visible
//! escapes. Long text is cut.

use unicode_width::UnicodeWidthChar as _;

/// Longest name that is shown, in characters.
pub const NAME: usize = 60;
/// Longest piece of evidence that is shown where space is short, in characters.
pub const EVIDENCE: usize = 240;
/// Maximum length of a note: a sentence of raytrace with names in it.
pub const NOTE: usize = 360;
/// Maximum length of advice, in characters: its last words may be the most important ones.
pub const ADVICE: usize = 1000;
/// Longest text that is shown anywhere, in characters.
pub const LONGEST: usize = 2000;

/// Returns `text` on one line, harmless, and at most `limit` characters. Text that is cut ends in
/// `…`.
pub fn line(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for character in text.trim_end().chars() {
        let start = shown.len();
        push_harmless(&mut shown, character);
        length += shown[start..].chars().count();
        if length > limit {
            return cut(&shown, limit);
        }
    }
    shown
}

/// Returns a name: [`line()`] with the limit for names.
pub fn name(text: &str) -> String {
    line(text, NAME)
}

/// Returns whether a terminal shows `character` as itself and in its place.
pub fn is_harmless(character: char) -> bool {
    !character.is_control() && !is_hidden(character)
}

/// Returns the columns that harmless text takes on a terminal. East Asian wide characters take two.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Cuts harmless text to `width` columns. Text that is cut ends in `…`.
pub fn cut_columns(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |character: &char| {
        let taken = columns_of(*character);
        let fits = taken <= left;
        left = left.saturating_sub(taken);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + if width > 0 { "…" } else { "" }
}

fn columns_of(character: char) -> usize {
    character.width().unwrap_or(1)
}

fn cut(text: &str, limit: usize) -> String {
    let kept = text.chars().take(limit.saturating_sub(1));
    kept.chain(std::iter::once('…')).collect()
}

fn push_harmless(shown: &mut String, character: char) {
    match character {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push(' '),
        '\u{1b}' => shown.push_str("\\e"),
        _ if is_harmless(character) => shown.push(character),
        _ => shown.extend(character.escape_unicode()),
    }
}

/// Returns whether a character reorders text (bidi marks), joins or hides it, or ends the line.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    ) || is_combining(character)
}

/// Returns whether a character is a mark that stacks on the one before. Enough of them cover the
/// lines around.
fn is_combining(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// Quotes a path for a shell.
pub fn quoted(path: &str) -> String {
    let path = line(path, EVIDENCE);
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:@".contains(character);
    if path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Escapes text for HTML, in elements and attributes.
pub(super) fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Returns the clauses of a text that fit into `room` characters; the whole text if not even the
/// first does.
pub fn whole_clauses(text: &str, room: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(room) else {
        return text;
    };
    let fitting = &text[..end];
    let ends = [": ", "; "].map(|sign| fitting.rfind(sign));
    let kept = ends.into_iter().flatten().max();
    let kept = kept.map_or(text, |end| &text[..end]);
    // A remark in parentheses is kept whole or not at all.
    match kept.rfind(" (") {
        Some(open) if !kept[open..].contains(')') => &kept[..open],
        _ => kept,
    }
}

/// Returns a text without what stands in parentheses.
pub fn without_remarks(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (") {
        kept.push_str(before);
        rest = after.split_once(')').map_or("", |(_, next)| next);
    }
    kept + rest
}

/// Returns the words of a text that fit into `width` columns, with an ellipsis if there are more.
/// No word is cut, unless it is the only one.
pub fn whole_words(text: &str, width: usize) -> String {
    let cut = cut_columns(text, width);
    if cut == text {
        return cut;
    }
    match cut.rfind(' ') {
        Some(end) if text[end..].starts_with(' ') => {
            format!("{} …", cut[..end].trim_end_matches([' ', ',', ':', ';']))
        }
        _ => cut,
    }
}

/// Returns the clauses of a text that fit, and says where the others are.
pub fn with_more(text: &str, room: usize, others: &str) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(others.len());
    let kept = line(whole_clauses(text, room), room);
    format!("{kept}{others}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn text_is_harmless_and_within_the_limit(
            text in any::<String>(), limit in 1usize..100,
        ) {
            let shown = line(&text, limit);
            prop_assert!(shown.chars().all(is_harmless), "{shown:?}");
            prop_assert!(shown.chars().count() <= limit);
        }

        #[test]
        fn short_plain_text_is_unchanged(text in "[a-zA-Z0-9_.:/=()-]{0,60}") {
            prop_assert_eq!(line(&text, 60), text);
        }
    }

    #[test]
    fn only_whole_words_and_remarks_are_kept() {
        assert_eq!(whole_words("at a/b.py:470, in f", 14), "at …");
        assert_eq!(whole_words("at a/b.py:470, in f", 17), "at a/b.py:470 …");
        assert_eq!(whole_words("a/b.py:470", 5), "a/b.…");
        assert_eq!(whole_words("short", 5), "short");
        assert_eq!(whole_clauses("set a (now 3; b 4): then", 16), "set a");
        assert_eq!(whole_clauses("set a (now 3): then", 16), "set a (now 3)");
        assert_eq!(without_remarks("set a (now 3): then (b)"), "set a: then");
    }

    #[test]
    fn escape_sequences_and_bidi_marks_become_visible() {
        assert_eq!(
            line("\u{1b}[31mred\u{9b}0m\nnext\u{202e}gnp\u{7f}", 100),
            "\\e[31mred\\u{9b}0m\\nnext\\u{202e}gnp\\u{7f}"
        );
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        let shown = name(&"x".repeat(10_000));
        assert_eq!(shown.chars().count(), NAME);
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(columns("任务 a"), 6);
    }
}
