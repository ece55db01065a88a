//! Renders what leaves a node: one flat JSON object per line, and metrics.
//!
//! This is pure. Keys are those of OpenTelemetry's conventions where these have one, else
//! `raytrace.*` and `ray.*`. All are in docs/reference/publish.md. New ones may be added, but none
//! is ever renamed.

pub mod metrics;
pub mod pod_event;
mod stable_hash;

use serde_json::{Value, json};

use crate::{
    event::{ForecastProcess, LimitWarning, Role},
    ids::{Bytes, EventId, Pid},
    judge::{
        cause::Scope,
        report::{ClusterReport, Death, Place, Report, Utc},
    },
    show::{
        clause,
        redact::redact,
        summary::{self, Disclosure},
    },
};

/// Version of the schema of keys.
const SCHEMA: u32 = 1;

/// Where lines come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the machine.
    pub host: String,
    /// The folder of the recordings, as it may be published.
    pub folder: String,
    /// The command before `raytrace` with which a reader reaches the recordings.
    pub reached_by: Option<String>,
    /// When the recording began. With a death's id, this identifies the death for ever.
    pub started: Utc,
    /// Whether command lines, paths and names of processes may leave the machine.
    pub with_arguments: bool,
}

impl Origin {
    /// Returns a line with the keys of `parts` whose values are known.
    fn line(
        &self,
        event: &str,
        severity: &str,
        time: Option<Utc>,
        parts: impl IntoIterator<Item = Value>,
    ) -> Value {
        let about = json!({
            "event.name": event,
            "raytrace.schema": SCHEMA,
            "severity_text": severity,
            "timestamp": time,
            "host.name": self.host,
        });
        let parts = std::iter::once(about).chain(parts);
        let keys = parts.filter_map(|part| match part {
            Value::Object(keys) => Some(keys),
            _ => None,
        });
        let known = keys.flatten().filter(|(_, value)| !value.is_null());
        Value::Object(known.collect())
    }

    /// Returns the permanent id of a death.
    fn death_id(&self, id: EventId) -> Option<String> {
        let started = serde_json::to_value(self.started).ok()?;
        Some(format!("{}/{}", started.as_str()?, id.0))
    }

    /// Returns the command that shows more of a process.
    fn more(&self, pid: Pid) -> String {
        let report = format!("raytrace report {} --match {pid}", self.folder);
        match &self.reached_by {
            Some(command) => format!("{command} {report}"),
            None => format!("on {}: {report}", self.host),
        }
    }
}

/// Redacts a report, but keeps the names of machines and pods, so that it says whom it concerns.
pub fn public(report: &Report) -> Report {
    let mut public = redact(report);
    for (shown, full) in public.recordings.iter_mut().zip(&report.recordings) {
        shown.host.name.clone_from(&full.host.name);
    }
    for (shown, full) in public.deaths.iter_mut().zip(&report.deaths) {
        shown.process.place.clone_from(&full.process.place);
    }
    public
}

/// Returns the line of a settled death. `public` is what [`public`] returns for its report.
pub fn death(origin: &Origin, report: &Report, public: &Report, at: usize) -> Option<Value> {
    let (full, death) = (report.deaths.get(at)?, public.deaths.get(at)?);
    let severity = if full.verdict.killer.is_memory_kill() {
        "ERROR"
    } else if full.verdict.cause_death_id.is_some() {
        "INFO"
    } else {
        "WARN"
    };
    let time = full.when.time.or(full.when.exit_time);
    let cause = full.verdict.cause_death_id;
    let more = origin.more(full.process.pid);
    let (shown, disclosure) = if origin.with_arguments {
        (report, Disclosure::All)
    } else {
        (public, Disclosure::Public)
    };
    let lines = summary::lines(shown, shown.deaths.get(at)?, disclosure, &more);
    let about = json!({
        "raytrace.death.id": origin.death_id(full.id),
        "raytrace.cause.death_id": cause.and_then(|cause| origin.death_id(cause)),
        "raytrace.summary": lines.join("\n"),
    });
    let parts = [
        about,
        verdict(full),
        process(full, death),
        place(&full.process.place),
        cluster(report.cluster_of(full)),
        ray(death),
        memory(full),
    ];
    let arguments = origin.with_arguments.then(|| arguments(full));
    let parts = parts.into_iter().chain(arguments);
    Some(origin.line("raytrace.death", severity, time, parts))
}

fn verdict(death: &Death) -> Value {
    let verdict = &death.verdict;
    let sender = death.sender.as_ref();
    json!({
        "raytrace.killer": verdict.killer,
        "raytrace.certainty": verdict.certainty.name(),
        "raytrace.signal": death.end.signal,
        "raytrace.sender.pid": known(sender.map(|one| one.pid)),
        "raytrace.sender.relation": sender.map(|one| one.relation),
        "raytrace.sender.mechanism": sender.map(|one| one.mechanism),
        "raytrace.sender.container.id": sender.and_then(|one| one.container_id.as_ref()),
    })
}

fn process(full: &Death, death: &Death) -> Value {
    json!({
        "container.id": full.process.container_id,
        "process.pid": known(Some(full.process.pid)),
        "process.vpid": full.process.ns_pid,
        "process.parent_pid": full.process.ppid,
        "process.creation.time": full.process.start_time,
        "process.exit.time": full.when.exit_time,
        "process.exit.code": full.end.exit_code,
        "ray.role": death.process.role,
    })
}

/// Returns a pid, unless it is the 0 of one that is not known.
fn known(pid: Option<Pid>) -> Option<Pid> {
    pid.filter(|pid| pid.0 != 0)
}

fn place(place: &Place) -> Value {
    let pod = place.kubernetes.clone().unwrap_or_default();
    let slurm = place.slurm.as_ref();
    json!({
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.name": pod.pod,
        "k8s.pod.uid": pod.pod_uid,
        "k8s.container.name": pod.container,
        "ray.cluster.name": pod.cluster,
        "ray.node.group": pod.group,
        "slurm.job.id": slurm.map(|slurm| &slurm.job_id),
        "slurm.step.id": slurm.and_then(|slurm| slurm.step_id.as_ref()),
    })
}

fn cluster(cluster: Option<&ClusterReport>) -> Value {
    cluster.map_or(Value::Null, |cluster| {
        json!({
            "ray.session.name": cluster.session,
            "ray.node.id": cluster.node_id,
            "ray.node.ip": cluster.node_ip,
            "ray.version": cluster.ray_version,
        })
    })
}

fn ray(death: &Death) -> Value {
    let work = &death.work;
    let code = Some(work).filter(|_| death.process.role == Role::Worker);
    json!({
        "ray.worker.id": work.worker_id,
        "ray.actor.id": work.actor_id,
        "ray.job.id": work.job_id,
        "ray.actor.class": code.and_then(|work| work.actor_class.as_ref()),
        "ray.task.name": code.and_then(|work| work.task_name.as_ref()),
    })
}

fn memory(death: &Death) -> Value {
    let memory = &death.memory;
    let (oom, at) = (memory.oom.as_deref(), memory.at_death.as_ref());
    json!({
        "raytrace.memory.resident_bytes": memory.own.resident(),
        "raytrace.memory.anonymous_bytes": memory.own.anon_bytes,
        "raytrace.memory.peak_bytes": memory.own.peak_bytes,
        "raytrace.oom.constraint": oom.and_then(|oom| oom.constraint).map(Scope::constraint),
        "raytrace.oom.limit_bytes": oom.and_then(|oom| oom.limit_bytes),
        "raytrace.oom.usage_bytes": oom.and_then(|oom| oom.usage_bytes),
        "raytrace.monitor.used_bytes": at.and_then(|at| at.ray_used_bytes),
        "raytrace.monitor.threshold_bytes": at.and_then(|at| at.ray_threshold_bytes),
    })
}

/// Returns what is left out unless it is asked for.
fn arguments(death: &Death) -> Value {
    let oom = death.memory.oom.as_ref();
    let sender = death.sender.as_ref();
    json!({
        "process.title": death.process.title,
        "raytrace.verdict": clause::summary(death),
        "process.linux.cgroup": oom.and_then(|oom| oom.task_cgroup.as_ref()),
        "raytrace.oom.cgroup": oom.and_then(|oom| oom.cgroup.as_ref()),
        "raytrace.sender.name": sender.map(|sender| &sender.comm),
        "raytrace.sender.executable": sender.and_then(|sender| sender.exe.as_ref()),
    })
}

/// Returns the line of a warning, or of its end if `is_over`.
pub fn warning(origin: &Origin, time: Option<Utc>, warning: &LimitWarning, is_over: bool) -> Value {
    let severity = if is_over { "INFO" } else { "WARN" };
    let limit = metrics::LimitLabels::of(&warning.limit, origin.with_arguments);
    let within = warning.within.filter(|_| !is_over);
    let at_once = Some(warning.at_once).filter(|count| *count > 1 && !is_over);
    let name = |process: &Option<ForecastProcess>| {
        let shown = process.as_ref().filter(|_| origin.with_arguments);
        shown.map(|one| one.name.clone())
    };
    let about = json!({
        "raytrace.killer": limit.killer,
        "raytrace.limit.cgroup": limit.cgroup,
        "container.id": limit.container,
        "k8s.pod.uid": limit.pod_uid,
        "raytrace.limit.bytes": warning.at,
        "raytrace.limit.used_bytes": warning.used,
        "raytrace.warning.over": is_over,
        "raytrace.limit.seconds_left": within.map(|within| within.soonest_ms / 1000),
        "raytrace.limit.seconds_left_at_most": within.map(|within| within.latest_ms / 1000),
        "raytrace.warning.tasks_at_once": at_once,
        "raytrace.warning.grower": name(&warning.grower),
        "raytrace.warning.likely_victim": name(&warning.victim),
    });
    origin.line("raytrace.warning", severity, time, [about])
}

/// Returns the line about events that were lost since the last such line.
pub fn loss(origin: &Origin, time: Option<Utc>, lost: u64) -> Value {
    let about = json!({"raytrace.lost_events": lost});
    origin.line("raytrace.loss", "WARN", time, [about])
}

/// Returns the line about a recording that did not end cleanly. The gap is from its last event to
/// the start of the next recording.
pub fn gap(origin: &Origin, from: Option<Utc>, to: Option<Utc>) -> Value {
    let about = json!({"raytrace.gap.from": from, "raytrace.gap.to": to});
    origin.line("raytrace.gap", "WARN", to.or(from), [about])
}

/// Renders a line as one object, without characters that a terminal would obey.
pub fn render(line: &Value) -> String {
    json!(line).to_string()
}

/// Returns bytes as a number.
fn number(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Map;

    use super::*;
    use crate::{
        judge::{
            cause::Cause,
            report::{Kubernetes, Slurm},
        },
        show::sample,
    };

    fn origin(with_arguments: bool) -> Origin {
        Origin {
            host: "gpu-07".into(),
            folder: "/var/lib/raytrace".into(),
            reached_by: None,
            started: sample::at(0),
            with_arguments,
        }
    }

    fn staged() -> Report {
        let mut report = sample::others();
        let death = &mut report.deaths[0];
        death.process.title = Some("ray::Trainer.fit".into());
        death.verdict.cause = Cause::MemoryDaemon {
            fix: None,
            name: "corp-reaper".into(),
            says: "killed by /home/lin/bin/reaper --token sk-123456789".into(),
        };
        death.memory.oom = sample::burst().deaths[0].memory.oom.clone();
        death.process.place = Place {
            kubernetes: Some(Box::new(Kubernetes {
                cluster: Some("rl-prod".into()),
                namespace: Some("team-a".into()),
                pod: Some("rl-prod-gpu-x7k2p".into()),
                group: Some("gpu".into()),
                pod_uid: Some("91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0".into()),
                container: Some("ray-head".into()),
                container_id: None,
            })),
            slurm: Some(Slurm {
                job_id: "4711".into(),
                step_id: Some("0".into()),
            }),
        };
        if let Some(sender) = &mut death.sender {
            sender.comm = "corp-reaper".into();
            sender.exe = Some("/home/lin/bin/reaper".into());
        }
        report
    }

    fn text(report: &Report, with_arguments: bool) -> String {
        let public = public(report);
        let lines = (0..report.deaths.len()).map(|at| {
            let line = death(&origin(with_arguments), report, &public, at).expect("a line");
            render(&line)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Names of processes outside Ray stay on the machine too.
    #[test]
    fn arguments_and_paths_stay_unless_asked() {
        let report = staged();
        let kept_back = [
            "/home", "reaper", "sk-1234", "/usr/bin", "python3", "train.py", "/job",
        ];
        let quiet = text(&report, false);
        for secret in kept_back {
            assert!(!quiet.contains(secret), "{secret} in {quiet}");
        }
        assert!(text(&report, true).contains("corp-reaper"));
    }

    #[test]
    fn keys_of_a_death_line() {
        let report = staged();
        let public = public(&report);
        let line = death(&origin(false), &report, &public, 0).expect("a line");
        insta::assert_snapshot!(serde_json::to_string_pretty(&line).expect("JSON"));
    }

    /// Returns the keys of a line that `docs/reference/publish.schema.json` lists.
    fn documented(event: &str) -> Vec<String> {
        let schema = include_str!("../../../../docs/reference/publish.schema.json");
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let kinds = schema["oneOf"].as_array().expect("kinds");
        let kind = kinds.iter().find(|kind| kind["title"] == event);
        let keys = kind.and_then(|kind| kind["properties"].as_object());
        keys.expect("properties").keys().cloned().collect()
    }

    #[test]
    fn each_key_of_a_death_is_in_the_schema() {
        let reports = [staged(), sample::hostile(), sample::burst()];
        let written = reports.iter().map(|report| text(report, true));
        let written = written.collect::<Vec<_>>().join("\n");
        let lines = written.lines().map(serde_json::from_str);
        let lines: Vec<Map<String, Value>> = lines.map(|line| line.expect("JSON")).collect();
        let written: BTreeSet<String> = lines
            .into_iter()
            .flat_map(|line| line.into_iter().map(|(key, _)| key))
            .collect();
        let listed: BTreeSet<String> = documented("raytrace.death").into_iter().collect();
        let unlisted: Vec<_> = written.difference(&listed).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
    }

    #[test]
    fn hostile_names_stay_on_their_line() {
        for line in text(&sample::hostile(), false).lines() {
            let read: Value = serde_json::from_str(line).expect("one object a line");
            assert_eq!(read["event.name"], "raytrace.death");
        }
    }
}
