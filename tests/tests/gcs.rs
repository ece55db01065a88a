//! `record --gcs` on real clusters, with and without a token, and beside a GCS that never answers.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use raytrace_tests::{
    recorder::{Recorder, RecorderOutput, raytrace},
    staging,
    truth::PrivilegeMode,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A token as Ray makes it: 64 hexadecimal digits.
const TOKEN: &str = "5eb1d0d2a3c94f2e8c1b7a6f5e4d3c2b1a0f9e8d7c6b5a493827160504030201";

/// Records the death of the actor of `gcs.py`. The actor dies after the GCS has answered.
fn recorded(version: &str, arguments: &[&str], folder: &Path) -> (RecorderOutput, Value) {
    let mut script =
        staging::start_waiting(version, "gcs.py", arguments, folder).expect("a script");
    // Only this cluster, because others are staged at the same time.
    let raylet = script
        .wait_for_raylet("ready")
        .expect("a raylet")
        .to_string();
    let file = folder.join("gcs.raytrace");
    let mut recorder =
        Recorder::start(&file, &["--gcs", "--raylet-pid", &raylet]).expect("a recorder");
    let heard = recorder.wait_for("GCS ", Duration::from_secs(60));
    println!("{}", heard.expect("what the GCS says").text);
    script.go_on().expect("the script");
    script.wait_for("staged").expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let truth = script.finish().expect("staging");
    let wrong = truth.compare(&recorded.report, PrivilegeMode::Full).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let rows = fs::read_to_string(folder.join("truth.jsonl")).expect("the truth");
    let rows = rows.lines().map(serde_json::from_str::<Value>);
    let mut rows = rows.map(|row| row.expect("JSON"));
    let ids = rows.find(|row| row["kind"] == "gcs").expect("ids");
    (recorded, ids)
}

/// Checks that the death of the actor has what the staging knows about it.
fn is_named(recorded: &RecorderOutput, ids: &Value) {
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let death = deaths
        .iter()
        .find(|death| death["worker_id"] == ids["worker_id"]);
    let death = death.expect("the actor's death");
    println!("{}", death["gcs"]);
    for name in ["actor_id", "job_id"] {
        assert_eq!(death[name], ids[name], "{death}");
    }
    assert_eq!(death["actor_class"], "Keeper");
    assert_eq!(death["gcs"]["actor_name"], "keeper");
    assert_eq!(death["gcs"]["placement_group"], "shelf");
    assert!(death["gcs"]["node_name"].is_string(), "{death}");
    let entrypoint = death["gcs"]["job_entrypoint"].as_str();
    let ends = entrypoint.is_some_and(|text| text.ends_with("gcs_job.py"));
    assert!(ends, "{entrypoint:?}");
}

fn names_an_actor(version: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (recorded, ids) = recorded(version, &[], folder.path());
    is_named(&recorded, &ids);
    let report = Command::new(raytrace())
        .arg("report")
        .arg(folder.path().join("gcs.raytrace"))
        .output()
        .expect("a report");
    let text = String::from_utf8_lossy(&report.stdout);
    println!("{text}");
    assert!(
        text.contains("actor keeper, placement group shelf"),
        "{text}"
    );
}

/// The actor's death has its name, placement group, job and node.
#[test]
fn ray_2_60_death_has_what_the_gcs_knows() {
    names_an_actor("2.60.0");
}

/// The actor's death has its name, placement group, job and node.
#[test]
fn ray_2_9_death_has_what_the_gcs_knows() {
    names_an_actor("2.9.3");
}

#[test]
fn raylets_token_is_sent_and_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let (recorded, ids) = recorded("2.60.0", &["--token", TOKEN], folder.path());
    is_named(&recorded, &ids);
    let said = format!("{:?}{}", recorded.lines, recorded.report);
    assert!(!said.contains(TOKEN));
    let token = TOKEN.as_bytes();
    for entry in fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let recording = path.to_string_lossy().contains(".raytrace");
        let bytes = fs::read(&path).expect("a file");
        let held = bytes.windows(token.len()).any(|window| window == token);
        assert!(!recording || !held, "{}", path.display());
    }
}

/// Starts a program that calls itself `raylet`, and its child. Its GCS accepts connections and
/// never answers.
fn stand_in(address: &str, folder: &Path) -> (Child, u32) {
    let program = folder.join("raylet");
    // A link, because a copy may still be open for writing in a process that another test forks
    // now.
    symlink("/bin/sh", &program).expect("a program");
    // It ends when its standard input does.
    let script = "sleep 60 > /dev/null 2>&1 & echo $!; read line";
    let mut raylet = Command::new(program)
        .args(["-c", script, "--raylet_socket_name=/nowhere/sockets/raylet"])
        .arg(format!("--gcs-address={address}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut line = String::new();
    let output = raylet.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("a line");
    (raylet, line.trim().parse().expect("a pid"))
}

#[test]
fn silent_gcs_delays_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (mut raylet, child) = stand_in(&address, folder.path());
    let arguments = ["--gcs", "--raylet-pid", &raylet.id().to_string()];
    let file = folder.path().join("silent.raytrace");
    let mut recorder = Recorder::start(&file, &arguments).expect("a recorder");
    let asked = listener.accept().expect("a question");
    let pid = Pid::from_raw(child.cast_signed()).expect("a pid");
    kill_process(pid, Signal::KILL).expect("a signal");
    let patience = Duration::from_secs(60);
    let told = recorder.wait_for(&format!("pid {child}"), patience);
    println!("{}", told.expect("its death").text);
    // The request is still open. Its end is told later.
    let silence = format!("GCS {address}: Actors: no answer within 5 s");
    let early = recorder.lines().iter().any(|line| line.text == silence);
    assert!(!early, "told after the question had ended");
    recorder.wait_for(&silence, patience).expect("its end");
    let recorded = recorder.stop().expect("a recording");
    drop(asked);
    drop(raylet.stdin.take());
    raylet.wait().expect("its end");
    let deaths = recorded.report["deaths"].as_array().expect("deaths");
    let death = deaths.iter().find(|death| death["pid"] == child);
    let death = death.expect("the death of its child");
    assert_eq!(death["verdict"]["killer"], "signal", "{death}");
    let probes = recorded.report["recordings"][0]["probes"].as_array();
    let probe = probes.into_iter().flatten().find(|probe| {
        let name = probe["name"].as_str();
        name.is_some_and(|name| name == format!("GCS {address}"))
    });
    assert_eq!(probe.expect("a probe")["state"], "missing");
}
