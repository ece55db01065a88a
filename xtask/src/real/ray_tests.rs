//! `cargo xtask real --ray-tests FOLDER`: records Ray's own tests and compares ends of workers.
//!
//! Each worker's end is compared with what Ray's GCS says about it. The GCS's table is what
//! `ray list workers --detail` prints. `tests/real/ray_tests_plugin.py` asks for it while a test's
//! cluster is up.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    layout,
    process::{output, run, step},
    setup, test,
};

/// Files of Ray's tests that are about deaths.
const FILES: [&str; 9] = [
    "test_memory_pressure.py",
    "test_exit_observability.py",
    "test_kill_subprocesses.py",
    "test_actor_failures.py",
    "test_ray_shutdown.py",
    "test_failure.py",
    "test_component_failures.py",
    "test_cancel.py",
    "test_reconstruction.py",
];

/// Runs these files, or those of `FILES` if none is named, with this version of Ray.
pub(crate) fn run_all(folder: &Path, files: &[String], version: &str) -> Result<()> {
    let venv = setup::for_ray_tests(version)?;
    let raytrace = test::program_to_measure()?;
    let all = FILES.map(str::to_owned);
    let files = if files.is_empty() { &all[..] } else { files };
    let mut rows = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        let compared = step(file, || {
            let out = layout::real().join("ray-tests");
            let mut tests = Command::new(venv.join("bin/python"));
            tests.arg(layout::root().join("tests/real/ray_tests.py"));
            tests.arg("--raytrace").arg(&raytrace);
            tests.arg("--tests").arg(folder).arg("--out").arg(&out);
            run(tests.arg(file))?;
            read(&raytrace, &out.join(file))
        })?;
        rows.push(compared.row(file));
        if compared.unread > 0 {
            eprintln!("    {} reads of /proc were left out", compared.unread);
        }
        wrong.extend(compared.wrong.iter().map(|one| format!("{file}: {one}")));
    }
    println!(
        "| file | passed, failed, skipped | workers that ended | compared | agree | only raytrace |"
    );
    println!("|---|---|---|---|---|---|\n{}", rows.join("\n"));
    ensure!(wrong.is_empty(), "against Ray:\n{}", wrong.join("\n"));
    Ok(())
}

/// A row that the plugin or the runner wrote.
#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Worker(RayRecord),
    Outcome { outcome: String },
    Session { session: String },
}

/// What Ray says about a worker that has ended.
#[derive(Deserialize)]
struct RayRecord {
    worker: String,
    /// The role. What the GCS logged does not have it.
    role: Option<String>,
    exit_type: String,
    exit_detail: String,
    /// The name of the test, or of the session.
    test: String,
}

/// Killers that agree with what Ray says. The first row that matches counts.
struct KillerRule {
    exit_type: &'static str,
    /// Words in the detail.
    words: &'static str,
    killers: &'static [&'static str],
}

const fn rule(
    exit_type: &'static str,
    words: &'static str,
    killers: &'static [&'static str],
) -> KillerRule {
    KillerRule {
        exit_type,
        words,
        killers,
    }
}

/// Rows for Ray 2.55 (`WorkerExitType` in `common.proto`; details in `node_manager.cc`,
/// `core_worker.cc`, `gcs_actor_manager.cc`, `_raylet.pyx`).
const KILLER_RULES: [KillerRule; 11] = [
    rule("NODE_OUT_OF_MEMORY", "", &["ray-memory-monitor"]),
    // The program requested this end. If the death of the worker's owner led to the request, that
    // death is the cause.
    rule(
        "INTENDED_SYSTEM_EXIT",
        "Owner worker exit type: INTENDED",
        &["ray-intended"],
    ),
    rule("INTENDED_SYSTEM_EXIT", "owner has died", &["ray-collapse"]),
    rule("INTENDED_SYSTEM_EXIT", "", &["ray-intended"]),
    rule(
        "INTENDED_USER_EXIT",
        "exit code 0",
        &["exit", "ray-intended"],
    ),
    rule("INTENDED_USER_EXIT", "", &["ray-intended"]),
    rule("USER_ERROR", "", &["exit"]),
    // Any sender agrees, also the worker's own raylet, which had a reason.
    rule(
        "SYSTEM_ERROR",
        "receives a SIGTERM",
        &["signal", "ray-collapse", "ray-intended"],
    ),
    rule("SYSTEM_ERROR", "exit code", &["exit"]),
    rule("SYSTEM_ERROR", "Owner", &["ray-collapse"]),
    // The raylet saw a closed connection and nothing more.
    rule(
        "SYSTEM_ERROR",
        "",
        &[
            "signal",
            "crash",
            "exit",
            "ray-collapse",
            "kernel-oom-memcg",
            "kernel-oom-global",
            "kernel-other",
        ],
    ),
];

/// A driver's row with this detail says that it left the cluster, not that it died.
const LEFT: &str = "Shutdown by ray.shutdown()";

/// The comparison of one file's tests.
#[derive(Default)]
struct Comparison {
    outcomes: BTreeMap<String, usize>,
    /// Workers that ended, as raytrace counts them.
    ended: usize,
    agree: usize,
    /// Workers of which Ray says nothing, because their cluster ended with them.
    only_raytrace: usize,
    /// Reads of `/proc` that the recorder left out because another process made some hang. It knows
    /// less about each process then.
    unread: u64,
    wrong: Vec<String>,
}

impl Comparison {
    fn row(&self, file: &str) -> String {
        let count = |outcome: &str| self.outcomes.get(outcome).copied().unwrap_or(0);
        format!(
            "| {file} | {}, {}, {} | {} | {} | {} | {} |",
            count("passed"),
            count("failed"),
            count("skipped"),
            self.ended,
            self.ended - self.only_raytrace,
            self.agree,
            self.only_raytrace
        )
    }
}

fn read(raytrace: &Path, path: &Path) -> Result<Comparison> {
    let mut report = Command::new(raytrace);
    report.arg("report").arg(path.with_extension("raytrace"));
    fs::write(path.with_extension("txt"), output(&mut report)?)?;
    let report = output(report.args(["--format", "json"]))?;
    let rows = path.with_extension("rows.jsonl");
    let rows = fs::read_to_string(&rows).with_context(|| format!("no {}", rows.display()))?;
    let rows = rows
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Row>, _>>()?;
    let compared = compare(rows, &serde_json::from_str(&report)?);
    fs::write(
        path.with_extension("disagreements"),
        compared.wrong.join("\n"),
    )?;
    Ok(compared)
}

fn compare(rows: Vec<Row>, report: &Value) -> Comparison {
    let mut compared = Comparison::default();
    let mut said = HashMap::new();
    let mut sessions = HashSet::new();
    for row in rows {
        match row {
            // The GCS's own row comes before the line of its log, so the first one is kept.
            Row::Worker(one) => {
                said.entry(one.worker.clone()).or_insert(one);
            }
            Row::Outcome { outcome } => *compared.outcomes.entry(outcome).or_default() += 1,
            Row::Session { session } => {
                sessions.insert(session);
            }
        }
    }
    let list = |key: &str| report[key].as_array().map_or(&[][..], Vec::as_slice);
    let clusters: HashSet<u64> = list("clusters")
        .iter()
        .filter(|one| sessions.contains(one["session"].as_str().unwrap_or_default()))
        .filter_map(|one| one["id"].as_u64())
        .collect();
    compared.unread = report["recordings"][0]["ledgers"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter(|ledger| ledger["hook"] == "reads that hang")
        .filter_map(|ledger| ledger["missed"].as_u64())
        .sum();
    let here = |death: &&Value| {
        death["cluster"]
            .as_u64()
            .is_some_and(|id| clusters.contains(&id))
    };
    for death in list("deaths").iter().filter(here) {
        let worker = death["worker_id"].as_str().unwrap_or_default();
        let said = said.remove(worker);
        if death["role"] != "worker" {
            continue;
        }
        compared.ended += 1;
        match said {
            Some(said) if agree(&said, death) => compared.agree += 1,
            Some(said) => compared.wrong.push(disagreement(&said, death)),
            None => compared.only_raytrace += 1,
        }
    }
    let missed = said
        .into_values()
        .filter(|one| one.role.as_deref() != Some("DRIVER") && !one.exit_detail.starts_with(LEFT));
    compared.wrong.extend(missed.map(|one| {
        format!(
            "{}: Ray alone says of {}: {}, {}",
            one.test, one.worker, one.exit_type, one.exit_detail
        )
    }));
    compared
}

fn agree(said: &RayRecord, death: &Value) -> bool {
    let verdict = &death["verdict"];
    let killer = verdict["killer"].as_str().unwrap_or_default();
    let fitting = KILLER_RULES
        .iter()
        .find(|rule| rule.exit_type == said.exit_type && said.exit_detail.contains(rule.words));
    let code = exit_code(&said.exit_detail);
    let same_code = killer != "exit" || code.is_none() || code == verdict["cause"]["code"].as_i64();
    same_code && fitting.is_some_and(|rule| rule.killers.contains(&killer))
}

/// Returns the exit code in Ray's words, such as `exit code 4`.
fn exit_code(detail: &str) -> Option<i64> {
    let (_, rest) = detail.split_once("exit code ")?;
    let end = rest.find(|one: char| !one.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn disagreement(said: &RayRecord, death: &Value) -> String {
    let verdict = &death["verdict"];
    format!(
        "{}: pid {}, {}: Ray says {}, {:?}; raytrace says {}, {}: {} {}",
        said.test,
        death["pid"],
        said.worker,
        said.exit_type,
        said.exit_detail,
        verdict["killer"],
        verdict["certainty"],
        verdict["summary"],
        verdict["cause"]
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(rows: &str, killer: &str, code: Option<i64>) -> Comparison {
        let rows = rows
            .lines()
            .map(|row| serde_json::from_str(row).expect("a row"));
        let report = json!({
            "recordings": [{"ledgers": [{"hook": "reads that hang", "missed": 3}]}],
            "clusters": [{"id": 0, "session": "session_1"}, {"id": 1, "session": "session_2"}],
            "deaths": [
                {"cluster": 0, "role": "worker", "worker_id": "aa", "verdict": {"killer": killer, "cause": {"code": code}}},
                {"cluster": 1, "role": "worker", "worker_id": "bb", "verdict": {"killer": "unknown"}},
            ],
        });
        compare(rows.collect(), &report)
    }

    fn rows(exit_type: &str, detail: &str) -> String {
        format!(
            "{}\n{}\n{}",
            json!({"outcome": "passed", "name": "test_one"}),
            json!({"worker": "aa", "role": "WORKER", "pid": 7, "exit_type": exit_type, "exit_detail": detail, "test": "test_one"}),
            json!({"session": "session_1"}),
        )
    }

    #[test]
    fn rays_words_match_the_killer_and_the_code() {
        let exit = rows(
            "SYSTEM_ERROR",
            "Worker exits unexpectedly. Worker exits with an exit code 4.",
        );
        let right = compared(&exit, "exit", Some(4));
        assert_eq!((right.ended, right.agree, right.only_raytrace), (1, 1, 0));
        assert_eq!(right.unread, 3);
        assert_eq!(right.wrong, Vec::<String>::new());
        assert_eq!(compared(&exit, "exit", Some(5)).wrong.len(), 1);
        let memory = rows("NODE_OUT_OF_MEMORY", "1 worker(s) were killed");
        assert_eq!(compared(&memory, "ray-memory-monitor", None).agree, 1);
        assert_eq!(compared(&memory, "ray-intended", None).wrong.len(), 1);
    }

    #[test]
    fn ends_known_to_one_side_are_counted() {
        let session = json!({"session": "session_1"}).to_string();
        assert_eq!(compared(&session, "exit", Some(0)).only_raytrace, 1);
        let row = json!({"worker": "cc", "role": "WORKER", "pid": 7, "exit_type": "SYSTEM_ERROR", "exit_detail": "", "test": "test_one"});
        assert_eq!(compared(&row.to_string(), "exit", Some(0)).wrong.len(), 1);
    }
}
