//! Links a worker that ended on a collective's time-out or a broken connection to another death.
//!
//! That death is one of its job, which the worker noticed. `fleet/rules/peers.rs` has the same rule
//! across nodes.

use std::collections::HashMap;

use super::{
    log_mentions,
    report::{Death, Killer},
    state::world::World,
};
use crate::{
    event::Role,
    ids::{BootTime, EventId, HexId, SECOND_NS},
    judge::report::Mention,
    ray::{facts::RayFact, log::after_effects},
};

/// A process ends within this time of such an error. The error may be read a moment after the end.
const ENDS_NS: i64 = 30 * SECOND_NS;

/// The errors of each worker about its peers, and when they came.
type Errors<'a> = HashMap<&'a HexId, Vec<(BootTime, PeerError)>>;

/// How an error of this kind follows a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PeerError {
    /// It comes at most this long after the death.
    pub(super) lasts_ns: i64,
    /// Whether it comes a time-out after the death, as its text says. Others come when a connection
    /// breaks.
    waited: bool,
}

impl PeerError {
    pub(super) fn of(timeout_ms: Option<u64>) -> Self {
        Self {
            lasts_ns: after_effects::lasts_ns(timeout_ms),
            waited: timeout_ms.is_some(),
        }
    }

    /// Returns the death that the error follows from. `deaths` are those that its job did not
    /// survive, each with the ns by which it lies before the error.
    ///
    /// A process that waited for a time-out has waited since the first of them. A connection breaks
    /// with the last one. Deaths within a moment of that one belong together, and the first of
    /// these is the cause.
    pub(super) fn cause<T: Copy>(self, deaths: impl Iterator<Item = (i64, T)>) -> Option<T> {
        let mut deaths: Vec<(i64, T)> = deaths.collect();
        // Clocks differ. A death that seems to come after the error counts only if none lies before
        // it.
        if deaths.iter().any(|(before, _)| *before >= 0) {
            deaths.retain(|(before, _)| *before >= 0);
        }
        deaths.sort_by_key(|(before, _)| *before);
        if self.waited {
            return deaths.last().map(|(_, death)| *death);
        }
        let mut volley = deaths.chunk_by(|(later, _), (earlier, _)| earlier - later <= ENDS_NS);
        volley.next()?.last().map(|(_, death)| *death)
    }
}

/// Gives a cause to each crash and failed exit that only noticed another death.
pub(super) fn link(world: &World, deaths: &mut [Death]) {
    let errors = errors(world);
    if errors.is_empty() {
        return;
    }
    let mut links: Vec<(usize, EventId)> = Vec::new();
    for (at, death) in deaths.iter().enumerate() {
        let first = error_of(&errors, death).and_then(|error| cause(&errors, deaths, death, error));
        links.extend(first.map(|first| (at, first)));
    }
    for (at, first) in links {
        deaths[at].verdict.cause_death_id = Some(first);
    }
}

fn errors(world: &World) -> Errors<'_> {
    let mut errors: Errors<'_> = HashMap::new();
    for seen in world.ray_log_records.iter() {
        if let RayFact::Exception {
            class,
            message,
            worker_id: Some(worker),
        } = &seen.what.fact
            && let Some(Mention::PeerError { timeout_ms, .. }) =
                log_mentions::peer_error(class, message)
        {
            let error = PeerError::of(timeout_ms);
            errors.entry(worker).or_default().push((seen.time, error));
        }
    }
    errors
}

/// Returns the error that a process printed as it ended by itself.
fn error_of(errors: &Errors<'_>, death: &Death) -> Option<PeerError> {
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
    near.map(|(_, error)| *error).max()
}

/// Returns the death of the same job that this one noticed. Deaths of processes that printed such
/// an error themselves, and deaths that Ray recovered from, do not count.
fn cause(
    errors: &Errors<'_>,
    deaths: &[Death],
    death: &Death,
    error: PeerError,
) -> Option<EventId> {
    death.work.job_id.as_ref()?;
    let before = |other: &Death| death.when.act_time.since(other.when.act_time);
    let may_be = |other: &&Death| {
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
            && other.then.is_none()
            && of_the_job
            && (1..=error.lasts_ns).contains(&before(other))
            && error_of(errors, other).is_none()
    };
    let causes = deaths.iter().filter(may_be);
    error.cause(causes.map(|other| (before(other), other.id)))
}
