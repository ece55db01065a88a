//! Memory by owner, as the report has it.

use std::collections::BTreeMap;

use crate::{
    ids::Bytes,
    judge::{
        query::gcs,
        report::{Owner, OwnerKind},
        state::{
            calls::Calls,
            owners::{self, Name},
            world::World,
        },
    },
};

/// All owners, the one that held most first.
pub(in crate::judge) fn report(world: &World) -> Vec<Owner> {
    let grown = per_call(world);
    let named = gcs::by_class(world);
    let sums = world.owners.sums.iter().filter(|sum| sum.peak > 0);
    let mut owners: Vec<Owner> = sums
        .map(|sum| Owner {
            class: sum.name.name.clone(),
            kind: sum.name.kind,
            processes: sum.processes_at_peak,
            private_peak_bytes: Some(Bytes(sum.peak)),
            peak_time: world.clock.wall(sum.peaked),
            largest_bytes: Some(Bytes(sum.largest)),
            per_call_bytes: grown.get(&sum.name).copied(),
            calls: sum.calls,
            gcs: match sum.name.kind {
                OwnerKind::Actor => named.get(&sum.name.name).cloned(),
                _ => None,
            },
        })
        .collect();
    owners.sort_by(|one, other| {
        let peak = other.private_peak_bytes.cmp(&one.private_peak_bytes);
        peak.then_with(|| one.class.cmp(&other.class))
    });
    owners
}

/// What a call of each owner leaves behind, in the worker where it is most.
fn per_call(world: &World) -> BTreeMap<Name, Bytes> {
    let mut grown: BTreeMap<Name, Bytes> = BTreeMap::new();
    for most in world.calls.values().filter_map(Calls::steady) {
        if let (Some(owner), Some(each)) = (owners::of_title(&most.title), most.per_call) {
            let known = grown.entry(owner).or_default();
            *known = each.max(*known);
        }
    }
    grown
}
