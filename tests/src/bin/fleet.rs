//! Makes many recordings of a few: `fleet stage FOLDER` records a cluster of four nodes, `fleet copy FOLDER COUNT TARGET` makes COUNT
//! recordings of those in FOLDER.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use raytrace_tests::fleet;

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
            fleet::stage("2.60.0", folder.as_ref())?;
        }
        ["copy", folder, count, target] => {
            let entries = std::fs::read_dir(folder)?;
            let mut files: Vec<PathBuf> = entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<_>>()?;
            files.retain(|path| path.extension().is_some_and(|end| end == "raytrace"));
            files.sort();
            let count = count.parse().context("COUNT is no number")?;
            fleet::multiply(&files, count, target.as_ref())?;
        }
        _ => bail!("fleet stage FOLDER, or fleet copy FOLDER COUNT TARGET"),
    }
    Ok(())
}
