//! Four nodes of one cluster with a recorder each: verdicts, causes across nodes, ends of jobs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use raytrace_tests::{
    fleet::{StagedFleet, explain, report, stage},
    recorder::raytrace,
    skipped, soak, staging,
    truth::PrivilegeMode,
};
use serde_json::Value;

fn text(files: &[PathBuf], arguments: &[&str]) -> String {
    let mut command = Command::new(raytrace());
    command.arg("report").args(files).args(arguments);
    let output = command.output().expect("a report");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The first cause leads the report, whatever its node.
#[test]
fn causes_on_other_nodes_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let staged = stage("2.60.0", &[], folder.path()).expect("staging");
    let (report_of_all, deaths) = as_staged(&staged);
    assert_eq!(deaths, 10);
    each_node_has_its_own_deaths(&report_of_all);
    the_first_screen_names_each_job_and_its_cause(&staged.files);
    a_missing_recording_is_named(&staged.files);
    the_page_leads_from_cause_to_effect(&staged.files, folder.path());
    the_trace_leads_across_nodes(&staged.files);
    one_node_is_chosen(&staged.files);
    a_jobs_slices_tell_the_same(&staged.files, folder.path());
    the_session_folders_alone_link_the_owners_workers(&staged.logs);
}

/// Checks the report of all recordings against the truth. Returns it, and the number of deaths.
fn as_staged(staged: &StagedFleet) -> (Value, usize) {
    let report_of_all = report(&staged.files, &[]).expect("a report");
    let comparison = staged.truth.compare(&report_of_all, PrivilegeMode::Full);
    assert!(
        comparison.wrong.is_empty(),
        "{}",
        comparison.wrong.join("\n")
    );
    (report_of_all, comparison.deaths)
}

/// Stages on one cluster, in an order in which no stage needs what an earlier one has ended.
const WITHOUT_THE_GCS: [&str; 6] = [
    "--only",
    "actor_out_of_memory",
    "owner_killed",
    "raylet_killed",
    "idle_node_drained",
    "gcs_killed",
];
/// Stages on another cluster.
const WITHOUT_THE_HEAD: [&str; 5] = [
    "--only",
    "two_jobs",
    "node_drained",
    "node_cut_off",
    "head_gone",
];

#[test]
fn ray_2_60_everything_follows_a_killed_gcs() {
    with_the_gcs_killed("2.60.0");
}

#[test]
fn ray_2_51_everything_follows_a_killed_gcs() {
    with_the_gcs_killed("2.51.1");
}

/// A node that is cut off has no death, and everything follows the head when that is gone.
#[test]
fn ray_2_60_node_cut_off_then_head_gone() {
    with_the_head_gone("2.60.0");
}

/// A node that is cut off has no death, and everything follows the head when that is gone.
#[test]
fn ray_2_51_node_cut_off_then_head_gone() {
    with_the_head_gone("2.51.1");
}

fn with_the_gcs_killed(version: &str) {
    if !soak() {
        return skipped("only in cargo xtask soak");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let staged = stage(version, &WITHOUT_THE_GCS, folder.path()).expect("staging");
    let (report, deaths) = as_staged(&staged);
    eprintln!("Ray {version}, the GCS killed: {deaths} deaths staged, 0 wrong");
    assert_eq!(declared_dead(&report), [("node3", true), ("node4", true)]);
}

fn with_the_head_gone(version: &str) {
    if !soak() {
        return skipped("only in cargo xtask soak");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let staged = stage(version, &WITHOUT_THE_HEAD, folder.path()).expect("staging");
    let (report, deaths) = as_staged(&staged);
    eprintln!("Ray {version}, the head gone: {deaths} deaths staged, 0 wrong");
    assert_eq!(declared_dead(&report), [("node2", true), ("node4", false)]);
    let shown = text(&staged.files, &[]);
    assert!(shown.contains("node4: the GCS declared it dead"), "{shown}");
    the_head_without_a_recording_is_missed(&staged.files);
}

/// Returns the nodes that the GCS declared dead, and whether their raylets had died.
fn declared_dead(report: &Value) -> Vec<(&str, bool)> {
    let nodes = report["nodes"].as_array().expect("nodes");
    let declared = nodes.iter().filter_map(|node| {
        let died = node["declared_dead"]["raylet_died"].as_bool()?;
        Some((node["name"].as_str()?, died))
    });
    declared.collect()
}

/// Checks a report without the head's recording.
///
/// A machine that is lost takes its recording along. Deaths that followed from the head's say that
/// the GCS was lost, and no death is invented for it.
fn the_head_without_a_recording_is_missed(files: &[PathBuf]) {
    let report = report(&files[1..], &[]).expect("a report");
    let deaths = report["deaths"].as_array().expect("deaths");
    let says = |death: &Value| {
        let words = death["verdict"]["cause_remote"].as_str();
        words.is_some_and(|words| words.contains("the GCS is gone, and there is no recording"))
    };
    let followed: Vec<&Value> = deaths.iter().filter(|death| says(death)).collect();
    let of_raylets = followed.iter().filter(|death| death["role"] == "raylet");
    assert_eq!(of_raylets.count(), 1, "{followed:#?}");
    for death in followed {
        assert_eq!(death["verdict"]["killer"], "ray-collapse");
        assert_eq!(death["verdict"]["cause_link"], Value::Null);
    }
}

/// Checks the answer without any recording: the owner's workers on nodes 3 and 4 are linked to it,
/// but the links are only inferred.
fn the_session_folders_alone_link_the_owners_workers(folders: &[PathBuf]) {
    let report = explain(folders).expect("a report");
    let nodes = report["nodes"].as_array().expect("nodes");
    let names: Vec<&str> = (nodes.iter())
        .filter(|node| node["texts"].as_u64() > Some(0))
        .filter_map(|node| node["name"].as_str())
        .collect();
    assert_eq!(names, ["node1", "node2", "node3", "node4"]);
    let deaths = report["deaths"].as_array().expect("deaths");
    let proven = |death: &&Value| death["verdict"]["certainty"] == "proven";
    assert_eq!(deaths.iter().filter(proven).count(), 0);
    let linked: Vec<&Value> = deaths
        .iter()
        .filter(|death| death["verdict"]["cause_link"]["rule"] == "owner-died")
        .collect();
    let mut on: Vec<&str> = linked
        .iter()
        .filter_map(|death| death["node"].as_str())
        .collect();
    on.sort_unstable();
    on.dedup();
    assert_eq!(on, ["node3", "node4"], "{linked:#?}");
    for death in linked {
        let link = &death["verdict"]["cause_link"];
        assert_eq!(link["node"], "node2", "{death:#}");
        assert_eq!(link["link_certainty"], "inferred");
    }
}

fn each_node_has_its_own_deaths(report: &Value) {
    let nodes = report["nodes"].as_array().expect("nodes");
    let names: Vec<&str> = nodes
        .iter()
        .filter_map(|node| node["name"].as_str())
        .collect();
    assert_eq!(names, ["node1", "node2", "node3", "node4"]);
    let dead: Vec<&Value> = (nodes.iter())
        .filter(|node| !node["declared_dead"].is_null())
        .collect();
    assert_eq!(dead.len(), 1, "{dead:#?}");
    assert_eq!(dead[0]["name"], "node4");
    assert_eq!(dead[0]["declared_dead"]["raylet_died"], true);
    for death in report["deaths"].as_array().expect("deaths") {
        let link = &death["verdict"]["cause_link"];
        assert!(
            link.is_null() || link["link_certainty"] == "inferred",
            "{link}"
        );
    }
}

fn the_first_screen_names_each_job_and_its_cause(files: &[PathBuf]) {
    let shown = text(files, &[]);
    let screen: Vec<&str> = shown.lines().take(40).collect();
    let screen = screen.join("\n");
    assert!(screen.starts_with("4 nodes, 4 recordings"), "{screen}");
    assert!(screen.contains("JOB 01000000 FAILED"), "{screen}");
    assert!(screen.contains("on node3"), "{screen}");
    assert!(screen.contains("JOB 03000000 FAILED"), "{screen}");
    assert!(screen.contains("on node4"), "{screen}");
}

/// Checks a report without node 3. The driver's failure on node 1 has no death to lead to, and node
/// 3 is named.
fn a_missing_recording_is_named(files: &[PathBuf]) {
    let without = [files[0].clone(), files[1].clone(), files[3].clone()];
    let report = report(&without, &[]).expect("a report");
    let nodes = report["nodes"].as_array().expect("nodes");
    let missing: Vec<&Value> = (nodes.iter())
        .filter(|node| node["recordings"].as_array().is_some_and(Vec::is_empty))
        .collect();
    assert_eq!(missing.len(), 1, "{missing:#?}");
    assert_eq!(missing[0]["name"], "node3");
    let jobs = report["jobs"].as_array().expect("jobs");
    let job = jobs.iter().find(|job| job["job_id"] == "01000000");
    let job = job.expect("the first job");
    let ended_by = &job["ended_by_death_id"];
    let deaths = report["deaths"].as_array().expect("deaths");
    let driver = deaths
        .iter()
        .find(|death| death["id"] == *ended_by && death["role"] == "driver")
        .expect("its driver's own end");
    let words = driver["verdict"]["cause_remote"].as_str().unwrap_or("");
    assert!(words.contains("node3"), "{driver:#}");
}

/// Returns what `raytrace` prints with these arguments and files.
fn printed(command: &str, files: &[PathBuf], arguments: &[&str]) -> String {
    let mut run = Command::new(raytrace());
    let done = run.arg(command).args(files).args(arguments).output();
    let done = done.expect("raytrace");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(done.stdout).expect("text")
}

/// Checks that the page in a browser has a lane for each node and arrows between them.
fn the_page_leads_from_cause_to_effect(files: &[PathBuf], folder: &Path) {
    let page = folder.join("nodes.html");
    let to = page.display().to_string();
    printed("report", files, &["--format", "html", "-o", &to]);
    let done = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views/lanes.py"))
        .arg(&page)
        .arg(staging::target().join("views/pictures/nodes"))
        .output()
        .expect("cargo xtask setup installs what this needs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}{errors}");
    let arrows = said.split_once(" arrows").expect("arrows").0;
    let arrows = arrows
        .rsplit('\n')
        .next()
        .and_then(|text| text.parse().ok());
    assert!(arrows >= Some(4_u32), "{said}");
}

/// Checks that each node is a process group of the trace, and that a flow leads from the actor on
/// node 3 to the driver on node 1.
fn the_trace_leads_across_nodes(files: &[PathBuf]) {
    let trace = printed("export", files, &["--format", "chrome-trace"]);
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let flows = events.iter().filter(|event| event["cat"] == "cause");
    let mut nodes: std::collections::HashMap<String, Vec<Value>> = std::collections::HashMap::new();
    for flow in flows {
        let ends = nodes.entry(flow["id"].to_string()).or_default();
        ends.push(flow["pid"].clone());
    }
    let across = nodes.values().filter(|ends| ends[0] != ends[1]).count();
    assert!(across >= 4, "{across} of {} flows", nodes.len());
}

/// Checks that one node's report has its own deaths and their causes, and that the exports read its
/// recording only.
fn one_node_is_chosen(files: &[PathBuf]) {
    let of_node = report(files, &["--node", "node1"]).expect("a report");
    let deaths = of_node["deaths"].as_array().expect("deaths");
    let on = |name: &str| deaths.iter().filter(|death| death["node"] == name).count();
    assert!(on("node1") >= 2 && on("node3") == 1, "{deaths:#?}");
    assert_eq!(on("node2"), 0, "{deaths:#?}");
    let csv = |files: &[PathBuf], arguments: &[&str]| {
        let arguments = [&["--format", "csv"], arguments].concat();
        printed("export", files, &arguments)
    };
    assert_eq!(csv(files, &["--node", "node1"]), csv(&files[..1], &[]));
    let rows = |files: &[PathBuf]| csv(files, &[]).lines().count() - 1;
    let each = files.iter().map(|file| rows(std::slice::from_ref(file)));
    assert_eq!(rows(files), each.sum::<usize>());
}

/// Checks that the recordings, cut down to one job, give the story of that job and hold nothing of
/// others.
fn a_jobs_slices_tell_the_same(files: &[PathBuf], folder: &Path) {
    let (mut slices, mut said) = (Vec::new(), String::new());
    for (number, file) in files.iter().enumerate() {
        let slice = folder.join(format!("slice{number}.raytrace"));
        let mut command = Command::new(raytrace());
        command
            .arg("slice")
            .arg(file)
            .args(["--job", "01000000", "-o"]);
        let output = command.arg(&slice).output().expect("a slice");
        // Nothing of the job ran on nodes 2 and 4.
        if output.status.success() {
            slices.push(slice);
        }
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(slices.len(), 2, "nodes 1 and 3\n{said}");
    let report = report(&slices, &[]).expect("a report");
    let jobs = report["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    assert_eq!(jobs[0]["outcome"], "failed");
    let deaths = report["deaths"].as_array().expect("deaths");
    let cause = deaths.iter().find(|death| {
        death["id"] == jobs[0]["ended_by_death_id"]
            && death["recording_id"] == jobs[0]["ended_by_recording_id"]
    });
    let cause = cause.expect("the first cause");
    assert_eq!(cause["verdict"]["killer"], "kernel-oom-memcg");
    let all = report.to_string();
    assert!(!all.contains("Owner"), "the second job's class is there");
}
