//! Finds what users copy in a sentence: settings, names and paths.

/// A word of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<'a> {
    /// Signs before it.
    pub before: &'a str,
    /// The word.
    pub bare: &'a str,
    /// Signs behind it.
    pub after: &'a str,
    /// Whether it is a setting, a name or a path.
    pub is_code: bool,
}

/// Returns the words of a sentence, which single spaces separate.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    text.split(' ').map(|word| {
        let inner = word.trim_start_matches('(');
        let (before, _) = word.split_at(word.len() - inner.len());
        let bare = inner.trim_end_matches([',', ';', ':', '.', ')']);
        let after = &inner[bare.len()..];
        Word {
            before,
            bare,
            after,
            is_code: bare.contains(['=', '_', '@', '/']),
        }
    })
}
