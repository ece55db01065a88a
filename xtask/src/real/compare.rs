//! Compares a report with the truth.
//!
//! It checks who killed, which death ended the job, which process held most, and that sums are no
//! larger than the whole.

use serde_json::Value;

use super::truth::{self, Sample, Truth};

/// From this ratio on, two processes of nearly one size both count as the largest.
const NEARLY: f64 = 0.75;
/// How far the sums of a quiet machine may differ, in addition to the error that the report itself
/// states.
const SUM: f64 = 0.01;

/// Returns what the report gets wrong.
pub(super) fn disagreements(truth: &Truth, samples: &[Sample], report: &Value) -> Vec<String> {
    let mut wrong = killers(truth, report);
    wrong.extend(ended(truth, report));
    wrong.extend(biggest(samples, report));
    wrong.extend(sums(report));
    wrong
}

/// Returns the deaths caused by Ray's monitor or the kernel's OOM killer, in the order of time.
pub(super) fn memory_kills(report: &Value) -> Vec<&Value> {
    let deaths = report["deaths"].as_array().map_or(&[][..], Vec::as_slice);
    let is_one = |death: &&Value| {
        let killer = killer(death);
        killer == "ray-memory-monitor" || killer.starts_with("kernel-oom")
    };
    deaths.iter().filter(is_one).collect()
}

pub(super) fn killer(death: &Value) -> &str {
    death["verdict"]["killer"].as_str().unwrap_or_default()
}

fn killers(truth: &Truth, report: &Value) -> Vec<String> {
    let kills = memory_kills(report);
    let named: Vec<&str> = kills.iter().map(|death| killer(death)).collect();
    let mut wrong = Vec::new();
    if truth.killer.is_empty() != named.is_empty() || named.iter().any(|one| *one != truth.killer) {
        wrong.push(format!(
            "killed by {named:?}; the truth is {:?}",
            truth.killer
        ));
    }
    let by_kernel = named.iter().filter(|one| one.starts_with("kernel-oom"));
    let by_kernel = by_kernel.count() as u64;
    if by_kernel != truth.kernel_kills {
        wrong.push(format!(
            "{by_kernel} killed by the kernel, which counts {}",
            truth.kernel_kills
        ));
    }
    if truth.killer.is_empty() != truth.survived {
        wrong.push(format!("the job survived: {}", truth.survived));
    }
    wrong
}

/// Checks that the death that ended the job is one that the driver's exception names.
fn ended(truth: &Truth, report: &Value) -> Vec<String> {
    let job = &report["jobs"][0];
    if truth.survived {
        let outcome = job["outcome"].as_str().unwrap_or_default();
        let wrong = outcome != "succeeded";
        return Vec::from_iter(wrong.then(|| format!("the job succeeded; told as {outcome:?}")));
    }
    let id = &job["ended_by_death_id"];
    let kills = memory_kills(report);
    let Some(death) = kills.iter().find(|death| death["id"] == *id) else {
        return vec![format!("ended by {id}, which is no kill for memory")];
    };
    let pid = death["pid"].as_u64().unwrap_or_default();
    let named = &truth.driver.pids;
    if named.is_empty() || named.contains(&pid) {
        return Vec::new();
    }
    vec![format!("ended by pid {pid}; the driver names {named:?}")]
}

/// Checks which process held most at the first kill.
fn biggest(samples: &[Sample], report: &Value) -> Vec<String> {
    let kills = memory_kills(report);
    let Some(first) = kills.first() else {
        return Vec::new();
    };
    let time = first["time"].as_str().unwrap_or_default();
    let Some(sample) = truth::at(samples, time) else {
        return vec![format!("no sample of the truth before {time}")];
    };
    let top = first["top"].as_array().map_or(&[][..], Vec::as_slice);
    let said = top.first().and_then(|one| one["pid"].as_u64());
    let held = |pid: u64| sample.processes.iter().find(|one| one.pid == pid);
    let most = sample
        .processes
        .iter()
        .max_by(|a, b| a.pss_anon.total_cmp(&b.pss_anon));
    let (Some(said), Some(most)) = (said, most) else {
        return vec!["nobody is named as the biggest".to_owned()];
    };
    // The truth says nothing about a process that it did not sample then.
    let right = held(said).is_none_or(|one| one.pss_anon >= NEARLY * most.pss_anon);
    let text = || {
        format!(
            "the biggest is pid {said}; the truth is pid {} ({})",
            most.pid, most.title
        )
    };
    Vec::from_iter((!right).then(text))
}

/// The parts of a machine's memory.
const PARTS: [&str; 6] = [
    "private_bytes",
    "others_private_bytes",
    "shared_bytes",
    "cache_bytes",
    "kernel_bytes",
    "remainder_bytes",
];

/// Checks that the machine's parts add up, and that no part is larger than the whole.
fn sums(report: &Value) -> Vec<String> {
    let sum = &report["in_use"];
    let bytes = |key: &str| sum[key].as_f64().unwrap_or(0.0);
    let whole = bytes("used_bytes");
    let total: f64 = PARTS.iter().map(|part| bytes(part)).sum();
    let mut wrong = Vec::new();
    if (total - whole).abs() > SUM * whole {
        wrong.push(format!("parts add up to {total:.0} of {whole:.0} bytes"));
    }
    for part in PARTS {
        if bytes(part) > whole {
            wrong.push(format!("{part} is larger than all that was in use"));
        }
    }
    let error = bytes("error_bytes") + SUM * whole;
    if bytes("remainder_bytes").abs() > error {
        wrong.push(format!(
            "{:.0} bytes are nobody's, above the error of {error:.0}",
            bytes("remainder_bytes")
        ));
    }
    wrong.extend(at_kills(report));
    wrong
}

/// Checks that no process inside a limit held more than was counted against it.
fn at_kills(report: &Value) -> Vec<String> {
    let over = |death: &&Value| {
        let used = death["oom"]["usage_bytes"].as_f64();
        let used = used.or_else(|| death["at_death"]["ray_used_bytes"].as_f64())?;
        let top = death["top"].as_array()?;
        let largest = top
            .iter()
            .filter_map(|one| one["private_bytes"].as_f64())
            .fold(0.0, f64::max);
        let text = format!(
            "pid {}: one process held {largest:.0} of {used:.0} bytes",
            death["pid"]
        );
        (largest > used * (1.0 + SUM)).then_some(text)
    };
    memory_kills(report).iter().filter_map(over).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::real::truth::Driver;

    fn report(killer: &str, pid: u64) -> Value {
        json!({
            "jobs": [{"outcome": "failed", "ended_by_death_id": 5}],
            "deaths": [{
                "id": 5, "pid": pid, "time": "2026-11-23T10:00:02Z", "verdict": {"killer": killer},
                "top": [{"pid": 8, "private_bytes": 70}], "at_death": {"ray_used_bytes": 100},
            }],
            "in_use": {"used_bytes": 100, "private_bytes": 80, "cache_bytes": 20},
        })
    }

    fn truth(killer: &str) -> Truth {
        Truth {
            survived: false,
            killer: killer.to_owned(),
            line: String::new(),
            kernel_kills: u64::from(killer.starts_with("kernel")),
            driver: Driver { pids: vec![7] },
        }
    }

    fn samples() -> Vec<Sample> {
        let text = r#"{"time": "2026-11-23T10:00:01Z", "cgroup": {"anon": 90},
            "processes": [{"pid": 8, "pss_anon": 60, "title": ""}, {"pid": 7, "pss_anon": 70, "title": ""}]}"#;
        Vec::from_iter(serde_json::from_str(text).ok())
    }

    #[test]
    fn right_report_has_no_disagreements() {
        let monitor = "ray-memory-monitor";
        let wrong = disagreements(&truth(monitor), &samples(), &report(monitor, 7));
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn wrong_killer_death_and_sums_are_reported() {
        let monitor = "ray-memory-monitor";
        let wrong = disagreements(&truth("kernel-oom-memcg"), &samples(), &report(monitor, 9));
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        let mut sums = report(monitor, 7);
        sums["in_use"]["private_bytes"] = json!(120);
        let wrong = disagreements(&truth(monitor), &samples(), &sums);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
