//! Samples the files of shared memory: how large each is, and who has it open or mapped.
//!
//! A file is sampled even if no process has mapped it. The sizes of known files are read each time.
//! Their holders are found in rounds over the tracked processes. A round begins only when the
//! machine's shared memory has changed by more than the known files explain, or each minute.
//! Between two rounds, only processes that have touched more or less of their shared memory are
//! checked. This stops after [`LONGEST`] and continues at the next call.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rustc_hash::FxHashMap;

use super::rows::{AT_LEAST_NS, moved};
use crate::{
    collect::{
        output::Output,
        processes::{KnownProcess, Processes},
    },
    event::{Observation, Role, SharedFile, Source},
    ids::{BootTime, Bytes, Pid, ProcessKey},
    observe::{
        clock,
        shared_files::{self, FileId, Mounts, SharedMemoryFile},
    },
};

/// Smaller files count as part of the remainder.
const SMALLEST: u64 = 1 << 20;
/// No further process is checked after this much CPU time. It is CPU time because on a busy machine
/// the wall clock runs on.
const LONGEST: Duration = Duration::from_millis(4);
/// The most files that are followed.
const MOST: usize = 512;
/// The most holders that a row names.
const NAMED: usize = 4;

/// The files, and the round under way.
#[derive(Default)]
pub(super) struct SharedFiles {
    files: BTreeMap<FileId, Followed>,
    /// The mounts of each mount namespace, for one round.
    mounts: HashMap<PathBuf, Option<Arc<Mounts>>>,
    /// Processes that are still to be checked.
    left: Vec<ProcessKey>,
    /// What each process had touched of shared memory when it was checked.
    touched: FxHashMap<Pid, Bytes>,
    /// When the last round began, and the shared memory that no known file explained after the last
    /// one.
    began: Option<BootTime>,
    unexplained: Option<Bytes>,
    /// Whether a file was found that no known process has open.
    sought: bool,
    looked: Duration,
}

/// One file.
#[derive(Default)]
struct Followed {
    name: String,
    bytes: Bytes,
    holds: BTreeMap<Pid, Hold>,
    /// The path at which a process sees it, if it has a name.
    place: Option<(Pid, PathBuf)>,
    /// The size and holders in the last row.
    told: Option<(Bytes, Vec<ProcessKey>)>,
}

/// How one process has a file.
struct Hold {
    process: ProcessKey,
    role: Role,
    /// Its descriptor, if it has the file open.
    open: Option<PathBuf>,
    /// An upper bound on what it has touched of the file, if it has it mapped.
    touched: Bytes,
}

impl Followed {
    /// Measures the file's size. A file that is only mapped cannot be asked for its size. It is
    /// taken to be as large as the most that one process has touched of it.
    fn measure(&mut self, id: FileId, known: &Processes) {
        let lives = |hold: &Hold| known.get_as(hold.process).is_some();
        self.holds.retain(|_, hold| lives(hold));
        let mut size = None;
        for (pid, hold) in &mut self.holds {
            let Some(path) = hold.open.as_deref().filter(|_| size.is_none()) else {
                continue;
            };
            size = shared_files::size(*pid, path, id);
            if size.is_none() {
                hold.open = None;
            }
        }
        self.holds
            .retain(|_, hold| hold.open.is_some() || hold.touched.0 > 0);
        if size.is_none()
            && let Some((pid, place)) = &self.place
        {
            size = shared_files::size(*pid, place, id);
            self.place = self.place.take().filter(|_| size.is_some());
        }
        let touched = self.holds.values().map(|hold| hold.touched).max();
        self.bytes = size.or(touched).unwrap_or_default();
    }

    fn holders(&self) -> Vec<ProcessKey> {
        let mut holds: Vec<&Hold> = self.holds.values().collect();
        holds.sort_by_key(|hold| {
            let raylet = hold.role == Role::Raylet;
            (!raylet, hold.open.is_none(), hold.process.start)
        });
        holds.iter().map(|hold| hold.process).collect()
    }

    fn can_be_asked(&self) -> bool {
        self.place.is_some() || self.holds.values().any(|hold| hold.open.is_some())
    }

    fn is_gone(&self) -> bool {
        self.holds.is_empty() && self.place.is_none()
    }
}

impl SharedFiles {
    fn sum(&self) -> u64 {
        self.files.values().map(|file| file.bytes.0).sum()
    }

    fn is_due(&self, now: BootTime, shared: Bytes) -> bool {
        let unexplained = Bytes(shared.0.saturating_sub(self.sum()));
        let old = |began| now.since(began) >= AT_LEAST_NS;
        self.began.is_none_or(old) || self.sought || moved(self.unexplained, Some(unexplained))
    }

    fn begin(&mut self, now: BootTime, known: &Processes) {
        self.began = Some(now);
        self.sought = false;
        self.mounts.clear();
        self.touched.retain(|pid, _| known.get(*pid).is_some());
        // Raylets have most shared memory and come first: processes are taken from the end.
        let mut all: Vec<&KnownProcess> = known.all().collect();
        all.sort_by_key(|known| known.role == Role::Raylet);
        self.left = all.iter().map(|known| known.process.process).collect();
    }

    /// Schedules processes that have touched more or less than when they were checked.
    fn look_again(&mut self, known: &Processes, touched: impl Fn(Pid) -> Bytes) {
        for known in known.all() {
            let process = known.process.process;
            let before = self.touched.get(&process.pid).copied();
            if moved(before, Some(touched(process.pid))) && !self.left.contains(&process) {
                self.left.push(process);
            }
        }
    }

    /// Returns the tmpfs mounts that a process sees. For the first process of a namespace, the
    /// files in them are followed too, open or not.
    fn mounts_of(&mut self, pid: Pid) -> Option<Arc<Mounts>> {
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
        if let Some(known) = self.mounts.get(&namespace) {
            return known.clone();
        }
        let mounts = Mounts::of(pid).map(Arc::new);
        self.mounts.insert(namespace, mounts.clone());
        for (point, device) in mounts.iter().flat_map(|mounts| mounts.points()) {
            for found in shared_files::files_in(pid, point, device, SMALLEST) {
                let place = found.path.clone();
                if let Some(file) = self.follow(found) {
                    file.place = Some((pid, place));
                }
            }
        }
        mounts
    }

    fn follow(&mut self, found: SharedMemoryFile) -> Option<&mut Followed> {
        if self.files.len() >= MOST && !self.files.contains_key(&found.id) {
            return None;
        }
        let file = self.files.entry(found.id).or_default();
        file.name = found.name;
        file.bytes = found.bytes;
        Some(file)
    }

    /// Checks what one process has open and mapped. It has touched `touched` of shared memory in
    /// all.
    fn look_at(&mut self, process: ProcessKey, role: Role, touched: Bytes) {
        let pid = process.pid;
        self.touched.insert(pid, touched);
        for file in self.files.values_mut() {
            file.holds.remove(&pid);
        }
        let Some(mounts) = self.mounts_of(pid) else {
            return;
        };
        for found in shared_files::open(pid, &mounts) {
            if found.bytes.0 < SMALLEST && !self.files.contains_key(&found.id) {
                continue;
            }
            let path = found.path.clone();
            if let Some(file) = self.follow(found) {
                let hold = Hold {
                    process,
                    role,
                    open: Some(path),
                    touched: Bytes(0),
                };
                file.holds.insert(pid, hold);
            }
        }
        if touched.0 >= SMALLEST {
            self.look_at_mappings(process, role, touched, &mounts);
        }
    }

    /// Checks what the process has mapped. A file that cannot be asked is taken to be as large as
    /// the part of `touched` that other files do not explain.
    fn look_at_mappings(
        &mut self,
        process: ProcessKey,
        role: Role,
        touched: Bytes,
        mounts: &Mounts,
    ) {
        let (mut left, mut unasked) = (touched, Vec::new());
        for (id, mapping) in shared_files::mapped(process.pid, mounts) {
            let place = PathBuf::from(format!("/proc/{}/root{}", process.pid, mapping.name));
            let known = self.files.get(&id).filter(|file| file.can_be_asked());
            let size = match known {
                Some(file) => Some(file.bytes),
                None => shared_files::size(process.pid, &place, id),
            };
            let Some(bytes) = size else {
                unasked.push((id, mapping));
                continue;
            };
            let part = Bytes(left.0.min(mapping.length.0).min(bytes.0));
            left.0 -= part.0;
            if known.is_none() && bytes.0 >= SMALLEST {
                let (name, path) = (mapping.name, place.clone());
                let found = SharedMemoryFile {
                    id,
                    name,
                    bytes,
                    path,
                };
                if let Some(file) = self.follow(found) {
                    file.place = Some((process.pid, place));
                }
            }
            self.map(id, process, role, part);
        }
        for (id, mapping) in unasked {
            let part = left.min(mapping.length);
            left.0 -= part.0;
            let known = self.files.contains_key(&id);
            if !known && part.0 >= SMALLEST && self.files.len() < MOST {
                let (name, bytes) = (mapping.name, part);
                let file = Followed {
                    name,
                    bytes,
                    ..Followed::default()
                };
                self.files.insert(id, file);
                // A process may have it open that was checked when the file was small.
                self.sought = true;
            }
            self.map(id, process, role, part);
        }
    }

    fn map(&mut self, id: FileId, process: ProcessKey, role: Role, touched: Bytes) {
        if let Some(file) = self.files.get_mut(&id).filter(|_| touched.0 > 0) {
            let hold = file.holds.entry(process.pid).or_insert_with(|| Hold {
                process,
                role,
                open: None,
                touched,
            });
            hold.touched = touched;
        }
    }

    /// Returns a row for each file that changed. Files that shrank come first, so that nothing
    /// counts twice between two rows.
    fn changed_files(&mut self) -> Vec<SharedFile> {
        let looked_us = u64::try_from(self.looked.as_micros()).unwrap_or(u64::MAX);
        let mut rows = Vec::new();
        for (id, file) in &mut self.files {
            let gone = file.is_gone();
            // A file that no process holds has no pages and no holders.
            let (bytes, all) = (file.bytes, file.holders());
            let named: Vec<ProcessKey> = all.iter().copied().take(NAMED).collect();
            let has_changed = match &file.told {
                None => bytes.0 >= SMALLEST,
                Some((last, holders)) => {
                    gone || moved(Some(*last), Some(bytes)) || *holders != named
                }
            };
            if !has_changed {
                continue;
            }
            let before = file.told.replace((bytes, named.clone()));
            let rise = bytes.0.cast_signed() - before.unwrap_or_default().0.0.cast_signed();
            let row = SharedFile {
                device: id.device,
                inode: id.inode,
                name: file.name.clone(),
                bytes,
                holders: named,
                holder_count: u32::try_from(all.len()).unwrap_or(u32::MAX),
                looked_us,
            };
            rows.push((rise, row));
        }
        self.files.retain(|_, file| !file.is_gone());
        rows.sort_by_key(|(rise, _)| *rise);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Samples shared memory. The machine has `shared`, and `touched` says what each process has
    /// touched of it. Returns true if a file changed.
    pub(super) fn sample(
        &mut self,
        now: BootTime,
        shared: Bytes,
        known: &Processes,
        touched: impl Fn(Pid) -> Bytes,
        out: &mut Output,
    ) -> bool {
        let began = clock::cpu_time();
        let took = || clock::cpu_time().saturating_sub(began);
        for (id, file) in &mut self.files {
            file.measure(*id, known);
        }
        if self.left.is_empty() && self.is_due(now, shared) {
            self.begin(now, known);
        }
        self.look_again(known, &touched);
        while took() < LONGEST
            && let Some(process) = self.left.pop()
        {
            let pid = process.pid;
            if let Some(role) = known.get(pid).map(|known| known.role) {
                self.look_at(process, role, touched(pid));
            }
            if self.left.is_empty() {
                self.unexplained = Some(Bytes(shared.0.saturating_sub(self.sum())));
            }
        }
        self.looked += took();
        let changed = self.changed_files();
        let any = !changed.is_empty();
        for file in changed {
            out.emit(Source::Proc, now, Observation::SharedFile(file));
        }
        any
    }
}
