//! Runs the scripts of `tests/staging` on a real Ray.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    exits::{Exits, Feed},
    truth::Truth,
};

/// Returns the virtual environment of one version of Ray, as `cargo xtask setup` makes it.
pub fn ray(version: &str) -> PathBuf {
    let folder = target().join("ray").join(version);
    // The scripts in it name their interpreter by a path without links.
    folder.canonicalize().unwrap_or(folder)
}

/// Returns the Python that drives a browser and reads exports, as `cargo xtask setup` makes it.
pub fn view_python() -> PathBuf {
    target().join("views/bin/python")
}

/// Returns what is wrong with JSON files by a schema of `docs/reference`; empty if nothing is.
///
/// # Panics
///
/// If the checker cannot be run.
pub fn against_schema(schema: &str, files: &[PathBuf]) -> String {
    let mut check = Command::new(view_python());
    check.arg(root().join("tests/views/schema.py"));
    check.arg(root().join("docs/reference").join(schema));
    let done = check.args(files).output();
    let done = done.expect("cargo xtask setup installs what this needs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Returns cargo's target folder, where `cargo xtask setup` puts what it downloads.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the folder of the repository.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A running script.
pub struct Script {
    child: Child,
    feed: Feed,
    log: PathBuf,
    truth: PathBuf,
}

/// Starts `tests/staging/NAME` on a version of Ray. It writes its truth into `folder`.
pub fn start(version: &str, name: &str, arguments: &[&str], folder: &Path) -> Result<Script> {
    spawn(version, name, arguments, folder, Stdio::null(), None)
}

fn spawn(
    version: &str,
    name: &str,
    arguments: &[&str],
    folder: &Path,
    input: Stdio,
    output: Option<Stdio>,
) -> Result<Script> {
    let python = ray(version).join("bin/python");
    if !python.exists() {
        bail!(
            "no Ray {version} at {}; run: cargo xtask setup",
            python.display()
        );
    }
    let (log, truth) = (folder.join("staging.log"), folder.join("truth.jsonl"));
    let errors = File::create(&log)?;
    let output = match output {
        Some(output) => output,
        None => errors.try_clone()?.into(),
    };
    let feed = Feed::start()?;
    let child = Command::new(python)
        .arg(root().join("tests/staging").join(name))
        .arg("--truth")
        .arg(&truth)
        .args(arguments)
        // Keeps what Ray writes for a script out of the home folder of the user who runs this.
        .env("HOME", folder)
        .stdin(input)
        .stdout(output)
        .stderr(errors)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    Ok(Script {
        child,
        feed,
        log,
        truth,
    })
}

/// A script that prints a word and then waits for its standard input.
pub struct WaitingScript {
    script: Script,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

/// Starts a script that waits. Otherwise the same as [`start`].
pub fn start_waiting(
    version: &str,
    name: &str,
    arguments: &[&str],
    folder: &Path,
) -> Result<WaitingScript> {
    let mut script = spawn(
        version,
        name,
        arguments,
        folder,
        Stdio::piped(),
        Some(Stdio::piped()),
    )?;
    let output = script.child.stdout.take().context("no stdout")?;
    Ok(WaitingScript {
        input: script.child.stdin.take(),
        output: BufReader::new(output).lines(),
        script,
    })
}

impl WaitingScript {
    /// Waits until the script prints this line.
    pub fn wait_for(&mut self, word: &str) -> Result<()> {
        for line in self.output.by_ref() {
            if line? == word {
                return Ok(());
            }
        }
        let log = std::fs::read_to_string(&self.script.log).unwrap_or_default();
        bail!("the staging ended before it said {word}:\n{log}")
    }

    /// Waits until the script prints this line, once its cluster is up. Returns the pid of its
    /// raylet.
    pub fn wait_for_raylet(&mut self, word: &str) -> Result<u32> {
        self.wait_for(word)?;
        let truth = Truth::read(&self.script.truth)?;
        let raylet = truth.raylet();
        raylet.with_context(|| format!("the staging said {word} and wrote down no raylet"))
    }

    /// Waits until the script prints this line, once all its nodes are up. Returns the pids of
    /// their raylets.
    pub fn wait_for_raylets(&mut self, word: &str) -> Result<Vec<u32>> {
        self.wait_for(word)?;
        Ok(Truth::read(&self.script.truth)?.raylets())
    }

    /// Lets the script continue.
    pub fn go_on(&mut self) -> Result<()> {
        let input = self.input.as_mut().context("no stdin")?;
        Ok(input.write_all(b"\n")?)
    }

    /// Closes its standard input, waits until it has ended, and reads the truth.
    pub fn finish(mut self) -> Result<Truth> {
        drop(self.input.take());
        self.script.finish()
    }
}

impl Script {
    /// Waits until the script has ended, and reads the truth.
    pub fn finish(mut self) -> Result<Truth> {
        let status = self.child.wait()?;
        let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
        if !status.success() {
            bail!("the staging ended with {status}:\n{}", log());
        }
        let exits = Exits::parse(&self.feed.text())?;
        Ok(Truth::read(&self.truth)
            .with_context(log)?
            .with_exits(exits))
    }
}
