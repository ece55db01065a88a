//! Finds out whether a task or actor has an `@ray.remote` that the user can edit.
//!
//! Only the user's own tasks and actors have one. Also formats sizes for it.

use super::Run;
use crate::{ids::Bytes, ray::framework::Framework};

/// Suffixes of the names of `RLlib`'s actors that step environments.
pub(super) const ENV_RUNNERS: [&str; 2] = ["EnvRunner", "RolloutWorker"];
/// Prefixes of the names of actors that Ray's libraries start.
const LIBRARIES: [&str; 8] = [
    "MapWorker(",
    "RayTrainWorker",
    "TrainController",
    "ServeReplica",
    "ServeController",
    "ProxyActor",
    "ImplicitFunc",
    "Learner",
];
/// Sizes are rounded up to a multiple of this.
const STEP: u64 = 64 << 20;
/// Sizes from this on are rounded up to whole GiB.
const LARGE: u64 = 4 << 30;

/// Returns whether the `@ray.remote` of this task or actor is in the user's own code.
pub(super) fn is_user_code(run: Run<'_>, name: &str) -> bool {
    let class = name.split('.').next().unwrap_or(name);
    let library = LIBRARIES.iter().any(|one| class.starts_with(one))
        || ENV_RUNNERS.iter().any(|end| class.ends_with(end))
        // Ray's own helpers, and operators of Ray Data: `ReadCSV->MapBatches(f)`.
        || class.strip_prefix('_').is_some_and(|name| name.starts_with(char::is_uppercase))
        || class.contains(['(', '>']);
    let other = matches!(run.framework, Framework::Data | Framework::Serve);
    !library && !other && !run.framework.starts_workers()
}

/// Returns where an option of a task or actor is set. `.options()` overrides `@ray.remote`. It does
/// not take `max_calls`.
pub(super) fn options_of(name: &str) -> String {
    format!("in .options() or the @ray.remote of {name}")
}

/// Rounds a size up to a round number.
pub(super) fn rounded_up(bytes: Bytes) -> Bytes {
    let step = if bytes.0 >= LARGE { 1 << 30 } else { STEP };
    Bytes(bytes.0.div_ceil(step) * step)
}

/// Formats a size as it is written in Python, rounded up.
pub(super) fn in_python(bytes: Bytes) -> String {
    let bytes = rounded_up(bytes).0;
    if bytes >= LARGE {
        format!("{}*1024**3", bytes >> 30)
    } else {
        format!("{}*1024**2", bytes >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_size_is_rounded_up() {
        assert_eq!(in_python(Bytes((660 << 20) + 1)), "704*1024**2");
        assert_eq!(in_python(Bytes(704 << 20)), "704*1024**2");
        assert_eq!(in_python(Bytes((9 << 29) + 1)), "5*1024**3");
    }
}
