//! Marks findings with opposite remedies, or that cannot be right at the same time.

use crate::judge::report::Finding;

/// Why findings about offloading and about a full GPU contradict each other.
const OFFLOADED: &str = "offloading trades GPU memory for host memory, and both are short: use fewer ranks or a smaller model";

/// Why two findings about Ray's threshold contradict each other.
const ONE_VARIABLE: &str = "one variable, two values: the lower one keeps Ray below both limits";

/// Two findings, and why they contradict each other.
pub(super) const PAIRS: [(&str, &str, &str); 8] = [
    (
        "leak",
        "save-spike",
        "a leak is never freed, the peak of a save is: one of the two is not the cause",
    ),
    (
        "leak",
        "load-spike",
        "a leak grows with each call, a load once: one of the two is not the cause",
    ),
    ("offload-to-host", "gpu-out-of-memory", OFFLOADED),
    ("setting-takes-host-memory", "gpu-out-of-memory", OFFLOADED),
    (
        "one-process",
        "teardown",
        "a job that succeeded did not run out of memory: compare the times",
    ),
    ("hidden-limit", "threshold-high", ONE_VARIABLE),
    ("low-threshold", "hidden-limit", ONE_VARIABLE),
    (
        "shared-memory-small",
        "object-store-pressure",
        "enlarge /dev/shm first, then the object store: Ray puts the store there if it fits",
    ),
];

/// Adds to both findings of each such pair that they contradict each other, if both may concern one
/// death.
pub(super) fn mark(findings: &mut [Finding]) {
    for (one, other, why) in PAIRS {
        let of = |rule: &str| {
            let numbered = findings.iter().enumerate();
            let found = numbered.filter(|(_, finding)| finding.rule == rule);
            found.map(|(at, _)| at).collect::<Vec<usize>>()
        };
        let (ones, others) = (of(one), of(other));
        for (one, other) in ones
            .iter()
            .flat_map(|one| others.iter().map(move |other| (*one, *other)))
        {
            if meet(&findings[one], &findings[other]) {
                let said = |at: usize| format!("{}: {why}", findings[at].rule);
                let (of_one, of_other) = (said(one), said(other));
                findings[one].contradicts.push(of_other);
                findings[other].contradicts.push(of_one);
            }
        }
    }
}

/// Returns whether both can be about one death. A finding without deaths is about the run.
fn meet(one: &Finding, other: &Finding) -> bool {
    one.deaths.is_empty()
        || other.deaths.is_empty()
        || one.deaths.iter().any(|death| other.deaths.contains(death))
}
