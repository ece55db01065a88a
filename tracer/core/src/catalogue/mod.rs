//! The lines by which programs tell of the end of a process, as data: one file for each program.
//!
//! A row has the text that a program prints, with typed holes, what it claims and of whom, and a
//! real line as its test. All rows are one automaton, made at the first use.

mod claim;
mod template;

use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::{Captures, Regex};
use serde::Deserialize;

pub use claim::{Kind, Says, Where, Whom};

/// The programs, each with its rows: first Ray. General rows stand below special ones.
const FILES: [&str; 11] = [
    include_str!("programs/ray.json"),
    include_str!("programs/systemd.json"),
    include_str!("programs/oom_daemons.json"),
    include_str!("programs/kubernetes.json"),
    include_str!("programs/slurm.json"),
    include_str!("programs/batch.json"),
    include_str!("programs/clusters.json"),
    include_str!("programs/managers.json"),
    include_str!("programs/launchers.json"),
    include_str!("programs/runtime.json"),
    include_str!("programs/torch.json"),
];

/// A program that prints such lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its name.
    pub program: String,
    /// The versions whose source was read, or whose output.
    pub versions: String,
    /// What was searched: files of its source, or real output where the source is not at hand.
    pub searched: String,
    /// Which of its messages have no row, and why.
    #[serde(default)]
    pub left_out: String,
    /// Units of systemd that belong to the host and run no job.
    #[serde(default)]
    pub host_units: Vec<String>,
    /// Its lines.
    pub rows: Vec<Row>,
}

/// A line that tells of an end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Names the row in tests and in the documentation.
    pub id: String,
    /// The versions that print it, if fewer than those of its program.
    #[serde(default)]
    pub versions: String,
    /// The file and function that print it.
    pub source: String,
    /// The wordings, with holes: `{unit}: Killing process {pid} ({comm}) with signal {signal}.`
    pub texts: Vec<String>,
    /// What kind of line it is.
    pub kind: Kind,
    /// Whom it is about.
    pub of: Whom,
    /// Where it is believed.
    #[serde(default, rename = "in")]
    pub believed: Where,
    /// What it claims.
    pub claim: Says,
    /// What its process belongs to: `Slurm step {step}`.
    #[serde(default)]
    pub place: String,
    /// What to change where this limit was hit: `more memory for the job: bsub -M`.
    #[serde(default)]
    pub fix: String,
    /// Whether it counts only in a line that no other row reads.
    #[serde(default)]
    pub general: bool,
    /// Real lines, with ids and names replaced.
    pub examples: Vec<String>,
    /// Lines that look like it and are none.
    #[serde(default)]
    pub unlike: Vec<String>,
}

/// A row that a line matches, with what stands in its holes.
#[derive(Debug)]
pub struct Found<'a> {
    /// The row.
    pub row: &'static Row,
    holes: Captures<'a>,
}

impl Found<'_> {
    /// Returns whether Ray prints the row.
    pub fn is_rays(&self) -> bool {
        let rows = ALL.programs.first().map_or(&[][..], |ray| &ray.rows);
        rows.iter().any(|row| std::ptr::eq(row, self.row))
    }

    /// Returns what stands in a hole.
    pub fn get(&self, hole: &str) -> Option<&str> {
        self.holes.name(hole).map(|found| found.as_str().trim())
    }

    /// Returns all that matched.
    pub fn text(&self) -> &str {
        self.holes.get(0).map_or("", |found| found.as_str())
    }

    /// Returns what stands before the match in its line.
    pub fn before<'l>(&self, line: &'l str) -> &'l str {
        let begin = self.holes.get(0).map_or(0, |found| found.start());
        line.get(..begin).unwrap_or_default()
    }

    /// Returns the number in a hole.
    pub fn number<T: std::str::FromStr>(&self, hole: &str) -> Option<T> {
        self.get(hole)?.parse().ok()
    }

    /// Fills the holes of a sentence.
    pub fn fill(&self, sentence: &str) -> String {
        template::fill(sentence, |hole| match hole {
            "matched" => self.text().trim(),
            hole => self.get(hole).unwrap_or_default(),
        })
    }
}

struct Wording {
    row: &'static Row,
    text: &'static str,
    pattern: OnceLock<Option<Regex>>,
}

struct Catalogue {
    programs: &'static [Program],
    wordings: Vec<Wording>,
    /// The longest fixed part of each wording.
    fixed: Vec<&'static str>,
    words: AhoCorasick,
}

#[expect(clippy::expect_used, reason = "the rows are compiled in tests")]
static ALL: LazyLock<Catalogue> = LazyLock::new(|| {
    let parse = |file: &str| serde_json::from_str(file).expect("a valid file of rows");
    let programs: Vec<Program> = FILES.into_iter().map(parse).collect();
    let programs: &'static [Program] = programs.leak();
    let rows = programs.iter().flat_map(|program| &program.rows);
    let wordings: Vec<Wording> = rows
        .flat_map(|row| row.texts.iter().map(move |text| (row, text)))
        .map(|(row, text)| Wording {
            row,
            text,
            pattern: OnceLock::new(),
        })
        .collect();
    let fixed: Vec<&'static str> = wordings
        .iter()
        .map(|wording| template::longest_fixed(wording.text))
        .collect();
    let words = AhoCorasick::new(&fixed).expect("valid words");
    Catalogue {
        programs,
        wordings,
        fixed,
        words,
    }
});

/// Returns whether a unit of systemd belongs to the host and runs no job: `snapd.service`,
/// `getty@tty1.service`.
pub fn is_host_unit(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let name = name.split('@').next().unwrap_or(name);
    let mut units = ALL.programs.iter().flat_map(|program| &program.host_units);
    units.any(|known| known == name)
}

/// Returns the programs with their rows.
pub fn programs() -> &'static [Program] {
    ALL.programs
}

/// Returns a text for each wording without which no line can match it.
pub fn keywords() -> &'static [&'static str] {
    &ALL.fixed
}

/// Returns the rows that a line matches, in the order of the files.
pub fn find(line: &str) -> Vec<Found<'_>> {
    let all = &*ALL;
    let hits = all.words.find_overlapping_iter(line);
    let mut numbers: Vec<usize> = hits.map(|hit| hit.pattern().as_usize()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut found: Vec<Found<'_>> = Vec::new();
    for number in numbers {
        let wording = &all.wordings[number];
        if found.iter().any(|one| one.row.id == wording.row.id) {
            continue;
        }
        let pattern = wording
            .pattern
            .get_or_init(|| template::compile(wording.text));
        let holes = pattern.as_ref().and_then(|pattern| pattern.captures(line));
        found.extend(holes.map(|holes| Found {
            row: wording.row,
            holes,
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_row_reads_its_examples_and_not_what_looks_like_it() {
        let mut ids = BTreeSet::new();
        for row in programs().iter().flat_map(|program| &program.rows) {
            assert!(ids.insert(&row.id), "{} is there twice", row.id);
            assert!(!row.examples.is_empty(), "{} has no example", row.id);
            let reads = |line: &str| find(line).iter().any(|found| found.row.id == row.id);
            for example in &row.examples {
                assert!(reads(example), "{} does not read: {example}", row.id);
            }
            for other in &row.unlike {
                assert!(!reads(other), "{} reads: {other}", row.id);
            }
        }
    }

    #[test]
    fn documentation_has_each_program_and_its_number_of_rows() {
        let page = include_str!("../../../../docs/reference/catalogue.md");
        for program in programs() {
            let row = format!(
                "| {} | {} | {} |",
                program.program,
                program.versions,
                program.rows.len()
            );
            assert!(page.contains(&row), "{row}");
        }
    }

    /// Also a wording that no example has would be found by its fixed part alone.
    #[test]
    fn each_wording_compiles_and_has_enough_fixed_text() {
        for wording in &ALL.wordings {
            assert!(
                template::compile(wording.text).is_some(),
                "{}",
                wording.text
            );
            let fixed = template::longest_fixed(wording.text);
            assert!(fixed.len() >= 6, "{}: {fixed:?}", wording.text);
        }
    }
}
