//! `cargo xtask canary`: whether the newest Ray still has the messages that the grammars look for,
//! and the installed frameworks what their tables name.
//!
//! The messages are in `tracer/core/src/ray/log/messages.json`. If Ray has changed or removed one,
//! verdicts that rest on this message are `unknown` on that Ray, until a grammar knows the new
//! wording.

mod frameworks;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    layout,
    process::{output, step},
    setup,
};

/// A message that a grammar looks for.
#[derive(Deserialize)]
struct Message {
    text: String,
    /// The last version that has the message; `None` if Ray still has it.
    until: Option<String>,
}

/// Installs the newest Ray of the package index, and looks there.
pub(crate) fn newest() -> Result<()> {
    let folder = setup::newest_ray()?;
    check(&folder)?;
    frameworks::check()
}

/// Looks in the newest Ray of the tests. This needs no network.
pub(crate) fn known() -> Result<()> {
    check(&layout::ray(setup::DEMO_VERSION))?;
    frameworks::check()
}

fn check(environment: &Path) -> Result<()> {
    let python = environment.join("bin/python");
    let version = "from importlib.metadata import version; print(version('ray'))";
    let version = output(Command::new(&python).args(["-c", version]))?;
    let version = version.trim();
    step(
        &format!("the messages that grammars look for, in Ray {version}"),
        || {
            let missing = missing(&messages()?, environment)?;
            if missing.is_empty() {
                return Ok(());
            }
            bail!(
                "Ray {version} does not say any more:\n  {}",
                missing.join("\n  ")
            )
        },
    )
}

fn messages() -> Result<Vec<Message>> {
    let path = layout::root().join("tracer/core/src/ray/log/messages.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Returns the messages that are in no program or library of Ray's.
fn missing(messages: &[Message], environment: &Path) -> Result<Vec<String>> {
    let wanted: Vec<&str> = messages
        .iter()
        .filter(|message| message.until.is_none())
        .map(|message| message.text.as_str())
        .collect();
    ensure!(!wanted.is_empty(), "no message is looked for");
    let list = tempfile::NamedTempFile::new()?;
    fs::write(list.path(), wanted.join("\n"))?;
    let mut grep = Command::new("grep");
    grep.args(["-raoFh", "--include=*.so", "--include=*.py"]);
    grep.args(["--include=raylet", "--include=gcs_server", "-f"]);
    grep.arg(list.path()).arg(environment.join("lib"));
    let found = output(&mut grep)?;
    let found: BTreeSet<&str> = found.lines().collect();
    // A longer message that was found may contain a shorter one.
    let said = |text: &str| found.iter().any(|line| line.contains(text));
    let missing = wanted.into_iter().filter(|text| !said(text));
    Ok(missing.map(str::to_owned).collect())
}
