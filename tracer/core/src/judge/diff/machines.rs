//! Finds the machines of a run: which recordings are of the same one, by host name.
//!
//! A machine may be recorded several times, also after a reboot. Several machines may have one name
//! at the same time, as containers of one image do. These are told apart by their boot ids, and are
//! not matched with machines of another run.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::report::{Owner, Recording, Report};

/// The name of a host, and its boot id if the name is not enough.
pub(super) type Machine<'a> = (&'a str, &'a str);

/// The machines of one report.
pub(super) struct Machines<'a> {
    by_recording: BTreeMap<u32, Machine<'a>>,
    ambiguous: BTreeSet<&'a str>,
}

impl<'a> Machines<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&Recording>> = BTreeMap::new();
        for recording in &report.recordings {
            let known = by_name.entry(&recording.host.name).or_default();
            known.push(recording);
        }
        let mut machines = Self {
            by_recording: BTreeMap::new(),
            ambiguous: BTreeSet::new(),
        };
        for (name, recordings) in by_name {
            let several = are_several(&recordings);
            machines.ambiguous.extend(several.then_some(name));
            for recording in recordings {
                let boot = if several {
                    recording.host.boot_id.as_str()
                } else {
                    ""
                };
                machines.by_recording.insert(recording.id, (name, boot));
            }
        }
        machines
    }

    /// Returns the machine of an owner.
    pub(super) fn of_owner(&self, owner: &Owner) -> Option<Machine<'a>> {
        // A single recording has no number.
        let number = owner.recording_id.unwrap_or_default();
        self.by_recording.get(&number).copied()
    }

    /// Returns the number of machines.
    pub(super) fn count(&self) -> usize {
        let all: BTreeSet<&Machine<'a>> = self.by_recording.values().collect();
        all.len()
    }

    /// Returns the names that only one machine has.
    pub(super) fn names(&self) -> BTreeSet<&'a str> {
        let all = self.by_recording.values().map(|(name, _)| *name);
        all.filter(|name| !self.ambiguous.contains(name)).collect()
    }

    /// Returns the names that several machines have at one time.
    pub(super) fn ambiguous(&self) -> &BTreeSet<&'a str> {
        &self.ambiguous
    }
}

/// Returns whether recordings under one name are of several boots at one time.
fn are_several(recordings: &[&Recording]) -> bool {
    let mut pairs = recordings
        .iter()
        .enumerate()
        .flat_map(|(at, one)| recordings[at + 1..].iter().map(move |other| (one, other)));
    pairs.any(|(one, other)| {
        one.host.boot_id != other.host.boot_id
            && one.started < other.ended
            && other.started < one.ended
    })
}
