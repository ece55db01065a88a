//! The machines of a run: which recordings are of one, by the name of its host.
//!
//! A machine may be recorded several times, also after it was booted again. A name that several have at one time, as containers of
//! one image may, says nothing: these are told apart by their boots, and not matched with those of another run.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::report::{Owner, Recording, Report};

/// The name of a host, and its boot where the name is not enough.
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

    /// The machine of an owner.
    pub(super) fn of_owner(&self, owner: &Owner) -> Option<Machine<'a>> {
        // One recording alone has no number.
        let number = owner.recording_id.unwrap_or_default();
        self.by_recording.get(&number).copied()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        let all: BTreeSet<&Machine<'a>> = self.by_recording.values().collect();
        all.len()
    }

    /// Names that one machine each has.
    pub(super) fn names(&self) -> BTreeSet<&'a str> {
        let all = self.by_recording.values().map(|(name, _)| *name);
        all.filter(|name| !self.ambiguous.contains(name)).collect()
    }

    /// Names that several have at one time.
    pub(super) fn ambiguous(&self) -> &BTreeSet<&'a str> {
        &self.ambiguous
    }
}

/// Whether recordings under one name are of several boots at one time.
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
