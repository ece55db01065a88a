//! Compares what the recorder saw of a GPU with what `tests/real/gpu.py` says is true.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::Case;
use crate::real::compare::{killer, memory_kills};

const MIB: i64 = 1 << 20;
/// How far NVML's figure for a context may differ from what the device lost by it.
const CONTEXT: u64 = 64 << 20;
/// How far sizes of 3 GiB may differ. A row is written when a figure moves by 1 %, and a process
/// allocates other things too.
const NEAR: u64 = 96 << 20;
/// Bytes that `gpu.py` pins.
const PINNED: i64 = 2048 * MIB;
/// Torch's and the driver's words for a lack of memory.
const NO_MEMORY: &str = "out of memory";

/// What a process said about itself at one time, or how a step of the job failed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TruthRow {
    label: String,
    error: Option<String>,
    pid: u64,
    parent: u64,
    /// Time in ns of `CLOCK_BOOTTIME`, like that of rows.
    time: u64,
    /// Memory of the GPU: what the process allocated, and its context.
    gpu: i64,
    /// Anonymous and shared memory, as the kernel counts it.
    anon: i64,
    shmem: i64,
}

/// The result of one comparison, in words.
pub(super) struct Check {
    pub(super) text: String,
    pub(super) right: bool,
}

impl Check {
    fn new(what: &str, expected: &str, seen: &str, right: bool) -> Self {
        let word = if right { "ok" } else { "WRONG" };
        let text = format!("{what}: expected {expected}, seen {seen}: {word}");
        Self { text, right }
    }

    /// Compares sizes that may differ by this many bytes.
    fn near(what: &str, expected: i64, seen: Option<i64>, by: u64) -> Self {
        let mib = |bytes: i64| format!("{} MiB", bytes / MIB);
        let right = seen.is_some_and(|seen| seen.abs_diff(expected) <= by);
        let seen = seen.map_or_else(|| "nothing".to_owned(), mib);
        Self::new(what, &mib(expected), &seen, right)
    }
}

/// The rows that `export --format jsonl` prints.
struct Rows(Vec<Value>);

impl Rows {
    fn until<'a>(&'a self, kind: &'a str, time: u64) -> impl DoubleEndedIterator<Item = &'a Value> {
        let rows = self.0.iter().filter(move |row| row["kind"] == kind);
        rows.filter(move |row| row["time"].as_u64().is_some_and(|at| at <= time))
            .map(|row| &row["body"])
    }

    /// Returns what a process held of all GPUs at this time.
    fn gpu(&self, pid: u64, time: u64) -> Option<i64> {
        let mut held = BTreeMap::new();
        for state in self.until("gpu", time) {
            let is_it = |one: &&Value| one["pid"] == pid || one["process"]["pid"] == pid;
            let holder = list(&state["holders"]).iter().find(is_it);
            let used = holder.and_then(|one| one["used"].as_i64());
            held.insert(state["device"].as_u64(), used);
        }
        let found: Vec<i64> = held.into_values().flatten().collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// Returns a part of a process's host memory at this time.
    fn memory(&self, pid: u64, part: &str, time: u64) -> Option<i64> {
        let mut rows = self.until("memory", time);
        rows.rfind(|row| row["process"]["pid"] == pid)?["memory"][part].as_i64()
    }
}

/// Makes all comparisons of a case. `truth` and `rows` are JSON lines.
pub(super) fn checks(case: Case, truth: &str, rows: &str, report: &Value) -> Result<Vec<Check>> {
    let truth: Result<Vec<TruthRow>, _> = truth.lines().map(serde_json::from_str).collect();
    let rows: Result<_, _> = rows.lines().map(serde_json::from_str).collect();
    let (truth, rows) = (truth?, Rows(rows?));
    let error = truth.last().and_then(|last| last.error.as_deref());
    let failed = error.unwrap_or("no failure");
    Ok(match (case, truth.as_slice()) {
        (Case::Nvml, [first, second, grown]) => vec![
            held(first, &rows, first.time),
            held(second, &rows, second.time),
            gpu_rise([first, grown], &rows),
            at_end(grown, report),
            at_end(second, report),
        ],
        (Case::Oom, [step]) => {
            let right = step.label == "exhaust" && failed.contains(NO_MEMORY);
            vec![
                Check::new("the step fails", NO_MEMORY, failed, right),
                named(report, "gpu-out-of-memory", NO_MEMORY),
                kills(report, false),
            ]
        }
        (Case::Offload, [before, after, _]) => {
            let words = format!("pid {}: GPU memory fell", after.pid);
            vec![
                gpu_rise([before, after], &rows),
                host_rise([before, after], "anon", &rows),
                kills(report, true),
                named(report, "offload-to-host", &words),
            ]
        }
        (Case::Pinned, [before, after, _]) => {
            let by_kernel = Some(after.shmem - before.shmem);
            let words = format!("(pid {})", after.pid);
            vec![
                Check::near(
                    "pinned memory, as shared by the kernel",
                    PINNED,
                    by_kernel,
                    NEAR,
                ),
                host_rise([before, after], "shmem", &rows),
                host_rise([before, after], "anon", &rows),
                kills(report, true),
                named(report, "private-shared-memory", &words),
            ]
        }
        (Case::Leftover, [left]) => {
            // A subreaper adopts the orphans of its descendants, so this cannot be staged below
            // one.
            let (parent, words) = (left.parent.to_string(), format!("(pid {})", left.pid));
            vec![
                Check::new("its parent", "1", &parent, parent == "1"),
                held(left, &rows, u64::MAX),
                named(report, "gpu-orphan", &words),
            ]
        }
        (_, truth) => bail!("not all was staged: {failed}; truth: {truth:?}"),
    })
}

/// Compares a process's GPU memory.
fn held(truth: &TruthRow, rows: &Rows, time: u64) -> Check {
    let what = format!("GPU memory of pid {}", truth.pid);
    Check::near(&what, truth.gpu, rows.gpu(truth.pid, time), CONTEXT)
}

/// Compares the rise of a process's GPU memory. A fall is negative. The context is not part of it.
fn gpu_rise([from, to]: [&TruthRow; 2], rows: &Rows) -> Check {
    let seen = [from, to].map(|one| rows.gpu(one.pid, one.time));
    rise("rise of GPU memory", [from.gpu, to.gpu], seen)
}

/// Compares the rise of a part of a process's host memory with the kernel's own count.
fn host_rise([from, to]: [&TruthRow; 2], part: &str, rows: &Rows) -> Check {
    let own = |one: &TruthRow| if part == "anon" { one.anon } else { one.shmem };
    let seen = [from, to].map(|one| rows.memory(one.pid, part, one.time));
    let what = format!("rise of {part} memory");
    rise(&what, [own(from), own(to)], seen)
}

fn rise(what: &str, [from, to]: [i64; 2], seen: [Option<i64>; 2]) -> Check {
    let [low, high] = seen;
    let seen = low.zip(high).map(|(low, high)| high - low);
    Check::near(what, to - from, seen, NEAR)
}

/// Compares what the report says that a process held at its end.
fn at_end(truth: &TruthRow, report: &Value) -> Check {
    let mut deaths = list(&report["deaths"]).iter();
    let death = deaths.find(|death| death["pid"] == truth.pid);
    let on = death.map_or(&[][..], |death| list(&death["gpu"]));
    let used = on.iter().map(|one| one["used_bytes"].as_i64()).sum();
    let what = format!("GPU memory of pid {} at its end, in the report", truth.pid);
    Check::near(&what, truth.gpu, used, CONTEXT)
}

/// Checks whether the report has kills for a lack of RAM.
fn kills(report: &Value, expected: bool) -> Check {
    let kills = memory_kills(report);
    let seen: Vec<&str> = kills.iter().map(|death| killer(death)).collect();
    let words = if expected { "some" } else { "none" };
    let right = seen.is_empty() != expected;
    Check::new(
        "kills for a lack of RAM",
        words,
        &format!("{seen:?}"),
        right,
    )
}

/// Checks whether the report has this finding with these words.
fn named(report: &Value, rule: &str, words: &str) -> Check {
    let mut findings = list(&report["findings"]).iter();
    let finding = findings.find(|finding| finding["rule"] == rule);
    let right = finding.is_some_and(|finding| finding.to_string().contains(words));
    let seen = finding.and_then(|finding| finding["summary"].as_str());
    let what = format!("the finding {rule}");
    Check::new(&what, words, seen.unwrap_or("none"), right)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A process at a time, with MiB of the GPU, of anonymous and of shared memory.
    type Moment = (u64, u64, [i64; 3]);

    fn truth_lines(moments: &[Moment], error: Option<&str>) -> String {
        let line = |(pid, time, held): &Moment| {
            let [gpu, anon, shmem] = held.map(|size| size * MIB);
            json!({"label": "", "pid": pid, "parent": 1, "time": time, "gpu": gpu, "anon": anon, "shmem": shmem})
        };
        let failed = error.map(|error| json!({"label": "exhaust", "error": error}));
        lines(moments.iter().map(line).chain(failed))
    }

    /// Returns rows as a recorder writes them.
    fn rows(moments: &[Moment]) -> String {
        lines(moments.iter().flat_map(|(pid, time, held)| {
            let [gpu, anon, shmem] = held.map(|size| size * MIB);
            let process = json!({"pid": pid, "start": 5});
            let holders = json!([{"pid": pid, "process": process, "used": gpu}]);
            let memory = json!({"process": process, "memory": {"anon": anon, "shmem": shmem}});
            // Each process has a GPU of its own.
            let state = json!({"device": pid, "holders": holders});
            [("gpu", state), ("memory", memory)]
                .map(|(kind, body)| json!({"kind": kind, "time": time, "body": body}))
        }))
    }

    fn lines(values: impl Iterator<Item = Value>) -> String {
        let lines: Vec<String> = values.map(|value| value.to_string()).collect();
        lines.join("\n")
    }

    fn report(killer: &str, rule: &str, words: &str) -> Value {
        json!({
            "deaths": [{"pid": 7, "verdict": {"killer": killer}, "gpu": []}],
            "findings": [{"rule": rule, "summary": "…", "evidence": [words]}],
        })
    }

    fn wrong(case: Case, truth: &str, rows: &str, report: &Value) -> Vec<String> {
        let checks = checks(case, truth, rows, report).expect("all was staged");
        let wrong = checks.into_iter().filter(|check| !check.right);
        wrong
            .map(|check| check.text.split(": ").next().unwrap_or_default().to_owned())
            .collect()
    }

    const NONE: [&str; 0] = [];
    const MONITOR: &str = "ray-memory-monitor";

    /// It is compared at the time of its row and at the end of the process.
    #[test]
    fn gpu_memory_of_each_process_is_compared() {
        let end = |pid: u64, mib: i64| json!({"pid": pid, "gpu": [{"used_bytes": mib * MIB}]});
        let report = json!({"deaths": [end(7, 1540), end(8, 1530)]});
        let truth = truth_lines(
            &[
                (7, 10, [760, 0, 0]),
                (8, 20, [1530, 0, 0]),
                (7, 30, [1528, 0, 0]),
            ],
            None,
        );
        let mut seen = [
            (7, 9, [770, 0, 0]),
            (8, 19, [1530, 0, 0]),
            (7, 29, [1540, 0, 0]),
        ];
        assert_eq!(wrong(Case::Nvml, &truth, &rows(&seen), &report), NONE);
        // The second figure is seen too late.
        seen[1].1 = 21;
        let late = wrong(Case::Nvml, &truth, &rows(&seen), &report);
        assert_eq!(late, ["GPU memory of pid 8"]);
        let fewer = json!({"deaths": [end(8, 1000)]});
        assert_eq!(wrong(Case::Nvml, &truth, &rows(&seen), &fewer).len(), 3);
    }

    #[test]
    fn full_gpu_is_no_memory_kill() {
        let truth = truth_lines(&[], Some("CUDA error: out of memory"));
        let full = |killer: &str| {
            report(
                killer,
                "gpu-out-of-memory",
                "x.err: RuntimeError: CUDA error: out of memory",
            )
        };
        assert_eq!(wrong(Case::Oom, &truth, "", &full("exit")), NONE);
        assert_eq!(
            wrong(Case::Oom, &truth, "", &full(MONITOR)),
            ["kills for a lack of RAM"]
        );
        let other = report("exit", "disk-full", "out of memory");
        assert_eq!(
            wrong(Case::Oom, &truth, "", &other),
            ["the finding gpu-out-of-memory"]
        );
        let another_failure = truth_lines(&[], Some("no module gpu"));
        assert_eq!(
            wrong(Case::Oom, &another_failure, "", &full("exit")),
            ["the step fails"]
        );
    }

    #[test]
    fn offload_moves_to_private_memory() {
        let moments = [(7, 10, [4000, 500, 0]), (7, 20, [928, 3572, 0])];
        let (truth, seen) = (truth_lines(&moments, Some("killed")), rows(&moments));
        let found = report(
            MONITOR,
            "offload-to-host",
            "pid 7: GPU memory fell from 3.9 GiB",
        );
        assert_eq!(wrong(Case::Offload, &truth, &seen, &found), NONE);
        let stayed = rows(&[(7, 10, [4000, 500, 0]), (7, 20, [928, 500, 3072])]);
        assert_eq!(
            wrong(Case::Offload, &truth, &stayed, &found),
            ["rise of anon memory"]
        );
        let unseen = wrong(Case::Offload, &truth, "", &report("exit", "", ""));
        assert_eq!(unseen.len(), 4, "{unseen:?}");
        assert!(checks(Case::Offload, &truth_lines(&[], Some("no GPU")), "", &found).is_err());
    }

    #[test]
    fn pinned_memory_must_be_shared_memory() {
        let moments = [(7, 10, [500, 300, 10]), (7, 20, [500, 300, 2058])];
        let (truth, seen) = (truth_lines(&moments, Some("killed")), rows(&moments));
        let found = report(
            MONITOR,
            "private-shared-memory",
            "Trainer (pid 7) had 2.0 GiB of shared memory",
        );
        assert_eq!(wrong(Case::Pinned, &truth, &seen, &found), NONE);
        let moments = [(7, 10, [500, 300, 10]), (7, 20, [500, 2348, 10])];
        let private = wrong(
            Case::Pinned,
            &truth_lines(&moments, Some("killed")),
            &rows(&moments),
            &found,
        );
        assert_eq!(private, ["pinned memory, as shared by the kernel"]);
    }

    #[test]
    fn leftover_process_is_named_with_its_memory() {
        let moments = [(7, 10, [1530, 300, 0])];
        let truth = truth_lines(&moments, None);
        let found = report("exit", "gpu-orphan", "GPU 0: 1.5 GiB by python (pid 7)");
        assert_eq!(wrong(Case::Leftover, &truth, &rows(&moments), &found), NONE);
        let other = report("exit", "gpu-orphan", "GPU 0: 1.5 GiB by python (pid 70)");
        assert_eq!(wrong(Case::Leftover, &truth, "", &other).len(), 2);
    }
}
