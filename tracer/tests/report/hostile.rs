//! Tests that hostile names do no harm in any view.
//!
//! They contain markup, terminal codes, characters that reorder text and formulas, and are up to
//! ten kilobytes long.

use crate::{
    ran::{Ran, Recording, raytrace},
    stage::Stage,
};

const MARKUP: &str = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>";
const CODES: &str = "\u{1b}[2J\u{1b}[31mred\u{1b}[0m\u{202e}exe.gnp\u{200f}\u{7}";

/// Returns a name of ten kilobytes with hostile parts at both ends.
fn long() -> String {
    let harm = format!("{CODES}{MARKUP}");
    format!("{harm}{}{harm}\r\n=1+1,\"x\"", "x".repeat(10_000))
}

fn recording(name: &str) -> Recording {
    let mut stage = Stage::new();
    stage.after(10).user_kill_of(4001, name);
    stage.after(10).oom_kill_of(4002, name);
    stage.record()
}

/// Returns the name and the output of every view.
fn views(recording: &Recording) -> Vec<(String, String)> {
    let mut views = Vec::new();
    for format in ["text", "markdown", "json", "html"] {
        for arguments in [&["--all"][..], &["--redact"][..]] {
            let ran = recording.report(&[&["--format", format], arguments].concat());
            assert_eq!(ran.code, Some(0), "{format}: {}", ran.err);
            views.push((format!("{format} {}", arguments[0]), ran.out));
        }
    }
    for format in ["chrome-trace", "csv", "jsonl"] {
        let mut command = raytrace(recording.folder.path());
        let command = command.args(["export", "run.raytrace", "--format", format]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, Some(0), "{format}: {}", ran.err);
        views.push((format.to_owned(), ran.out));
    }
    let mut command = raytrace(recording.folder.path());
    let ran = Ran::of(command.args(["diff", "run.raytrace", "run.raytrace"]));
    assert_eq!(ran.code, Some(0), "diff: {}", ran.err);
    views.push(("diff".into(), ran.out));
    views
}

#[test]
fn no_view_prints_control_or_bidi_characters() {
    for name in [CODES.to_owned(), long()] {
        for (view, shown) in views(&recording(&name)) {
            let harm = |character: &char| {
                let control = character.is_control() && !matches!(character, '\n' | '\t');
                control || matches!(character, '\u{202e}' | '\u{200f}')
            };
            assert_eq!(shown.chars().find(harm), None, "{view}");
        }
    }
}

#[test]
fn long_names_are_cut_in_views_for_people() {
    for (view, shown) in views(&recording(&long())) {
        let longest = shown.lines().map(|line| line.chars().count()).max();
        let limit = match view.split(' ').next() {
            Some("text" | "diff") => 200,
            // A table row is a single line.
            Some("markdown") => 3000,
            _ => continue,
        };
        assert!(longest <= Some(limit), "{view}: {longest:?}\n{shown}");
    }
}

#[test]
fn names_add_no_markup_to_the_page() {
    let tags = |name: &str| {
        let page = recording(name).report(&["--format", "html"]).out;
        let count = |tag: &str| page.matches(tag).count();
        (count("<script"), count("</script"), count("<img"))
    };
    let plain = tags("hog");
    assert_eq!(tags(MARKUP), plain);
    assert_eq!(tags(&long()), plain);
}

#[test]
fn hostile_names_keep_exports_valid() {
    for name in [
        CODES.to_owned(),
        MARKUP.to_owned(),
        "=1+1,\"x\"\r\n".into(),
        long(),
    ] {
        let recording = recording(&name);
        for (view, shown) in views(&recording) {
            let valid = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
            match view.as_str() {
                "chrome-trace" => assert!(valid(&shown), "{view}"),
                "jsonl" => assert!(shown.lines().all(valid), "{view}"),
                "csv" => {
                    let columns = fields(shown.lines().next().expect("a header"));
                    let odd = shown.lines().find(|row| fields(row) != columns);
                    assert_eq!(odd, None, "{view}");
                }
                view if view.starts_with("json") => assert!(valid(&shown), "{view}"),
                _ => {}
            }
        }
    }
}

/// Counts the fields of a row: the commas outside quotes, plus one.
fn fields(row: &str) -> usize {
    let outside = row.split('"').step_by(2);
    outside.map(|part| part.matches(',').count()).sum::<usize>() + 1
}
