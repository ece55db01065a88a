//! Describes shared memory by file and holder: as a sum with its remainder, and at a death.

use crate::{
    ids::Bytes,
    judge::report::{Death, Report, SharedFileUse, SharedKind},
    show::{
        sanitize,
        size::{Unit, size},
    },
};

/// Maximum number of files that a line names.
const NAMED: usize = 3;
/// Smaller files are left out.
const LEAST: u64 = 64 << 20;
/// At a death, so are files that hold less than one part in this many of what the biggest process
/// held.
const PART: u64 = 10;

/// `1.4 GiB at most = 1.3 memfd:weights (Holder pid 7) + 0.1 object store + 0.0 other`.
pub(super) fn line(report: &Report) -> Option<String> {
    let sum = report.shared_memory.as_ref()?;
    sum.files.first().filter(|file| file.bytes.0 >= LEAST)?;
    let unit = Unit::of(sum.shared_bytes);
    let named = sum.files.iter().take(NAMED);
    let mut parts: Vec<String> = named
        .map(|file| {
            let among = if file.files > 1 { "in " } else { "" };
            format!("{} {among}{}", unit.figure(file.bytes), what(file))
        })
        .collect();
    let known: u64 = sum.files.iter().take(NAMED).map(|file| file.bytes.0).sum();
    let rest = sum.shared_bytes.0.saturating_sub(known);
    parts.push(format!("{} other", unit.figure(Bytes(rest))));
    Some(format!(
        "{} at most = {}",
        unit.sum(sum.shared_bytes),
        parts.join(" + ")
    ))
}

/// Returns `memfd:weights 300 MiB, held by Holder pid 7` for files that are large compared with the
/// processes. With `all`, returns the largest files whatever their size.
pub(super) fn at_death(death: &Death, all: bool) -> Option<String> {
    let process = death
        .memory
        .top
        .first()
        .map_or(0, |top| top.private_bytes.0);
    let much =
        |file: &&SharedFileUse| all || file.bytes.0 >= LEAST && file.bytes.0 * PART >= process;
    let files = death.memory.shared.iter().filter(much).take(NAMED);
    let told: Vec<String> = files
        .map(|file| {
            let name = name(file);
            let held = holder(file).map_or_else(String::new, |holder| format!(", {holder}"));
            format!("{name} {}{held}", size(file.bytes))
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// `memfd:weights (Holder pid 7)`.
pub(super) fn what(file: &SharedFileUse) -> String {
    match (file.kind, owner(file)) {
        (SharedKind::ObjectStore, _) | (_, None) => name(file),
        (_, Some(owner)) => format!("{} ({owner})", name(file)),
    }
}

fn name(file: &SharedFileUse) -> String {
    match file.kind {
        SharedKind::ObjectStore => "object store".to_owned(),
        SharedKind::Mapping => "shared mapping".to_owned(),
        SharedKind::File if file.files > 1 => {
            let (folder, _) = file.name.rsplit_once('/').unwrap_or_default();
            format!("{} files in {}", file.files, sanitize::name(folder))
        }
        SharedKind::Memfd | SharedKind::File => sanitize::name(&file.name),
    }
}

fn owner(file: &SharedFileUse) -> Option<String> {
    let pid = file.holder_pid?;
    Some(match &file.holder {
        Some(holder) => format!("{} pid {pid}", sanitize::name(holder)),
        None => format!("pid {pid}"),
    })
}

fn holder(file: &SharedFileUse) -> Option<String> {
    let owner = owner(file)?;
    Some(match file.holders {
        0 => format!("left by {owner}"),
        1 => format!("held by {owner}"),
        many => format!("held by {owner} and {} more", many - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Pid,
        judge::{
            cause::Cause,
            report::{Killer, SharedUse},
        },
        show::sample::{self, at, gib},
    };

    fn file(name: &str, kind: SharedKind, bytes: f64, holders: u32) -> SharedFileUse {
        SharedFileUse {
            name: name.into(),
            kind,
            bytes: gib(bytes),
            holder_pid: Some(Pid(7)),
            holder: Some("Holder".into()),
            holders,
            files: 1,
        }
    }

    #[test]
    fn files_and_the_rest_add_up() {
        let mut report = sample::report(Vec::new(), Vec::new());
        assert_eq!(line(&report), None);
        report.shared_memory = Some(SharedUse {
            time: at(0),
            shared_bytes: gib(4.0),
            files: vec![
                file("memfd:weights", SharedKind::Memfd, 3.0, 2),
                file("/dev/shm/plasmaX", SharedKind::ObjectStore, 0.5, 4),
            ],
            remainder_bytes: gib(0.5).0.cast_signed(),
            looked_ms: 3,
        });
        assert_eq!(
            line(&report).as_deref(),
            Some(
                "4.0 GiB at most = 3.0 memfd:weights (Holder pid 7) + 0.5 object store + 0.5 other"
            )
        );
    }

    #[test]
    fn small_sum_uses_its_parts_unit() {
        let mut report = sample::report(Vec::new(), Vec::new());
        report.shared_memory = Some(SharedUse {
            time: at(0),
            shared_bytes: Bytes(329 << 20),
            files: vec![SharedFileUse {
                bytes: Bytes(320 << 20),
                ..file("/dev/shm/plasmaX", SharedKind::ObjectStore, 0.0, 4)
            }],
            remainder_bytes: 9 << 20,
            looked_ms: 3,
        });
        assert_eq!(
            line(&report).as_deref(),
            Some("329 MiB at most = 320 object store + 9 other")
        );
    }

    #[test]
    fn death_lists_large_files_and_holders() {
        let mut death = sample::death(1, 41, 0, Killer::Signal, Cause::signal(9));
        death.memory.top.clear();
        death.memory.shared = vec![
            file("memfd:weights", SharedKind::Memfd, 3.0, 2),
            file("/dev/shm/kept", SharedKind::File, 1.0, 0),
            file("/dev/shm/small", SharedKind::File, 0.01, 1),
        ];
        death.memory.shared[1].files = 40;
        assert_eq!(
            at_death(&death, false).as_deref(),
            Some(
                "memfd:weights 3.0 GiB, held by Holder pid 7 and 1 more; 40 files in /dev/shm 1.0 GiB, left by Holder pid 7"
            )
        );
    }
}
