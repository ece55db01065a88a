//! `cargo xtask fuzz`: runs libFuzzer on each parser of foreign bytes, on stable Rust.

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    layout,
    process::{cargo, duration, output, run, run_quietly, step},
};

/// The flags that cargo-fuzz gives rustc, without a sanitizer. libFuzzer needs LLVM's
/// `SanitizerCoverage`, which counts each branch.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input. Longer ones are of no use: the largest sample has 40 KiB.
const LONGEST: &str = "-max_len=65536";

/// Fuzzes each target, or those named, for `seconds` each, as many at a time as there are
/// processors.
///
/// New inputs are kept in `target/fuzz/corpus`, where the next run begins.
pub(crate) fn run_each(names: &[String], seconds: u64) -> Result<()> {
    let known = targets()?;
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!(
            "no target is called {name:?}; there are: {}",
            known.join(", ")
        );
    }
    let chosen = if names.is_empty() {
        known
    } else {
        names.to_vec()
    };
    let folder = layout::target().join("fuzz");
    let programs = step("build the targets of fuzzing", || build(&folder))?;
    step("seeds from real samples", || seeds(&folder))?;
    let asked = duration(Duration::from_secs(seconds));
    step(
        &format!("fuzz {} parsers for {asked} each", chosen.len()),
        || {
            let (left, failed) = (Mutex::new(VecDeque::from(chosen)), Mutex::new(Vec::new()));
            let work = || loop {
                let name = left
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front();
                let Some(name) = name else { return };
                if let Err(error) = one(&folder, &programs, &name, seconds) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.push(format!("{name}: {error:#}"));
                }
            };
            thread::scope(|scope| {
                for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                    scope.spawn(work);
                }
            });
            let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
            if !failed.is_empty() {
                bail!("{}", failed.join("\n"));
            }
            Ok(())
        },
    )
}

fn home() -> PathBuf {
    layout::root().join("tests/fuzz")
}

/// Returns the names of the targets, which are those of their files.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(home().join("fuzz_targets"))? {
        let path = entry?.path();
        let name = path.file_stem().context("a target without a name")?;
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds all targets, and returns their folder.
fn build(folder: &Path) -> Result<PathBuf> {
    // Use the same versions of the libraries as the workspace.
    fs::copy(layout::root().join("Cargo.lock"), home().join("Cargo.lock"))?;
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    let built = folder.join("build");
    run(Command::new("cargo")
        .args(["build", "--quiet", "--release", "--bins", "--target", host])
        .arg("--target-dir")
        .arg(&built)
        .current_dir(home())
        .env("RUSTFLAGS", FLAGS))?;
    Ok(built.join(host).join("release"))
}

fn seeds(folder: &Path) -> Result<()> {
    let mut tests = cargo("test");
    tests.args(["--quiet", "--package", "raytrace", "--lib", "--"]);
    tests.args(["--ignored", "--exact", "fuzz::tests::write_seeds"]);
    run_quietly(tests.env("RAYTRACE_FUZZ_CORPUS", folder.join("corpus")))
}

/// Fuzzes one target, and prints the result.
fn one(folder: &Path, programs: &Path, name: &str, seconds: u64) -> Result<()> {
    let (corpus, found) = (folder.join("corpus").join(name), folder.join("found"));
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    let log = folder.join(format!("{name}.log"));
    let began = Instant::now();
    let status = Command::new(programs.join(name))
        .arg(format!("-max_total_time={seconds}"))
        .args([
            "-timeout=20",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            LONGEST,
        ])
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .arg(corpus)
        .stdout(Stdio::null())
        .stderr(File::create(&log)?)
        .status()
        .context("cannot start it")?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let inputs = stat(&text, "number_of_executed_units");
    let took = duration(began.elapsed());
    // #4242 DONE cov: 123 ft: 456 corp: 78/90Kb ...
    let last = text.lines().rev().find(|line| line.contains(" cov: "));
    let reached = last.and_then(|line| line.split_once(" cov: "));
    let reached = reached.map_or("?", |(_, rest)| rest.split(" lim:").next().unwrap_or(rest));
    eprintln!("    {name}: {inputs} inputs in {took}, edges {reached}");
    if !status.success() {
        let tail: Vec<&str> = text.lines().rev().take(40).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("{status}; {} has all:\n{}", log.display(), tail.join("\n"));
    }
    Ok(())
}

fn stat<'a>(text: &'a str, name: &str) -> &'a str {
    let lines = text.lines().filter_map(|line| line.strip_prefix("stat::"));
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.next().map_or("?", str::trim)
}
