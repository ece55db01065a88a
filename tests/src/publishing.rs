//! `raytrace publish` under test: run without privileges, with Prometheus and Alertmanager.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    ports::free_port,
    recorder::{Recorder, raytrace},
    staging,
};

const PATIENCE: Duration = Duration::from_secs(300);
/// The user and group of `publish`. No other process has it.
const USER: u32 = 65_532;

/// A program that is killed when this is dropped.
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Starts it.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Starts `raytrace publish` as a user who may only read what the group may read.
///
/// Returns it and the address of its metrics. `more` changes its command.
///
/// # Panics
///
/// If it does not start.
pub fn start_publisher(
    folder: &Path,
    own: &Path,
    more: impl FnOnce(&mut Command),
) -> (KillOnDrop, String) {
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={USER}"), format!("--regid={USER}")])
        .args([
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--no-new-privs",
        ])
        .arg(raytrace())
        .args(["publish", "--metrics", "127.0.0.1:0", "--directory"])
        .arg(folder)
        .arg("--json")
        .arg(own.join("deaths.jsonl"))
        .arg("--state")
        .arg(own.join("publish.json"))
        .stderr(Stdio::piped());
    more(&mut command);
    let mut running = KillOnDrop::start(&mut command);
    let errors = running.0.stderr.take().expect("stderr");
    let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let rest = line.split_once("http://")?.1;
        Some(rest.strip_suffix("/metrics")?.to_owned())
    });
    thread::spawn(move || lines.for_each(|line| println!("publish: {line}")));
    (running, address.expect("an address"))
}

/// Returns the body of the answer to a GET.
pub fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Calls `look` until it returns something.
///
/// # Panics
///
/// If it returns nothing for five minutes.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Returns what Prometheus answers to a query, if that is not empty.
///
/// # Panics
///
/// If the answer says that the query failed.
pub fn query_rows(prometheus: &str, query: &str) -> Option<Vec<Value>> {
    let mut encoded = String::new();
    for byte in query.bytes() {
        encoded.push_str(&format!("%{byte:02X}"));
    }
    let body = get(prometheus, &format!("/api/v1/query?query={encoded}"))?;
    let answer: Value = serde_json::from_str(&body).ok()?;
    assert_eq!(answer["status"], "success", "{query}: {answer}");
    let rows = answer["data"]["result"].as_array()?.clone();
    (!rows.is_empty()).then_some(rows)
}

/// Returns the lines that were published.
///
/// # Panics
///
/// If one is no JSON object.
pub fn published_lines(own: &Path) -> Vec<Value> {
    let text = fs::read_to_string(own.join("deaths.jsonl")).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("an object a line")).collect()
}

/// Starts Prometheus and its Alertmanager, which sends alerts to `webhook`. `targets` are jobs and
/// their addresses.
///
/// # Panics
///
/// If they cannot be started.
pub fn start_prometheus(
    own: &Path,
    targets: &[(&str, String)],
    webhook: u16,
) -> (KillOnDrop, KillOnDrop, String) {
    let (web, alerts, cluster) = (free_port(), free_port(), free_port());
    let rules = staging::root().join("deploy/prometheus/rules.yml");
    let jobs: Vec<String> = targets
        .iter()
        .map(|(job, target)| {
            // The labels `namespace` and `pod` are those of the Ray pod.
            let honor = *job == "raytrace";
            format!("- job_name: {job}\n  honor_labels: {honor}\n  static_configs: [{{targets: ['{target}']}}]\n")
        })
        .collect();
    fs::write(
        own.join("prometheus.yml"),
        format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alerts}']}}]}}]}}\n\
             scrape_configs:\n{}",
            rules.display(),
            jobs.concat()
        ),
    )
    .expect("a file");
    fs::write(
        own.join("alertmanager.yml"),
        format!(
            "route: {{receiver: chat, group_by: [alertname], group_wait: 1s}}\nreceivers: [{{name: chat, webhook_configs: [{{url: 'http://127.0.0.1:{webhook}/'}}]}}]\n"
        ),
    )
    .expect("a file");
    let log = |name: &str| fs::File::create(own.join(name)).expect("a log");
    let prometheus = KillOnDrop::start(
        Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                own.join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                own.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{web}"))
            .stdout(log("prometheus.out"))
            .stderr(log("prometheus.log")),
    );
    let manager = KillOnDrop::start(
        Command::new("prometheus-alertmanager")
            .arg(format!(
                "--config.file={}",
                own.join("alertmanager.yml").display()
            ))
            .arg(format!("--storage.path={}", own.join("alerts").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{alerts}"))
            .arg(format!("--cluster.listen-address=127.0.0.1:{cluster}"))
            .stdout(log("alertmanager.out"))
            .stderr(log("alertmanager.log")),
    );
    (prometheus, manager, format!("127.0.0.1:{web}"))
}

/// Returns the next request of Alertmanager.
///
/// # Panics
///
/// If there is none.
pub fn next_webhook_request(listener: &TcpListener) -> String {
    listener.set_nonblocking(true).expect("a mode");
    let (mut stream, _) = wait_for("a request", || listener.accept().ok());
    stream.set_nonblocking(false).expect("a mode");
    stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a limit");
    let mut told = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        told.extend_from_slice(&piece[..count]);
        if told.ends_with(b"}\n") {
            break;
        }
    }
    let _answered =
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    String::from_utf8_lossy(&told).into_owned()
}

/// Makes the folder of recordings and that of the publisher's own files.
///
/// # Panics
///
/// If they cannot be made.
pub fn make_folders(root: &Path) -> (PathBuf, PathBuf) {
    let (folder, own) = (root.join("recordings"), root.join("own"));
    for path in [root, &folder, &own] {
        fs::create_dir_all(path).expect("a folder");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    chown(&own, Some(USER), Some(USER)).expect("an owner");
    (folder, own)
}

/// Starts a recorder as root, with the group of those who may read.
///
/// # Panics
///
/// If it does not record.
pub fn start_recorder(folder: &Path, raylet: &str) -> Recorder {
    let mut command = Command::new("setpriv");
    command
        .args([format!("--regid={USER}"), "--clear-groups".into()])
        .arg(raytrace())
        .args(["record", "--raylet-pid", raylet, "--directory"])
        .arg(folder);
    Recorder::run(command, folder).expect("a recorder")
}
