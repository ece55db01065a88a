//! `raytrace publish` beside a real recorder and a real Ray: log lines, metrics and alerts.
//!
//! Prometheus and its Alertmanager are real too.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use raytrace_tests::{
    publishing::{
        KillOnDrop, get, make_folders, next_webhook_request, published_lines, query_rows,
        start_prometheus, start_publisher, start_recorder, wait_for,
    },
    staging,
    truth::PrivilegeMode,
};
use rustix::process::Signal;
use serde_json::Value;

fn of_killer<'a>(lines: &'a [Value], killer: &str) -> Option<&'a Value> {
    // A warning also names a killer.
    let mut deaths = lines
        .iter()
        .filter(|line| line["event.name"] == "raytrace.death");
    deaths.find(|line| line["raytrace.killer"] == killer)
}

/// Returns every query of the dashboard, with the initial values of its variables.
fn queries() -> Vec<String> {
    let file = staging::root().join("deploy/grafana/raytrace.json");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(file).expect("a dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let queries = targets.filter_map(|target| target["expr"].as_str().map(str::to_owned));
    queries
        .map(|query| {
            query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "10m")
                .replace("$node", ".*")
                .replace("$cluster", ".*")
                .replace("$namespace", ".*")
        })
        .collect()
}

/// Returns promtool's complaints about metrics, except about the letter case of labels that are
/// Ray's.
fn complaints(metrics: &str) -> Vec<String> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    let mut input = promtool.stdin.take().expect("stdin");
    input.write_all(metrics.as_bytes()).expect("metrics");
    drop(input);
    let said = promtool.wait_with_output().expect("an end");
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter(|line| !line.is_empty());
    let of_ray =
        |line: &&str| line.contains("raytrace_ray_node_info") && line.contains("camelCase");
    lines
        .filter(|line| !of_ray(line))
        .map(str::to_owned)
        .collect()
}

/// Checks that each kill is a line that names its pod and holds no private data.
fn check_kill_lines(own: &Path) {
    for killer in ["kernel-oom-memcg", "ray-memory-monitor"] {
        let all = wait_for(killer, || of_killer(&published_lines(own), killer).cloned());
        println!("{all:#}");
        assert_eq!(all["raytrace.certainty"], "proven");
        assert_eq!(all["k8s.pod.name"], "rl-prod-gpu-worker-x7k2p");
        assert_eq!(all["k8s.namespace.name"], "team-a");
        assert_eq!(all["ray.cluster.name"], "rl-prod");
        assert!(all["ray.worker.id"].is_string() && all["process.pid"].is_number());
        let summary = all["raytrace.summary"].as_str();
        assert!(summary.is_some_and(|text| text.lines().count() == 5));
        let text = all.to_string();
        for kept_back in ["/tmp", "python3", "--truth"] {
            assert!(!text.contains(kept_back), "{kept_back} in {text}");
        }
    }
}

/// Checks that Ray's metrics can be joined with raytrace's by node, and that no panel of the
/// dashboard is empty.
fn check_join(prometheus: &str) {
    let join = "ray_node_mem_used * on (SessionName, ip) group_left (NodeId, pod, ray_io_cluster) raytrace_ray_node_info";
    let joined = wait_for("the join", || query_rows(prometheus, join));
    assert_eq!(joined[0]["metric"]["ray_io_cluster"], "rl-prod");
    let node = joined[0]["metric"]["NodeId"].as_str();
    assert!(node.is_some_and(|id| id.len() == 56), "{joined:#?}");
    let queries = queries();
    assert!(queries.len() >= 6, "{queries:#?}");
    for query in &queries {
        wait_for(query, || query_rows(prometheus, query));
    }
}

fn ids(lines: &[Value]) -> Vec<String> {
    let ids = lines
        .iter()
        .filter_map(|line| line["raytrace.death.id"].as_str());
    ids.map(str::to_owned).collect()
}

fn kills(metrics: &str) -> BTreeSet<String> {
    let kills = metrics
        .lines()
        .filter(|line| line.starts_with("raytrace_memory_kills_total"));
    kills.map(str::to_owned).collect()
}

/// Checks that a restarted publisher continues where it ended, and repeats nothing.
fn restart_publisher(folder: &Path, own: &Path, before: &[Value], metrics: &str) -> KillOnDrop {
    let (publisher, address) = start_publisher(folder, own, |_| ());
    let again = wait_for("a recorder that runs", || {
        let text = get(&address, "/metrics")?;
        let runs = text
            .lines()
            .any(|line| line.starts_with("raytrace_recorder_running{") && !line.ends_with(" 0.0"));
        runs.then_some(text)
    });
    assert_eq!(kills(&again), kills(metrics));
    let after = ids(&published_lines(own));
    assert!(after.starts_with(&ids(before)));
    let once: BTreeSet<&String> = after.iter().collect();
    assert_eq!(once.len(), after.len(), "{after:?}");
    publisher
}

/// Returns the port of Ray's own metrics.
fn port_of_ray(root: &Path) -> u64 {
    let port = fs::read_to_string(root.join("port")).expect("Ray's port");
    port.parse().expect("a port")
}

#[test]
fn deaths_reach_prometheus_alerts_and_logs() {
    let held = tempfile::tempdir().expect("a folder");
    let (folder, own) = make_folders(held.path());
    let mut script =
        staging::start_waiting("2.60.0", "metrics.py", &[], held.path()).expect("a script");
    let raylet = script
        .wait_for_raylet("ready")
        .expect("a raylet")
        .to_string();
    let mut recorder = start_recorder(&folder, &raylet);
    let (publisher, address) = start_publisher(&folder, &own, |_| ());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hook = listener.local_addr().expect("an address").port();
    let ray = format!("127.0.0.1:{}", port_of_ray(held.path()));
    let targets = [("raytrace", address.clone()), ("ray", ray)];
    let (_prometheus, _manager, prometheus) = start_prometheus(&own, &targets, hook);
    for job in ["raytrace", "ray"] {
        wait_for("a target that is up", || {
            query_rows(&prometheus, &format!("up{{job=\"{job}\"}} == 1"))
        });
    }
    // Prometheus counts an increase from its first scrape on.
    wait_for("a first look", || {
        query_rows(&prometheus, "raytrace_deaths_total")
    });
    script.go_on().expect("the script");
    script.wait_for("staged").expect("staging");
    check_kill_lines(&own);
    check_join(&prometheus);
    let firing = "ALERTS{alertname=\"RayMemoryKill\",alertstate=\"firing\"}";
    wait_for("an alert", || query_rows(&prometheus, firing));
    let alert = next_webhook_request(&listener);
    assert!(
        alert.contains("RayMemoryKill") && alert.contains("cause   "),
        "{alert}"
    );
    let text = get(&address, "/metrics").expect("metrics");
    assert_eq!(complaints(&text), Vec::<String>::new(), "{text}");
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{series} series");
    assert!(series <= 500, "{series} series");
    let before = published_lines(&own);
    let lines = own.join("deaths.jsonl");
    let checked = staging::against_schema("publish.schema.json", &[lines]);
    assert!(checked.ends_with("keep to the schema\n"), "{checked}");
    drop(publisher);
    let _publisher = restart_publisher(&folder, &own, &before, &text);
    // The recorder leaves one file, although the publisher follows it.
    recorder.signal(Signal::INT).expect("a signal");
    let status = recorder.wait(Duration::from_secs(60)).expect("an end");
    assert!(status.success(), "{status}");
    let entries = fs::read_dir(&folder).expect("a folder").flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let report = raytrace_tests::recorder::report(&files[0]).expect("a report");
    assert_eq!(report["recordings"][0]["lost_events"], 0);
    let truth = script.finish().expect("staging");
    let wrong = truth.compare(&report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn alert_rules_pass_promtool() {
    let folder = staging::root().join("deploy/prometheus");
    let said = Command::new("promtool")
        .args(["test", "rules", "rules_test.yml"])
        .current_dir(folder)
        .output()
        .expect("promtool");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stdout)
    );
}
