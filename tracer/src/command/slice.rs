//! `raytrace slice`: writes a part of a recording as a smaller recording.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::{
    code,
    recorder_events::{RecorderEvents, is_sample},
    recording_files::{self, TimeRange},
    recording_filter::{job, slurm_job},
    usage,
};
use crate::{
    event::Observation,
    ids::{BootTime, EventId, HexId, MINUTE_NS},
    judge::{Details, Judge, report::Utc},
    recording::{self, ReadSummary},
    show::{causes, sanitize, select::Kill, time::Zone},
    slice::{Members, Place, SliceError, Window, end_of},
};

/// How much is kept before a death: as much as a recording keeps in full detail.
const BEFORE_DEATH_NS: i64 = 10 * MINUTE_NS;
/// How much is kept after a death, for Ray's logs about it and for what followed.
const AFTER_DEATH_NS: i64 = MINUTE_NS;

/// Arguments of `slice`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  raytrace slice node.raytrace --job 02000000 -o job.raytrace
  raytrace slice node.raytrace --slurm-job 4711 -o job.raytrace
  raytrace slice node.raytrace --kill 1 -o kill.raytrace
  raytrace slice /var/lib/raytrace --since 08:00:00 --until 08:30:00 -o half-hour.raytrace

Exit codes:
  0  success
  2  a file is missing, or nothing matches the selection
  6  a recording is damaged or from a newer raytrace")]
#[command(group = clap::ArgGroup::new("part").required(true).multiple(true).args(["job", "slurm_job", "pod", "kill", "since", "until"]))]
pub struct SliceArgs {
    /// Recordings, or their folder.
    ///
    /// With --since and --until only the files of that time are read.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Keep only this job.
    ///
    /// The slice has its processes, its node and limits, and nothing about other jobs or users.
    #[arg(long, value_name = "ID", value_parser = job, help_heading = "Selection")]
    job: Option<HexId>,
    /// Session of the job's cluster, or part of its name.
    ///
    /// It is needed if several clusters of the machine have a job with this id.
    #[arg(
        long,
        value_name = "SESSION",
        requires = "job",
        help_heading = "Selection"
    )]
    cluster: Option<String>,
    /// Keep only this Slurm job: its number, as squeue prints it.
    ///
    /// The slice has what ran in it, its Ray clusters and limits, and nothing about other jobs or
    /// users.
    #[arg(long, value_name = "NUMBER", value_parser = slurm_job, conflicts_with_all = ["job", "pod"], help_heading = "Selection")]
    slurm_job: Option<String>,
    /// Keep only this pod: NAMESPACE/NAME, its name, or its uid.
    #[arg(
        long,
        value_name = "POD",
        conflicts_with = "job",
        help_heading = "Selection"
    )]
    pod: Option<String>,
    /// Keep ten minutes before this death and one after.
    ///
    /// The id is the number after KILL or DEATH in the report on the same files, or '#ID' with the
    /// id from the JSON.
    #[arg(long, value_name = "ID", conflicts_with_all = ["since", "until"], help_heading = "Selection")]
    kill: Option<Kill>,
    /// Keep events after this time: 08:41:07, -10m.
    ///
    /// 90 s before it are kept as context. A time is 08:41:07 (in UTC, the last time that it was
    /// 08:41:07), 2026-11-20T08:41:07+08:00, or -10m (ten minutes before the end of the
    /// recordings).
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    since: Option<String>,
    /// Keep events before this time.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    until: Option<String>,
    /// Output file; it must not exist.
    ///
    /// What several recorders have seen goes into a file for each: NAME-1, NAME-2.
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
}

/// Runs the subcommand.
pub fn run(args: &SliceArgs) -> anyhow::Result<ExitCode> {
    let mut chosen = args.choose()?;
    let death = args.kill.map(|kill| only_its_recorder(kill, &mut chosen));
    let death = death.transpose()?;
    let mut damaged = chosen.damaged;
    let several = chosen.recorders.len() > 1;
    let mut parts = Vec::new();
    let mut refused = None;
    for files in chosen.recorders {
        match args.part(files, chosen.range, death)? {
            Ok(part) => parts.extend(part),
            Err(error) if several && !matches!(error, SliceError::SeveralClusters { .. }) => {
                refused = Some(error);
            }
            Err(error) => return Err(refusal(&error)),
        }
    }
    if parts.is_empty() {
        return Err(match refused {
            Some(error) => refusal(&error),
            None => usage(
                "no recording covers the time between --since and --until; leave these options out to see all",
            ),
        });
    }
    if let Some(job) = &args.job {
        one_cluster(job, &parts).map_err(|error| refusal(&error))?;
    }
    let number_of = parts.len();
    let mut written = Vec::new();
    for (number, part) in (1..).zip(parts) {
        let output = if number_of == 1 {
            args.output.clone()
        } else {
            numbered(&args.output, number)
        };
        damaged |= part.write(&output)?.damaged;
        written.push(sanitize::quoted(&output.to_string_lossy()));
    }
    if number_of > 1 {
        anstream::eprintln!(
            "The selection was recorded by {number_of} recorders. Report on all of it: raytrace report {}",
            written.join(" ")
        );
    }
    Ok(ExitCode::from(if damaged { code::RECORDING } else { 0 }))
}

/// Checks that all recorders have the job of one cluster. Each cluster numbers its jobs from one,
/// so this may be another one's job.
fn one_cluster(job: &HexId, parts: &[Part]) -> Result<(), SliceError> {
    let mut sessions: Vec<String> = parts.iter().filter_map(|one| one.cluster.clone()).collect();
    sessions.sort();
    sessions.dedup();
    if sessions.len() < 2 {
        return Ok(());
    }
    let job = job.clone();
    Err(SliceError::SeveralClusters { job, sessions })
}

/// Numbers a file name: `job.raytrace` becomes `job-1.raytrace`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path
        .extension()
        .map_or_else(String::new, |end| format!(".{}", end.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{end}"))
}

fn refusal(error: &SliceError) -> anyhow::Error {
    let next = match error {
        SliceError::NoSuchJob(_) => {
            "list jobs: raytrace report FILE --format json | jq '.jobs[].job_id'"
        }
        SliceError::NothingThere(_) => {
            "what is known: raytrace report FILE --format json | jq '.deaths[].process.place, .clusters[].place'"
        }
        SliceError::NoSuchCluster { .. } | SliceError::SeveralClusters { .. } => {
            "name one of them: --cluster SESSION"
        }
    };
    usage(format!("{error}; {next}"))
}

/// The files to read.
struct Chosen {
    /// The files of each recorder, in order.
    recorders: Vec<Vec<PathBuf>>,
    /// The requested span of time. `None` for a single file, since only its events tell what time
    /// it covers.
    range: Option<TimeRange>,
    /// Whether a file was left out.
    damaged: bool,
}

/// Finds the requested death, and keeps only the files of the recorder that saw it. Returns the id
/// of the death in these files.
fn only_its_recorder(kill: Kill, chosen: &mut Chosen) -> anyhow::Result<EventId> {
    let (outlines, failed) = recording_files::outlines(&chosen.recorders.concat());
    let report =
        recording_files::join(outlines, failed, TimeRange::default(), false, &Details::All)?.report;
    let unknown = || usage(kill.not_found_message(causes::all(&report).len()));
    let death = kill.death(&report).ok_or_else(unknown)?;
    let recorder = usize::try_from(death.recording()).unwrap_or(usize::MAX);
    if recorder >= chosen.recorders.len() {
        return Err(unknown());
    }
    chosen.recorders = vec![chosen.recorders.swap_remove(recorder)];
    Ok(EventId(death.row()))
}

/// The part of one recorder's events that is wanted.
struct Part {
    events: RecorderEvents,
    window: Option<Window>,
    /// The cluster of the requested job.
    cluster: Option<String>,
}

impl Part {
    fn write(&self, output: &Path) -> anyhow::Result<ReadSummary> {
        let (mut kept, mut before) = (Vec::new(), 0);
        let read = self.events.for_each(|event| {
            before += 1;
            // Samples before the window are dropped at once, because there may be days of them.
            let reaches = |window: Window| window.reaches(event.time) || !is_sample(event);
            if self.window.is_none_or(reaches) {
                kept.push(event.clone());
            }
        })?;
        if let Some(window) = self.window {
            kept = window.cut(kept);
        }
        recording::write(output, &kept)?;
        anstream::eprintln!(
            "Wrote {} ({} of {} events)",
            output.display(),
            kept.len(),
            read.count.max(before)
        );
        for warning in &read.warnings {
            anstream::eprintln!("raytrace: {warning}");
        }
        Ok(read)
    }
}

impl SliceArgs {
    /// Finds the recorders whose files hold what was requested.
    fn choose(&self) -> anyhow::Result<Chosen> {
        let files = recording_files::expand(&self.files)?;
        if let [_] = files.as_slice() {
            return Ok(Chosen {
                recorders: vec![files],
                range: None,
                damaged: false,
            });
        }
        let (outlines, failed) = recording_files::outlines(&files);
        let damaged = !failed.is_empty();
        for (file, error) in &failed {
            anstream::eprintln!(
                "raytrace: left out: {}",
                recording_files::named(file, error)
            );
        }
        let Some((began, ended)) = recording_files::bounds(&outlines) else {
            let first = failed.into_iter().next().map(|(_, error)| error);
            return Err(first.map_or_else(|| usage("no recording"), anyhow::Error::from));
        };
        let range = self.time_range(began, ended)?;
        let needed = outlines.into_iter();
        let needed = needed.filter(|outline| recording_files::is_needed(outline, range));
        let recorders = recording::group_by_recorder(needed.collect()).into_iter();
        let recorders = recorders.filter(|files| {
            // A file that ended shortly before the window is read only for the sake of those that
            // follow it.
            let since = range.since;
            since.is_none_or(|since| files.iter().any(|file| file.ended >= since.0))
        });
        Ok(Chosen {
            recorders: recorders
                .map(|files| files.into_iter().map(|file| file.path).collect())
                .collect(),
            range: Some(range),
            damaged,
        })
    }

    fn time_range(&self, began: Utc, ended: Utc) -> anyhow::Result<TimeRange> {
        let (since, until) = (self.since.as_deref(), self.until.as_deref());
        TimeRange::parse(&Zone::default(), since, until, (began, ended))
    }

    /// Selects what one recorder has of the request; `None` if it did not see the death.
    fn part(
        &self,
        files: Vec<PathBuf>,
        range: Option<TimeRange>,
        death: Option<EventId>,
    ) -> anyhow::Result<Result<Option<Part>, SliceError>> {
        let recorded = RecorderEvents::of(files);
        let mut span: Option<(BootTime, BootTime)> = None;
        let mut judge = Judge::default();
        let mut kept = Vec::new();
        recorded.for_each(|event| {
            let (first, last) = span.get_or_insert((event.time, event.time));
            (*first, *last) = (event.time.min(*first), event.time.max(*last));
            if let Observation::RecordingStarted(_) | Observation::Clock { .. } = event.what {
                judge.observe(event);
            }
            if !is_sample(event) {
                kept.push(event.clone());
            }
        })?;
        let window = match death {
            Some(death) => match end_of(&kept, death) {
                None => return Ok(Ok(None)),
                Some(ended) => Some(Window {
                    from: ended.plus(-BEFORE_DEATH_NS),
                    until: ended.plus(AFTER_DEATH_NS),
                }),
            },
            None => self.window(&judge, span.unwrap_or_default(), range)?,
        };
        let members = match (&self.job, self.place()) {
            (Some(job), _) => Some(Members::of(&kept, job, self.cluster.as_deref())),
            (None, place) => place.map(|place| Members::of_place(&kept, &place)),
        };
        let part = |events, cluster| Part {
            events,
            window,
            cluster,
        };
        Ok(match members {
            None => Ok(Some(part(recorded, None))),
            Some(Err(error)) => Err(error),
            Some(Ok(members)) => {
                let cluster = members.cluster_name();
                Ok(Some(part(recorded.of_job(members), cluster)))
            }
        })
    }

    fn place(&self) -> Option<Place> {
        let job = self.slurm_job.clone().map(Place::SlurmJob);
        job.or_else(|| self.pod.clone().map(Place::Pod))
    }

    /// Converts the requested span of time to the boot clock of one recorder.
    fn window(
        &self,
        judge: &Judge,
        (first, last): (BootTime, BootTime),
        range: Option<TimeRange>,
    ) -> anyhow::Result<Option<Window>> {
        if self.since.is_none() && self.until.is_none() {
            return Ok(None);
        }
        let (began, ended) = judge
            .wall(first)
            .zip(judge.wall(last))
            .context("the recording has no clock: its beginning is missing")?;
        let range = match range {
            Some(range) => range,
            None => self.time_range(began, ended)?,
        };
        let boot = |at: Utc| last.plus(at.0.0.saturating_sub(ended.0.0));
        Ok(Some(Window {
            from: range.since.map_or(first, boot),
            until: range.until.map_or(last, boot),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Cluster, Event, Process, Source, Worker},
        ids::{Pid, ProcessKey, WallTime},
        recording::{read, staged},
    };

    const SECOND: u64 = 1_000_000_000;

    /// Writes a recording that begins at `second` of a boot; a process dies in it 60 s later.
    fn record(folder: &Path, name: &str, boot_id: &str, second: u64, pid: u32) {
        let process = ProcessKey::new(pid, second * SECOND);
        let wall = WallTime(staged::WALL.0 + (second * SECOND).cast_signed());
        let all = [
            (
                0,
                Observation::RecordingStarted(staged::started(boot_id, wall)),
            ),
            (1, staged::worker(process)),
            (60, staged::killed(process)),
            (61, Observation::RecordingEnded),
        ];
        let events: Vec<Event> = (1..)
            .zip(all)
            .map(|(id, (after, what))| Event {
                id: EventId(id),
                time: BootTime((second + after) * SECOND),
                source: Source::Kernel,
                what,
            })
            .collect();
        recording::write(&folder.join(name), &events).expect("written");
    }

    fn sliced(
        folder: &Path,
        since: Option<&str>,
        until: Option<&str>,
        kill: Option<Kill>,
    ) -> anyhow::Result<Vec<Vec<u32>>> {
        let into = tempfile::tempdir()?;
        let args = SliceArgs {
            files: vec![folder.to_owned()],
            job: None,
            cluster: None,
            slurm_job: None,
            pod: None,
            kill,
            since: since.map(str::to_owned),
            until: until.map(str::to_owned),
            output: into.path().join("part.raytrace"),
        };
        run(&args)?;
        let mut written: Vec<PathBuf> = std::fs::read_dir(into.path())?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        written.sort();
        let deaths = written.iter().map(|path| {
            let events = read(path).expect("a recording").events.into_iter();
            let pids = events.filter_map(|event| match event.what {
                Observation::Exit(exit) => Some(exit.process.pid),
                _ => None,
            });
            pids.map(|Pid(pid)| pid).collect()
        });
        Ok(deaths.collect())
    }

    /// Writes a recording of job 01000000 in the cluster with this session.
    fn record_job(folder: &Path, name: &str, second: u64, session: &str) {
        let key = |pid| ProcessKey::new(pid, second * SECOND);
        let Observation::Process(worker) = staged::worker(key(7)) else {
            unreachable!("a process");
        };
        let all = [
            Observation::RecordingStarted(staged::started("one", staged::WALL)),
            Observation::Cluster(Cluster {
                session: Some(session.into()),
                ..Cluster::new(key(100))
            }),
            Observation::Process(Process {
                cluster: Some(key(100)),
                ..worker
            }),
            Observation::Worker(Worker {
                process: key(7),
                worker_id: HexId::parse(&"7".repeat(56)).expect("an id"),
                job_id: HexId::parse("01000000"),
                actor_class: None,
                driver: false,
                from: "a file".into(),
            }),
            Observation::RecordingEnded,
        ];
        let events: Vec<Event> = (1..)
            .zip(all)
            .map(|(id, what)| Event {
                id: EventId(id),
                time: BootTime(second * SECOND + id),
                source: Source::Kernel,
                what,
            })
            .collect();
        recording::write(&folder.join(name), &events).expect("written");
    }

    /// Each cluster numbers its jobs from one. A slice must not give one owner the other's job.
    #[test]
    fn job_of_two_recorders_must_be_of_one_cluster() {
        let folder = tempfile::tempdir().expect("a folder");
        record_job(folder.path(), "a.raytrace", 1000, "session_a");
        record_job(folder.path(), "b.raytrace", 5000, "session_a");
        let slice = |cluster: Option<&str>| {
            let into = tempfile::tempdir()?;
            run(&SliceArgs {
                files: vec![folder.path().to_owned()],
                job: HexId::parse("01000000"),
                cluster: cluster.map(str::to_owned),
                slurm_job: None,
                pod: None,
                kill: None,
                since: None,
                until: None,
                output: into.path().join("part.raytrace"),
            })?;
            Ok::<_, anyhow::Error>(std::fs::read_dir(into.path())?.count())
        };
        assert_eq!(slice(None).expect("one cluster"), 2);
        record_job(folder.path(), "c.raytrace", 9000, "session_b");
        for cluster in [None, Some("session")] {
            let error = slice(cluster).expect_err("two clusters").to_string();
            assert!(error.contains("session_a, session_b; name one"), "{error}");
        }
        assert_eq!(slice(Some("session_b")).expect("one cluster"), 1);
    }

    /// Files of a folder outside the window are not read.
    #[test]
    fn each_recorder_in_window_gets_a_slice() {
        let folder = tempfile::tempdir().expect("a folder");
        record(folder.path(), "a.raytrace", "one", 1000, 7);
        record(folder.path(), "b.raytrace", "one", 5000, 8);
        record(folder.path(), "c.raytrace", "two", 9000, 9);
        let at = |second: u64| Utc(WallTime(staged::WALL.0 + (second * SECOND).cast_signed()));
        let text = |second: u64| {
            let text = serde_json::to_value(at(second)).expect("a time");
            text.as_str().expect("text").to_owned()
        };
        let of = |since: u64, until: u64| {
            sliced(folder.path(), Some(&text(since)), Some(&text(until)), None)
        };
        assert_eq!(of(4900, 5100).expect("a slice"), [[8]]);
        assert_eq!(of(900, 5100).expect("slices"), [[7], [8]]);
        assert_eq!(of(900, 9900).expect("slices"), [[7], [8], [9]]);
        let error = of(7000, 7100).expect_err("nothing");
        assert!(error.to_string().contains("--since"), "{error}");
        let around = |kill: &str| {
            sliced(
                folder.path(),
                None,
                None,
                Some(kill.parse().expect("a kill")),
            )
        };
        for (kill, pid) in [("1", 7), ("2", 8), ("3", 9), ("#1:3", 8)] {
            assert_eq!(around(kill).expect("a slice"), [[pid]], "{kill}");
        }
        let error = around("4").expect_err("three");
        assert!(error.to_string().contains("numbered 1 to 3"), "{error}");
        // A file that cannot be read is left out, and the others are sliced.
        std::fs::write(folder.path().join("d.raytrace"), "no recording").expect("written");
        assert_eq!(of(4900, 5100).expect("a slice"), [[8]]);
    }
}
