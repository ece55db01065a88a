//! Finds pods that their container runtime stopped, and says where Kubernetes tells the reason.
//!
//! A deletion, an eviction and a failed probe look alike on the node: the runtime signals the init
//! of a container. Only the kubelet knows which it was, and its Events say it.

use std::collections::BTreeMap;

use super::{
    Run,
    rules::{Kind, Needs, Rule},
};
use crate::judge::report::{Certainty, Death, Finding, Kubernetes, Relation};

/// The rule.
pub(super) const RULE: Rule = Rule {
    ids: &["pod-stopped"],
    kind: Kind::Note,
    needs: Needs::Nothing,
    contradicts: &[],
    find,
};

fn find(run: Run<'_>) -> Vec<Finding> {
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
        .map(|(uid, (pod, deaths))| finding(uid, pod, &deaths))
        .collect()
}

fn finding(uid: &str, pod: &Kubernetes, deaths: &[&Death]) -> Finding {
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
    let summary = format!(
        "A container of {name} was stopped by its container runtime, as for a deletion, an eviction or a failed probe"
    );
    Finding {
        remedy: vec![format!("see which: {events}")],
        deaths: deaths.iter().map(|death| death.id).collect(),
        ..Finding::new("pod-stopped", Certainty::Inferred, summary)
    }
}
