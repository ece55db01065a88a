//! `raytrace explain`: gives verdicts from logs alone.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    code, failure,
    progress::Progress,
    report::{self, ReportArgs},
    usage,
    view::{ViewArgs, show},
};
use crate::{explain::Explainer, judge::from_text, recording, show::time::Zone};

/// The most files below a folder that are read.
const MAX_FILES: usize = 100_000;
/// How many bytes of an input are used to tell whether it is a text.
const BEGINNING: usize = 64 << 10;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  raytrace explain /tmp/ray/session_latest             Read all logs of a session
  raytrace explain driver.log raylet.out dmesg.txt     Read some of them
  raytrace explain gpu-01 gpu-02                       Join nodes: a folder for each, with its logs
  raytrace explain driver.log --log-tz +08:00          Name the log's time zone
  kubectl logs POD | raytrace explain --format json
  raytrace explain session.tar.gz --match WorkerDict --redact --format markdown

Exit codes:
  0  success
  2  an input is missing or empty, or nothing matches
  6  the input is not text
  8  --fail-on or --fail-above matched")]
pub struct ExplainArgs {
    /// Logs, session folders, or tar archives of them; `-` reads standard input [default: -].
    files: Vec<PathBuf>,
    /// Time zone of log lines that name none: +08:00 [default: derived from the logs].
    ///
    /// An offset from UTC or a name: +08:00 or Asia/Shanghai.
    #[arg(
        long,
        alias = "timezone",
        value_name = "ZONE",
        allow_hyphen_values = true
    )]
    log_tz: Option<Zone>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Runs the subcommand.
pub fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let ExplainArgs {
        files,
        log_tz,
        view,
    } = args;
    if let Some(file) = recording_in(&files)? {
        return report::run(&ReportArgs::of(file, view));
    }
    view.add_frameworks()?;
    let inputs = inputs(&files)?;
    let mut explainer = Explainer::default();
    let progress = Progress::of(total(&inputs));
    let mut texts = 0;
    for input in &inputs {
        texts += read(input, &mut explainer, &progress)?;
    }
    progress.end();
    if texts == 0 {
        return Err(empty(&inputs));
    }
    let zone = log_tz.as_ref().map(Zone::time_zone);
    let report = from_text::judge(&explainer.finish(), zone.as_ref());
    show(report, Vec::new(), None, &view)
}

/// Returns the recording if it is the only file, because `report` reads recordings. Fails if there
/// are logs beside it.
fn recording_in(files: &[PathBuf]) -> anyhow::Result<Option<PathBuf>> {
    let is_one = |file: &&PathBuf| file.is_file() && recording::is_recording(file);
    match (files, files.iter().find(is_one)) {
        ([_], Some(file)) => {
            anstream::eprintln!(
                "{} is a recording; reading it as `raytrace report` does",
                file.display()
            );
            Ok(Some(file.clone()))
        }
        (_, Some(file)) => Err(usage(format!(
            "{0} is a recording and the rest are logs; a recording contains its cluster's logs, run: raytrace report {0}",
            file.display()
        ))),
        (_, None) => Ok(None),
    }
}

/// Returns the error for inputs without any text.
fn empty(inputs: &[Input]) -> anyhow::Error {
    let what = match inputs {
        [] => "the folder has no logs (*.out, *.err, *.log, *.txt)".to_owned(),
        [one] => format!("{} is empty", one.name()),
        all => format!("all {} inputs are empty", all.len()),
    };
    let message = format!(
        "{what}: nothing to explain; name the logs: raytrace explain /tmp/ray/session_latest"
    );
    usage(message)
}

/// One thing to read.
enum Input {
    /// Standard input.
    Stdin,
    /// A file that was named on the command line.
    File(PathBuf),
    /// A file below a named folder.
    Found(PathBuf),
}

impl Input {
    fn name(&self) -> String {
        match self {
            Self::Stdin => "standard input".into(),
            Self::File(path) | Self::Found(path) => path.display().to_string(),
        }
    }
}

/// Lists files as they were given, and the logs below folders sorted by name.
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
            inputs.extend(files.into_iter().map(Input::Found));
        } else {
            inputs.push(Input::File(path.clone()));
        }
    }
    Ok(inputs)
}

/// Collects the logs below a folder. Symlinks are not followed, because a session's links and
/// sockets lead elsewhere.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if files.len() >= MAX_FILES {
            return Ok(());
        }
        if kind.is_dir() {
            // A folder that cannot be read is skipped; the others are read.
            if let Err(error) = walk(&entry.path(), files) {
                tracing::warn!("{}: {error}", entry.path().display());
            }
        } else if kind.is_file() && is_log(&entry.path()) {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Returns whether a file may hold text. A session's folder also holds runtime environments,
/// spilled objects and sockets.
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

/// Returns the size of all inputs, or `None` if standard input is among them.
fn total(inputs: &[Input]) -> Option<u64> {
    let size = |input: &Input| match input {
        Input::File(path) | Input::Found(path) => Some(std::fs::metadata(path).ok()?.len()),
        Input::Stdin => None,
    };
    inputs.iter().map(size).sum()
}

/// Reads an input, and returns how many texts it held.
fn read(input: &Input, explainer: &mut Explainer, progress: &Progress) -> anyhow::Result<usize> {
    let name = input.name();
    match read_texts(input, explainer, progress) {
        Err(error) if is_missing(&error) => Err(usage(format!(
            "cannot read {name}: No such file or directory; name a driver's log, or the folder of a session on the node that had the error: \
             raytrace explain DRIVER.log /tmp/ray/session_latest"
        ))),
        result => result.with_context(|| format!("cannot read {name}")),
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn read_texts(
    input: &Input,
    explainer: &mut Explainer,
    progress: &Progress,
) -> anyhow::Result<usize> {
    let (path, other) = match input {
        Input::Stdin => {
            let stdin = io::stdin().lock();
            if !stdin.is_terminal() {
                return text("stdin", progress.wrap_read(stdin), Other::Refuse, explainer);
            }
            anstream::eprintln!(
                "reading from the terminal; press Ctrl-D to finish, or name files: raytrace explain FILE…"
            );
            return text("stdin", stdin, Other::Refuse, explainer);
        }
        Input::File(path) => (path, Other::Refuse),
        Input::Found(path) => (path, Other::Skip),
    };
    let file = progress.wrap_read(File::open(path)?);
    let name = path.display().to_string();
    if has_extension(path, &["gz", "tgz"]) {
        let plain = name.trim_end_matches(".gz").replace(".tgz", ".tar");
        let unpacked = flate2::read::MultiGzDecoder::new(file);
        contents(&plain, unpacked, other, explainer)
    } else {
        contents(&name, file, other, explainer)
    }
}

/// Reads a text or the logs in an archive, and returns how many texts there were.
fn contents(
    name: &str,
    packed: impl Read,
    other: Other,
    explainer: &mut Explainer,
) -> anyhow::Result<usize> {
    if !has_extension(Path::new(name), &["tar"]) {
        return text(name, packed, other, explainer);
    }
    let mut texts = 0;
    let (archive_name, mut archive) = (name, tar::Archive::new(packed));
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.into_owned();
        if !entry.header().entry_type().is_file() || !is_log(&path) {
            continue;
        }
        // The archives of several nodes contain the same file names.
        let name = format!("{archive_name}/{}", path.display());
        texts += if has_extension(&path, &["gz"]) {
            let unpacked = flate2::read::MultiGzDecoder::new(entry);
            text(&name, unpacked, Other::Skip, explainer)?
        } else {
            text(&name, entry, Other::Skip, explainer)?
        };
    }
    Ok(texts)
}

/// What is done with an input that is not a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    /// Fail: the user has named it.
    Refuse,
    /// Skip it: it was found in a folder or an archive.
    Skip,
}

/// Reads an input if it is a text, and returns whether it was one.
fn text(
    name: &str,
    source: impl Read,
    other: Other,
    explainer: &mut Explainer,
) -> anyhow::Result<usize> {
    let mut source = BufReader::with_capacity(BEGINNING, source);
    let beginning = source.fill_buf()?;
    if beginning.is_empty() {
        return Ok(0);
    }
    if !is_text(beginning) {
        let message = format!("{name} is not text; give logs as plain text, .gz, .tar or .tar.gz");
        if other == Other::Skip {
            tracing::warn!("{message}");
            return Ok(0);
        }
        return Err(failure(code::RECORDING, message));
    }
    explainer.read(name, source, |_| {})?;
    Ok(1)
}

/// Returns whether an input that begins like this is a text.
///
/// A log that was truncated while it was written begins with a run of zero bytes, so a few such
/// runs are allowed. Apart from that, a text may contain any bytes, but hardly any control
/// characters.
fn is_text(beginning: &[u8]) -> bool {
    let holes = beginning
        .split(|byte| *byte != 0)
        .filter(|run| !run.is_empty());
    let letters = beginning.iter().filter(|byte| **byte != 0).count();
    let is_control = |byte: &&u8| matches!(**byte, 1..=7 | 14..=26 | 28..=31 | 127);
    let controls = beginning.iter().filter(is_control).count();
    holes.count() <= 8 && controls * 50 <= letters
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.contains(&extension))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use clap::Parser as _;

    use super::*;

    const KILL: &str = "Memory cgroup out of memory: Killed process 41 (ray::Rollout) total-vm:1kB, anon-rss:1kB, file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:1000\n";

    fn deaths(given: &[PathBuf]) -> (usize, Vec<String>) {
        let mut explainer = Explainer::default();
        for input in inputs(given).expect("inputs") {
            let _texts = read(&input, &mut explainer, &Progress::hidden()).expect("a text");
        }
        let report = from_text::judge(&explainer.finish(), None);
        let names = report.texts.into_iter().map(|text| text.name).collect();
        (report.deaths.len(), names)
    }

    #[test]
    fn folders_archives_and_gz_logs_are_read() {
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
    fn missing_file_is_a_usage_error() {
        let missing = Input::File("/nowhere/raylet.out".into());
        let error = read(&missing, &mut Explainer::default(), &Progress::hidden())
            .expect_err("no such file");
        assert_eq!(crate::command::exit_code(&error), code::USAGE);
        assert!(error.to_string().contains("/nowhere/raylet.out"), "{error}");
    }

    #[test]
    fn texts_are_told_from_binary_files() {
        let holes = [&[0; 4096][..], KILL.as_bytes()].concat();
        let coloured = "\x1b[36m(pid=7)\x1b[0m caf\u{e9}\r\n\t".repeat(9);
        let latin = b"caf\xe9 \xfc\xdf, a line that is not UTF-8\n".as_slice();
        for text in [KILL.as_bytes(), &holes, coloured.as_bytes(), latin] {
            assert!(is_text(text), "{}", String::from_utf8_lossy(text));
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let numbers =
            (0..5000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes());
        gzip.write_all(&numbers.collect::<Vec<u8>>()).expect("gzip");
        let program = std::fs::read("/proc/self/exe").expect("a program");
        let wide: Vec<u8> = KILL.bytes().flat_map(|byte| [byte, 0]).collect();
        for other in [&gzip.finish().expect("gzip"), &program[..BEGINNING], &wide] {
            assert!(!is_text(other), "{:?}", &other[..16]);
        }
    }

    #[test]
    fn log_tz_applies_to_times_without_zone() {
        let raylet = |text: &&str| text.starts_with("[2026-11-21 00:02:27,404 I 611 611] (raylet)");
        let text = crate::explain::texts().into_iter().find(raylet);
        let time = |zone: &str| {
            let line = ["raytrace", "explain", "raylet.out", "--log-tz", zone];
            let cli = crate::cli::Cli::try_parse_from(line).expect("arguments");
            let crate::cli::Command::Explain(args) = cli.command else {
                panic!("{:?}", cli.command);
            };
            let mut explainer = Explainer::default();
            let read = explainer.read("raylet.out", text.expect("a text").as_bytes(), |_| {});
            read.expect("a text in memory");
            let zone = args.log_tz.as_ref().map(Zone::time_zone);
            let report = from_text::judge(&explainer.finish(), zone.as_ref());
            report.deaths[0].when.time.expect("a time").0.0
        };
        assert_eq!(time("UTC") - time("+08:00"), 8 * 3600 * 1_000_000_000);
        assert_eq!(time("Asia/Shanghai"), time("+08:00"));
    }
}
