//! Takes the notes of a release out of CHANGELOG.md, and checks that its tag is that of the version.

use anyhow::{Context as _, Result, bail};

use super::VERSION;
use crate::layout;

/// Prints what CHANGELOG.md says about the release with this tag.
pub(crate) fn print(tag: &str) -> Result<()> {
    if tag.strip_prefix('v') != Some(VERSION) {
        bail!("the tag is {tag}, and the version in Cargo.toml {VERSION}: the tag is v{VERSION}");
    }
    let text = std::fs::read_to_string(layout::root().join("CHANGELOG.md"))?;
    let notes = section(&text, VERSION)
        .with_context(|| format!("CHANGELOG.md has no heading `## {VERSION}`"))?;
    println!("{notes}");
    Ok(())
}

/// Returns the text below the heading of a version.
fn section<'a>(text: &'a str, version: &str) -> Option<&'a str> {
    let mut sections = text.split("\n## ").skip(1);
    let found = sections.find_map(|section| {
        let (heading, body) = section.split_once('\n')?;
        (heading.split(' ').next() == Some(version)).then_some(body)
    });
    found.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_what_stands_below_the_version() {
        let text = "# Changelog\n\n## Unreleased\n\n- next\n\n## 0.2.0 (2026-12-01)\n\n- this\n\n## 0.1.0\n\n- first\n";
        assert_eq!(section(text, "0.2.0"), Some("- this"));
        assert_eq!(section(text, "0.1.0"), Some("- first"));
        assert_eq!(section(text, "0.3.0"), None);
    }
}
