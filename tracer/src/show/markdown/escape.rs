//! Escapes foreign text in Markdown, so that it stays text.
//!
//! This holds on GitHub too, which looks for mentions after it has rendered. Text must be on one
//! line and harmless already (`sanitize`).

use crate::show::settings::{self, Word};

/// Separates `@` and `#` from a name or number behind them, so that GitHub notifies nobody. A
/// backslash does not help, because GitHub looks for mentions in the rendered text.
const BREAK: char = '\u{200b}';

/// Escapes `text` as running text.
pub(super) fn text(text: &str) -> String {
    let mut shown = String::new();
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let after = rest.peek().copied();
        push(&mut shown, before, character, after);
        before = Some(character);
    }
    shown
}

fn push(shown: &mut String, before: Option<char>, character: char, after: Option<char>) {
    let inside = |one: Option<char>| one.is_some_and(char::is_alphanumeric);
    let ends_word = after.is_none_or(|after| after == ' ');
    match character {
        '\u{a0}' => shown.push(' '),
        '<' => shown.push_str("&lt;"),
        '>' => shown.push_str("&gt;"),
        '&' => shown.push_str("&amp;"),
        '@' | '#' if inside(after) => shown.extend([character, BREAK]),
        // Inside a word this is no emphasis, and chats would show a backslash.
        '_' if inside(before) && inside(after) => shown.push('_'),
        '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => shown.extend(['\\', character]),
        // Prevents a heading, list or rule.
        '#' | '-' if before.is_none() => shown.extend(['\\', character]),
        '+' if before.is_none() && ends_word => shown.push_str("\\+"),
        // Prevents a link from a URL in a log.
        ':' if after == Some('/') => shown.push_str("\\:"),
        '.' if before == Some('w') => shown.push_str("\\."),
        '.' | ')' if ends_word && all_digits(shown) => shown.extend(['\\', character]),
        _ => shown.push(character),
    }
}

/// Returns whether the text so far is a list number.
fn all_digits(shown: &str) -> bool {
    !shown.is_empty() && shown.bytes().all(|byte| byte.is_ascii_digit())
}

/// Escapes `text` as code. Neither Markdown nor mentions have an effect there.
pub(super) fn code(text: &str) -> String {
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{text}{space}{fence}")
}

/// Escapes running text, with its settings, names and paths as code, because users copy them from
/// there.
pub(super) fn settings(shown: &str) -> String {
    let word = |word: Word<'_>| {
        let Word {
            before,
            bare,
            after,
            is_code,
        } = word;
        if is_code {
            format!("{before}{}{after}", code(bare))
        } else {
            text(&format!("{before}{bare}{after}"))
        }
    };
    let words: Vec<String> = settings::words(shown).map(word).collect();
    words.join(" ")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|character| character != '`');
    runs.map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_stays_text() {
        assert_eq!(
            text("a*b* `c` [d](e) |f| ~g~ $h$"),
            r"a\*b\* \`c\` \[d\](e) \|f\| \~g\~ \$h\$"
        );
        assert_eq!(
            text("<img src=x onerror=y> &amp;"),
            "&lt;img src=x onerror=y&gt; &amp;amp;"
        );
        assert_eq!(text(r"C:\x"), r"C:\\x");
    }

    #[test]
    fn underscores_inside_a_name_need_no_escape() {
        assert_eq!(
            text("compute_score __init__ _x_"),
            r"compute_score \_\_init\_\_ \_x\_"
        );
    }

    #[test]
    fn text_makes_no_mentions_or_links() {
        assert_eq!(
            text("@everyone see #12"),
            "@\u{200b}everyone see #\u{200b}12"
        );
        assert_eq!(
            text("http://evil.example www.evil.example"),
            r"http\://evil.example www\.evil.example"
        );
    }

    #[test]
    fn settings_in_text_become_code() {
        assert_eq!(
            settings("+a.b_c=bf16 n=1 (now 2); num_cpus=4 in the @ray.remote of *x*, (f_g)"),
            r"`+a.b_c=bf16` `n=1` (now 2); `num_cpus=4` in the `@ray.remote` of \*x\*, (`f_g`)"
        );
    }

    #[test]
    fn text_begins_no_list_or_heading() {
        assert_eq!(text("# x"), r"\# x");
        assert_eq!(text("- x"), r"\- x");
        assert_eq!(text("12. x"), r"12\. x");
        assert_eq!(text("+ x"), r"\+ x");
        assert_eq!(text("3.4 GiB"), "3.4 GiB");
        assert_eq!(text("+18 ms"), "+18 ms");
    }

    #[test]
    fn text_cannot_end_its_code_span() {
        assert_eq!(code("plain @everyone <b>"), "`plain @everyone <b>`");
        assert_eq!(code("a```b`"), "```` a```b` ````");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("  "), "");
    }
}
