//! Fuzz targets for the parsers that read foreign bytes.
//!
//! A parser must accept or refuse its input without panicking or stalling. A target panics if its
//! parser is wrong.
//!
//! `cargo xtask fuzz` runs the targets on inputs that libFuzzer makes from real samples
//! (`tests/fuzz`). The unit tests run them on damaged samples.

#![expect(clippy::missing_panics_doc, reason = "a panic is what they are for")]

use std::{cell::RefCell, fs};

use tempfile::TempDir;

use crate::{
    explain::Explainer,
    ids::HexId,
    judge::{from_text, report::Certainty},
    kernel_log,
    observe::stacks,
    ray::{
        gcs::Table,
        identify,
        log::{FileKind, LogParser},
    },
    recording,
    show::trace::RayTimeline,
};

#[cfg(test)]
mod tests;

/// Parses a raylet's log.
pub fn raylet_log(input: &[u8]) {
    log_of(FileKind::Raylet, input);
}

/// Parses a log of the GCS.
pub fn gcs_log(input: &[u8]) {
    log_of(FileKind::Gcs, input);
}

/// Parses a core worker's log.
pub fn core_worker_log(input: &[u8]) {
    log_of(FileKind::CoreWorker, input);
}

/// Parses the output of a worker.
pub fn worker_output(input: &[u8]) {
    log_of(FileKind::WorkerOutput, input);
}

fn log_of(kind: FileKind, input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut parser = LogParser::new(kind, HexId::parse("ab12"));
    let mut found = Vec::new();
    for line in text.lines() {
        parser.push(line, &mut found);
    }
    parser.flush(&mut found);
    assert!(!parser.is_open());
    // A line gives at most one record, and a block ends with the line that begins the next one.
    assert!(found.len() <= text.lines().count() + 1);
}

/// Explains any text, as `raytrace explain` does.
pub fn explain(input: &[u8]) {
    let mut explainer = Explainer::default();
    explainer
        .read("some.log", input, |_| {})
        .expect("bytes in memory can be read");
    let report = from_text::judge(&explainer.finish(), None);
    for death in &report.deaths {
        // Text proves nothing.
        assert_ne!(death.verdict.certainty, Certainty::Proven, "{death:?}");
    }
}

/// Parses the kernel's log, in the formats of `/dev/kmsg` and of `dmesg`.
pub fn kernel_log(input: &[u8]) {
    for line in String::from_utf8_lossy(input).lines() {
        let _said = kernel_log::parse(line);
        let _stamped = kernel_log::kmsg_record(line);
    }
}

/// Parses command lines, with one argument on each line, and process titles.
pub fn command_line(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let argv: Vec<String> = text.lines().map(str::to_owned).collect();
    let comm: String = text.chars().take(15).collect();
    let _role = identify::role(&comm, &argv);
    let _worker = identify::worker_id(&argv);
    for line in &argv {
        let _title = identify::title(line);
        let _class = identify::class_of_call(line);
        let _option = identify::option(&argv, line);
    }
}

/// Parses a reply of the GCS as each of its tables, since any reply may come for any question.
pub fn gcs_reply(input: &[u8]) {
    for table in Table::ALL {
        for row in table.rows(input).into_iter().flatten() {
            let _text = row.to_string();
        }
    }
}

/// Parses the output of `ray timeline`.
pub fn ray_timeline(input: &[u8]) {
    let _parsed = RayTimeline::parse(&String::from_utf8_lossy(input));
}

/// Reads a recording.
pub fn recording(input: &[u8]) {
    thread_local! {
        static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().expect("a folder"));
        let path = folder.path().join("damaged.raytrace");
        fs::write(&path, input).expect("a file");
        let _read = recording::read(&path);
    });
}

/// Reads a program or library of a job: its symbols, and its `.eh_frame` as it would be in memory.
pub fn program_file(input: &[u8]) {
    stacks::look_through(input);
}
