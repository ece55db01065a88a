//! Orders deaths on different nodes, only where their clocks can be compared.

use super::duplicates::SAME_NS;
use crate::{
    ids::WallTime,
    judge::report::{Death, Recording, Report, Utc},
};

/// Whether a death came after a time by the clock of another recording. Recordings of one boot
/// share a clock.
pub(super) fn is_later(report: &Report, death: &Death, than: (Option<u32>, Utc)) -> bool {
    let Some(time) = death.when.time.or(death.when.exit_time) else {
        return false;
    };
    let after = time.0.0.saturating_sub(than.1.0.0);
    let slack = apart(report, death.recording_id, than.0);
    slack.is_some_and(|slack| after > slack)
}

/// Whether the end of `cause` began only after `effect` had ended, as far as their clocks can be
/// compared. Then it is no cause, whatever the logs name.
pub(super) fn is_after(report: &Report, cause: &Death, effect: &Death) -> bool {
    let ended = effect.when.exit_time.or(effect.when.time);
    // Two recorders of one machine have one clock, and convert its times with this error.
    let slack = cause.when.began_before_ns.saturating_add(SAME_NS);
    ended.is_some_and(|ended| {
        let latest = Utc(WallTime(ended.0.0.saturating_add(slack)));
        is_later(report, cause, (effect.recording_id, latest))
    })
}

/// Returns by how much the clocks of two recordings may differ; `None` if that is not known.
fn apart(report: &Report, one: Option<u32>, other: Option<u32>) -> Option<i64> {
    let recording = |id: Option<u32>| {
        let id = id?;
        report.recordings.iter().find(|one| one.id == id)
    };
    let (one, other) = (recording(one)?, recording(other)?);
    if !one.host.boot_id.is_empty() && one.host.boot_id == other.host.boot_id {
        return Some(0);
    }
    let error = |recording: &Recording| {
        let clock = recording.clock.filter(|clock| clock.synchronised)?;
        i64::try_from(clock.max_error_us).ok()?.checked_mul(1000)
    };
    error(one)?.checked_add(error(other)?)
}
