//! `raytrace publish --k8s-events` turns kills in a pod's cgroup into Events on that pod.
//!
//! The recorder is real. The API server is an HTTPS server that checks each request against
//! Kubernetes' own schemas (`staging/apiserver.py`).

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use raytrace_tests::{
    cgroup,
    fake_raylet::FakeRaylet,
    publishing::{
        KillOnDrop, get, make_folders, published_lines, start_publisher, start_recorder, wait_for,
    },
    staging,
};
use serde_json::Value;

const UID: &str = "91b1bae4-2e2b-4ae4-8a6c-6b2b4ca1d3f0";
/// The environment of a raylet, in which `KubeRay` names the pod.
const POD: [(&str, &str); 4] = [
    ("RAY_CLUSTER_NAME", "rl-prod"),
    ("RAY_CLUSTER_NAMESPACE", "team-a"),
    ("RAY_CLOUD_INSTANCE_ID", "rl-prod-gpu-worker-x7k2p"),
    ("RAY_NODE_TYPE_NAME", "gpu"),
];
/// More ends than `publish` sends to an API server one by one.
const KILLS: usize = 13;
/// Victims of one act.
const OF_ONE_ACT: usize = 3;

/// The server, and everything that it has told.
struct ApiServer {
    _running: KillOnDrop,
    port: String,
    folder: PathBuf,
    told: Arc<Mutex<Vec<Value>>>,
}

impl ApiServer {
    fn start(folder: PathBuf) -> Self {
        fs::create_dir(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("a mode");
        let mut python = Command::new(staging::target().join("packaging/bin/python"));
        python
            .arg(staging::root().join("tests/staging/apiserver.py"))
            .arg(&folder);
        let mut running = KillOnDrop::start(python.stdout(Stdio::piped()));
        let mut lines = BufReader::new(running.0.stdout.take().expect("stdout")).lines();
        let port = lines.next().expect("a port").expect("a line");
        let told: Arc<Mutex<Vec<Value>>> = Arc::default();
        let tells = Arc::clone(&told);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("an object a line");
                tells.lock().expect("no panic").push(line);
            }
        });
        Self {
            _running: running,
            port,
            folder,
            told,
        }
    }

    fn received(&self) -> Vec<Value> {
        self.told.lock().expect("no panic").clone()
    }

    /// Returns the requests that it answered with this status.
    fn answered(&self, status: u64) -> Vec<Value> {
        let told = self.received().into_iter();
        told.filter(|line| line["status"] == status).collect()
    }

    /// Lets `publish` reach the server as a pod does.
    fn reach(&self, command: &mut Command, folder: &Path) {
        command
            .args(["--k8s-events", "--service-account"])
            .arg(folder)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", &self.port)
            // The proxy must not be used.
            .env("HTTPS_PROXY", "http://127.0.0.1:9");
    }
}

/// The cgroup of a container with 64 MiB, named as the kubelet names it.
struct Container(PathBuf);

impl Container {
    fn new() -> Self {
        let memory = cgroup::memory();
        let kubepods = memory.root.join(format!("kubepods-{}", std::process::id()));
        let pod = kubepods.join(format!("pod{UID}"));
        let container = pod.join("c0ffee00".repeat(8));
        for path in [&kubepods, &pod, &container] {
            fs::create_dir(path).expect("a cgroup");
            if memory.version == "v2" && *path != container {
                fs::write(path.join("cgroup.subtree_control"), "+memory").expect("a controller");
            }
        }
        fs::write(container.join(memory.limit), "67108864").expect("a limit");
        Self(container)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for path in self.0.ancestors().take(3) {
            let _removed = fs::remove_dir(path);
        }
    }
}

/// Starts a raylet in the container that starts many children, waits, and then eats memory. Most
/// children kill themselves once there is a file `go-2`. The last ones, whose pids are in the
/// returned file, only sleep.
fn raylet(folder: &Path, container: &Container) -> (FakeRaylet, PathBuf) {
    let session = folder.join("session_2026-11-23_00-00-00_000000_1");
    fs::create_dir_all(session.join("logs")).expect("a folder");
    let (pids, go, go_2) = (folder.join("pids"), folder.join("go"), folder.join("go-2"));
    let shell = format!(
        "echo $$ > {}; for i in $(seq {KILLS}); do \
         sh -c 'until [ -e {} ]; do sleep 0.2; done; kill -9 $$' & done; \
         for i in $(seq {OF_ONE_ACT}); do sleep 1000 & echo $! >> {}; done; \
         while [ ! -e {} ]; do sleep 0.2; done; tail /dev/zero & while :; do sleep 1; done",
        container.0.join("cgroup.procs").display(),
        go_2.display(),
        pids.display(),
        go.display(),
    );
    let raylet =
        FakeRaylet::start_with_environment(folder, &session, &shell, &POD).expect("a script");
    (raylet, pids)
}

/// Checks that the Event of the kernel's kill names the pod and holds the five lines of the JSON.
fn names_the_pod(created: &[Value], own: &Path) {
    let event = created
        .iter()
        .map(|line| &line["event"])
        .find(|event| event["reason"] == "CgroupOOMKill");
    let event = event.unwrap_or_else(|| panic!("{created:#?}"));
    println!("{event:#}");
    assert_eq!(event["involvedObject"]["uid"], UID);
    assert_eq!(event["involvedObject"]["name"], "rl-prod-gpu-worker-x7k2p");
    assert_eq!(event["metadata"]["namespace"], "team-a");
    let lines = published_lines(own);
    let line = lines
        .iter()
        .find(|line| line["raytrace.killer"] == "kernel-oom-memcg");
    let line = line.expect("a line");
    assert_eq!(line["raytrace.certainty"], "proven");
    assert_eq!(event["message"], line["raytrace.summary"]);
}

/// Checks that a server whose certificate is from another authority gets no request, and so no
/// token.
fn another_authority(server: &ApiServer, folder: &Path, own: &Path) {
    let account = own.join("account");
    fs::create_dir(&account).expect("a folder");
    fs::copy(server.folder.join("other.crt"), account.join("ca.crt")).expect("a certificate");
    fs::copy(server.folder.join("token"), account.join("token")).expect("a token");
    fs::set_permissions(account.join("ca.crt"), fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::remove_file(own.join("publish.json")).expect("its state");
    // The last request of the ended publisher may be told a moment later.
    let before = wait_for("a server with nothing to do", || {
        let before = server.received().len();
        thread::sleep(Duration::from_secs(1));
        (server.received().len() == before).then_some(before)
    });
    let (_publisher, _) = start_publisher(folder, own, |command| server.reach(command, &account));
    let refused = || {
        let told = server.received().into_iter().skip(before);
        told.into_iter().find(|line| line["handshake"].is_string())
    };
    println!("{}", wait_for("a handshake that fails", refused));
    let told = server.received();
    let asked = told[before..].iter();
    assert_eq!(asked.filter(|line| line["method"].is_string()).count(), 0);
}

/// Above the budget, similar Events are combined into one.
#[test]
fn kills_become_events_on_their_pod() {
    let held = tempfile::tempdir().expect("a folder");
    let (folder, own) = make_folders(held.path());
    let server = ApiServer::start(held.path().join("api"));
    let container = Container::new();
    let (raylet, pids) = raylet(held.path(), &container);
    let pids: Vec<String> = wait_for("children", || {
        let pids: Vec<String> = fs::read_to_string(&pids)
            .ok()?
            .lines()
            .map(str::to_owned)
            .collect();
        (pids.len() == OF_ONE_ACT).then_some(pids)
    });
    let _recorder = start_recorder(&folder, &raylet.pid().to_string());
    let (publisher, address) = start_publisher(&folder, &own, |command| {
        server.reach(command, &server.folder);
    });
    fs::write(held.path().join("go"), "").expect("a file");
    wait_for("an Event", || {
        (!server.answered(201).is_empty()).then_some(())
    });
    names_the_pod(&server.answered(201), &own);
    // The server answered the first request with "wait". Then the token had changed.
    assert_eq!(server.answered(503).len(), 1);
    assert_eq!(server.answered(401).len(), 1);
    // The victims of one act are one Event.
    let killed = Command::new("kill").arg("-9").args(&pids).status();
    assert!(killed.expect("kill").success());
    wait_for("an Event on the act", || {
        (server.answered(201).len() == 2).then_some(())
    });
    fs::write(held.path().join("go-2"), "").expect("a file");
    let counted = wait_for("an Event for several", || {
        let counted = server.answered(200);
        (counted.len() == KILLS - 11).then_some(counted)
    });
    let last = &counted[counted.len() - 1]["event"];
    assert_eq!(last["count"], KILLS - 10);
    assert!(
        last["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("(combined from similar events)"))
    );
    let created = server.answered(201);
    assert_eq!(created.len(), 13, "{created:#?}");
    let of_the_act = created
        .iter()
        .filter(|line| line["event"]["reason"] == "SignalKill");
    assert_eq!(of_the_act.count(), 1, "{created:#?}");
    let sent = "raytrace_k8s_events_total{result=\"sent\"";
    wait_for("15 that were sent", || {
        let metrics = get(&address, "/metrics")?;
        let mut lines = metrics.lines();
        lines
            .any(|line| line.starts_with(sent) && line.ends_with(" 15.0"))
            .then_some(())
    });
    drop(publisher);
    // Without its state the publisher sends everything again. Nothing may appear twice.
    fs::remove_file(own.join("publish.json")).expect("its state");
    let (again, _) = start_publisher(&folder, &own, |command| {
        server.reach(command, &server.folder);
    });
    wait_for("Events that are known", || {
        (server.answered(409).len() == 13).then_some(())
    });
    assert_eq!(server.answered(201).len(), 13);
    drop(again);
    another_authority(&server, &folder, &own);
    let told = server.received();
    let wrong: Vec<&Value> = told
        .iter()
        .filter(|line| {
            line["wrong"]
                .as_array()
                .is_some_and(|wrong| !wrong.is_empty())
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn outside_a_pod_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = Command::new(raytrace_tests::recorder::raytrace())
        .args(["publish", "--k8s-events", "--directory"])
        .arg(folder.path())
        .arg("--state")
        .arg(folder.path().join("state"))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("a program");
    assert_eq!(said.status.code(), Some(2));
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(
        text.contains("KUBERNETES_SERVICE_HOST is not set"),
        "{text}"
    );
}
