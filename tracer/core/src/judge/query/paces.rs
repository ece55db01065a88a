//! How fast each owner's processes grew: by the call where calls were seen, and by the hour.

use std::collections::BTreeMap;

use crate::{
    ids::Bytes,
    judge::{
        report::{CallPace, HourPace, OwnerKind, Pace},
        state::{
            calls::Growth,
            owners::{self, Name},
            world::World,
        },
    },
    ray::identify,
};

/// Of all owners.
#[derive(Debug, Default)]
pub(in crate::judge) struct Paces {
    pub(in crate::judge) all: BTreeMap<Name, Pace>,
    /// What a call leaves behind in the worker where it is most, where that fills memory.
    pub(in crate::judge) steady: BTreeMap<Name, Bytes>,
}

/// All that can be told.
pub(in crate::judge) fn all(world: &World) -> Paces {
    let mut paces = Paces::default();
    for calls in world.calls.values() {
        let grown = calls.growth();
        if let Some(most) = grown.iter().find(|growth| growth.is_steady()) {
            paces.fills(most);
        }
        for growth in grown.iter().filter(|growth| growth.is_series()) {
            paces.calls(growth);
        }
    }
    hours(world, &mut paces);
    paces
}

impl Paces {
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
            None => of.push(CallPace {
                task,
                calls: growth.calls,
                per_call: each,
            }),
        }
    }
}

/// A worker of tasks runs another task's code from one to the next: of these only calls tell.
fn hours(world: &World, paces: &mut Paces) {
    for state in world.processes.iter() {
        let Some(rise) = world.rises.get(&state.key.truncated()) else {
            continue;
        };
        let owner = owners::of_state(state);
        let Some(owner) = owner.filter(|owner| owner.kind != OwnerKind::Task) else {
            continue;
        };
        let end = world.exit(state.key).map(|exit| exit.time);
        let Some(rate) = rise.rate(end.unwrap_or(world.last_time)) else {
            continue;
        };
        let known = &mut paces.all.entry(owner).or_default().hours;
        let (seconds, per_hour) =
            known.map_or((0, Bytes(0)), |known| (known.seconds, known.per_hour));
        *known = Some(HourPace {
            seconds: rate.seconds.max(seconds),
            per_hour: rate.per_hour.max(per_hour),
        });
    }
}
