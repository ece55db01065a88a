//! Lays out lines of bounded width: wrapping with a hanging indent, and labels in a column.
//!
//! Widths are counted before colours are added, and only whole labels are coloured. Text must be
//! harmless already. A no-break space keeps two words on one line, and is printed as a space.

use owo_colors::{OwoColorize, Style};
use textwrap::{
    WordSeparator,
    core::{Word, break_words},
    wrap_algorithms::wrap_first_fit,
};

use super::sanitize::columns;

/// Width of a label with its indent, in columns.
pub(super) const LABEL: usize = 11;

/// Indent of the later lines of a headline, in columns.
const HANGING: usize = 8;

/// Text that grows line by line and never exceeds its width.
#[derive(Debug)]
pub struct Page {
    width: usize,
    text: String,
}

impl Page {
    /// Makes an empty page of `width` columns.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            text: String::new(),
        }
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of lines so far.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Returns the whole text.
    pub fn finish(self) -> String {
        self.text
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a paragraph. It begins with `lead` in `style`, and its later lines are indented by
    /// `indent`.
    pub fn paragraph(&mut self, lead: &str, style: Style, text: &str, indent: usize) {
        self.styled(lead, style, text, Style::new(), indent);
    }

    fn styled(&mut self, lead: &str, style: Style, text: &str, of_text: Style, indent: usize) {
        let first = columns(lead);
        for (number, line) in wrap(text, self.width, first, indent).iter().enumerate() {
            let line = line.style(of_text);
            if number == 0 {
                self.text.push_str(&format!("{}{line}", lead.style(style)));
            } else {
                self.text.push_str(&format!("{}{line}", " ".repeat(indent)));
            }
            self.end_line();
        }
    }

    /// Adds a command to copy. It is one line, however long it is.
    pub fn command(&mut self, lead: &str, style: Style, text: &str) {
        self.text.push_str(&format!("{}{text}", lead.style(style)));
        self.end_line();
    }

    /// Adds a headline: a lead in its style, text beside it, and a word at the right edge.
    pub fn headline(&mut self, lead: &str, style: Style, text: &str, right: &str, of_right: Style) {
        let first = columns(lead);
        let reserved = columns(right) + 2;
        let width = self.width.saturating_sub(reserved);
        let lines = wrap(text, width, first, HANGING);
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                self.text.push_str(&" ".repeat(HANGING));
                self.text.push_str(line);
                self.end_line();
                continue;
            }
            let gap = self
                .width
                .saturating_sub(first + columns(line) + columns(right))
                .max(2);
            self.text.push_str(&format!(
                "{}{line}{}{}",
                lead.style(style),
                " ".repeat(gap),
                right.style(of_right)
            ));
            self.end_line();
        }
    }

    /// Adds a fact with its label: `  who      raylet 1998: SIGKILL`. A label has at most eight
    /// letters.
    pub fn fact(&mut self, label: &str, text: &str) {
        self.labelled(label, text, Style::new(), LABEL);
    }

    /// Adds a fact whose text is bold.
    pub fn bold_fact(&mut self, label: &str, text: &str) {
        self.labelled(label, text, Style::new().bold(), LABEL);
    }

    /// Adds one of several texts under a label. Only the first has the label, and later lines of a
    /// text have a larger indent.
    pub fn item(&mut self, label: &str, text: &str) {
        self.labelled(label, text, Style::new(), LABEL + 2);
    }

    fn labelled(&mut self, label: &str, text: &str, style: Style, indent: usize) {
        let lead = format!("  {label:<width$} ", width = LABEL - 3);
        self.styled(&lead, Style::new().dimmed(), text, style, indent);
    }

    fn end_line(&mut self) {
        let start = self.text.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text.split_off(start).replace('\u{a0}', " ");
        self.text.push_str(line.trim_end_matches(' '));
        self.text.push('\n');
    }
}

/// Wraps text to lines of at most `width` columns. The first line may use `width - first`, later
/// ones `width - indent`. A first word that fits only into a later line begins there.
pub(super) fn wrap(text: &str, width: usize, first: usize, indent: usize) -> Vec<String> {
    let room = |taken: usize| width.saturating_sub(taken).max(10);
    let text = with_units(&bound(text));
    let words = WordSeparator::AsciiSpace.find_words(&text);
    let words: Vec<Word<'_>> = words.flat_map(|word| parts(word, room(indent))).collect();
    let is_late = (words.first()).is_some_and(|word| {
        (width.saturating_sub(first) + 1..=room(indent)).contains(&columns(word.word))
    });
    let room_first = if is_late && first > indent {
        indent
    } else {
        first
    };
    let lines = wrap_first_fit(&words, &[room(room_first) as f64, room(indent) as f64]);
    let empty = (room_first != first).then(String::new);
    empty
        .into_iter()
        .chain(lines.into_iter().map(line_of))
        .collect()
}

/// Breaks a word that is longer than a line, after commas and bound spaces if that is enough. A
/// number, a path or a setting stays whole, so that it can be copied: the terminal wraps it.
fn parts(word: Word<'_>, room: usize) -> Vec<Word<'_>> {
    if columns(word.word) <= room {
        return vec![word];
    }
    let is_copied = |one: char| one.is_ascii_alphanumeric() || "/=_.:+-".contains(one);
    let whole = |part: &str| {
        part.trim_end_matches([',', '\u{a0}'])
            .chars()
            .all(is_copied)
            && part.contains(|one: char| one.is_ascii_digit() || one == '/')
    };
    let mut found = Vec::new();
    for piece in word.word.split_inclusive([',', '\u{a0}']) {
        let piece = Word::from(piece);
        if whole(piece.word) {
            found.push(piece);
        } else {
            found.extend(break_words([piece], room));
        }
    }
    if let Some(last) = found.last_mut() {
        last.whitespace = word.whitespace;
        last.penalty = word.penalty;
    }
    found
}

fn line_of(words: &[Word<'_>]) -> String {
    let line: String = words
        .iter()
        .flat_map(|word| [word.word, word.whitespace])
        .collect();
    line.trim_end_matches(' ').to_owned()
}

/// Longest text in parentheses that is kept on one line, in characters.
const LONGEST_BOUND: usize = 48;

/// Puts no-break spaces into what identifies a process: `(actor, pid 7, 3.7 GiB)`.
fn bound(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let (before, from) = rest.split_at(open);
        kept.push_str(before);
        let end = from[1..].find(['(', ')']).map_or(from.len(), |at| at + 1);
        let inside = &from[..end];
        let names_a_process = inside.contains("pid ") && inside.chars().count() <= LONGEST_BOUND;
        if names_a_process && from[end..].starts_with(')') {
            kept.push_str(&inside.replace(' ', "\u{a0}"));
        } else {
            kept.push_str(inside);
        }
        rest = &from[end..];
    }
    kept + rest
}

/// Puts no-break spaces between figures and their units.
fn with_units(text: &str) -> String {
    let is_figure = |word: &str| {
        word.ends_with(|last: char| last.is_ascii_digit())
            && word
                .chars()
                .all(|one| one.is_ascii_digit() || "−+~±.,".contains(one))
    };
    let is_unit = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ':', '.', ')']);
        matches!(
            bare,
            "KiB" | "MiB" | "GiB" | "TiB" | "%" | "ms" | "s" | "min" | "h" | "d"
        )
    };
    let mut before = "";
    let mut kept = String::new();
    for word in text.split(' ') {
        let names = before.trim_start_matches('(') == "pid"
            && word.starts_with(|one: char| one.is_ascii_digit());
        if names || is_unit(word) && is_figure(before.trim_start_matches('(')) {
            kept.push('\u{a0}');
        } else if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(word);
        before = word;
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(page: Page) -> String {
        anstream::adapter::strip_str(&page.finish()).to_string()
    }

    proptest! {
        #[test]
        fn no_line_exceeds_the_width(text in "[a-z任 ]{0,400}", width in 40usize..130) {
            let mut page = Page::new(width);
            page.fact("who", &text);
            page.headline("KILL 1  ", Style::new(), &text, "PROVEN", Style::new());
            for line in plain(page).lines() {
                prop_assert!(columns(line) <= width, "{line:?}");
            }
        }
    }

    proptest! {
        /// A pid, a path or a number can be copied from a line, however narrow the page is.
        #[test]
        fn nothing_breaks_inside_a_word_that_is_copied(
            before in "[a-z ]{0,60}",
            word in "(pid=[0-9]{1,9}|/[a-z0-9_./-]{0,90}|[a-z.]{1,60}=[0-9]{1,9}|[0-9]{1,30}(\\.[0-9]{1,9})?)",
            list in any::<bool>(),
            after in "[a-z ]{0,60}",
            width in 10usize..200,
        ) {
            let comma = if list { "a," } else { "" };
            let mut page = Page::new(width);
            let text = format!("{before} {comma}{word} {after}");
            page.fact("why", &text);
            page.headline("KILL 1  ", Style::new(), &text, "PROVEN", Style::new());
            let page = plain(page);
            let found = page.split([' ', '\n', ',']).filter(|one| *one == word.trim_end_matches(','));
            prop_assert!(found.count() >= 2, "{word} in {page}");
        }
    }

    #[test]
    fn process_in_parentheses_stays_on_one_line() {
        let lines = wrap("it killed Actor (actor, pid 7, 3.7 GiB) here", 30, 0, 0);
        assert_eq!(
            lines[1].replace('\u{a0}', " "),
            "(actor, pid 7, 3.7 GiB) here"
        );
        let plain = "a (b (pid 7) and (pid 8";
        assert_eq!(bound(plain).replace('\u{a0}', " "), plain);
    }

    #[test]
    fn later_lines_have_a_hanging_indent() {
        let mut page = Page::new(30);
        page.fact("who", "raylet 1998 sent SIGKILL to it");
        page.headline(
            "KILL 1  ",
            Style::new(),
            "the kernel killed it",
            "PROVEN",
            Style::new(),
        );
        insta::assert_snapshot!(plain(page), @r"
          who      raylet 1998 sent
                   SIGKILL to it
        KILL 1  the kernel      PROVEN
                killed it
        ");
    }
}
