//! Judges several recordings, or folders of them, and joins the results into one report.
//!
//! The files of different recorders are judged in parallel.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::usage;
use crate::{
    ids::MINUTE_NS,
    judge::{
        self, Details, Judge, fleet,
        report::{Report, Utc},
        timeline::TimelineBuilder,
    },
    recording::{self, Outline, ReadSummary, RecordingError},
    show::{html::ChartSeries, time::Zone},
};

/// How many levels of folders below the named one are searched.
const DEEPEST: usize = 4;
/// A file is also read if it ends at most this long before the requested time.
const MARGIN_NS: i64 = 10 * MINUTE_NS;

/// The requested span of time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeRange {
    pub(super) since: Option<Utc>,
    pub(super) until: Option<Utc>,
}

impl TimeRange {
    /// Parses `--since` and `--until`, as they were typed, for recordings of the span `recorded`.
    pub(super) fn parse(
        zone: &Zone,
        since: Option<&str>,
        until: Option<&str>,
        recorded: (Utc, Utc),
    ) -> anyhow::Result<Self> {
        let span = zone.parse_span(since, until, recorded);
        let (since, until) = span.map_err(|(option, error)| usage(format!("{option}: {error}")))?;
        Ok(Self { since, until })
    }
}

/// A joined report, with what is needed to draw it.
pub(super) struct JoinedReport {
    pub(super) report: Report,
    /// Whether a file is damaged or was left out.
    pub(super) damaged: bool,
    /// The series of each recording, in the order of recordings, if they were requested.
    pub(super) charts: Vec<Option<ChartSeries>>,
}

/// Lists the recordings that the arguments name: files, and those in folders and their subfolders.
pub(super) fn expand(arguments: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in arguments {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        in_folder(path, DEEPEST, &mut files);
        if files.len() == before {
            return Err(usage(format!(
                "no recording (*.raytrace) in {}; name another folder, or start recording: sudo raytrace record --directory {}",
                path.display(),
                path.display()
            )));
        }
    }
    files.dedup();
    Ok(files)
}

fn in_folder(folder: &Path, deepest: usize, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let is_link = path.is_symlink();
        if path.is_dir() && !is_link && deepest > 0 {
            in_folder(&path, deepest - 1, files);
        } else if path.is_file() && path.extension().is_some_and(|end| end == "raytrace") {
            files.push(path);
        }
    }
}

/// Reads the outlines of files, and returns an error for each file without one.
pub(super) fn outlines(files: &[PathBuf]) -> (Vec<Outline>, Vec<(PathBuf, RecordingError)>) {
    let read = in_parallel(files, |file| Outline::of(file));
    let (mut outlines, mut failed) = (Vec::new(), Vec::new());
    for (file, outline) in files.iter().zip(read) {
        match outline {
            Ok(outline) => outlines.push(outline),
            Err(error) => failed.push((file.clone(), error)),
        }
    }
    (outlines, failed)
}

/// Returns the start of the first recording and the end of the last.
pub(super) fn bounds(outlines: &[Outline]) -> Option<(Utc, Utc)> {
    let began = outlines.iter().map(|one| Utc(one.started.wall)).min()?;
    let ended = outlines.iter().map(|one| Utc(one.ended)).max()?;
    Some((began, ended))
}

/// Judges the files that `range` needs and joins their reports, with these details of deaths. With
/// `draws`, the series over time are read too.
pub(super) fn join(
    outlines: Vec<Outline>,
    failed: Vec<(PathBuf, RecordingError)>,
    range: TimeRange,
    draws: bool,
    details: &Details,
) -> anyhow::Result<JoinedReport> {
    let all = outlines.len();
    let needed: Vec<Outline> = (outlines.into_iter())
        .filter(|outline| is_needed(outline, range))
        .collect();
    let left_out = all - needed.len();
    let groups: Vec<Vec<PathBuf>> = recording::group_by_recorder(needed)
        .into_iter()
        .map(|group| group.into_iter().map(|file| file.path).collect())
        .collect();
    let mut notes: Vec<String> = failed
        .iter()
        .map(|(file, error)| format!("left out: {}", named(file, error)))
        .collect();
    let mut damaged = !failed.is_empty();
    let (mut reports, mut charts) = (Vec::new(), Vec::new());
    let parts = draws.then_some(groups.len());
    for (group, judged) in groups.iter().zip(in_parallel(&groups, |group| {
        judge(group, parts, details.clone())
    })) {
        match judged {
            Ok(part) => {
                damaged |= part.read.damaged;
                reports.push(part.report);
                charts.push(part.chart);
            }
            Err(error) => {
                damaged = true;
                let first = group.first().map_or(Path::new(""), PathBuf::as_path);
                notes.push(format!("left out: {}", named(first, &error)));
            }
        }
    }
    if reports.is_empty() {
        let first = failed.into_iter().next().map(|(_, error)| error);
        return Err(first.map_or_else(|| nothing(left_out), anyhow::Error::from));
    }
    let mut report = fleet::join(reports);
    report.notes.extend(notes);
    Ok(JoinedReport {
        report,
        damaged,
        charts,
    })
}

fn nothing(left_out: usize) -> anyhow::Error {
    usage(format!(
        "none of {left_out} recordings covers the time between --since and --until; leave these options out to see all"
    ))
}

/// Formats an error, and puts the file's name before it if the error does not contain it.
pub(super) fn named(file: &Path, error: &RecordingError) -> String {
    let text = error.to_string();
    let name = file.display().to_string();
    if text.contains(&name) {
        text
    } else {
        format!("{name}: {text}")
    }
}

/// Returns whether a file overlaps `range`, or ends shortly before it.
pub(super) fn is_needed(outline: &Outline, range: TimeRange) -> bool {
    let since = range.since.map(|since| since.0.0.saturating_sub(MARGIN_NS));
    since.is_none_or(|since| outline.ended.0 >= since)
        && range
            .until
            .is_none_or(|until| outline.started.wall <= until.0)
}

/// The result of judging one recorder's files.
pub(super) struct Part {
    pub(super) report: Report,
    pub(super) chart: Option<ChartSeries>,
    pub(super) read: ReadSummary,
    /// Whether deaths were judged, and details of them dropped, while it was read.
    pub(super) is_long: bool,
}

/// Judges one recorder's files. Its series are read too if `parts` is set: the number of parts that
/// are drawn.
pub(super) fn judge(
    files: &[PathBuf],
    parts: Option<usize>,
    details: Details,
) -> Result<Part, RecordingError> {
    let mut judge = Judge::with_details(details);
    let mut series = parts.map(|_| TimelineBuilder::default());
    let read = recording::parts_in_batches(files, |batch| {
        for event in &batch {
            judge.observe(event);
            if let Some(series) = &mut series {
                series.observe(event);
            }
        }
        judge.settle(judge::UNSETTLED);
    })?;
    let is_long = judge.settled() > 0;
    // The series are large. So is the report, which is made once they are folded.
    let timeline = series.and_then(|series| judge.timeline(series));
    let mut report = judge.into_report();
    if read.live {
        report = report.while_recording();
    }
    report.notes.extend(read.warnings.iter().cloned());
    let chart = timeline.zip(parts);
    let chart = chart.map(|(timeline, parts)| ChartSeries::of(&report, timeline, parts));
    Ok(Part {
        report,
        chart,
        read,
        is_long,
    })
}

/// Runs `work` for each item on all processors, and returns the results in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{golden, recording::Writer};

    const NAME: &str = "gallery-openrlhf";
    /// The bytes of a SQLite file that hold its `user_version`, the format of a recording.
    const FORMAT: std::ops::Range<usize> = 60..64;

    /// Joins the recordings of a folder.
    fn of_folder(folder: &Path) -> JoinedReport {
        let files = expand(&[folder.to_owned()]).expect("recordings");
        let (outlines, failed) = outlines(&files);
        join(outlines, failed, TimeRange::default(), false, &Details::All).expect("one can be read")
    }

    fn names(joined: &JoinedReport, file: &str) -> bool {
        let mut notes = joined.report.notes.iter();
        notes.any(|note| note.contains(file))
    }

    /// The readable files of the folder are reported all the same.
    #[test]
    fn unreadable_files_are_named_and_left_out() {
        let whole = golden::unpacked(NAME);
        let bytes = std::fs::read(whole.path()).expect("a recording");
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("a file");
        };
        write("good.raytrace", &bytes);
        let alone = of_folder(folder.path());
        assert!(!alone.damaged && !alone.report.deaths.is_empty());
        let deaths = alone.report.deaths.len();

        let mut newer = bytes.clone();
        newer[FORMAT].copy_from_slice(&99_u32.to_be_bytes());
        write("newer.raytrace", &newer);
        write(
            "text.raytrace",
            b"no recording at all, but a text of some length",
        );
        write("empty.raytrace", b"");
        write("cut.raytrace", &bytes[..bytes.len() / 3]);
        let joined = of_folder(folder.path());
        assert!(joined.damaged, "exit code 6");
        for file in ["newer", "text", "empty", "cut"] {
            let file = format!("{file}.raytrace");
            assert!(names(&joined, &file), "{file}: {:?}", joined.report.notes);
        }
        assert!(!names(&joined, "good.raytrace"));
        assert!(joined.report.deaths.len() >= deaths, "the rest is told");
    }

    #[test]
    fn live_recording_is_read_to_last_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let events = golden::read(NAME).events;
        let path = folder.path().join("live.raytrace");
        let writer = Writer::create(&path, None).expect("create");
        let sender = writer.sender();
        for event in events {
            sender.send(event);
        }
        // The writer writes a batch every second.
        let begun = std::time::Instant::now();
        let joined = loop {
            let (outlines, failed) = outlines(std::slice::from_ref(&path));
            match join(outlines, failed, TimeRange::default(), false, &Details::All) {
                Ok(joined) if !joined.report.deaths.is_empty() => break joined,
                _ => assert!(begun.elapsed().as_secs() < 60, "nothing was written"),
            }
            thread::sleep(std::time::Duration::from_millis(50));
        };
        assert!(!joined.damaged, "{:?}", joined.report.notes);
        drop(writer.finish());
    }
}
