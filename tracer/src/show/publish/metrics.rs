//! Renders the metrics of a node in the text format of Prometheus.
//!
//! Names and labels are in docs/reference/publish.md.
//!
//! Labels that Ray's metrics also have are spelled as in Ray, so that they can be joined. No pid,
//! worker id or command line is a label, and the number of series is bounded, whatever names jobs
//! have.

use std::{collections::BTreeMap, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use serde::{Deserialize, Serialize};

use super::{number, stable_hash::stable_hash};
use crate::{
    cgroup_path,
    event::LimitOwner,
    event::LimitWarning,
    ids::BootTime,
    judge::{
        killers::LimitMargin,
        report::{Certainty, ClusterReport, Death, Killer},
    },
    show::{facts, sanitize},
};

/// Maximum number of sets of labels of memory kills. More are counted as `other`.
const MOST_KILLS: usize = 100;
/// Maximum number of limits. The nearest are kept.
const MOST_LIMITS: usize = 50;
/// Maximum number of nodes of Ray.
const MOST_NODES: usize = 50;
/// Longest value of a label, in characters.
const LABEL: usize = 80;

type Labels = Vec<(&'static str, String)>;

/// Counts over the life of a node's recordings. They are kept when `publish` is started again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Abnormal deaths, by killer and certainty.
    deaths: BTreeMap<String, BTreeMap<String, u64>>,
    /// Memory kills by killer, namespace, cluster, pod and method.
    kills: Vec<(Kill, u64)>,
    /// Memory kills of a victim that held less than half of what the biggest process held.
    small_victims: u64,
    /// Events lost.
    pub lost: u64,
    /// Recordings that were not closed cleanly.
    pub gaps: u64,
}

/// The labels of a memory kill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kill {
    killer: String,
    namespace: String,
    cluster: String,
    pod: String,
    method: String,
}

impl Counts {
    /// Counts a listed death. `public` is the death in the redacted report, and the place comes
    /// from `full`.
    pub fn died(&mut self, full: &Death, public: &Death) {
        let verdict = &full.verdict;
        let by_killer = self
            .deaths
            .entry(verdict.killer.name().to_owned())
            .or_default();
        let certainty = verdict.certainty.name();
        *by_killer.entry(certainty.to_owned()).or_default() += 1;
        if !verdict.killer.is_memory_kill() {
            return;
        }
        self.small_victims += u64::from(facts::suspect(full).is_some());
        let pod = full.process.place.kubernetes.clone().unwrap_or_default();
        let method = public
            .work
            .task_name
            .as_ref()
            .or(public.work.actor_class.as_ref());
        self.kill(Kill {
            killer: verdict.killer.name().to_owned(),
            namespace: bounded(pod.namespace.as_deref()),
            cluster: bounded(pod.cluster.as_deref()),
            pod: bounded(pod.pod.as_deref()),
            method: bounded(method.map(String::as_str)),
        });
    }

    fn kill(&mut self, mut kill: Kill) {
        let is_new = !self.kills.iter().any(|(known, _)| *known == kill);
        if is_new && self.kills.len() >= MOST_KILLS {
            // At most one for each killer.
            kill = Kill {
                killer: kill.killer,
                method: "other".into(),
                ..Kill::default()
            };
        }
        match self.kills.iter_mut().find(|(known, _)| *known == kill) {
            Some((_, count)) => *count += 1,
            None => self.kills.push((kill, 1)),
        }
    }
}

fn bounded(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| sanitize::line(text, LABEL))
}

/// A limit as labels name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitLabels {
    /// Who kills there: `ray-memory-monitor`, `kernel-oom-memcg`, `kernel-oom-global`.
    pub killer: &'static str,
    /// The cgroup's path if paths may leave the machine, else a stable number made from it.
    pub cgroup: Option<String>,
    /// Its container.
    pub container: Option<String>,
    /// Its pod.
    pub pod_uid: Option<String>,
}

impl LimitLabels {
    /// Returns the limit of `limit_owner`.
    pub fn of(limit_owner: &LimitOwner, with_path: bool) -> Self {
        let path = match limit_owner {
            LimitOwner::Cgroup(path) => Some(path.as_str()),
            LimitOwner::RayMonitor | LimitOwner::Machine => None,
        };
        let killer = match limit_owner {
            LimitOwner::RayMonitor => Killer::RayMemoryMonitor,
            LimitOwner::Cgroup(_) => Killer::KernelOomMemcg,
            LimitOwner::Machine => Killer::KernelOomGlobal,
        };
        Self {
            killer: killer.name(),
            cgroup: path.map(|path| {
                if with_path {
                    sanitize::line(path, LABEL)
                } else {
                    pseudonym(path)
                }
            }),
            container: path.and_then(cgroup_path::container),
            pod_uid: path.and_then(cgroup_path::pod_uid),
        }
    }

    fn labels(self, node: &str) -> Labels {
        vec![
            ("killer", self.killer.to_owned()),
            ("cgroup", self.cgroup.unwrap_or_default()),
            ("container_id", self.container.unwrap_or_default()),
            ("pod_uid", self.pod_uid.unwrap_or_default()),
            ("node", node.to_owned()),
        ]
    }
}

fn pseudonym(path: &str) -> String {
    format!("{:08x}", stable_hash(&[path]) >> 32)
}

/// Counts of Kubernetes Events by result, since `publish` was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events that the API server accepted.
    pub sent: u64,
    /// Events left out: over the budget, too many in the queue, or older than an hour.
    pub dropped: u64,
    /// Events that were refused or given up.
    pub failed: u64,
    /// Deaths in a pod without a known name or namespace.
    pub unnamed: u64,
}

/// A limit with an active warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Warned {
    /// Who kills there.
    pub limit_owner: LimitOwner,
    /// Seconds from now until the 10th and the 90th percentile of the forecast. 0 once that has
    /// passed.
    pub left: Option<(f64, f64)>,
}

impl Warned {
    /// Returns a warning that was issued at `told`, as it stands at `now`.
    pub fn at(told: BootTime, warning: &LimitWarning, now: BootTime) -> Self {
        let since = now.since(told) as f64 / 1e9;
        let left = |ms: u64| (ms as f64 / 1e3 - since).max(0.0);
        Self {
            limit_owner: warning.limit.clone(),
            left: warning
                .within
                .map(|within| (left(within.soonest_ms), left(within.latest_ms))),
        }
    }
}

/// All that is published at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Name of the machine.
    pub node: String,
    /// The counts.
    pub counts: Counts,
    /// The limits, the nearest first. Empty if nobody records.
    pub limits: Vec<LimitMargin>,
    /// The active warnings.
    pub warnings: Vec<Warned>,
    /// The clusters with a live raylet.
    pub clusters: Vec<ClusterReport>,
    /// Whether paths may leave the machine.
    pub with_paths: bool,
    /// Whether a recorder writes now.
    pub recording: bool,
    /// CPU time of the recorder in seconds, and its resident memory in bytes.
    pub recorder: Option<(f64, u64)>,
    /// Size of all recordings, in bytes.
    pub bytes: u64,
    /// The five lines of the last memory kill, with its killer.
    pub last_kill: Option<(String, &'static str)>,
    /// Counts of Events, if they are sent.
    pub events: Option<EventCounts>,
}

/// Renders the metrics in the format of `OpenMetrics`.
pub fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::default();
    counted(&mut registry, snapshot);
    limits(&mut registry, snapshot);
    state(&mut registry, snapshot);
    events(&mut registry, snapshot);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _written = encode(&mut text, &registry);
    text
}

/// Converts them to the older format of Prometheus, in which the family of a counter is named with
/// its `_total`.
pub fn to_prometheus_format(openmetrics: &str) -> String {
    let mut counters: Vec<&str> = Vec::new();
    for line in openmetrics.lines() {
        let declared = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.strip_suffix(" counter"));
        counters.extend(declared);
    }
    let mut text = String::new();
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let mut parts = line.splitn(4, ' ');
        let head = (parts.next(), parts.next(), parts.next(), parts.next());
        match head {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                text.push_str(&format!("# {what} {name}_total {rest}\n"));
            }
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

fn counters(registry: &mut Registry, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
    let family: Family<Labels, Counter<f64, AtomicU64>> = Family::default();
    for (labels, value) in rows {
        family.get_or_create(&labels).inc_by(value);
    }
    registry.register(name, help, family);
}

fn gauges(registry: &mut Registry, name: &str, help: &str, rows: Vec<(Labels, f64)>) {
    let family: Family<Labels, Gauge<f64, AtomicU64>> = Family::default();
    for (labels, value) in rows {
        family.get_or_create(&labels).set(value);
    }
    registry.register(name, help, family);
}

fn counted(registry: &mut Registry, snapshot: &Snapshot) {
    let counts = &snapshot.counts;
    let node = || ("node", snapshot.node.clone());
    // All combinations are there from the start, because Prometheus sees no increase if a counter
    // begins with 1.
    let certainties = [Certainty::Proven, Certainty::Inferred, Certainty::Unknown];
    let deaths = Killer::ALL.iter().flat_map(|killer| {
        certainties.map(|certainty| {
            let (killer, certainty) = (killer.name(), certainty.name());
            let by_killer = counts.deaths.get(killer);
            let count = by_killer.and_then(|by| by.get(certainty)).copied();
            let labels = vec![
                ("killer", killer.to_owned()),
                ("certainty", certainty.to_owned()),
                node(),
            ];
            (labels, count.unwrap_or(0) as f64)
        })
    });
    let help = "Abnormal deaths, by who ended the process and how sure that is";
    counters(registry, "raytrace_deaths", help, deaths.collect());
    let kills = counts.kills.iter().map(|(kill, count)| {
        let labels = vec![
            ("killer", kill.killer.clone()),
            ("namespace", kill.namespace.clone()),
            ("ray_io_cluster", kill.cluster.clone()),
            ("pod", kill.pod.clone()),
            ("method", kill.method.clone()),
            node(),
        ];
        (labels, *count as f64)
    });
    let help = "Memory kills, by pod and by the method or task that the victim ran";
    counters(registry, "raytrace_memory_kills", help, kills.collect());
    for (name, help, count) in [
        (
            "raytrace_small_victims",
            "Memory kills whose victim held less than half of what the biggest process held",
            counts.small_victims,
        ),
        (
            "raytrace_lost_events",
            "Events that the recorder is known to have lost",
            counts.lost,
        ),
        (
            "raytrace_gaps",
            "Recordings that were not closed cleanly",
            counts.gaps,
        ),
    ] {
        counters(registry, name, help, vec![(vec![node()], count as f64)]);
    }
}

fn limits(registry: &mut Registry, snapshot: &Snapshot) {
    // Two monitors of one machine are one limit. So are cgroups with the same number.
    let mut limits: BTreeMap<LimitLabels, &LimitMargin> = BTreeMap::new();
    for threat in snapshot.limits.iter().take(MOST_LIMITS) {
        limits
            .entry(LimitLabels::of(&threat.limit_owner, snapshot.with_paths))
            .or_insert(threat);
    }
    let rows = |value: &dyn Fn(&LimitMargin) -> Option<f64>| -> Vec<(Labels, f64)> {
        let rows = limits.iter();
        rows.filter_map(|(limit, threat)| {
            Some((limit.clone().labels(&snapshot.node), value(threat)?))
        })
        .collect()
    };
    let warned = |threat: &LimitMargin| {
        snapshot
            .warnings
            .iter()
            .find(|warning| warning.limit_owner == threat.limit_owner)
    };
    gauges(
        registry,
        "raytrace_limit_bytes",
        "Limit of the next memory kill, by who kills there",
        rows(&|threat| Some(number(threat.at))),
    );
    gauges(
        registry,
        "raytrace_limit_used_bytes",
        "What counts against the limit now",
        rows(&|threat| Some(number(threat.used()))),
    );
    gauges(
        registry,
        "raytrace_limit_warned",
        "1 while a warning is active, else 0",
        rows(&|threat| Some(f64::from(u8::from(warned(threat).is_some())))),
    );
    let percentiles = [("10", 0), ("90", 1)].map(|(percentile, end)| {
        let mut rows = rows(&|threat| {
            let (soonest, latest) = warned(threat)?.left?;
            Some([soonest, latest][end])
        });
        for (labels, _) in &mut rows {
            labels.push(("percentile", percentile.to_owned()));
        }
        rows
    });
    gauges(
        registry,
        "raytrace_limit_forecast_seconds",
        "Time until the limit is hit by the forecast, its 10th and 90th percentile; absent without an active warning",
        percentiles.concat(),
    );
    gauges(
        registry,
        "raytrace_limit_left_seconds",
        "Time until the limit is hit at the present rate; absent where nothing grows, and if it is over a minute while less than half of the limit is used",
        rows(&|threat| threat.left.map(|left| left.as_secs_f64())),
    );
}

fn state(registry: &mut Registry, snapshot: &Snapshot) {
    let node = || ("node", snapshot.node.clone());
    let build = vec![("version", env!("CARGO_PKG_VERSION").to_owned()), node()];
    gauges(
        registry,
        "raytrace_build_info",
        "The version of raytrace",
        vec![(build, 1.0)],
    );
    let running = f64::from(u8::from(snapshot.recording));
    let help = "Whether a recorder is running on this node";
    gauges(
        registry,
        "raytrace_recorder_running",
        help,
        vec![(vec![node()], running)],
    );
    gauges(
        registry,
        "raytrace_recordings_bytes",
        "Size of all recordings on this node",
        vec![(vec![node()], snapshot.bytes as f64)],
    );
    let of_recorder = |value: &dyn Fn(&(f64, u64)) -> f64| -> Vec<(Labels, f64)> {
        let rows = snapshot.recorder.iter();
        rows.map(|one| (vec![node()], value(one))).collect()
    };
    counters(
        registry,
        "raytrace_recorder_cpu_seconds",
        "CPU time of the recorder",
        of_recorder(&|(cpu, _)| *cpu),
    );
    gauges(
        registry,
        "raytrace_recorder_resident_bytes",
        "Resident memory of the recorder",
        of_recorder(&|(_, bytes)| *bytes as f64),
    );
    let help = "A raylet of this node, with the labels of Ray's own metrics";
    gauges(registry, "raytrace_ray_node_info", help, nodes(snapshot));
    let last = snapshot.last_kill.iter().map(|(summary, killer)| {
        let labels = vec![
            ("killer", (*killer).to_owned()),
            ("summary", summary.clone()),
            node(),
        ];
        (labels, 1.0)
    });
    let help = "The last memory kill in five lines";
    gauges(
        registry,
        "raytrace_last_memory_kill_info",
        help,
        last.collect(),
    );
}

fn events(registry: &mut Registry, snapshot: &Snapshot) {
    let Some(events) = snapshot.events else {
        return;
    };
    let results = [
        ("sent", events.sent),
        ("dropped", events.dropped),
        ("failed", events.failed),
        ("unnamed", events.unnamed),
    ];
    let rows = results.map(|(result, count)| {
        let labels = vec![
            ("result", result.to_owned()),
            ("node", snapshot.node.clone()),
        ];
        (labels, count as f64)
    });
    let help = "Deaths for which a Kubernetes Event was to be created, by result";
    counters(registry, "raytrace_k8s_events", help, rows.into());
}

/// Returns one row for each session and address. Several raylets on one address share a row with
/// all their ids, because two rows would break every join.
fn nodes(snapshot: &Snapshot) -> Vec<(Labels, f64)> {
    let mut nodes: BTreeMap<(String, String), Vec<&ClusterReport>> = BTreeMap::new();
    for cluster in &snapshot.clusters {
        let session = bounded(cluster.session.as_deref());
        let address = bounded(cluster.node_ip.as_deref());
        nodes.entry((session, address)).or_default().push(cluster);
    }
    let rows = nodes.into_iter().take(MOST_NODES);
    rows.map(|((session, address), raylets)| {
        let ids = raylets
            .iter()
            .filter_map(|one| Some(one.node_id.as_ref()?.0.clone()));
        let ids: Vec<String> = ids.take(4).collect();
        let pod = raylets.first().and_then(|one| one.place.kubernetes.clone());
        let pod = pod.unwrap_or_default();
        let labels = vec![
            ("SessionName", session),
            ("ip", address.clone()),
            ("NodeAddress", address),
            ("NodeId", ids.join(",")),
            ("ray_io_cluster", bounded(pod.cluster.as_deref())),
            ("namespace", bounded(pod.namespace.as_deref())),
            ("pod", bounded(pod.pod.as_deref())),
            ("node", snapshot.node.clone()),
        ];
        (labels, 1.0)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        event::{LimitOwner, Within},
        ids::{Bytes, HexId, Pid},
        judge::report::{Kubernetes, Place},
        show::sample,
    };

    fn series(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    fn threat(limit_owner: LimitOwner) -> LimitMargin {
        LimitMargin {
            limit_owner,
            at: Bytes(4 << 30),
            margin: Bytes(1 << 30),
            left: Some(Duration::from_secs(90)),
        }
    }

    #[test]
    fn hostile_names_make_few_series() {
        let mut snapshot = Snapshot {
            node: "gpu-07".into(),
            ..Snapshot::default()
        };
        let kill = sample::verl().deaths[0].clone();
        for number in 0..20_000u32 {
            let mut death = kill.clone();
            death.process.pid = Pid(number);
            death.work.task_name = Some(format!("x\"}}\n\\{}{number}", "y".repeat(300)));
            death.process.place.kubernetes = Some(Box::new(Kubernetes {
                pod: Some(format!("pod-{number}\u{202e}")),
                ..Kubernetes::default()
            }));
            snapshot.counts.died(&death, &death);
        }
        let cgroups =
            (0..5_000).map(|number| threat(LimitOwner::Cgroup(format!("/kubepods/{number}"))));
        snapshot.limits = cgroups.collect();
        let cluster = sample::verl().clusters[0].clone();
        snapshot.clusters = (0..1_000)
            .map(|number| {
                let mut one = cluster.clone();
                one.session = Some(format!("session_{number}"));
                one
            })
            .collect();
        let text = render(&snapshot);
        let series = series(&text);
        assert!(series.len() <= 500, "{} series", series.len());
        let kills: f64 = series
            .iter()
            .filter(|line| line.starts_with("raytrace_memory_kills_total"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert_eq!(kills.to_string(), "20000");
        for line in series {
            assert!(line.chars().all(sanitize::is_harmless), "{line:?}");
            assert!(line.len() < 1_000, "{line}");
        }
    }

    /// Labels are spelled as in Ray's own metrics.
    #[test]
    fn raylets_on_one_address_share_a_series() {
        let mut first = sample::verl().clusters[0].clone();
        first.place = Place {
            kubernetes: Some(Box::new(Kubernetes {
                cluster: Some("rl-prod".into()),
                namespace: Some("team-a".into()),
                pod: Some("rl-prod-0".into()),
                ..Kubernetes::default()
            })),
            slurm: None,
        };
        let mut second = first.clone();
        second.node_id = HexId::parse(&"ab".repeat(28));
        let snapshot = Snapshot {
            node: "gpu-07".into(),
            clusters: vec![first, second],
            limits: vec![threat(LimitOwner::RayMonitor), threat(LimitOwner::Machine)],
            ..Snapshot::default()
        };
        let text = render(&snapshot);
        let info = series(&text)
            .into_iter()
            .find(|line| line.starts_with("raytrace_ray_node_info"))
            .expect("a node");
        assert_eq!(text.matches("raytrace_ray_node_info{").count(), 1);
        for label in [
            "SessionName=\"session_2026-11-20_06-01-58_114213_1771\"",
            "ip=\"192.0.2.7\"",
            "ray_io_cluster=\"rl-prod\"",
            "namespace=\"team-a\"",
            "pod=\"rl-prod-0\"",
        ] {
            assert!(info.contains(label), "{label} in {info}");
        }
        assert!(info.contains(&format!(",{}", "ab".repeat(28))), "{info}");
        assert!(text.contains("raytrace_limit_left_seconds{killer=\"ray-memory-monitor\""));
    }

    #[test]
    fn warning_counts_down_on_its_own_limit() {
        let warning = LimitWarning {
            limit: LimitOwner::RayMonitor,
            at: Bytes(4 << 30),
            used: Bytes(3 << 30),
            within: Some(Within {
                soonest_ms: 60_000,
                latest_ms: 110_000,
            }),
            grower: None,
            victim: None,
            seen_ms: 0,
            at_once: 0,
        };
        let told = BootTime(100_000_000_000);
        let mut snapshot = Snapshot {
            node: "gpu-07".into(),
            limits: vec![threat(LimitOwner::RayMonitor), threat(LimitOwner::Machine)],
            ..Snapshot::default()
        };
        let forecasts = |snapshot: &Snapshot| {
            let text = render(snapshot);
            let rows = series(&text).into_iter();
            let rows = rows.filter(|line| line.starts_with("raytrace_limit_forecast_seconds"));
            let cut = |line: &str| {
                assert!(line.contains("ray-memory-monitor"), "{line}");
                line.split_once("percentile=").map(|two| two.1.to_owned())
            };
            let mut rows: Vec<_> = rows.filter_map(cut).collect();
            rows.sort();
            rows
        };
        assert!(forecasts(&snapshot).is_empty());
        snapshot.warnings = vec![Warned::at(told, &warning, told.plus(70_000_000_000))];
        assert_eq!(forecasts(&snapshot), ["\"10\"} 0.0", "\"90\"} 40.0"]);
    }

    #[test]
    fn older_format_declares_full_counter_names() {
        let text = to_prometheus_format(&render(&Snapshot::default()));
        assert!(text.contains("# TYPE raytrace_deaths_total counter\n"));
        assert!(!text.contains("# EOF"));
        assert!(text.contains("# TYPE raytrace_build_info gauge\n"));
    }

    #[test]
    fn cgroup_paths_need_consent_to_leave() {
        let secret = threat(LimitOwner::Cgroup("/user.slice/lin.slice".into()));
        let mut snapshot = Snapshot {
            limits: vec![secret],
            ..Snapshot::default()
        };
        assert!(!render(&snapshot).contains("lin"));
        snapshot.with_paths = true;
        assert!(render(&snapshot).contains("/user.slice/lin.slice"));
    }
}
