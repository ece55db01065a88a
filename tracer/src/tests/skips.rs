//! Reports tests that cannot run here, so that no skip goes unnoticed.
//!
//! `cargo xtask test` prints the list of skips at its end. All packages share this file.

use std::{fmt::Display, fs::File, io::Write as _};

/// Reports why the calling test does not test everything that it should. `cargo xtask test` fails
/// for this, unless the skip is expected there.
///
/// # Panics
///
/// Panics if the list cannot be written: an unreported skip would count as a pass.
pub(crate) fn skipped(why: impl Display) {
    let why = why.to_string().replace('\n', " ");
    eprintln!("skipped: {why}");
    let Some(list) = std::env::var_os("RAYTRACE_SKIPS") else {
        return;
    };
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    // A test that runs alone may run in the main thread, which does not have the test's name.
    let asked_for = || std::env::args().skip_while(|word| word != "--exact").nth(1);
    let test = name.map(str::to_owned).or_else(asked_for);
    let row = format!("{}: {why}\n", test.unwrap_or_default());
    let list = File::options().append(true).create(true).open(list);
    let written = list.and_then(|mut list| list.write_all(row.as_bytes()));
    assert!(written.is_ok(), "the list of skips: {written:?}");
}
