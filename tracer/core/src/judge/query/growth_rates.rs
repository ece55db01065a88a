//! Reports how fast each owner's processes grew: by the call if calls were seen, and by the hour.

use std::collections::BTreeMap;

use crate::{
    ids::Bytes,
    judge::{
        query::headroom,
        report::{CallRate, GrowthRate, HourRate, OwnerKind},
        state::{
            calls::Growth,
            owners::{self, OwnerName},
            world::World,
        },
    },
    ray::identify,
};

/// The growth rates of all owners.
#[derive(Debug, Default)]
pub(crate) struct GrowthRates {
    pub(crate) all: BTreeMap<OwnerName, GrowthRate>,
    /// What a call leaves behind, in the worker where that is most, if it fills memory.
    pub(crate) steady: BTreeMap<OwnerName, Bytes>,
}

/// Returns all rates that can be told.
pub(crate) fn all(world: &World) -> GrowthRates {
    let mut growth_rates = GrowthRates::default();
    for (process, calls) in &world.calls {
        let grown = calls.growth();
        let state = world.processes.get(*process);
        let cluster = state.and_then(|state| state.cluster);
        let most = grown.iter().find(|growth| growth.is_steady());
        if let Some(most) = most.filter(|most| headroom::matters(world, cluster, most)) {
            growth_rates.fills(most);
        }
        for growth in grown.iter().filter(|growth| growth.is_series()) {
            growth_rates.calls(growth);
        }
    }
    hours(world, &mut growth_rates);
    growth_rates
}

impl GrowthRates {
    fn fills(&mut self, most: &Growth) {
        if let (Some(owner), Some(each)) = (owners::of_title(&most.title), most.per_call) {
            let known = self.steady.entry(owner).or_default();
            *known = each.max(*known);
        }
    }

    fn calls(&mut self, growth: &Growth) {
        let task = identify::title(&growth.title).and_then(|title| title.task);
        let (Some(owner), Some(task)) = (owners::of_title(&growth.title), task) else {
            return;
        };
        let each = growth.per_call.unwrap_or_default();
        let of = &mut self.all.entry(owner).or_default().calls;
        match of.iter_mut().find(|known| known.task == task) {
            Some(known) => {
                known.calls = growth.calls.max(known.calls);
                known.per_call = each.max(known.per_call);
            }
            None => of.push(CallRate {
                task,
                calls: growth.calls,
                per_call: each,
            }),
        }
    }
}

/// Adds rates by the hour. A worker runs code of one task after another, so the growth of tasks is
/// told by calls only.
fn hours(world: &World, growth_rates: &mut GrowthRates) {
    for state in world.processes.iter() {
        let Some(floor) = world.growth_floors.get(&state.key.truncated()) else {
            continue;
        };
        let owner = owners::of_state(state);
        let Some(owner) = owner.filter(|owner| owner.kind != OwnerKind::Task) else {
            continue;
        };
        let end = world.exit(state.key).map(|exit| exit.time);
        let Some(rate) = floor.rate(end.unwrap_or(world.last_time)) else {
            continue;
        };
        let known = &mut growth_rates.all.entry(owner).or_default().hours;
        let (seconds, per_hour) =
            known.map_or((0, Bytes(0)), |known| (known.seconds, known.per_hour));
        *known = Some(HourRate {
            seconds: rate.seconds.max(seconds),
            per_hour: rate.per_hour.max(per_hour),
        });
    }
}
