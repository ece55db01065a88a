//! What each of the two is: its machines, when they were recorded, and for how long.

use super::{Side, machines::Machines};
use crate::{
    ids::SECOND_NS,
    judge::report::{Recording, Report},
};

/// One of the two, with the name of its file.
pub(super) fn of((file, report): (&str, &Report)) -> Side {
    let recordings = report.recordings.as_slice();
    let started = recordings.iter().map(|one| one.started).min();
    let ended = recordings.iter().map(|one| one.ended).max();
    Side {
        file: file.to_owned(),
        nodes: u32::try_from(Machines::of(report).count()).unwrap_or(u32::MAX),
        host: same(recordings, |one| one.host.name.clone()),
        memory_bytes: same(recordings, |one| one.host.memory_bytes),
        mode: same(recordings, |one| one.mode),
        started,
        seconds: started
            .zip(ended)
            .and_then(|(from, to)| u64::try_from((to.0.0 - from.0.0) / SECOND_NS).ok()),
        peak: report.peak,
    }
}

/// What all recordings have alike.
fn same<T: PartialEq>(recordings: &[Recording], of: impl Fn(&Recording) -> T) -> Option<T> {
    let mut all = recordings.iter().map(of);
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
