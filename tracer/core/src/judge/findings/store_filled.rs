//! Finds an object store that filled the limit itself.
//!
//! Its objects are still referenced, and their shared memory counts like any other memory.

use std::collections::BTreeMap;

use super::{Run, about, facts::Member, merged, own_shared, part_of::part_of};
use crate::{
    cgroup_path::is_within,
    ids::{Bytes, size},
    judge::report::{Certainty, Death, Finding, Growth, GrowthLine, Killer, Saving, SharedKind},
    ray::{framework::Framework, start::Change},
};

/// The store holds at least this share of the limit.
const SHARE: f64 = 0.4;
/// A line that touched a smaller share of the store did not fill it.
const PUT: f64 = 0.25;
/// The share of the limit that the store and everything else should fill.
const FILL: f64 = 0.8;
/// Ray refuses a smaller store (2.60: `OBJECT_STORE_MINIMUM_MEMORY_BYTES`).
const LEAST: u64 = 75 << 20;
/// Sizes are rounded down to a multiple of this.
const STEP: u64 = 10_000_000;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    merged(run.memory_kills().filter_map(|death| {
        let limit = run.limit(death).filter(|_| counts(run, death))?;
        let held = held(run, death)?;
        let filled = held.gib() >= SHARE * limit.gib() && held > biggest(run.inside(death));
        filled.then(|| (death.cluster, finding(run, death, held, limit)))
    }))
}

/// Returns whether the raylet's shared memory counts against the limit that was hit.
fn counts(run: Run<'_>, death: &Death) -> bool {
    let of_cgroup = death.verdict.killer == Killer::KernelOomMemcg;
    let cgroup = death.memory.full_cgroup().filter(|_| of_cgroup);
    cgroup.is_none_or(|limit| {
        let raylet = run.node(death).and_then(|node| node.cgroup.as_deref());
        is_within(raylet, limit)
    })
}

/// Returns what the store held, by its own file. Otherwise what `/dev/shm` held, but no more than
/// the size of the store.
fn held(run: Run<'_>, death: &Death) -> Option<Bytes> {
    let files = death.memory.shared.iter();
    let stores = files.filter(|file| file.kind == SharedKind::ObjectStore);
    let stores = stores
        .map(|file| file.bytes.0)
        .reduce(|one, other| one + other);
    let of_files = || {
        let most = run.node(death)?.object_store?;
        Some(own_shared::dev_shm_bytes(run, death)?.min(most))
    };
    stores.map(Bytes).or_else(of_files)
}

/// Returns what the processes of the largest class held together.
pub(super) fn biggest(inside: &[Member]) -> Bytes {
    let mut classes: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for held in inside {
        *classes.entry(held.class.as_deref()).or_default() += held.private.0;
    }
    Bytes(classes.into_values().max().unwrap_or_default())
}

fn finding(run: Run<'_>, death: &Death, held: Bytes, limit: Bytes) -> Finding {
    let put = put(run, held);
    let by = put
        .as_ref()
        .map_or_else(String::new, |(class, line, bytes)| {
            format!(
                "; {} of it were touched by {} in {class}",
                size(*bytes),
                name(line)
            )
        });
    let [part, percent, whole] = part_of(held, limit);
    let summary = format!(
        "Ray's object store held {part}, {percent} of the limit of {whole}: objects that are still referenced{by}"
    );
    let mut finding = about("object-store-filled", Certainty::Inferred, death, summary);
    finding.about.bytes = held;
    finding.about.shared = Some(format!("the object store {}", size(held)));
    let used = death.memory.used_at_kill().unwrap_or(limit);
    let others = used.0.saturating_sub(held.0);
    finding.evidence = vec![format!("all else that counts: {}", size(Bytes(others)))];
    let room = Bytes(limit.times(FILL).0.saturating_sub(others));
    let value = room.0 / STEP * STEP;
    if value >= LEAST && value < held.0 {
        let text = smaller(run, death, value);
        finding
            .remedy
            .push(format!("{text}: objects above that are spilled to disk"));
        finding.cost = Some("spilled objects are written to disk and read again".into());
        finding.saving = Some(Saving::of(None, Bytes(held.0 - value)));
    }
    finding.remedy.push(match &put {
        Some((_, line, _)) => format!(
            "{}: drop references (del) to objects that are used up",
            name(line)
        ),
        None => {
            "drop references (del) to objects that are used up; ray memory lists who holds them"
                .to_owned()
        }
    });
    if run.framework == Framework::Data {
        finding.remedy.push(
            "fewer and smaller blocks at a time: a lower concurrency, and ray.data.DataContext.get_current().target_max_block_size below its 128 MiB".into(),
        );
    }
    finding.not_if = Some("the files in /dev/shm are not the store's (ls -l /dev/shm)".into());
    finding
}

/// Returns what to type for a smaller store, where the node gets its size.
fn smaller(run: Run<'_>, death: &Death, value: u64) -> String {
    let mut printed = run.facts.printed.iter().flat_map(|one| &one.settings);
    let prefix = "ray_kwargs.ray_init.";
    if printed.any(|(key, _)| key.starts_with(prefix)) {
        return format!("+{prefix}object_store_memory={value}");
    }
    Change::flag("object-store-memory", &value.to_string()).at(run.started(death))
}

/// Returns the line that touched most of the shared memory, with its class and the bytes. `None` if
/// that is a small part of what the store held.
pub(super) fn put<'a>(run: Run<'a>, held: Bytes) -> Option<(&'a str, &'a GrowthLine, Bytes)> {
    let lines = |growth: &'a Growth| {
        let lines = growth.lines.iter().filter(|line| line.line.is_some());
        lines.map(move |line| (growth.class.as_str(), line, line.shared_bytes))
    };
    let all = run.report.growth.iter().flat_map(lines);
    let most = all.max_by_key(|(.., bytes)| *bytes)?;
    (most.2.gib() >= PUT * held.gib()).then_some(most)
}

/// Names a line: the user's own, else the one that put the objects.
pub(super) fn name(line: &GrowthLine) -> String {
    let outer = line.user_line.clone().filter(|_| line.caller().is_none());
    outer.unwrap_or_else(|| line.place())
}
