//! The recordings of a folder, the one that is written and those before it.

use std::{
    collections::BTreeMap,
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
    event::{LimitWarning, RecordingStarted},
    ids::{BootTime, CLOCK_TICK_NS},
    judge::{
        live::Live,
        report::{Death, Utc},
    },
    observe::{memory, processes},
    show::publish::{
        self, Origin,
        metrics::{Snapshot, Warned},
        pod_event::PodEvent,
    },
};

/// Recorders whose losses are remembered.
const RECORDERS: usize = 8;

/// What a look has found.
#[derive(Default)]
pub(super) struct News {
    /// Lines that are new.
    pub(super) lines: Vec<Value>,
    /// Deaths that have a pod.
    pub(super) events: Vec<PodEvent>,
    /// The state of the node; its counts are those of the state.
    pub(super) snapshot: Snapshot,
}

/// All that is followed.
pub(super) struct Folder {
    path: PathBuf,
    with_arguments: bool,
    tails: BTreeMap<String, Tail>,
    /// The warnings that stood at the last look.
    near: Vec<(BootTime, LimitWarning)>,
}

impl Folder {
    pub(super) fn new(path: &Path, with_arguments: bool) -> Self {
        Self {
            path: path.to_owned(),
            with_arguments,
            tails: BTreeMap::new(),
            near: Vec::new(),
        }
    }

    /// What was read is read again: its lines could not be handed on.
    pub(super) fn again(&mut self) {
        self.tails.clear();
        self.near.clear();
    }

    /// What is new.
    pub(super) fn look(&mut self, state: &mut State, now: BootTime) -> News {
        let mut news = News::default();
        news.snapshot.with_paths = self.with_arguments;
        let found = recordings(&self.path);
        news.snapshot.bytes = found.values().map(|(_, bytes)| bytes).sum();
        state.files.retain(|name, _| found.contains_key(name));
        while state.lost.len() > RECORDERS {
            state.lost.pop_first();
        }
        self.tails.retain(|name, _| found.contains_key(name));
        for (name, (inode, _)) in &found {
            self.read(name, *inode, state);
        }
        self.link();
        for name in found.keys() {
            self.tell(name, state, now, &mut news);
        }
        self.close_old(state, now, &mut news.lines);
        let newest = self.tails.values().filter(|tail| tail.is_live(now));
        if let Some(tail) = newest.max_by_key(|tail| tail.began()) {
            let live = tail.judge.live(now);
            fill(&mut news.snapshot, tail, &live, now);
            news.lines.extend(self.warnings(&live));
        }
        news
    }

    /// Reads what is new in a file.
    fn read(&mut self, name: &str, inode: u64, state: &mut State) {
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
            match Tail::open(&self.path.join(name)) {
                Ok(tail) => drop(self.tails.insert(name.to_owned(), tail)),
                // It may not have its tables yet, or not be ours to read: it is looked at again.
                Err(error) => return tracing::debug!("{name} is not read: {error}"),
            }
        }
        let Some(tail) = self.tails.get_mut(name) else {
            return;
        };
        if let Err(error) = tail.read(file) {
            tracing::debug!("{name} is not read: {error}");
        }
    }

    /// Files that were rotated while a verdict waited go on in the file that follows.
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
            if let Some(Err(error)) = self.tails.get_mut(&name).map(|tail| tail.goes_on_in(&next)) {
                tracing::debug!("{} is not read: {error}", next.display());
            }
        }
        for tail in self.tails.values_mut() {
            if let Err(error) = tail.read_next() {
                tracing::debug!("the next file is not read: {error}");
            }
        }
    }

    /// What has settled in a file.
    fn tell(&mut self, name: &str, state: &mut State, now: BootTime, news: &mut News) {
        let (Some(tail), Some(file)) = (self.tails.get_mut(name), state.files.get_mut(name)) else {
            return;
        };
        let settled = tail.settled(file, now);
        let Some(origin) = origin(tail, self.with_arguments) else {
            return;
        };
        let settled: Vec<Death> = settled.into_iter().filter(|death| death.listed).collect();
        if !settled.is_empty() {
            let full = tail.judge.report_of(settled);
            let public = publish::public(&full);
            for at in 0..full.deaths.len() {
                state.counts.died(&full.deaths[at], &public.deaths[at]);
                if let Some(line) = publish::death(&origin, &full, &public, at) {
                    let last = last_kill(&full.deaths[at], &line);
                    news.snapshot.last_kill = last.or(news.snapshot.last_kill.take());
                    let event = PodEvent::of(&origin, &full.deaths[at], &line);
                    news.events.extend(event);
                    news.lines.push(line);
                }
            }
        }
        let lost = tail.judge.lost();
        // The ledger goes on in the next file of the same recorder.
        let known = state.lost.entry(tail.recorder()).or_default();
        if lost > *known {
            state.counts.lost += lost - *known;
            news.lines.push(publish::loss(
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

    /// A recording that did not end as asked is over when a later one has begun, or when this machine has started anew.
    fn close_old(&mut self, state: &mut State, now: BootTime, lines: &mut Vec<Value>) {
        let began: Vec<Utc> = self.tails.values().filter_map(Tail::began).collect();
        let with_arguments = self.with_arguments;
        self.tails.retain(|name, tail| {
            if tail.ended {
                return true;
            }
            let later = began
                .iter()
                .filter(|began| Some(**began) > tail.began())
                .min();
            let Some(later) = later else {
                return true;
            };
            if tail.is_live(now) && now.since(tail.last) < STALE_NS / 10 {
                return true;
            }
            state.counts.gaps += 1;
            if let Some(file) = state.files.get_mut(name) {
                file.done = true;
            }
            let origin = origin(tail, with_arguments);
            let from = tail.judge.wall(tail.last);
            lines.extend(origin.map(|origin| publish::gap(&origin, from, Some(*later))));
            false
        });
    }

    /// What was foreseen since the last look, and what has passed.
    fn warnings(&mut self, live: &Live) -> Vec<Value> {
        let origin = Origin {
            host: live.host.clone(),
            started: live.wall.unwrap_or(Utc(crate::ids::WallTime(0))),
            with_arguments: self.with_arguments,
        };
        let line =
            |near: &LimitWarning, is_over| publish::warning(&origin, live.wall, near, is_over);
        let is_in = |all: &[(BootTime, LimitWarning)], one: &LimitWarning| {
            all.iter().any(|(_, other)| other.limit == one.limit)
        };
        let before = std::mem::replace(&mut self.near, live.near.clone());
        let over = before.iter().filter(|(_, near)| !is_in(&live.near, near));
        let new = live.near.iter().filter(|(_, near)| !is_in(&before, near));
        let over = over.map(|(_, near)| line(near, true));
        over.chain(new.map(|(_, near)| line(near, false))).collect()
    }
}

fn origin(tail: &Tail, with_arguments: bool) -> Option<Origin> {
    let RecordingStarted { host, .. } = tail.started.as_ref()?;
    Some(Origin {
        host: host.clone(),
        started: tail.began()?,
        with_arguments,
    })
}

/// The state of the node, by the recording that is written.
fn fill(snapshot: &mut Snapshot, tail: &Tail, live: &Live, now: BootTime) {
    snapshot.recording = true;
    snapshot.node.clone_from(&live.host);
    snapshot.limits.clone_from(&live.threats);
    let standing = live.near.iter();
    let standing = standing.map(|(told, warning)| Warned::at(*told, warning, now));
    snapshot.near = standing.collect();
    snapshot.clusters = tail.judge.clusters();
    let recorder = tail.started.as_ref().and_then(|started| started.recorder);
    // In another pid namespace another process may have its pid: its start tells.
    let same = recorder
        .filter(|recorder| processes::key(recorder.pid).is_some_and(|found| found.same(*recorder)));
    snapshot.recorder = same.and_then(|recorder| {
        let ticks = processes::cpu_ticks(recorder.pid)?;
        let resident = memory::process(recorder.pid)?.resident()?;
        Some((ticks as f64 * CLOCK_TICK_NS as f64 / 1e9, resident.0))
    });
}

/// Inode and size of each recording with its log.
fn recordings(folder: &Path) -> BTreeMap<String, (u64, u64)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let recordings = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let data = entry.metadata().ok()?;
        let recording = data.is_file() && name.ends_with(".raytrace");
        let log = std::fs::metadata(folder.join(format!("{name}-wal")));
        let log = log.map_or(0, |data| data.len());
        recording.then(|| (name, (data.ino(), data.len() + log)))
    });
    recordings.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{
        event::{Event, Observation},
        golden,
        ids::EventId,
        judge::{judge, report::Killer},
        recording::write_two,
    };

    /// The last killer that is told of each death, by the row of its exit.
    fn told(folder: &Path) -> BTreeMap<u64, String> {
        let (mut followed, mut state) = (Folder::new(folder, false), State::default());
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
    fn a_file_that_was_rotated_while_nothing_waited_is_no_gap() {
        let events: Vec<Event> = golden::read("matrix-2.60.0").events;
        let folder = tempfile::tempdir().expect("a folder");
        write_two(folder.path(), &events, 2);
        assert!(!told(folder.path()).is_empty());
    }

    #[test]
    fn a_death_at_the_seam_of_two_files_is_judged_by_both() {
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
        // After the exit, before what Ray says of it.
        let exits = events.iter().enumerate().filter(|(_, event)| {
            matches!(event.what, Observation::Exit(_)) && of_the_monitor.contains(&event.id)
        });
        let cuts: Vec<usize> = exits.map(|(at, _)| at + 1).collect();
        assert!(!cuts.is_empty());
        let mut differ = 0;
        for cut in cuts {
            let folder = tempfile::tempdir().expect("a folder");
            let files = write_two(folder.path(), &events, cut);
            assert_eq!(told(folder.path()), whole, "cut at {cut}");
            std::fs::remove_file(&files[1]).expect("removed");
            let alone = told(folder.path());
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
