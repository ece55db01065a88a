//! `raytrace explain`: the verdict from logs alone.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};

use super::view::{ViewArgs, show};
use crate::{explain::Explainer, judge::from_text, show::time::Zone};

/// Files below a folder that are looked at.
const MAX_FILES: usize = 100_000;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  raytrace explain driver.log raylet.out dmesg.txt
  raytrace explain /tmp/ray/session_latest --timezone Asia/Shanghai
  kubectl logs POD | raytrace explain --format json
  raytrace explain session.tar.gz --match WorkerDict --redact --format markdown")]
pub struct ExplainArgs {
    /// Logs, session folders, or tar archives of them; standard input without any, or where `-` stands.
    files: Vec<PathBuf>,
    /// Zone of times in the logs that have none: +08:00, Asia/Shanghai (their node's own).
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    timezone: Option<Zone>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Runs it.
pub fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let ExplainArgs {
        files,
        timezone,
        view,
    } = args;
    let inputs = inputs(&files)?;
    let mut explainer = Explainer::default();
    let progress = progress(&inputs);
    for input in &inputs {
        read(input, &mut explainer, &progress)
            .with_context(|| format!("cannot read {}", input.name()))?;
    }
    progress.finish_and_clear();
    let zone = timezone.as_ref().map(Zone::time_zone);
    let report = from_text::judge(&explainer.finish(), zone.as_ref());
    show(&report, None, None, &view)
}

/// One thing to read.
enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

/// Files as given, and the logs below folders in the order of their names.
fn inputs(given: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    if given.is_empty() {
        return Ok(vec![Input::Stdin]);
    }
    let mut inputs = Vec::new();
    for path in given {
        if path.as_os_str() == "-" {
            inputs.push(Input::Stdin);
        } else if path.is_dir() {
            let mut files = Vec::new();
            walk(path, &mut files).with_context(|| format!("cannot list {}", path.display()))?;
            files.sort();
            inputs.extend(files.into_iter().map(Input::File));
        } else {
            inputs.push(Input::File(path.clone()));
        }
    }
    Ok(inputs)
}

/// No symlink below the folder is followed: a session's sockets and links lead elsewhere.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if files.len() >= MAX_FILES {
            return Ok(());
        }
        if kind.is_dir() {
            // A folder that may not be read hides no more than itself.
            if let Err(error) = walk(&entry.path(), files) {
                tracing::warn!("{}: {error}", entry.path().display());
            }
        } else if kind.is_file() && is_log(&entry.path()) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// What may hold text: a session's folder also holds runtime environments, spilled objects and sockets.
fn is_log(path: &Path) -> bool {
    let skipped = ["runtime_resources", "ray_spilled_objects", "site-packages"];
    let below = path
        .components()
        .any(|part| skipped.iter().any(|name| part.as_os_str() == *name));
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let known = ["out", "err", "log", "txt", "json", "gz"];
    let extension = name
        .rsplit('.')
        .find(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
    !below && extension.is_some_and(|extension| known.contains(&extension))
}

/// A bar on a terminal, for what takes longer than a moment.
fn progress(inputs: &[Input]) -> ProgressBar {
    let total: u64 = inputs
        .iter()
        .filter_map(|input| match input {
            Input::File(path) => std::fs::metadata(path).ok(),
            Input::Stdin => None,
        })
        .map(|metadata| metadata.len())
        .sum();
    if total < 64 << 20 || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("reading {bytes} of {total_bytes} [{wide_bar}] {eta}")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn read(input: &Input, explainer: &mut Explainer, progress: &ProgressBar) -> anyhow::Result<()> {
    match input {
        Input::Stdin => {
            if io::stdin().is_terminal() {
                anstream::eprintln!(
                    "reading from the terminal; end with Ctrl-D, or name files: raytrace explain FILE…"
                );
            }
            explainer.read("stdin", io::stdin().lock(), |_| {})?;
        }
        Input::File(path) => {
            let file = progress.wrap_read(File::open(path)?);
            let name = path.display().to_string();
            let packed = has_extension(path, &["gz", "tgz"]);
            if packed {
                let plain = name.trim_end_matches(".gz").replace(".tgz", ".tar");
                contents(&plain, flate2::read::MultiGzDecoder::new(file), explainer)?;
            } else {
                contents(&name, file, explainer)?;
            }
        }
    }
    Ok(())
}

/// A text, or the logs in an archive.
fn contents(name: &str, text: impl Read, explainer: &mut Explainer) -> anyhow::Result<()> {
    if !has_extension(Path::new(name), &["tar"]) {
        explainer.read(name, text, |_| {})?;
        return Ok(());
    }
    let mut archive = tar::Archive::new(text);
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.into_owned();
        if !entry.header().entry_type().is_file() || !is_log(&path) {
            continue;
        }
        let name = path.display().to_string();
        if has_extension(&path, &["gz"]) {
            explainer.read(&name, flate2::read::MultiGzDecoder::new(entry), |_| {})?;
        } else {
            explainer.read(&name, entry, |_| {})?;
        }
    }
    Ok(())
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.contains(&extension))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const KILL: &str = "Memory cgroup out of memory: Killed process 41 (ray::Rollout) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n";

    fn deaths(given: &[PathBuf]) -> (usize, Vec<String>) {
        let mut explainer = Explainer::default();
        for input in inputs(given).expect("inputs") {
            read(&input, &mut explainer, &ProgressBar::hidden()).expect("a text");
        }
        let report = from_text::judge(&explainer.finish(), None);
        let names = report.texts.into_iter().map(|text| text.name).collect();
        (report.deaths.len(), names)
    }

    #[test]
    fn a_folder_an_archive_and_a_packed_log_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let logs = folder.path().join("session_x/logs/old");
        std::fs::create_dir_all(&logs).expect("folders");
        std::fs::write(logs.join("raylet.out.1"), KILL).expect("write");
        std::fs::write(logs.join("plasma.bin"), KILL).expect("write");
        std::os::unix::fs::symlink(logs.join("raylet.out.1"), logs.join("link.out")).expect("link");
        let (count, names) = deaths(&[folder.path().join("session_x")]);
        assert_eq!((count, names.len()), (1, 1), "{names:?}");

        let packed = folder.path().join("session.tar.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        {
            let mut archive = tar::Builder::new(&mut gzip);
            archive
                .append_dir_all("session_x", folder.path().join("session_x"))
                .expect("archive");
            archive.finish().expect("archive");
        }
        std::fs::write(&packed, gzip.finish().expect("gzip")).expect("write");
        assert_eq!(deaths(&[packed]).0, 1);

        let single = folder.path().join("dmesg.log.gz");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(KILL.as_bytes()).expect("gzip");
        std::fs::write(&single, gzip.finish().expect("gzip")).expect("write");
        assert_eq!(deaths(&[single]).0, 1);
    }

    #[test]
    fn a_missing_file_is_named() {
        let missing = Input::File("/nowhere/raylet.out".into());
        let error = read(&missing, &mut Explainer::default(), &ProgressBar::hidden());
        assert!(error.is_err());
        assert_eq!(missing.name(), "/nowhere/raylet.out");
    }
}
