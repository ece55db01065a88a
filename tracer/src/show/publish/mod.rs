//! Renders what leaves a node: one flat JSON object per line, and metrics.
//!
//! This is pure. Keys are those of OpenTelemetry's conventions where these have one, else
//! `raytrace.*` and `ray.*`. All are in docs/reference/publish.md. New ones may be added, but none
//! is ever renamed.

pub mod metrics;
pub mod pod_event;
mod stable_hash;

use serde_json::{Map, Value, json};

use crate::{
    event::{ForecastProcess, LimitWarning, Role},
    ids::{Bytes, EventId, Pid},
    judge::{
        cause::Scope,
        report::{ClusterReport, Death, OomReport, Place, Report, Utc},
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
    fn line(&self, event: &str, severity: &str, time: Option<Utc>) -> Map<String, Value> {
        let mut line = Map::new();
        put(&mut line, "event.name", Some(event));
        put(&mut line, "raytrace.schema", Some(SCHEMA));
        put(&mut line, "severity_text", Some(severity));
        put(&mut line, "timestamp", time);
        put(&mut line, "host.name", Some(&self.host));
        line
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

/// Adds a key, unless its value is not known.
fn put(line: &mut Map<String, Value>, key: &str, value: Option<impl serde::Serialize>) {
    let value = value.and_then(|value| serde_json::to_value(value).ok());
    if let Some(value) = value.filter(|value| !value.is_null()) {
        line.insert(key.to_owned(), value);
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
    let mut line = origin.line(
        "raytrace.death",
        severity,
        full.when.time.or(full.when.exit_time),
    );
    put(&mut line, "raytrace.death.id", origin.death_id(full.id));
    let cause = full.verdict.cause_death_id;
    let cause = cause.and_then(|cause| origin.death_id(cause));
    put(&mut line, "raytrace.cause.death_id", cause);
    let more = origin.more(full.process.pid);
    let (shown, disclosure) = if origin.with_arguments {
        (report, Disclosure::All)
    } else {
        (public, Disclosure::Public)
    };
    let lines = summary::lines(shown, shown.deaths.get(at)?, disclosure, &more);
    put(&mut line, "raytrace.summary", Some(lines.join("\n")));
    verdict(&mut line, full);
    process(&mut line, full, death);
    place(
        &mut line,
        &full.process.place,
        full.process.container_id.as_deref(),
    );
    cluster(
        &mut line,
        report
            .clusters
            .iter()
            .find(|one| Some(one.id) == full.cluster),
    );
    ray(&mut line, death);
    memory(&mut line, full);
    if origin.with_arguments {
        arguments(&mut line, full);
    }
    Some(Value::Object(line))
}

fn verdict(line: &mut Map<String, Value>, death: &Death) {
    let verdict = &death.verdict;
    put(line, "raytrace.killer", Some(verdict.killer));
    put(line, "raytrace.certainty", Some(verdict.certainty.name()));
    put(line, "raytrace.signal", death.end.signal);
    if let Some(sender) = &death.sender {
        put(
            line,
            "raytrace.sender.pid",
            Some(sender.pid).filter(|pid| pid.0 != 0),
        );
        put(line, "raytrace.sender.relation", Some(sender.relation));
        put(line, "raytrace.sender.mechanism", Some(sender.mechanism));
        put(
            line,
            "raytrace.sender.container.id",
            sender.container_id.as_ref(),
        );
    }
}

fn process(line: &mut Map<String, Value>, full: &Death, death: &Death) {
    put(
        line,
        "process.pid",
        Some(full.process.pid).filter(|pid| pid.0 != 0),
    );
    put(line, "process.vpid", full.process.ns_pid);
    put(line, "process.parent_pid", full.process.ppid);
    put(line, "process.creation.time", full.process.start_time);
    put(line, "process.exit.time", full.when.exit_time);
    put(line, "process.exit.code", full.end.exit_code);
    put(line, "ray.role", Some(death.process.role));
}

fn place(line: &mut Map<String, Value>, place: &Place, container: Option<&str>) {
    put(line, "container.id", container);
    if let Some(pod) = &place.kubernetes {
        put(line, "k8s.namespace.name", pod.namespace.as_ref());
        put(line, "k8s.pod.name", pod.pod.as_ref());
        put(line, "k8s.pod.uid", pod.pod_uid.as_ref());
        put(line, "k8s.container.name", pod.container.as_ref());
        put(line, "ray.cluster.name", pod.cluster.as_ref());
        put(line, "ray.node.group", pod.group.as_ref());
    }
    if let Some(slurm) = &place.slurm {
        put(line, "slurm.job.id", Some(&slurm.job_id));
        put(line, "slurm.step.id", slurm.step_id.as_ref());
    }
}

fn cluster(line: &mut Map<String, Value>, cluster: Option<&ClusterReport>) {
    let Some(cluster) = cluster else { return };
    put(line, "ray.session.name", cluster.session.as_ref());
    put(line, "ray.node.id", cluster.node_id.as_ref());
    put(line, "ray.node.ip", cluster.node_ip.as_ref());
    put(line, "ray.version", cluster.ray_version.as_ref());
}

fn ray(line: &mut Map<String, Value>, death: &Death) {
    put(line, "ray.worker.id", death.work.worker_id.as_ref());
    put(line, "ray.actor.id", death.work.actor_id.as_ref());
    put(line, "ray.job.id", death.work.job_id.as_ref());
    if death.process.role == Role::Worker {
        put(line, "ray.actor.class", death.work.actor_class.as_ref());
        put(line, "ray.task.name", death.work.task_name.as_ref());
    }
}

fn memory(line: &mut Map<String, Value>, death: &Death) {
    put(
        line,
        "raytrace.memory.resident_bytes",
        death.memory.own.resident(),
    );
    put(
        line,
        "raytrace.memory.anonymous_bytes",
        death.memory.own.anon_bytes,
    );
    put(
        line,
        "raytrace.memory.peak_bytes",
        death.memory.own.peak_bytes,
    );
    if let Some(OomReport {
        constraint,
        limit_bytes,
        usage_bytes,
        ..
    }) = death.memory.oom.as_deref()
    {
        put(
            line,
            "raytrace.oom.constraint",
            constraint.map(Scope::constraint),
        );
        put(line, "raytrace.oom.limit_bytes", *limit_bytes);
        put(line, "raytrace.oom.usage_bytes", *usage_bytes);
    }
    if let Some(at) = &death.memory.at_death {
        put(line, "raytrace.monitor.used_bytes", at.ray_used_bytes);
        put(
            line,
            "raytrace.monitor.threshold_bytes",
            at.ray_threshold_bytes,
        );
    }
}

/// Adds what is left out unless it is asked for.
fn arguments(line: &mut Map<String, Value>, death: &Death) {
    put(line, "process.title", death.process.title.as_ref());
    put(line, "raytrace.verdict", Some(clause::summary(death)));
    let oom = death.memory.oom.as_ref();
    put(
        line,
        "process.linux.cgroup",
        oom.and_then(|oom| oom.task_cgroup.as_ref()),
    );
    put(
        line,
        "raytrace.oom.cgroup",
        oom.and_then(|oom| oom.cgroup.as_ref()),
    );
    if let Some(sender) = &death.sender {
        put(line, "raytrace.sender.name", Some(&sender.comm));
        put(line, "raytrace.sender.executable", sender.exe.as_ref());
    }
}

/// Returns the line of a warning, or of its end if `is_over`.
pub fn warning(origin: &Origin, time: Option<Utc>, warning: &LimitWarning, is_over: bool) -> Value {
    let severity = if is_over { "INFO" } else { "WARN" };
    let mut line = origin.line("raytrace.warning", severity, time);
    let limit = metrics::LimitLabels::of(&warning.limit, origin.with_arguments);
    put(&mut line, "raytrace.killer", Some(limit.killer));
    put(&mut line, "raytrace.limit.cgroup", limit.cgroup);
    put(&mut line, "container.id", limit.container);
    put(&mut line, "k8s.pod.uid", limit.pod_uid);
    put(&mut line, "raytrace.limit.bytes", Some(warning.at));
    put(&mut line, "raytrace.limit.used_bytes", Some(warning.used));
    put(&mut line, "raytrace.warning.over", Some(is_over));
    let within = warning.within.filter(|_| !is_over);
    let soonest = within.map(|within| within.soonest_ms / 1000);
    put(&mut line, "raytrace.limit.seconds_left", soonest);
    let latest = within.map(|within| within.latest_ms / 1000);
    put(&mut line, "raytrace.limit.seconds_left_at_most", latest);
    let at_once = Some(warning.at_once).filter(|count| *count > 1 && !is_over);
    put(&mut line, "raytrace.warning.tasks_at_once", at_once);
    if origin.with_arguments {
        let name = |process: &Option<ForecastProcess>| process.as_ref().map(|one| one.name.clone());
        put(&mut line, "raytrace.warning.grower", name(&warning.grower));
        put(
            &mut line,
            "raytrace.warning.likely_victim",
            name(&warning.victim),
        );
    }
    Value::Object(line)
}

/// Returns the line about events that were lost since the last such line.
pub fn loss(origin: &Origin, time: Option<Utc>, lost: u64) -> Value {
    let mut line = origin.line("raytrace.loss", "WARN", time);
    put(&mut line, "raytrace.lost_events", Some(lost));
    Value::Object(line)
}

/// Returns the line about a recording that did not end cleanly. The gap is from its last event to
/// the start of the next recording.
pub fn gap(origin: &Origin, from: Option<Utc>, to: Option<Utc>) -> Value {
    let mut line = origin.line("raytrace.gap", "WARN", to.or(from));
    put(&mut line, "raytrace.gap.from", from);
    put(&mut line, "raytrace.gap.to", to);
    Value::Object(line)
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
