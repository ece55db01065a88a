//! Tests that the report does not depend on the size of chunks or the number of threads.

use super::{Explainer, fixtures};
use crate::{
    damage::{Random, any},
    explain::{
        chunks::{Chunks, MAX_LINE},
        line::Groups,
        scan,
        source::Source,
    },
    judge::{
        from_text::{self, claim::Text, text_evidence::TextEvidence},
        report::Report,
    },
};

/// The number of damaged mixtures that are read in several ways.
const MIXTURES: usize = 60;
/// The number of parts in a mixture.
const PARTS: usize = 12;

/// Ways to read texts: the number of threads, and the bytes of a chunk.
const WAYS: [(usize, usize); 7] = [
    (1, 1),
    (1, 64),
    (1, 1000),
    (2, 1),
    (2, 333),
    (5, 70),
    (3, 100_000),
];

fn report(texts: &[(String, Vec<u8>)], mut explainer: Explainer) -> Report {
    for (name, text) in texts {
        let read = explainer.read(name, text.as_slice(), |_| {});
        read.expect("a text in memory");
    }
    from_text::judge(&explainer.finish(), None)
}

fn assert_same_in_all_ways(texts: &[(String, Vec<u8>)]) {
    let expected = report(texts, Explainer::with(1, 1 << 30));
    for (threads, chunk) in WAYS {
        let found = report(texts, Explainer::with(threads, chunk));
        let shown = || String::from_utf8_lossy(&texts[0].1).into_owned();
        assert_eq!(
            found,
            expected,
            "{threads} threads, chunks of {chunk}: {}",
            shown()
        );
    }
}

fn mixture(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..PARTS {
        let fixtures = &fixtures::ALL;
        let one = fixtures[random.below(fixtures.len())].text.as_bytes();
        let other = fixtures[random.below(fixtures.len())].text.as_bytes();
        let part = match random.below(3) {
            0 => any(one, other, random),
            _ => one.to_vec(),
        };
        text.extend(part);
        text.extend(match random.below(4) {
            0 => b"\r\n".as_slice(),
            1 => b"\n\n\n",
            _ => b"\n",
        });
    }
    text
}

#[test]
fn chunks_and_threads_do_not_change_report() {
    let mut random = Random(0x00C4_11A5);
    for _ in 0..MIXTURES {
        let texts = [
            ("raylet.out".to_owned(), mixture(&mut random)),
            ("driver.log".to_owned(), mixture(&mut random)),
            ("empty.log".to_owned(), Vec::new()),
            ("dmesg.txt".to_owned(), mixture(&mut random)),
        ];
        assert_same_in_all_ways(&texts);
    }
}

#[test]
fn chunks_do_not_change_fixture_reports() {
    for fixture in fixtures::ALL.iter() {
        assert_same_in_all_ways(&[("some.log".into(), fixture.text.into())]);
    }
}

/// A kill at the end of a very long line is found, unless a cut divides its keyword.
#[test]
fn too_long_line_is_read_in_pieces() {
    let kill = "Memory cgroup out of memory: Killed process 41 (ray::Rollout) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n";
    let divided = MAX_LINE - kill.find("process").expect("its word");
    for before in [divided, MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE + 5] {
        let filler = "x".repeat(before);
        let below = lines_of_claims(&format!("{filler}\n{kill}"));
        assert_eq!(below, [2]);
        let behind = lines_of_claims(&format!("{filler}{kill}"));
        let expected: &[u64] = if before == divided { &[] } else { &[1] };
        assert_eq!(behind, expected, "{before}");
    }
}

/// Returns the lines of all claims, and checks that they are the same for all sizes of chunks.
fn lines_of_claims(text: &str) -> Vec<u64> {
    let lines = |threads, chunk| {
        let mut explainer = Explainer::with(threads, chunk);
        let read = explainer.read("some.log", text.as_bytes(), |_| {});
        read.expect("a text in memory");
        let gathered = explainer.finish();
        let statements = gathered.claims.all().iter();
        let statements = statements.flat_map(|claims| &claims.statements);
        statements.map(|one| one.place.line).collect::<Vec<u64>>()
    };
    let expected = lines(1, 1 << 30);
    for (threads, chunk) in [(1, 4096), (2, MAX_LINE), (2, MAX_LINE + 9), (3, 300_000)] {
        assert_eq!(lines(threads, chunk), expected, "{threads}, {chunk}");
    }
    expected
}

/// Memory is bounded by chunks, however long a line is.
#[test]
fn endless_line_holds_at_most_two_pieces() {
    let text = vec![b'x'; 20 * MAX_LINE];
    let mut chunks = Chunks::new(text.as_slice(), 1000);
    while let Some(chunk) = chunks.next().expect("a text in memory") {
        assert!(chunk.bytes.len() <= 2 * MAX_LINE);
    }
}

/// Reads a text so that each recogniser sees each line, whatever keywords it contains.
fn without_the_search_for_words(name: &str, text: &str) -> TextEvidence {
    let mut gathered = TextEvidence::default();
    gathered.texts.push(Text {
        name: name.to_owned(),
        ..Text::default()
    });
    let mut source = Source::new(0, name);
    for (number, line) in (1..).zip(text.split('\n')) {
        let mut lines = scan::unwrap_line(line.as_bytes());
        for line in &mut lines {
            line.keywords.groups = Groups::ALL;
        }
        source.line(lines, number, &mut gathered);
        gathered.texts[0].lines = number;
    }
    source.end(&mut gathered);
    gathered
}

/// Returns what is compared: everything but the clocks, which are noted only for lines with
/// keywords.
fn said(gathered: &TextEvidence) -> String {
    let report = from_text::judge(gathered, None);
    let told: Vec<_> = report.findings.iter().map(|found| &found.rule).collect();
    let killers = super::killers(&report);
    let warned = &gathered.remarks.warnings;
    format!("{killers:?} {told:?} {warned:?} {:?}", report.notes)
}

#[test]
fn keywords_skip_no_line_that_matters() {
    for fixture in fixtures::ALL.iter() {
        for name in ["some.log", "raylet.out", "dmesg.txt"] {
            let mut explainer = Explainer::default();
            let read = explainer.read(name, fixture.text.as_bytes(), |_| {});
            read.expect("a text in memory");
            let all = without_the_search_for_words(name, fixture.text);
            assert_eq!(said(&explainer.finish()), said(&all), "{}", fixture.name);
        }
    }
}
