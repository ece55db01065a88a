//! Checks the links of the documents to files and headings of this repository.
//!
//! Links to other sites are not followed.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::layout;

/// Folders without documents of ours.
const LEFT_OUT: [&str; 2] = ["target", "node_modules"];

/// Fails for each link whose file or heading does not exist.
pub(super) fn check() -> Result<()> {
    let mut documents = Vec::new();
    find_documents(&layout::root(), &mut documents)?;
    let mut broken = Vec::new();
    for document in &documents {
        let text = read(document)?;
        let wrong = links(&text).into_iter().filter_map(|link| {
            let why = problem(document, &link)?;
            Some(format!("{}: {link}: {why}", document.display()))
        });
        broken.extend(wrong);
    }
    if !broken.is_empty() {
        bail!("links of documents:\n    {}", broken.join("\n    "));
    }
    Ok(())
}

fn find_documents(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_hidden = name.starts_with('.') && name != ".github";
        if entry.file_type()?.is_dir() {
            if !is_hidden && !LEFT_OUT.contains(&name.as_ref()) {
                find_documents(&path, found)?;
            }
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns what is wrong with a link of this document.
fn problem(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => document.to_owned(),
        file => document.parent()?.join(file),
    };
    if !path.exists() {
        return Some("no such file".to_owned());
    }
    let is_document = path.extension().is_some_and(|end| end == "md");
    if heading.is_empty() || !is_document {
        return None;
    }
    let anchors = anchors(&read(&path).ok()?);
    let missing = !anchors.iter().any(|anchor| anchor == heading);
    missing.then(|| "no such heading".to_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns the targets of inline links, without those in blocks of code.
fn links(text: &str) -> Vec<String> {
    let text = outside_code(text).join("\n");
    let after = text.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split([')', ' ', '\n']).next());
    targets.map(str::to_owned).collect()
}

fn outside_code(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let outside = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    outside.collect()
}

/// Returns the anchors of all headings, as forges make them: a heading that is there twice has a
/// number the second time.
fn anchors(text: &str) -> Vec<String> {
    let mut seen = HashMap::new();
    let lines = outside_code(text).into_iter();
    let headings = lines.filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let anchor = slug(line.trim_start_matches('#').trim());
            let count = seen.entry(anchor.clone()).or_insert(0);
            *count += 1;
            match *count {
                1 => anchor,
                more => format!("{anchor}-{}", more - 1),
            }
        })
        .collect()
}

/// Turns a heading into its anchor: lower case, a hyphen for each space, no punctuation.
fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    let kept: String = kept.collect();
    kept.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_forges() {
        let text = "# Ray's own `tests`\n```\n# a comment\n```\n## 2026-11-24: two, or three\n## 安装\n# Ray's own tests\n";
        let wanted = [
            "rays-own-tests",
            "2026-11-24-two-or-three",
            "安装",
            "rays-own-tests-1",
        ];
        assert_eq!(anchors(text), wanted);
    }

    #[test]
    fn missing_file_or_heading_is_a_problem() {
        let readme = layout::root().join("README.md");
        let problem = |link| problem(&readme, link);
        assert_eq!(problem("CONTRIBUTING.md#rules"), None);
        assert_eq!(problem("https://docs.ray.io/nothing"), None);
        assert_eq!(problem("NOTHING.md"), Some("no such file".into()));
        let heading = problem("CONTRIBUTING.md#nothing");
        assert_eq!(heading, Some("no such heading".into()));
        assert_eq!(problem("#nothing"), Some("no such heading".into()));
    }

    #[test]
    fn links_in_code_are_no_links() {
        let text = "[a](b.md) and [two\nlines](c.md#d)\n```\n[x](y)\n```\n![e](f.png \"title\")";
        assert_eq!(links(text), ["b.md", "c.md#d", "f.png"]);
    }
}
