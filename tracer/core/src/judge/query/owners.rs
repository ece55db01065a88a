//! Reports memory by owner.

use crate::{
    ids::Bytes,
    judge::{
        query::{gcs, growth_rates},
        report::{Owner, OwnerKind},
        state::world::World,
    },
};

/// Returns all owners, the one that held most first.
pub(crate) fn report(world: &World) -> Vec<Owner> {
    let mut growth_rates = growth_rates::all(world);
    let named = gcs::by_class(world);
    let sums = world.owners.sums.iter().filter(|sum| sum.peak > 0);
    let mut owners: Vec<Owner> = sums
        .map(|sum| Owner {
            recording_id: None,
            class: sum.name.name.clone(),
            kind: sum.name.kind,
            processes: sum.processes_at_peak,
            private_peak_bytes: Some(Bytes(sum.peak)),
            peak_time: world.clock.wall(sum.peaked),
            largest_bytes: Some(Bytes(sum.largest)),
            per_call_bytes: growth_rates.steady.get(&sum.name).copied(),
            calls: sum.calls,
            gcs: match sum.name.kind {
                OwnerKind::Actor => named.get(&sum.name.name).cloned(),
                _ => None,
            },
            growth_rate: growth_rates.all.remove(&sum.name).unwrap_or_default(),
        })
        .collect();
    owners.sort_by(|one, other| {
        let peak = other.private_peak_bytes.cmp(&one.private_peak_bytes);
        peak.then_with(|| one.class.cmp(&other.class))
    });
    owners
}
