//! Shared memory by its files: who has them open or mapped, and how large each is, though no process may have mapped it.
//!
//! The sizes of known files are asked for at each look. Who holds what is looked for in rounds over the tracked processes, and only when
//! the machine's shared memory has moved by more than the known files explain, or each minute; between two rounds at those processes
//! alone that have touched more of what they have mapped. A look ends after [`LONGEST`]; what is left of it follows at the next.

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
        processes::{Known, Processes},
    },
    event::{Observation, Role, SharedFile, Source},
    ids::{BootTime, Bytes, Pid, ProcessKey},
    observe::{
        clock,
        shared_files::{self, FileId, Found, Mounts},
    },
};

/// Smaller files are left to the remainder.
const SMALLEST: u64 = 1 << 20;
/// No look begins another process after this much CPU time: on a busy machine the clock on the wall runs on.
const LONGEST: Duration = Duration::from_millis(4);
/// Files that are followed.
const MOST: usize = 512;
/// Holders that a row names.
const NAMED: usize = 4;

/// The files, and the round that is under way.
#[derive(Default)]
pub(super) struct SharedFiles {
    files: BTreeMap<FileId, Followed>,
    /// By mount namespace, for one round.
    mounts: HashMap<PathBuf, Option<Arc<Mounts>>>,
    /// Who is still to be looked at.
    left: Vec<ProcessKey>,
    /// What each had touched of shared memory when it was looked at.
    touched: FxHashMap<Pid, Bytes>,
    /// When the last round began, and what no known file explained after the last one.
    began: Option<BootTime>,
    unexplained: Option<Bytes>,
    /// A file came up of which no descriptor is known.
    sought: bool,
    looked: Duration,
}

/// One file.
#[derive(Default)]
struct Followed {
    name: String,
    bytes: Bytes,
    holds: BTreeMap<Pid, Hold>,
    /// Where it lies as a process sees it, for one that has a name.
    place: Option<(Pid, PathBuf)>,
    /// The last row: size and holders.
    told: Option<(Bytes, Vec<ProcessKey>)>,
}

/// How one process has it.
struct Hold {
    process: ProcessKey,
    role: Role,
    /// Its descriptor, when it has it open.
    open: Option<PathBuf>,
    /// What it may have touched of it at most, when it has it mapped.
    touched: Bytes,
}

impl Followed {
    /// Its size now. A file that is mapped only cannot be asked: it is as large as what one process has touched of it.
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
        // Raylets, which have most of it, come first: they are taken from the end.
        let mut all: Vec<&Known> = known.all().collect();
        all.sort_by_key(|known| known.role == Role::Raylet);
        self.left = all.iter().map(|known| known.process.process).collect();
    }

    /// Looks again at who has touched more or less than when it was looked at.
    fn look_again(&mut self, known: &Processes, touched: impl Fn(Pid) -> Bytes) {
        for known in known.all() {
            let process = known.process.process;
            let before = self.touched.get(&process.pid).copied();
            if moved(before, Some(touched(process.pid))) && !self.left.contains(&process) {
                self.left.push(process);
            }
        }
    }

    /// The tmpfs that a process sees. For the first of a namespace also what lies in them, open or not.
    fn mounts_of(&mut self, pid: Pid) -> Option<Arc<Mounts>> {
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?;
        if let Some(known) = self.mounts.get(&namespace) {
            return known.clone();
        }
        let mounts = Mounts::of(pid).map(Arc::new);
        self.mounts.insert(namespace, mounts.clone());
        for (point, device) in mounts.iter().flat_map(|mounts| mounts.points()) {
            for found in shared_files::lying_in(pid, point, device, SMALLEST) {
                let place = found.path.clone();
                if let Some(file) = self.follow(found) {
                    file.place = Some((pid, place));
                }
            }
        }
        mounts
    }

    fn follow(&mut self, found: Found) -> Option<&mut Followed> {
        if self.files.len() >= MOST && !self.files.contains_key(&found.id) {
            return None;
        }
        let file = self.files.entry(found.id).or_default();
        file.name = found.name;
        file.bytes = found.bytes;
        Some(file)
    }

    /// What one process has open and mapped; it has touched `touched` of shared memory in all.
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

    /// What the process has mapped. A file that cannot be asked is as large as what is left of `touched`.
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
                let found = Found {
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
                // Somebody may have it open who was looked at when it was small.
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

    /// A row for each file of which something moved; those that shrank come first, so that nothing counts twice between two rows.
    fn changed_files(&mut self) -> Vec<SharedFile> {
        let looked_us = u64::try_from(self.looked.as_micros()).unwrap_or(u64::MAX);
        let mut rows = Vec::new();
        for (id, file) in &mut self.files {
            let gone = file.is_gone();
            // A file of which nothing leads to anybody has no pages, and no holders.
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

    /// Looks at shared memory, of which the machine has `shared`, and processes have `touched` of it; true when there was news.
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
