//! Many workers of one class, all of one size, that together fill the limit: parallelism times size.

use std::collections::BTreeMap;

use super::{Run, about, merged};
use crate::{
    event::Role,
    ids::Bytes,
    judge::{
        crowd::Member,
        oom::size,
        report::{Certainty, Finding},
    },
};

/// Fewer are no crowd.
const CROWD: u32 = 3;
/// Together at least this share of the limit.
const SHARE: f64 = 0.5;
/// From the smallest to the largest at most this share of the largest.
const SPREAD: f64 = 0.2;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = run.memory_kills().filter_map(|death| {
        let limit = run.limit(death)?;
        let inside = run.inside(death);
        let class = biggest(&inside)?;
        let even = class.largest.gib() - class.smallest.gib() < SPREAD * class.largest.gib();
        if class.processes < CROWD || class.sum.gib() <= SHARE * limit.gib() || !even {
            return None;
        }
        let each = class.sum.gib() / f64::from(class.processes);
        let share = 100.0 * class.sum.gib() / limit.gib();
        let fit = (0.8 * limit.gib() / each).floor().max(1.0);
        let summary = format!(
            "{} {} of {each:.1} GiB each held {} together, {share:.0} % of the limit of {}",
            class.processes,
            class.name,
            size(class.sum),
            size(limit)
        );
        let mut finding = about("many-workers", Certainty::Inferred, death, summary);
        finding.evidence = vec![format!(
            "{}: {} processes, the smallest {}, the largest {}",
            class.name,
            class.processes,
            size(class.smallest),
            size(class.largest)
        )];
        finding.remedy = vec![
            format!(
                "At most {fit:.0} at once: a higher num_cpus for {}",
                class.name
            ),
            format!(
                "or memory={:.0}*1024**3 in its @ray.remote, so that Ray counts it",
                each.ceil()
            ),
        ];
        finding.cost = Some("less at the same time".into());
        Some((class.name.to_owned(), finding))
    });
    merged(found)
}

/// Workers of one class.
struct Class<'a> {
    name: &'a str,
    processes: u32,
    sum: Bytes,
    smallest: Bytes,
    largest: Bytes,
}

/// The class that held most.
fn biggest<'a>(inside: &[&'a Member]) -> Option<Class<'a>> {
    let mut classes: BTreeMap<&str, Class<'_>> = BTreeMap::new();
    for member in inside.iter().filter(|member| member.role == Role::Worker) {
        let Some(name) = member.class.as_deref() else {
            continue;
        };
        let private = member.private;
        let class = classes.entry(name).or_insert(Class {
            name,
            processes: 0,
            sum: Bytes(0),
            smallest: private,
            largest: private,
        });
        class.processes += 1;
        class.sum.0 += private.0;
        class.smallest = class.smallest.min(private);
        class.largest = class.largest.max(private);
    }
    classes.into_values().max_by_key(|class| class.sum)
}
