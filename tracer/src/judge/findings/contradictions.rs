//! Findings whose remedies are opposite, or of which only one can be right: each is told of the other.

use crate::judge::report::Finding;

/// Two rules, and why they contradict.
const PAIRS: [(&str, &str, &str); 7] = [
    (
        "setting-takes-host-memory",
        "gpu-out-of-memory",
        "offloading gives the host's memory for the GPU's: both are short here, so fewer ranks or a smaller model is left",
    ),
    (
        "offload-to-host",
        "gpu-out-of-memory",
        "offloading gives the host's memory for the GPU's: both are short here, so fewer ranks or a smaller model is left",
    ),
    (
        "leak",
        "save-spike",
        "a leak is never given back, a save's peak is: one of them is not the cause",
    ),
    (
        "leak",
        "load-spike",
        "a leak grows call by call, a load once: one of them is not the cause",
    ),
    (
        "limit-unseen",
        "threshold-high",
        "one variable, two values: the lower one keeps Ray below both limits",
    ),
    (
        "shared-memory-small",
        "object-store-pressure",
        "enlarge /dev/shm first, then the store: the store lies in it",
    ),
    (
        "teardown",
        "one-process",
        "a job that succeeded was not ended by a lack of memory: look at the times",
    ),
];

/// Marks both of each pair that may speak of one death.
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

/// Whether both can be about one death; a finding about none is about the run.
fn meet(one: &Finding, other: &Finding) -> bool {
    one.deaths.is_empty()
        || other.deaths.is_empty()
        || one.deaths.iter().any(|death| other.deaths.contains(death))
}
