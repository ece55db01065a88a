//! Records a cluster of four nodes, compares its report, and multiplies its recordings.
//!
//! `fleet stage FOLDER [VERSION [ARGUMENTS of fleet.py]]` makes the recordings.
//! `fleet compare FOLDER` lists what today's report gets wrong about them.
//! `fleet copy FOLDER COUNT TARGET` makes COUNT recordings from those in FOLDER.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use raytrace_tests::{
    fleet,
    truth::{PrivilegeMode, Truth},
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stage", folder] => {
            fleet::stage("2.60.0", &[], folder.as_ref())?;
        }
        ["stage", folder, version, ref arguments @ ..] => {
            fleet::stage(version, arguments, folder.as_ref())?;
        }
        ["compare", folder] => compare(folder.as_ref())?,
        ["copy", folder, count, target] => {
            let files = recordings(folder.as_ref())?;
            let count = count.parse().context("COUNT is no number")?;
            fleet::copy_with_new_ids(&files, count, target.as_ref())?;
        }
        _ => bail!(
            "fleet stage FOLDER [VERSION [ARGUMENTS]], fleet compare FOLDER, or fleet copy FOLDER COUNT TARGET"
        ),
    }
    Ok(())
}

fn recordings(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|end| end == "raytrace"));
    files.sort();
    Ok(files)
}

fn compare(folder: &Path) -> Result<()> {
    let truth = Truth::read(&folder.join("truth.jsonl"))?;
    let report = fleet::report(&recordings(folder)?, &[])?;
    let comparison = truth.compare(&report, PrivilegeMode::Full);
    println!(
        "{} deaths staged, {} wrong",
        comparison.deaths,
        comparison.wrong.len()
    );
    for wrong in comparison.wrong {
        println!("{wrong}");
    }
    Ok(())
}
