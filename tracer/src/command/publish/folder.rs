//! Follows the recordings in a folder: the one that is being written, and earlier ones.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    last_kill,
    state::{FileState, State},
    tail::{STALE_NS, Tail},
};
use crate::{
    event::{LimitWarning, Observation, RecordingStarted},
    ids::{BootTime, CLOCK_TICK_NS, EventId, WallTime},
    judge::{
        live::Live,
        report::{Death, Utc},
    },
    observe::{host, memory, processes},
    recording::{RecordingError, place::FALLBACK, row},
    show::{
        publish::{
            self, Origin,
            metrics::{Snapshot, Warned},
            pod_event::PodEvent,
        },
        sanitize,
    },
};

/// For how many recorders the number of lost events is remembered.
const RECORDERS: usize = 8;
/// How many files are opened at each look. A backlog is published a few files at a time, so that
/// they are not all in memory at once.
const AT_A_LOOK: usize = 2;
/// About this many lines are made at each look. They are in memory until they are written.
const LINES: usize = 256;
/// A new file has no tables yet. A file that cannot be read at this many looks is reported once.
const UNREAD: u32 = 10;

/// What was found by one look at the folder.
#[derive(Default)]
pub(super) struct Updates {
    /// New JSON lines.
    pub(super) lines: Vec<Value>,
    /// Kubernetes Events for deaths that have a pod.
    pub(super) events: Vec<PodEvent>,
    /// The pods of deaths that have no Event because the pod's name is not known, by uid.
    pub(super) unnamed: Vec<String>,
    /// The state of the node. Its counts are not set here; they are taken from the state file.
    pub(super) snapshot: Snapshot,
}

/// A folder, and the recordings in it that are followed.
pub(super) struct Folder {
    path: PathBuf,
    with_arguments: bool,
    /// How a reader reaches the recordings.
    reached_by: Option<String>,
    tails: BTreeMap<String, Tail>,
    /// Files that could not be read, with the number of looks that failed.
    unread: BTreeMap<String, u32>,
    /// Whether the folder itself could not be read at the last look.
    missing: bool,
}

impl Folder {
    pub(super) fn new(path: &Path, with_arguments: bool, reached_by: Option<String>) -> Self {
        Self {
            path: path.to_owned(),
            with_arguments,
            reached_by,
            tails: BTreeMap::new(),
            unread: BTreeMap::new(),
            missing: false,
        }
    }

    /// Looks at the folder once and returns what is new.
    pub(super) fn look(&mut self, state: &mut State, now: BootTime) -> Updates {
        let mut updates = Updates::default();
        updates.snapshot.with_paths = self.with_arguments;
        updates.snapshot.node = node(state);
        let found = match recordings(&self.path) {
            Ok(found) => found,
            // The state of files is kept until the folder can be read again.
            Err(error) => {
                if !self.missing {
                    tracing::warn!("{} cannot be read: {error}", self.path.display());
                }
                self.missing = true;
                return updates;
            }
        };
        self.missing = false;
        updates.snapshot.bytes = found.values().map(|(_, bytes)| bytes).sum();
        state.files.retain(|name, _| found.contains_key(name));
        while state.lost.len() > RECORDERS {
            state.lost.pop_first();
        }
        self.tails.retain(|name, _| found.contains_key(name));
        self.unread.retain(|name, _| found.contains_key(name));
        let mut begins = AT_A_LOOK;
        for (name, (inode, _)) in &found {
            self.read(name, *inode, state, &mut begins);
            // What was read is judged before more is read, so that a long file needs little memory.
            while self.is_behind(name) && updates.lines.len() < LINES {
                self.collect_settled(name, state, now, &mut updates);
                self.read(name, *inode, state, &mut begins);
            }
        }
        self.link();
        for name in found.keys() {
            self.collect_settled(name, state, now, &mut updates);
        }
        self.close_old(state, now, &mut updates.lines);
        // A node without a recorder still needs a name. It is taken from this machine's last
        // recording, else from any.
        let unnamed = state.node.is_empty();
        let named = self.tails.values().filter(|tail| tail.ours || unnamed);
        let newest = named.max_by_key(|tail| tail.began());
        if let Some(host) = newest.and_then(Tail::host) {
            host.clone_into(&mut state.node);
        }
        let newest = self.tails.values().filter(|tail| tail.is_live(now));
        if let Some(tail) = newest.max_by_key(|tail| tail.began()) {
            let live = tail.judge.live(now);
            fill(&mut updates.snapshot, tail, &live, now);
            updates.lines.extend(self.warnings(&live, state));
            state.node.clone_from(&live.host);
        }
        updates.snapshot.node = node(state);
        updates
    }

    /// Returns whether more of a file is to be read. A file that cannot be read any more is not.
    fn is_behind(&self, name: &str) -> bool {
        let tail = self.tails.get(name);
        tail.is_some_and(|tail| tail.behind) && !self.unread.contains_key(name)
    }

    /// Reads some of what is new in a file. A file that is not open yet is opened only if `begins` allows
    /// it.
    fn read(&mut self, name: &str, inode: u64, state: &mut State, begins: &mut usize) {
        let file = state.files.entry(name.to_owned()).or_default();
        if file.inode != inode {
            *file = FileState {
                inode,
                ..FileState::default()
            };
            self.tails.remove(name);
        }
        if file.done {
            return;
        }
        if !self.tails.contains_key(name) {
            if *begins == 0 {
                return;
            }
            match Tail::open(&self.path.join(name), file, state.since) {
                Ok(tail) => drop(self.tails.insert(name.to_owned(), tail)),
                Err(error) => return self.not_read(name, &error),
            }
            *begins -= 1;
        }
        let Some(tail) = self.tails.get_mut(name) else {
            return;
        };
        match tail.read(file) {
            Ok(()) => drop(self.unread.remove(name)),
            Err(error) => self.not_read(name, &error),
        }
    }

    /// Counts a failed look at a file. It may not have its tables yet, or be unreadable for this
    /// user, so it is tried again.
    fn not_read(&mut self, name: &str, error: &RecordingError) {
        let looks = self.unread.entry(name.to_owned()).or_default();
        *looks = looks.saturating_add(1);
        if *looks == UNREAD {
            let path = self.path.join(name);
            tracing::warn!(
                "{} is not published: {error}; it must be readable for this user",
                path.display()
            );
        }
    }

    /// Connects a rotated file with the next one if a verdict still waits.
    fn link(&mut self) {
        let follows = |name: &String, tail: &Tail| {
            self.tails.iter().find_map(|(next, other)| {
                let part = other.part()?;
                let same = part.before == *name && other.recorder() == tail.recorder();
                same.then(|| (name.clone(), self.path.join(next)))
            })
        };
        let wanting = self.tails.iter().filter(|(_, tail)| tail.wants_next());
        let links: Vec<(String, PathBuf)> = wanting
            .filter_map(|(name, tail)| follows(name, tail))
            .collect();
        for (name, next) in links {
            if let Some(Err(error)) = self
                .tails
                .get_mut(&name)
                .map(|tail| tail.continue_in(&next))
            {
                tracing::debug!("{} is not read: {error}", next.display());
            }
        }
        for tail in self.tails.values_mut() {
            if let Err(error) = tail.read_next() {
                tracing::debug!("the next file is not read: {error}");
            }
        }
    }

    /// Collects the deaths of a file whose verdicts have settled.
    fn collect_settled(
        &mut self,
        name: &str,
        state: &mut State,
        now: BootTime,
        updates: &mut Updates,
    ) {
        let published_as = self.published_as();
        let (Some(tail), Some(file)) = (self.tails.get_mut(name), state.files.get_mut(name)) else {
            return;
        };
        let settled = tail.settled(file, now);
        let Some(origin) = origin(tail, &published_as) else {
            return;
        };
        if !settled.deaths.is_empty() {
            let full = tail.judge.report_of(settled.deaths);
            let public = publish::public(&full);
            for (at, death) in full.deaths.iter().enumerate() {
                if !death.listed || !settled.new.contains(&death.id) {
                    continue;
                }
                state.counts.died(death, &public.deaths[at]);
                if let Some(line) = publish::death(&origin, &full, &public, at) {
                    let last = last_kill(death, &line);
                    updates.snapshot.last_kill = last.or(updates.snapshot.last_kill.take());
                    let event = PodEvent::of(&origin, death, &line);
                    let event = event.filter(|_| !act_has_event(&full.deaths, at, &settled.new));
                    updates.events.extend(event);
                    let unnamed = PodEvent::unnamed(death).map(str::to_owned);
                    updates.unnamed.extend(unnamed);
                    updates.lines.push(line);
                }
            }
        }
        let lost = tail.judge.lost();
        // The ledger continues in the next file of the same recorder.
        let known = state.lost.entry(tail.recorder()).or_default();
        if lost > *known {
            state.counts.lost += lost - *known;
            updates.lines.push(publish::loss(
                &origin,
                tail.judge.wall(tail.last),
                lost - *known,
            ));
            *known = lost;
        }
        file.done = tail.is_done();
        if file.done {
            self.tails.remove(name);
        }
    }

    /// Closes recordings that ended without being asked to. Such a recording is over when a later
    /// one of the same host has begun and its own recorder does not write any more.
    fn close_old(&mut self, state: &mut State, now: BootTime, lines: &mut Vec<Value>) {
        let began: Vec<(String, Utc)> = (self.tails.values())
            .filter_map(|tail| Some((tail.host()?.to_owned(), tail.began()?)))
            .collect();
        let published_as = self.published_as();
        self.tails.retain(|name, tail| {
            if tail.ended || tail.behind {
                return true;
            }
            let same = began
                .iter()
                .filter(|(host, _)| Some(host.as_str()) == tail.host());
            let later = same
                .map(|(_, began)| began)
                .filter(|began| Some(**began) > tail.began());
            let Some(later) = later.min() else {
                return true;
            };
            let is_written = tail.is_written();
            if is_written || tail.is_live(now) && now.since(tail.last) < STALE_NS / 10 {
                return true;
            }
            // The next look publishes what was still open.
            if tail.over.replace(now).is_none() {
                return true;
            }
            if let Some(file) = state.files.get_mut(name) {
                file.done = true;
            }
            // What was before the first start is not published.
            if state.since.is_some_and(|since| later.0 < since) {
                return false;
            }
            state.counts.gaps += 1;
            let origin = origin(tail, &published_as);
            let from = tail.judge.wall(tail.last);
            lines.extend(origin.map(|origin| publish::gap(&origin, from, Some(*later))));
            false
        });
    }

    /// Returns what all lines have in common: all but the host and the time.
    fn published_as(&self) -> Origin {
        Origin {
            host: String::new(),
            folder: self.shown_path(),
            reached_by: self.reached_by.clone(),
            started: Utc(WallTime(0)),
            with_arguments: self.with_arguments,
        }
    }

    /// Returns the folder for the command that shows more. Another one than the usual may name a
    /// user.
    fn shown_path(&self) -> String {
        if self.with_arguments || self.path == Path::new(FALLBACK) {
            sanitize::quoted(&self.path.to_string_lossy())
        } else {
            "FOLDER".to_owned()
        }
    }

    /// Returns a line for each warning that began or ended since the last look.
    fn warnings(&self, live: &Live, state: &mut State) -> Vec<Value> {
        let origin = Origin {
            host: live.host.clone(),
            started: live.wall.unwrap_or(Utc(WallTime(0))),
            ..self.published_as()
        };
        let line = |warning: &LimitWarning, is_over| {
            publish::warning(&origin, live.wall, warning, is_over)
        };
        let is_in = |all: &[LimitWarning], one: &LimitWarning| {
            all.iter().any(|other| other.limit == one.limit)
        };
        let now: Vec<LimitWarning> = live
            .warnings
            .iter()
            .map(|(_, warning)| warning.clone())
            .collect();
        let before: Vec<LimitWarning> = state
            .warnings
            .iter()
            .filter_map(|body| stored(body))
            .collect();
        let over = before.iter().filter(|warning| !is_in(&now, warning));
        let new: Vec<&LimitWarning> = now
            .iter()
            .filter(|warning| !is_in(&before, warning))
            .collect();
        let over: Vec<&LimitWarning> = over.collect();
        if !over.is_empty() || !new.is_empty() {
            let bodies = now
                .iter()
                .map(|warning| row::body(&Observation::LimitWarning(warning.clone())));
            state.warnings = bodies.map(|body| body.to_string()).collect();
        }
        let over = over.into_iter().map(|warning| line(warning, true));
        over.chain(new.into_iter().map(|warning| line(warning, false)))
            .collect()
    }
}

/// Reads a warning from the state, where it is stored as a row of a recording.
fn stored(body: &str) -> Option<LimitWarning> {
    match row::read(body) {
        Some(Observation::LimitWarning(warning)) => Some(warning),
        _ => None,
    }
}

/// Returns whether the act that caused a death has an Event on its pod already: that of a death
/// that was published before, or that comes first in this list.
fn act_has_event(deaths: &[Death], at: usize, new: &HashSet<EventId>) -> bool {
    let of_one = |death: &Death| {
        let pod = death.process.place.kubernetes.as_ref();
        let act = death.verdict.act.map(|act| act.death_id);
        act.zip(pod.and_then(|pod| pod.pod_uid.clone()))
    };
    let own = of_one(&deaths[at]);
    let mut others = deaths.iter().enumerate();
    own.is_some()
        && others.any(|(other, death)| {
            let has_own = death.listed && PodEvent::deserves_one(death);
            let before = other < at || !new.contains(&death.id);
            before && has_own && other != at && of_one(death) == own
        })
}

/// Returns where the lines about a recording come from.
fn origin(tail: &Tail, published_as: &Origin) -> Option<Origin> {
    let RecordingStarted { host, .. } = tail.started.as_ref()?;
    Some(Origin {
        host: host.clone(),
        started: tail.began()?,
        ..published_as.clone()
    })
}

/// Returns the node's name in the recordings. Before there is one, it is this machine's.
fn node(state: &State) -> String {
    if state.node.is_empty() {
        return host::name();
    }
    state.node.clone()
}

/// Fills in the state of the node from the recording that is being written.
fn fill(snapshot: &mut Snapshot, tail: &Tail, live: &Live, now: BootTime) {
    snapshot.recording = true;
    snapshot.node.clone_from(&live.host);
    snapshot.limits.clone_from(&live.threats);
    let active = live.warnings.iter();
    let active = active.map(|(told, warning)| Warned::at(*told, warning, now));
    snapshot.warnings = active.collect();
    snapshot.clusters = tail.judge.clusters();
    let recorder = tail.started.as_ref().and_then(|started| started.recorder);
    // In another pid namespace the pid may belong to another process; the start time shows it.
    let same = recorder
        .filter(|recorder| processes::key(recorder.pid).is_some_and(|found| found.same(*recorder)));
    snapshot.recorder = same.and_then(|recorder| {
        let ticks = processes::cpu_ticks(recorder.pid)?;
        let resident = memory::process(recorder.pid)?.resident()?;
        Some((ticks as f64 * CLOCK_TICK_NS as f64 / 1e9, resident.0))
    });
}

/// Returns the inode of each recording, and its size including the write-ahead log.
fn recordings(folder: &Path) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let mut recordings = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if !name.ends_with(".raytrace") {
            continue;
        }
        let data = match entry.metadata() {
            Ok(data) if data.is_file() => data,
            // A file that has just been deleted is skipped.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => continue,
        };
        let log = std::fs::metadata(folder.join(format!("{name}-wal")));
        let log = log.map_or(0, |data| data.len());
        recordings.insert(name, (data.ino(), data.len() + log));
    }
    Ok(recordings)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        event::{Event, LimitOwner, Mode, Source},
        golden,
        ids::EventId,
        judge::{judge, report::Killer},
        observe::{clock, host},
        recording::{Writer, staged::warning, write_two},
    };

    /// Starts a recording of this machine that contains these events after its first one.
    fn recorder(path: &Path, age_s: i64, whats: Vec<Observation>) -> Writer {
        let writer = Writer::create(path, None).expect("create");
        let started = Observation::RecordingStarted(RecordingStarted {
            host: "gpu-07".into(),
            ..host::started(Mode::Procfs)
        });
        let all = whats.len() + 1;
        for (id, what) in (1..).zip([started].into_iter().chain(whats)) {
            writer.sender().send(Event {
                id: EventId(id),
                time: clock::boot().plus(-age_s * 1_000_000_000),
                source: Source::Recorder,
                what,
            });
        }
        // The writer writes within a second.
        while crate::recording::read(path).map_or(0, |read| read.events.len()) < all {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        writer
    }

    /// Looks once, and returns for each warning line whether the warning is over.
    fn warned(followed: &mut Folder, state: &mut State) -> Vec<bool> {
        let lines = followed.look(state, clock::boot()).lines.into_iter();
        lines
            .filter_map(|line| line["raytrace.warning.over"].as_bool())
            .collect()
    }

    #[test]
    fn active_warning_is_not_repeated_after_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.raytrace");
        let writer = recorder(&path, 0, vec![warning(LimitOwner::Machine, true)]);
        let mut state = State::default();
        let mut followed = Folder::new(folder.path(), false, None);
        assert_eq!(warned(&mut followed, &mut state), [false]);
        assert!(warned(&mut followed, &mut state).is_empty());
        let text = serde_json::to_string(&state).expect("JSON");
        let mut state: State = serde_json::from_str(&text).expect("a state");
        let mut followed = Folder::new(folder.path(), false, None);
        assert!(warned(&mut followed, &mut state).is_empty());
        drop(writer.finish());
        std::fs::remove_file(&path).expect("removed");
        // A file with another name, because an inode number may be used again.
        let path = folder.path().join("b.raytrace");
        let writer = recorder(&path, 0, vec![warning(LimitOwner::Machine, false)]);
        assert_eq!(warned(&mut followed, &mut state), [true]);
        assert!(warned(&mut followed, &mut state).is_empty());
        drop(writer.finish());
    }

    #[test]
    fn node_without_a_recorder_keeps_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = recorder(&folder.path().join("a.raytrace"), 0, Vec::new());
        let (mut followed, mut state) = (Folder::new(folder.path(), false, None), State::default());
        let snapshot = followed.look(&mut state, clock::boot()).snapshot;
        assert!(snapshot.recording && snapshot.node == "gpu-07");
        drop(writer.finish());
        let later = clock::boot().plus(2 * STALE_NS);
        for _ in 0..4 {
            let snapshot = followed.look(&mut state, later).snapshot;
            assert!(!snapshot.recording);
            let text = publish::metrics::render(&snapshot);
            let line = "raytrace_recorder_running{node=\"gpu-07\"} 0";
            assert!(text.contains(line), "{text}");
        }
        // A restarted `publish` knows the name too, even if the folder is gone.
        std::fs::remove_dir_all(folder.path()).expect("removed");
        let snapshot = Folder::new(folder.path(), false, None)
            .look(&mut state, later)
            .snapshot;
        assert_eq!(snapshot.node, "gpu-07");
    }

    /// A folder that is missing for a while changes nothing in the state.
    #[test]
    fn quiet_recorder_is_followed_beside_later_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let quiet = recorder(&folder.path().join("a.raytrace"), 60, Vec::new());
        let later = recorder(&folder.path().join("b.raytrace"), 0, Vec::new());
        let (mut followed, mut state) = (Folder::new(folder.path(), false, None), State::default());
        for _ in 0..3 {
            let lines = followed.look(&mut state, clock::boot()).lines;
            assert_eq!(lines, Vec::<Value>::new());
        }
        assert!(state.files.values().all(|file| !file.done), "{state:?}");
        let before = state.clone();
        let away = folder.path().with_extension("away");
        std::fs::rename(folder.path(), &away).expect("renamed");
        assert!(followed.look(&mut state, clock::boot()).lines.is_empty());
        assert_eq!(state, before);
        std::fs::rename(&away, folder.path()).expect("renamed");
        drop((quiet.finish(), later.finish()));
    }

    /// Only a few of many files are opened at each look.
    #[test]
    fn backlog_is_read_in_parts_without_repeats() {
        let events: Vec<Event> = golden::read("matrix-2.60.0").events;
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..5 {
            let path = folder.path().join(format!("{number}.raytrace"));
            crate::recording::write(&path, &events).expect("written");
        }
        let deaths = judge(&events).deaths;
        let listed = deaths.iter().filter(|death| death.listed).count();
        let (mut followed, mut state) = (Folder::new(folder.path(), false, None), State::default());
        let mut told = 0;
        for _ in 0..8 {
            told += followed
                .look(&mut state, BootTime(0))
                .lines
                .iter()
                .filter(|line| line["raytrace.death.id"].is_string())
                .count();
            assert!(
                followed.tails.len() <= 2 * AT_A_LOOK,
                "{}",
                followed.tails.len()
            );
        }
        assert_eq!(told, 5 * listed);
        assert!(state.files.values().all(|file| file.done), "{state:?}");
    }

    /// Returns the published killer of each death, by the row of its exit.
    fn last_killers(folder: &Path) -> BTreeMap<u64, String> {
        let (mut followed, mut state) = (Folder::new(folder, false, None), State::default());
        let mut told = BTreeMap::new();
        for _ in 0..4 {
            let lines = followed.look(&mut state, BootTime(0)).lines;
            for line in lines
                .iter()
                .filter(|line| line["raytrace.death.id"].is_string())
            {
                let id = line["raytrace.death.id"].as_str().unwrap_or_default();
                let row = id.rsplit('/').next().and_then(|row| row.parse().ok());
                let killer = line["raytrace.killer"].as_str().unwrap_or_default();
                let before = told.insert(row.expect("a row"), killer.to_owned());
                assert_eq!(before, None, "{id} is told twice");
            }
        }
        assert!(state.files.values().all(|file| file.done), "{state:?}");
        assert_eq!(state.counts.gaps, 0);
        told
    }

    #[test]
    fn rotation_without_waiting_deaths_is_no_gap() {
        let events: Vec<Event> = golden::read("matrix-2.60.0").events;
        let folder = tempfile::tempdir().expect("a folder");
        write_two(folder.path(), &events, 2);
        assert!(!last_killers(folder.path()).is_empty());
    }

    #[test]
    fn death_before_rotation_is_judged_by_both() {
        let events: Vec<Event> = golden::read("matrix-2.60.0").events;
        let report = judge(&events);
        let whole = report.deaths.iter().filter(|death| death.listed);
        let whole: BTreeMap<u64, String> = whole
            .map(|death| (death.id.0, death.verdict.killer.name().to_owned()))
            .collect();
        let of_the_monitor: HashSet<EventId> = report
            .deaths
            .iter()
            .filter(|death| death.verdict.killer == Killer::RayMemoryMonitor)
            .map(|death| death.id)
            .collect();
        // Cut after the exit and before Ray's words about it.
        let exits = events.iter().enumerate().filter(|(_, event)| {
            matches!(event.what, Observation::Exit(_)) && of_the_monitor.contains(&event.id)
        });
        let cuts: Vec<usize> = exits.map(|(at, _)| at + 1).collect();
        assert!(!cuts.is_empty());
        let mut differ = 0;
        for cut in cuts {
            let folder = tempfile::tempdir().expect("a folder");
            let files = write_two(folder.path(), &events, cut);
            assert_eq!(last_killers(folder.path()), whole, "cut at {cut}");
            std::fs::remove_file(&files[1]).expect("removed");
            let alone = last_killers(folder.path());
            differ += alone
                .iter()
                .filter(|(id, killer)| whole.get(id) != Some(killer))
                .count();
        }
        assert!(
            differ > 0,
            "the first file alone says the same: nothing was tested"
        );
    }
}
