//! `cargo xtask check`: what a change must pass before it is sent, in minutes and without root.

mod changelog;
mod links;
mod tools;

use anyhow::{Result, bail};

use crate::{
    process::{cargo, run, step},
    setup,
};

/// The features of builds that leave something out: reading alone, and recording without stacks and
/// NVML.
const PARTS: [&str; 2] = ["", "record"];

/// How a check went that needs more than stable Rust.
enum Outcome {
    /// It passed.
    Passed,
    /// What it needs is not here.
    Skipped(String),
}

/// A check, and its name.
type Check = (&'static str, fn() -> Result<Outcome>);

const MORE: [Check; 5] = [
    ("the oldest supported Rust", tools::oldest_rust),
    (
        "licences, sources and duplicates of dependencies",
        tools::dependencies,
    ),
    ("advisories on dependencies", tools::advisories),
    ("workflows", tools::workflows),
    ("a line in CHANGELOG.md", changelog::has_line),
];

/// Runs every check. With `complete`, one that has to be skipped is a failure.
pub(crate) fn everything(complete: bool) -> Result<()> {
    setup::lint_tools()?;
    sources()?;
    step("documentation of the crates", documentation)?;
    step("unit tests", || {
        run(cargo("test").args(["--workspace", "--lib", "--bins", "--quiet"]))
    })?;
    let mut skipped = Vec::new();
    for (name, check) in MORE {
        if let Outcome::Skipped(why) = step(name, check)? {
            skipped.push(format!("{name}: {why}"));
        }
    }
    report(&skipped, complete)
}

fn report(skipped: &[String], complete: bool) -> Result<()> {
    for line in skipped {
        eprintln!("SKIPPED {line}");
    }
    if complete && !skipped.is_empty() {
        bail!("{} checks were skipped", skipped.len());
    }
    Ok(())
}

/// Checks what needs neither a network nor a tool beside Rust's own.
pub(crate) fn sources() -> Result<()> {
    step("format", || run(cargo("fmt").args(["--all", "--check"])))?;
    step("links of documents", links::check)?;
    step("lints", || {
        let strict = ["--workspace", "--all-targets", "--", "--deny", "warnings"];
        run(cargo("clippy").args(strict))
    })?;
    step("lints of builds that leave something out", || {
        PARTS.iter().try_for_each(|parts| lint_part(parts))
    })
}

fn lint_part(parts: &str) -> Result<()> {
    let build = [
        "--package",
        "raytrace",
        "--no-default-features",
        "--features",
    ];
    let strict = ["--", "--deny", "warnings"];
    run(cargo("clippy").args(build).arg(parts).args(strict))
}

fn documentation() -> Result<()> {
    // Comments of public items may link to private ones: `--document-private-items` shows both.
    let flags = "--deny warnings --allow rustdoc::private_intra_doc_links";
    run(cargo("doc")
        .args(["--workspace", "--no-deps", "--document-private-items"])
        .args(["--quiet", "--keep-going"])
        .env("RUSTDOCFLAGS", flags))
}
