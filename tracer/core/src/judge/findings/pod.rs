//! Finds pods that their container runtime stopped, and says where Kubernetes tells the reason.
//!
//! A deletion, an eviction and a failed probe look alike on the node: the runtime signals the init
//! of a container. Only the kubelet knows which it was, and its Events say it. An eviction for memory
//! is probable where the node had less left than the kubelet usually keeps.

use std::collections::BTreeMap;

use libc::SIGKILL;

use super::Run;
use crate::{
    ids::{Bytes, Pid, SECOND_NS, size},
    judge::report::{Certainty, Death, Evidence, Finding, Kubernetes, Relation},
};

/// The first process of a container, in its own pid namespace.
const INIT: Pid = Pid(1);
/// The kubelet's default of `--eviction-hard` for memory.
const THRESHOLD: Bytes = Bytes(100 << 20);
/// How often the kubelet compares (`--housekeeping-interval`), in seconds.
const LOOKS_S: f64 = 10.0;
/// An eviction at that threshold leaves a container no time, or a second. A runtime takes up to
/// another one.
const GRACE_NS: i64 = 2 * SECOND_NS;
/// How the kubelet chooses.
const REQUEST: &str = "raise requests.memory to what the pod uses: the kubelet evicts pods that use more than they request first";

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let mut stopped: BTreeMap<&str, (&Kubernetes, Vec<&Death>)> = BTreeMap::new();
    for death in run.report.deaths.iter().filter(|death| death.listed) {
        let sender = death.sender.as_ref();
        let by_runtime = sender.is_some_and(|one| one.relation == Relation::ContainerRuntime);
        let pod = death.process.place.kubernetes.as_ref();
        if let Some(pod) = pod.filter(|_| by_runtime)
            && let Some(uid) = pod.pod_uid.as_deref()
        {
            let (_, deaths) = stopped.entry(uid).or_insert_with(|| (pod, Vec::new()));
            deaths.push(death);
        }
    }
    let stopped = stopped.into_iter();
    stopped
        .map(|(uid, (pod, deaths))| finding(run, uid, pod, &deaths))
        .collect()
}

fn finding(run: Run<'_>, uid: &str, pod: &Kubernetes, deaths: &[&Death]) -> Finding {
    let (name, events) = match (&pod.namespace, &pod.pod) {
        (Some(namespace), Some(name)) => (
            format!("pod {namespace}/{name}"),
            format!(
                "kubectl get events -n {namespace} --field-selector involvedObject.name={name}"
            ),
        ),
        _ => (
            format!("pod {uid}"),
            format!("kubectl get events -A --field-selector involvedObject.uid={uid}"),
        ),
    };
    let available = evicted_at(run, deaths);
    let why = available.map_or_else(
        || ", as for a deletion, an eviction or a failed probe".to_owned(),
        |available| {
            format!(
                " at once while {} of the machine's memory was available (by MemAvailable; the kubelet, whose usual threshold is memory.available<100Mi, counts a little differently): probably an eviction",
                size(available)
            )
        },
    );
    let mut remedy = vec![format!("see which: {events}")];
    remedy.extend(available.map(|_| REQUEST.to_owned()));
    let summary = format!("A container of {name} was stopped by its container runtime{why}");
    Finding {
        remedy,
        deaths: deaths.iter().map(|death| death.id).collect(),
        ..Finding::new("pod-stopped", Certainty::Inferred, summary)
    }
}

/// Returns what memory the machine had available, if that and the signals to a container's init are
/// those of an eviction. The kubelet then waits a second at most before it kills.
fn evicted_at(run: Run<'_>, deaths: &[&Death]) -> Option<Bytes> {
    // What the runtime sent to other processes of the pod counts too: it may kill these by itself.
    let sent =
        |piece: &&Evidence| piece.what.starts_with("SIG") && !piece.what.starts_with("SIGKILL");
    let evidence = deaths.iter().flat_map(|death| &death.verdict.evidence);
    let asked = evidence.filter(sent).filter_map(|piece| piece.time).min();
    let inits = deaths.iter().filter(|death| {
        let killed = death.sender.as_ref().and_then(|sender| sender.signal) == Some(SIGKILL);
        killed && death.process.ns_pid == Some(INIT)
    });
    let at_once = inits.filter(|death| {
        let waited = death.when.time.zip(asked);
        let waited = waited.map(|(ended, asked)| ended.0.0 - asked.0.0);
        waited.is_none_or(|waited| waited <= GRACE_NS)
    });
    let available = at_once.filter_map(|death| {
        let minute = death.memory.last_minute.as_ref()?;
        let used = minute.seconds.iter().zip(&minute.node_used_bytes);
        let lately = used.filter(|(before, _)| **before >= -LOOKS_S);
        let most = lately.filter_map(|(_, used)| *used).max()?;
        let total = run.report.peak.as_ref()?.total_bytes;
        Some(Bytes(total.0.saturating_sub(most.0)))
    });
    available.min().filter(|available| *available < THRESHOLD)
}
