//! Keeps shared memory by its files: how large each is, and whose.
//!
//! The object store is one file, whichever processes have mapped it.

use std::{cmp::Reverse, collections::HashMap};

use crate::{
    event::SharedFile,
    ids::{BootTime, Bytes, ProcessKey},
    judge::{
        report::{SharedFileUse, SharedKind},
        state::{owners, processes::Processes},
    },
    path,
};

/// At most this many files are kept of a moment.
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

    fn most(&self) -> impl Iterator<Item = Held> {
        let mut files: Vec<&Held> = self.files.values().collect();
        files.sort_by_key(|held| (Reverse(held.file.bytes), &held.file.name));
        files.into_iter().take(TOP).cloned()
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
    use crate::ids::Pid;

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
    fn store_and_mapping_are_recognized() {
        assert_eq!(kind("/dev/shm/plasmaUciWHd"), SharedKind::ObjectStore);
        assert_eq!(kind("/dev/shm/plasma.bin"), SharedKind::File);
        assert_eq!(kind("/dev/zero"), SharedKind::Mapping);
    }
}
