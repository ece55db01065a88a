//! Finds files in `/dev/shm` or another tmpfs that filled the limit.
//!
//! Such a file is memory until it is deleted and no process has it open or mapped. Ray's object
//! store is left out, which `object-store-filled` is about.

use std::{collections::BTreeMap, path::Path};

use super::{
    Run, about,
    part_of::part_of,
    store_filled::{self, biggest},
};
use crate::{
    ids::{Bytes, Pid, size},
    judge::report::{Certainty, Death, Finding, SharedFileUse, SharedKind},
    phrase::{self, when},
    python,
};

/// The files hold at least this share of the limit.
const SHARE: f64 = 0.3;
/// Files that no process has open may be of an earlier job. Those of a folder are taken for the
/// cause if they hold at least this share of what counts against the limit.
const MOST: f64 = 0.5;
/// So much more than what counts cannot all be charged to the limit.
const MORE: f64 = 1.1;
/// The most processes that are named.
const NAMED: usize = 2;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    run.at_limits(|death, limit| {
        let charged = charged(run, death)?;
        let inside = run.inside(death);
        let is_inside = |pid| inside.iter().any(|held| held.pid == pid);
        let folders = Folder::of(death, is_inside).into_iter();
        let folder = folders
            .filter(|folder| folder.may_count(charged))
            .max_by_key(|folder| folder.bytes)?;
        let held = folder.bytes.min(charged);
        let filled = held.gib() >= SHARE * limit.gib() && held > biggest(run.inside(death));
        filled.then(|| (death.cluster, finding(run, death, &folder, [held, limit])))
    })
}

/// Returns the files in a folder that held most when a process died, and whose they are:
/// `4 files in /dev/shm 64 MiB`, `of Actor (pid 7)`.
pub(super) fn most_in(death: &Death, path: &str) -> Option<(String, String)> {
    let folders = Folder::of(death, |_| true).into_iter();
    let folder = folders
        .filter(|folder| Path::new(folder.path).starts_with(path) && !folder.holders.is_empty())
        .max_by_key(|folder| folder.bytes)?;
    let files = format!("{} {}", folder.name(), folder.bytes.finer_size());
    Some((files, folder.whose()))
}

/// Returns the shared memory that counts against the limit, without the object store.
fn charged(run: Run<'_>, death: &Death) -> Option<Bytes> {
    let files = death.memory.shared.iter();
    let stores = files.filter(|file| file.kind == SharedKind::ObjectStore);
    let stores: u64 = stores.map(|file| file.bytes.0).sum();
    Some(Bytes(run.shared(death)?.0.saturating_sub(stores)))
}

/// The files of a folder that may count against the limit that was hit: those of processes inside
/// it, and those that no process has open.
#[derive(Default)]
struct Folder<'a> {
    path: &'a str,
    /// The first file.
    file: &'a str,
    files: u32,
    bytes: Bytes,
    /// The processes that have some of them, as `Sampler (pid 7)`.
    holders: Vec<String>,
}

impl<'a> Folder<'a> {
    /// Returns the folders with files of processes that count, and with files that none has open.
    fn of(death: &'a Death, is_inside: impl Fn(Pid) -> bool) -> Vec<Self> {
        let mut folders: BTreeMap<&str, Self> = BTreeMap::new();
        for file in &death.memory.shared {
            let pid = file.holder_pid.filter(|pid| is_inside(*pid));
            if file.kind != SharedKind::File || (file.holders > 0 && pid.is_none()) {
                continue;
            }
            let path = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let folder = folders.entry(path).or_default();
            if folder.files == 0 {
                (folder.path, folder.file) = (path, &file.name);
            }
            folder.files += file.files;
            folder.bytes.0 += file.bytes.0;
            folder
                .holders
                .extend(holder(file).filter(|_| pid.is_some()));
        }
        folders.into_values().collect()
    }

    fn may_count(&self, charged: Bytes) -> bool {
        let all = MOST * charged.gib()..=MORE * charged.gib();
        !self.holders.is_empty() || all.contains(&self.bytes.gib())
    }

    /// Returns `60 files in /dev/shm`, or the name of the only one.
    fn name(&self) -> String {
        match self.files {
            1 => self.file.to_owned(),
            files => format!("{files} files in {}", self.path),
        }
    }

    fn whose(&self) -> String {
        match self.holders.as_slice() {
            [] => "which no process has open".to_owned(),
            holders => {
                let named = &holders[..holders.len().min(NAMED)];
                let more = when(holders.len() > NAMED, " and others");
                format!("of {}{more}", phrase::join(named))
            }
        }
    }
}

fn holder(file: &SharedFileUse) -> Option<String> {
    let name = file.holder.as_deref().unwrap_or("a process");
    Some(format!("{name} (pid {})", file.holder_pid?))
}

fn finding(run: Run<'_>, death: &Death, folder: &Folder<'_>, [held, limit]: [Bytes; 2]) -> Finding {
    let (name, whose) = (folder.name(), folder.whose());
    let [part, percent, whole] = part_of(held, limit);
    let summary = format!(
        "{name}, {whose}, held {part}, {percent} of the limit of {whole}: a file there is memory until it is deleted and closed"
    );
    let mut finding = about("shared-files-filled", Certainty::Inferred, death, summary);
    finding.about.bytes = held;
    finding.about.shared = Some(format!("{name} {}, {whose}", size(held)));
    // The line with the most shared memory may have put objects into a store.
    let mut files = death.memory.shared.iter();
    let has_store =
        files.any(|file| file.kind == SharedKind::ObjectStore && file.bytes.0 > held.0 / 4);
    let line = store_filled::put(run, held).map(|(_, line, _)| line);
    let line = line
        .filter(|_| !has_store)
        .filter(|line| line.user_line.is_some() || python::is_user_code(&line.file));
    let place = match (line, folder.holders.as_slice()) {
        (Some(line), _) => format!("at {}, ", store_filled::name(line)),
        (None, [only]) => format!("in {only}, "),
        _ => String::new(),
    };
    finding.about.own_line = line.is_some();
    finding.remedy = vec![format!(
        "{place}drop the tensors and arrays in files of {} that are used up, and delete the files (SharedMemory.unlink(), os.remove())",
        folder.path
    )];
    finding.not_if = Some("they were there before the job began (ls -l --full-time)".into());
    finding
}
