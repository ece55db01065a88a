//! Makes a Kubernetes Event for a death, on its pod.
//!
//! This is an `Event` of core/v1, which `kubectl describe pod` shows. It mirrors what the recorder
//! of kubelet writes (client-go `tools/record/event.go`, 1.34): a message of at most 1,024 bytes,
//! times in whole seconds, and a reason in one word. Its name is made from the death, so that the
//! API server refuses an Event that is sent twice. This is pure.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Origin, stable_hash::stable_hash};
use crate::{
    ids::WallTime,
    judge::report::{Death, Killer},
};

/// Longest message that an API server takes, in bytes (`pkg/apis/core/validation/events.go`).
pub const MESSAGE: usize = 1024;
/// Longest part of a pod's name in the name of an Event: the longest name of an object, less the
/// suffix.
const NAME: usize = 253 - 18;
/// The component that reports.
const COMPONENT: &str = "raytrace";

/// What an Event says about one death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEvent {
    /// Namespace of the pod, and of the Event.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Uid of the pod. `kubectl describe` asks for it.
    pub uid: String,
    /// Name of the node.
    pub host: String,
    /// Who killed, in one word.
    pub reason: String,
    /// The message: five lines.
    pub message: String,
    /// When the process died, in ns since 1970.
    pub at: i64,
    /// Identifies the death for ever.
    pub death: String,
}

impl PodEvent {
    /// Makes the event of a death. `line` is its JSON line.
    ///
    /// Returns `None` if the name or uid of its pod is not known, if Ray ended the process on
    /// purpose, and if it ended because of another process, which has an Event. A memory kill has
    /// an Event even then.
    pub fn of(origin: &Origin, death: &Death, line: &Value) -> Option<Self> {
        if !Self::deserves_one(death) {
            return None;
        }
        let killer = death.verdict.killer;
        let kubernetes = death.process.place.kubernetes.as_ref()?;
        let message = line.get("raytrace.summary")?.as_str()?;
        let at = death.when.time.or(death.when.exit_time)?;
        Some(Self {
            namespace: kubernetes.namespace.clone().filter(|name| is_name(name))?,
            pod: kubernetes.pod.clone().filter(|name| is_name(name))?,
            uid: kubernetes.pod_uid.clone()?,
            host: origin.host.clone(),
            reason: killer.words().event.to_owned(),
            message: cut(message),
            at: at.0.0,
            death: line.get("raytrace.death.id")?.as_str()?.to_owned(),
        })
    }

    /// Returns the uid of the pod of a death that has no Event only because the pod's name is not
    /// known.
    pub fn unnamed(death: &Death) -> Option<&str> {
        let pod = death.process.place.kubernetes.as_ref();
        let pod = pod.filter(|_| Self::deserves_one(death))?;
        let is_known = |name: &Option<String>| name.as_deref().is_some_and(is_name);
        let is_named = is_known(&pod.namespace) && is_known(&pod.pod);
        pod.pod_uid.as_deref().filter(|_| !is_named)
    }

    /// Returns whether a death has an Event, if its pod is known.
    pub fn deserves_one(death: &Death) -> bool {
        let killer = death.verdict.killer;
        let follows = death.verdict.cause_death_id.is_some() && !killer.is_memory_kill();
        !follows && !matches!(killer, Killer::RayIntended | Killer::RayCollapse)
    }

    /// Returns the name of the Event.
    pub fn name(&self) -> String {
        let number = stable_hash(&[&self.host, &self.death]);
        // Both are ASCII: `is_name`.
        let pod = &self.pod[..self.pod.len().min(NAME)];
        let pod = pod.trim_end_matches(['.', '-']);
        format!("{pod}.{number:016x}")
    }

    /// Returns the object. `message` is that of this event, or of several similar ones.
    pub fn object(&self, message: &str) -> Value {
        let at = seconds(self.at);
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name(), "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": self.namespace,
                "name": self.pod,
                "uid": self.uid,
            },
            "type": "Warning",
            "reason": self.reason,
            "message": cut(message),
            "source": {"component": COMPONENT, "host": self.host},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.host,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        })
    }

    /// Returns what changes in an Event that stands for `count` deaths.
    pub fn repeat_patch(&self, message: &str, count: u32) -> Value {
        json!({"message": cut(message), "lastTimestamp": seconds(self.at), "count": count})
    }
}

/// Returns whether a text is a DNS subdomain. A name becomes a part of an address, and comes from
/// an environment that a job's user may have written.
fn is_name(text: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let allowed = |byte: u8| of_name(byte) || matches!(byte, b'-' | b'.');
    text.len() <= 253
        && text.bytes().all(allowed)
        && text.bytes().next().is_some_and(of_name)
        && text.bytes().last().is_some_and(of_name)
        && !text.contains("..")
}

fn cut(message: &str) -> String {
    let mut end = message.len().min(MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

fn seconds(at: i64) -> String {
    format!("{:.0}", WallTime(at).timestamp())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        judge::report::{Kubernetes, Place, Report},
        show::{
            publish::{death, public},
            sample,
        },
    };

    fn origin() -> Origin {
        Origin {
            host: "gpu-07".into(),
            folder: "/var/lib/raytrace".into(),
            reached_by: None,
            started: sample::at(0),
            with_arguments: false,
        }
    }

    fn in_pod(mut report: Report, pod: &str) -> Report {
        for death in &mut report.deaths {
            death.process.place = Place {
                kubernetes: Some(Box::new(Kubernetes {
                    cluster: Some("rl-prod".into()),
                    namespace: Some("team-a".into()),
                    pod: Some(pod.into()),
                    pod_uid: Some("91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0".into()),
                    ..Kubernetes::default()
                })),
                slurm: None,
            };
        }
        report
    }

    fn all(report: &Report) -> Vec<PodEvent> {
        let public = public(report);
        let events = (0..report.deaths.len()).filter_map(|at| {
            let line = death(&origin(), report, &public, at)?;
            PodEvent::of(&origin(), &report.deaths[at], &line)
        });
        events.collect()
    }

    /// Makes an event that differs from others by its number.
    pub(crate) fn one(pod: &str, number: u32) -> PodEvent {
        let mut event = all(&in_pod(sample::burst(), pod)).remove(0);
        event.uid = format!("uid-of-{pod}");
        event.death = number.to_string();
        event.message = format!("cause   {number}");
        event
    }

    #[test]
    fn event_has_five_lines_and_its_pod() {
        let events = all(&in_pod(sample::burst(), "rl-prod-gpu-x7k2p"));
        let event = events.first().expect("an event");
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&event.object(&event.message)).expect("JSON")
        );
    }

    /// A message stays within its limit, and a pod with an invalid name has no event.
    #[test]
    fn hostile_names_are_bounded_or_refused() {
        let events = all(&in_pod(sample::hostile(), "a"));
        assert!(!events.is_empty());
        for event in &events {
            assert!(
                event.object(&event.message)["message"]
                    .as_str()
                    .is_some_and(|text| text.len() <= MESSAGE)
            );
        }
        for pod in [
            "",
            "a/../b",
            "A",
            "-a",
            "a.",
            "a?b",
            "a..b",
            &"a".repeat(254),
        ] {
            assert_eq!(all(&in_pod(sample::hostile(), pod)), Vec::new(), "{pod}");
        }
        let long = one(&"a".repeat(253), 1).name();
        assert!(long.len() <= 253 && is_name(&long), "{long}");
    }

    #[test]
    fn death_without_a_pod_has_no_event() {
        let mut report = sample::burst();
        assert_eq!(all(&report), Vec::new());
        assert_eq!(PodEvent::unnamed(&report.deaths[0]), None);
        // One in a pod that has no name is counted.
        report = in_pod(report, "a");
        assert_eq!(PodEvent::unnamed(&report.deaths[0]), None);
        let pod = report.deaths[0].process.place.kubernetes.as_mut();
        pod.expect("a pod").namespace = None;
        assert!(PodEvent::unnamed(&report.deaths[0]).is_some());
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(cut(&"é".repeat(600)).len(), MESSAGE);
        assert_eq!(cut(&format!("a{}", "é".repeat(600))).len(), MESSAGE - 1);
    }
}
