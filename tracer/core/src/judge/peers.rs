//! A worker that ends because a collective timed out or a connection broke hangs on the first death of its job: it noticed that one.
//!
//! Several recordings have the same rule across nodes (`fleet/rules/peers.rs`).

use std::collections::HashMap;

use super::{
    report::{Death, Killer},
    said,
    state::world::World,
};
use crate::{
    event::Role,
    ids::{BootTime, EventId, HexId, SECOND_NS},
    judge::report::Saying,
    ray::{facts::RayFact, log::after_effects},
};

/// A process ends within this time of its own words, which may be read a moment after its end.
const ENDS_NS: i64 = 30 * SECOND_NS;

/// What a worker said of its peers: when, and how long after a death that may be.
type Errors<'a> = HashMap<&'a HexId, Vec<(BootTime, i64)>>;

/// Gives a cause to each crash and failed exit that only noticed another death.
pub(super) fn link(world: &World, deaths: &mut [Death]) {
    let errors = errors(world);
    if errors.is_empty() {
        return;
    }
    let mut links: Vec<(usize, EventId)> = Vec::new();
    for (at, death) in deaths.iter().enumerate() {
        let first =
            lasts(&errors, death).and_then(|lasts| first_of_its_job(&errors, deaths, death, lasts));
        links.extend(first.map(|first| (at, first)));
    }
    for (at, first) in links {
        deaths[at].verdict.cause_death_id = Some(first);
    }
}

fn errors(world: &World) -> Errors<'_> {
    let mut errors: Errors<'_> = HashMap::new();
    for seen in world.ray_words.iter() {
        if let RayFact::Exception {
            class,
            message,
            worker_id: Some(worker),
        } = &seen.what.fact
            && let Some(Saying::PeerError { timeout_ms, .. }) = said::peer_error(class, message)
        {
            let lasts = after_effects::lasts_ns(timeout_ms);
            errors.entry(worker).or_default().push((seen.time, lasts));
        }
    }
    errors
}

/// How long an error lasts that a process said as it ended by itself.
fn lasts(errors: &Errors<'_>, death: &Death) -> Option<i64> {
    let by_itself = match death.verdict.killer {
        Killer::Crash => true,
        Killer::Exit => death.end.exit_code != Some(0),
        _ => false,
    };
    if !by_itself || !death.listed || death.verdict.cause_death_id.is_some() {
        return None;
    }
    let said = errors.get(death.work.worker_id.as_ref()?)?;
    let near = |time: BootTime| time.since(death.when.act_time).abs() <= ENDS_NS;
    let near = said.iter().filter(|(time, _)| near(*time));
    near.map(|(_, lasts)| *lasts).max()
}

/// The first death of the same job before this one, not longer ago than the error lasts, of a process that said no such thing itself.
fn first_of_its_job(
    errors: &Errors<'_>,
    deaths: &[Death],
    death: &Death,
    longest: i64,
) -> Option<EventId> {
    let is_first = |other: &&Death| {
        let before = death.when.act_time.since(other.when.act_time);
        let of_the_job = match other.process.role {
            Role::Driver => false,
            Role::Raylet | Role::Agent => true,
            _ => other.work.job_id == death.work.job_id,
        };
        other.id != death.id
            && other.listed
            && other.cluster == death.cluster
            && other.verdict.cause_death_id.is_none()
            && other.verdict.killer != Killer::RayIntended
            && of_the_job
            && (1..=longest).contains(&before)
            && lasts(errors, other).is_none()
    };
    death.work.job_id.as_ref()?;
    let firsts = deaths.iter().filter(is_first);
    let first = firsts.min_by_key(|other| (other.when.act_time, other.id));
    first.map(|first| first.id)
}
