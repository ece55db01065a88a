//! Keeps shared memory by its files: how large each is, and whose.
//!
//! The object store is one file, whichever processes have mapped it. Files that one process has in
//! one folder are one row.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
};

use crate::{
    event::SharedFile,
    ids::{BootTime, Bytes, Pid, ProcessKey},
    judge::{
        report::{SharedFileUse, SharedKind},
        state::{owners, processes::Processes},
    },
    path,
};

/// At most this many rows are kept of a moment.
const TOP: usize = 8;

/// All files now, and when they were largest together.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles {
    files: HashMap<(u64, u64), Held>,
    sum: u64,
    pub(crate) peak: Option<Peak>,
    pub(crate) looked_us: u64,
}

/// A file and its holder. The name of the holder may become known after the file was seen.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) file: SharedFileUse,
    by: Option<ProcessKey>,
}

impl Held {
    /// Returns what the files of one row have in common.
    fn row(&self) -> (SharedKind, Option<Pid>, &str) {
        let name = self.file.name.as_str();
        let folder = name.rsplit_once('/').map(|(folder, _)| folder);
        let folder = folder.filter(|_| self.file.kind == SharedKind::File);
        let holder = self.file.holder_pid.filter(|_| self.file.holders > 0);
        (self.file.kind, holder, folder.unwrap_or(name))
    }

    /// Adds another file of the same row.
    fn add(&mut self, other: &Self) {
        if self.file.holder_pid != other.file.holder_pid {
            (self.by, self.file.holder_pid, self.file.holder) = (None, None, None);
        }
        if other.file.name < self.file.name {
            self.file.name.clone_from(&other.file.name);
        }
        self.file.bytes.0 += other.file.bytes.0;
        self.file.files += other.file.files;
        self.file.holders = self.file.holders.max(other.file.holders);
    }

    /// Returns the file with the name that its holder has by now.
    pub(crate) fn named(&self, processes: &Processes) -> SharedFileUse {
        let state = self.by.and_then(|key| processes.get(key));
        let now = state.map(owners::called);
        let holder = now.or_else(|| self.file.holder.clone());
        SharedFileUse {
            holder,
            ..self.file.clone()
        }
    }
}

/// The moment at which the files were largest together.
#[derive(Debug)]
pub(crate) struct Peak {
    pub(crate) time: BootTime,
    sum: u64,
    pub(crate) shared: Bytes,
    pub(crate) files: Vec<Held>,
}

impl SharedFiles {
    pub(crate) fn sampled(&mut self, file: &SharedFile, processes: &Processes) {
        self.looked_us = file.looked_us;
        let id = (file.device, file.inode);
        let last = self.files.remove(&id);
        self.sum -= last.as_ref().map_or(0, |last| last.file.bytes.0);
        if file.bytes.0 > 0 {
            self.sum += file.bytes.0;
            self.files.insert(id, used(file, last, processes));
        }
    }

    /// Records that the machine has `shared` in all. The moment becomes the peak if the files hold
    /// more than ever.
    pub(crate) fn summed(&mut self, time: BootTime, shared: Bytes, processes: &Processes) {
        let most = self.peak.as_ref().map_or(0, |peak| peak.sum);
        if self.sum > most {
            let named = |held: Held| Held {
                file: held.named(processes),
                by: held.by,
            };
            self.peak = Some(Peak {
                time,
                sum: self.sum,
                shared,
                files: self.most().map(named).collect(),
            });
        }
    }

    /// Returns the biggest files now.
    pub(crate) fn biggest(&self, processes: &Processes) -> Vec<SharedFileUse> {
        self.most().map(|held| held.named(processes)).collect()
    }

    /// Returns the rows that hold the most. Each has the name of its first file.
    fn most(&self) -> impl Iterator<Item = Held> {
        let mut rows: HashMap<(SharedKind, Option<Pid>, &str), Held> = HashMap::new();
        for held in self.files.values() {
            match rows.entry(held.row()) {
                Entry::Vacant(new) => drop(new.insert(held.clone())),
                Entry::Occupied(mut row) => row.get_mut().add(held),
            }
        }
        let mut rows: Vec<Held> = rows.into_values().collect();
        rows.sort_by(|one, other| {
            let order = |held: &Held| Reverse(held.file.bytes);
            let by_size = order(one).cmp(&order(other));
            by_size.then_with(|| one.file.name.cmp(&other.file.name))
        });
        rows.into_iter().take(TOP)
    }
}

/// Returns the file with its owner's name at this moment. If nobody has it any more, the last owner
/// stays.
fn used(file: &SharedFile, last: Option<Held>, processes: &Processes) -> Held {
    let by = file.holders.first().copied();
    let state = by.and_then(|key| processes.get(key));
    let (mut holder_pid, mut holder) = (by.map(|key| key.pid), state.map(owners::called));
    if by.is_none()
        && let Some(last) = last
    {
        (holder_pid, holder) = (last.file.holder_pid, last.file.holder);
    }
    let file = SharedFileUse {
        kind: kind(&file.name),
        name: file.name.clone(),
        bytes: file.bytes,
        holder_pid,
        holder,
        holders: file.holder_count,
        files: 1,
    };
    Held { file, by }
}

/// Returns the kind of a file. The object store's is `plasma` and six random letters:
/// `create_buffer` in Ray's `plasma/dlmalloc.cc`.
fn kind(name: &str) -> SharedKind {
    let chance = path::base(name).strip_prefix("plasma").unwrap_or_default();
    match name {
        _ if name.starts_with("memfd:") => SharedKind::Memfd,
        _ if chance.len() == 6 => SharedKind::ObjectStore,
        // The kernel's name for mappings without a file.
        "/dev/zero" => SharedKind::Mapping,
        _ if name.starts_with("/SYSV") || name.starts_with("[anon_shmem:") => SharedKind::Mapping,
        _ => SharedKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(inode: u64, name: &str, mib: u64, holders: &[u32]) -> SharedFile {
        SharedFile {
            device: 1,
            inode,
            name: name.into(),
            bytes: Bytes(mib << 20),
            holders: holders.iter().map(|pid| ProcessKey::new(*pid, 1)).collect(),
            holder_count: u32::try_from(holders.len()).expect("a few"),
            looked_us: 1500,
        }
    }

    #[test]
    fn file_counts_once_and_keeps_its_last_holder() {
        let mut files = SharedFiles::default();
        let processes = Processes::default();
        files.sampled(&row(1, "memfd:weights", 300, &[7, 8]), &processes);
        files.sampled(&row(2, "/dev/shm/kept", 50, &[9]), &processes);
        files.summed(BootTime(1), Bytes(360 << 20), &processes);
        files.sampled(&row(2, "/dev/shm/kept", 50, &[]), &processes);
        files.sampled(&row(1, "memfd:weights", 0, &[]), &processes);
        files.summed(BootTime(2), Bytes(60 << 20), &processes);
        let now = files.biggest(&processes);
        assert_eq!(
            (now.len(), now[0].holder_pid, now[0].holders),
            (1, Some(Pid(9)), 0)
        );
        let peak = files.peak.expect("a peak");
        assert_eq!((peak.time, peak.files.len()), (BootTime(1), 2));
        let files: Vec<SharedFileUse> = peak.files.into_iter().map(|held| held.file).collect();
        let known: u64 = files.iter().map(|file| file.bytes.0).sum();
        assert_eq!((peak.shared.0, known), (360 << 20, 350 << 20));
        assert_eq!(files[0].kind, SharedKind::Memfd);
    }

    #[test]
    fn files_of_one_process_in_one_folder_are_one_row() {
        let mut files = SharedFiles::default();
        let processes = Processes::default();
        for inode in 1..=20 {
            let name = format!("/dev/shm/psm_{inode}");
            files.sampled(&row(inode, &name, 10, &[7]), &processes);
        }
        files.sampled(&row(30, "/dev/shm/run/a", 90, &[7]), &processes);
        files.sampled(&row(31, "/dev/shm/psm_other", 50, &[8]), &processes);
        let now = files.biggest(&processes);
        let rows: Vec<(u64, u32, Option<Pid>)> = now
            .iter()
            .map(|file| (file.bytes.0 >> 20, file.files, file.holder_pid))
            .collect();
        let (seven, eight) = (Some(Pid(7)), Some(Pid(8)));
        assert_eq!(rows, [(200, 20, seven), (90, 1, seven), (50, 1, eight)]);
        assert_eq!(now[0].name, "/dev/shm/psm_1");
    }

    #[test]
    fn store_and_mapping_are_recognized() {
        assert_eq!(kind("/dev/shm/plasmaUciWHd"), SharedKind::ObjectStore);
        assert_eq!(kind("/dev/shm/plasma.bin"), SharedKind::File);
        assert_eq!(kind("/dev/zero"), SharedKind::Mapping);
    }
}
