//! The staging's own record of who was killed how, and the comparison of a report with it.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::exits::Exits;

/// A process by pid and start, in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub struct ProcessIdentity {
    /// Pid.
    pub pid: u32,
    /// Start.
    pub start_ticks: u64,
}

/// One expected death.
#[derive(Debug, Clone, Deserialize)]
pub struct ExpectedDeath {
    /// `KIND/NUMBER`.
    pub label: String,
    /// The process.
    #[serde(flatten)]
    pub who: ProcessIdentity,
    /// The killer must be one of these.
    pub killer: Vec<String>,
    /// The label of the death at the root of its chain of causes.
    pub cause: Option<String>,
    /// Fields that the death, its verdict, its sender or its OOM kill must have.
    #[serde(flatten)]
    pub fields: HashMap<String, Value>,
}

impl ExpectedDeath {
    /// Returns whether the killer may stay unknown without privilege. The sender of a SIGKILL
    /// cannot be seen then. An exit code, a fault and Ray's own reason can.
    fn may_stay_unknown(&self) -> bool {
        let killed = self.fields.get("signal").is_some_and(|signal| *signal == 9);
        let told = |killer: &String| matches!(killer.as_str(), "ray-memory-monitor" | "exit");
        let fault = self.killer.iter().any(|killer| killer == "crash") && !killed;
        !fault && !self.killer.iter().all(told)
    }
}

/// A line of the truth.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    Death(ExpectedDeath),
    Alive {
        label: String,
        #[serde(flatten)]
        who: ProcessIdentity,
    },
    /// A process outside any cluster. It must have no death in the report.
    Stranger {
        label: String,
        #[serde(flatten)]
        who: ProcessIdentity,
    },
    Failed {
        label: String,
        why: String,
    },
    Cluster {
        session: String,
        raylet: ProcessIdentity,
    },
    Job(ExpectedJob),
    Boot {
        seconds: f64,
    },
    Recorder(RecorderSeen),
    /// The machine was too busy: what should have happened evenly did not.
    Unsteady,
    /// A message between the scripts.
    Driver,
    /// A message between the scripts.
    Done,
    /// A message between the scripts.
    Gcs,
}

/// What the staging saw of the recorder.
#[derive(Debug, Clone, Deserialize)]
pub struct RecorderSeen {
    /// Its OOM score adjustment.
    pub oom_score_adj: i32,
    /// Its peak resident memory, as /proc prints it.
    pub peak: String,
}

/// The expected end of a job.
#[derive(Debug, Clone, Deserialize)]
pub struct ExpectedJob {
    /// Its driver.
    pub driver: ProcessIdentity,
    /// Its outcome.
    pub outcome: String,
    /// The label of the death that ended it.
    pub cause: Option<String>,
}

/// Everything that was staged.
#[derive(Debug, Default)]
pub struct Truth {
    rows: Vec<Row>,
    exits: Exits,
}

/// The result of comparing a report with the truth.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Deaths that were compared.
    pub deaths: usize,
    /// Everything that is wrong, in words.
    pub wrong: Vec<String>,
}

/// How much may be demanded. Without privilege certainties are lower and senders are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivilegeMode {
    /// Every field.
    Full,
    /// Nothing may be `proven`, a killer may be `unknown`, and senders are not known.
    Unprivileged,
}

impl Truth {
    /// Reads the file of the staging.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    pub fn parse(text: &str) -> Result<Self> {
        let rows = text
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
            .collect::<Result<_>>()?;
        let exits = Exits::default();
        Ok(Self { rows, exits })
    }

    /// Adds the kernel's own feed of exits.
    pub fn with_exits(self, exits: Exits) -> Self {
        Self { exits, ..self }
    }

    /// Returns the deaths of a report that were staged, and the others.
    pub fn split_staged<'a>(&self, report: &'a Value) -> (Vec<&'a Value>, Vec<&'a Value>) {
        let staged: BTreeSet<u64> = self.pids().map(u64::from).collect();
        let deaths = report["deaths"].as_array().into_iter().flatten();
        deaths.partition(|death| {
            let pid = death["pid"].as_u64();
            pid.is_some_and(|pid| staged.contains(&pid))
        })
    }

    /// Returns where the kernel's own feed of exits contradicts the staged deaths.
    pub fn disagreements(&self, report: &Value) -> Vec<String> {
        let (staged, _) = self.split_staged(report);
        self.exits.disagreements(staged.into_iter()).collect()
    }

    /// Returns whether a worker crashed by itself. Now and then a worker of Ray's aborts (SIGABRT)
    /// or faults (SIGSEGV) while it disconnects to exit. That is its death if the kernel's feed
    /// confirms it.
    fn crashed_by_itself(&self, death: &Value) -> bool {
        let of_a_crash = death["signal"] == 6 || death["signal"] == 11;
        let told = death["verdict"]["killer"] == "crash" && of_a_crash;
        let alone = death["sender"].is_null();
        told && alone && self.exits.confirms_signal(death)
    }

    fn deaths(&self) -> impl Iterator<Item = &ExpectedDeath> {
        self.rows.iter().filter_map(|row| match row {
            Row::Death(expected) => Some(expected),
            _ => None,
        })
    }

    /// Returns the raylets of all nodes.
    pub fn raylets(&self) -> Vec<u32> {
        let rows = self.rows.iter();
        rows.filter_map(|row| match row {
            Row::Cluster { raylet, .. } => Some(raylet.pid),
            _ => None,
        })
        .collect()
    }

    /// Returns the first cluster's raylet.
    pub fn raylet(&self) -> Option<u32> {
        self.rows.iter().find_map(|row| match row {
            Row::Cluster { raylet, .. } => Some(raylet.pid),
            _ => None,
        })
    }

    /// Returns whether the machine was too busy for an even course.
    pub fn unsteady(&self) -> bool {
        self.rows.iter().any(|row| matches!(row, Row::Unsteady))
    }

    /// Returns the pids of the processes that were staged to die.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.deaths().map(|expected| expected.who.pid)
    }

    /// Returns the recorder, if the staging looked at it.
    pub fn recorder(&self) -> Option<&RecorderSeen> {
        self.rows.iter().find_map(|row| match row {
            Row::Recorder(seen) => Some(seen),
            _ => None,
        })
    }

    /// Returns when the machine booted on which this was staged, if that was another machine.
    fn boot(&self) -> Option<f64> {
        self.rows.iter().find_map(|row| match row {
            Row::Boot { seconds } => Some(*seconds),
            _ => None,
        })
    }

    /// Returns how many deaths were staged.
    pub fn len(&self) -> usize {
        self.deaths().count()
    }

    /// Returns whether nothing was staged.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Compares every staged death with the report.
    pub fn compare(&self, report: &Value, mode: PrivilegeMode) -> Comparison {
        let found = DeathIndex::new(report, self.boot().unwrap_or_else(boot));
        let mut wrong = Vec::new();
        for row in &self.rows {
            match row {
                Row::Death(expected) => self.compare_one(expected, &found, mode, &mut wrong),
                Row::Failed { label, why } => wrong.push(format!("{label}: not staged: {why}")),
                Row::Alive { label, who } => self.check_survivor(label, *who, &found, &mut wrong),
                Row::Stranger { label, who } => {
                    let deaths = found.deaths_of(*who);
                    wrong.extend(deaths.first().map(|death| {
                        format!(
                            "{label}: a process outside Ray has a death: {}",
                            death["verdict"]
                        )
                    }));
                }
                Row::Job(job) => self.compare_job(job, &found, report, &mut wrong),
                Row::Cluster { .. }
                | Row::Boot { .. }
                | Row::Recorder(_)
                | Row::Unsteady
                | Row::Driver
                | Row::Done
                | Row::Gcs => {}
            }
        }
        self.check_no_unstaged_kills(report, &found, &mut wrong);
        Comparison {
            deaths: self.len(),
            wrong,
        }
    }

    fn compare_one(
        &self,
        expected: &ExpectedDeath,
        found: &DeathIndex<'_>,
        mode: PrivilegeMode,
        wrong: &mut Vec<String>,
    ) {
        let label = &expected.label;
        let deaths = found.deaths_of(expected.who);
        let [death] = deaths.as_slice() else {
            wrong.push(format!(
                "{label}: {} deaths of pid {}, not 1",
                deaths.len(),
                expected.who.pid
            ));
            return;
        };
        let verdict = &death["verdict"];
        let may_crash = expected.fields.get("may_crash") == Some(&Value::Bool(true));
        let crashed = may_crash && self.crashed_by_itself(death);
        let summary = verdict["summary"].as_str().unwrap_or_default();
        let mut complain = |what: String| wrong.push(format!("{label}: {what} | {summary}"));
        let killer = verdict["killer"].as_str().unwrap_or_default();
        let unknown_is_fine = mode == PrivilegeMode::Unprivileged
            && killer == "unknown"
            && expected.may_stay_unknown();
        // Without privilege a signal that the process caught cannot be seen. What remains is the
        // exit.
        let code = expected.fields.get("exit_code");
        let exit_is_fine = mode == PrivilegeMode::Unprivileged
            && killer == "exit"
            && code.is_some_and(|code| *code == death["exit_code"]);
        // Without privilege the count of a cgroup shows an OOM kill, and not always whose limit it
        // was at.
        let oom_is_fine = mode == PrivilegeMode::Unprivileged
            && killer == "kernel-oom"
            && (expected.killer.iter()).any(|one| one.starts_with("kernel-oom"));
        let fine = unknown_is_fine || exit_is_fine || oom_is_fine;
        if !expected.killer.iter().any(|one| one == killer) && !fine && !crashed {
            complain(format!("killer is {killer}, not {:?}", expected.killer));
        }
        if verdict["settled"] != true {
            complain("not settled".into());
        }
        if mode == PrivilegeMode::Unprivileged {
            if verdict["certainty"] == "proven" {
                complain("proven, without privilege".into());
            }
            if killer == "unknown" && verdict["missing"].as_str().is_none_or(str::is_empty) {
                complain("unknown, and what is missing is not said".into());
            }
            // Without privilege a field may be missing. A field that is there must be right.
            for name in KNOWN_WITHOUT_PRIVILEGE {
                let wanted = expected.fields.get(name);
                let told = wanted.filter(|_| !death[name].is_null());
                if let Some(what) = told.and_then(|wanted| difference(death, name, wanted)) {
                    complain(what);
                }
            }
            return;
        }
        // A process that crashed had another end than the staged one.
        let of_the_end = |name: &str| !KNOWN_FOR_ANY_END.contains(&name);
        let fields = expected.fields.iter();
        for (name, wanted) in fields.filter(|(name, _)| !crashed || !of_the_end(name)) {
            if let Some(what) = difference(death, name, wanted) {
                complain(what);
            }
        }
        if let Some(cause) = &expected.cause
            && !crashed
            && !self.leads_to(death, cause, found)
        {
            complain(format!(
                "its cause {} is not {cause}",
                verdict["cause_death_id"]
            ));
        }
    }

    /// Returns whether the chain of causes reaches the death with this label.
    fn leads_to(&self, death: &Value, label: &str, found: &DeathIndex<'_>) -> bool {
        let Some(wanted) = self.id_of(label, found) else {
            return false;
        };
        let mut id = cause_of(death);
        for _ in 0..8 {
            match id {
                Some(id) if id == wanted => return true,
                Some(one) => id = found.by_id.get(&one).copied().and_then(cause_of),
                None => return false,
            }
        }
        false
    }

    fn id_of(&self, label: &str, found: &DeathIndex<'_>) -> Option<u64> {
        let cause = self.deaths().find(|expected| expected.label == label)?;
        id_in_report(found.deaths_of(cause.who).first()?)
    }

    fn compare_job(
        &self,
        expected: &ExpectedJob,
        found: &DeathIndex<'_>,
        report: &Value,
        wrong: &mut Vec<String>,
    ) {
        let driver = expected.driver.pid;
        let jobs = report["jobs"].as_array();
        let Some(job) = jobs
            .into_iter()
            .flatten()
            .find(|job| job["driver_pid"] == driver)
        else {
            wrong.push(format!("no job of driver {driver}"));
            return;
        };
        if job["outcome"] != expected.outcome.as_str() {
            wrong.push(format!(
                "job of driver {driver}: {} ({}), not {}",
                job["outcome"], job["because"], expected.outcome
            ));
        }
        let wanted = expected
            .cause
            .as_ref()
            .and_then(|cause| self.id_of(cause, found));
        let ended_by = in_recording(&job["ended_by_recording_id"], &job["ended_by_death_id"]);
        if ended_by != wanted {
            wrong.push(format!(
                "job of driver {driver}: ended by {}, not {wanted:?}: {}",
                job["ended_by_death_id"], job["because"]
            ));
        }
    }

    /// Checks that a process that survived an act is not called killed by it.
    fn check_survivor(
        &self,
        label: &str,
        who: ProcessIdentity,
        found: &DeathIndex<'_>,
        wrong: &mut Vec<String>,
    ) {
        for death in found.deaths_of(who) {
            let killer = death["verdict"]["killer"].as_str().unwrap_or_default();
            let shot = matches!(
                killer,
                "kernel-oom-memcg" | "crash" | "kernel-other" | "exit"
            );
            if shot && !self.crashed_by_itself(death) {
                wrong.push(format!(
                    "{label}: it outlived this, and is called dead of it: {}",
                    death["verdict"]["summary"]
                ));
            }
        }
    }

    /// Checks that the report has no kill that was not staged. The harness itself never causes one
    /// of these.
    fn check_no_unstaged_kills(
        &self,
        report: &Value,
        found: &DeathIndex<'_>,
        wrong: &mut Vec<String>,
    ) {
        let sessions: BTreeSet<&str> = self
            .rows
            .iter()
            .filter_map(|row| match row {
                Row::Cluster { session, .. } => Some(session.as_str()),
                _ => None,
            })
            .collect();
        let clusters: Vec<&Value> = report["clusters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|cluster| {
                cluster["session"]
                    .as_str()
                    .is_some_and(|name| sessions.contains(name))
            })
            .map(|cluster| &cluster["id"])
            .collect();
        let staged: BTreeSet<u64> = self
            .deaths()
            .flat_map(|expected| found.deaths_of(expected.who))
            .filter_map(id_in_report)
            .collect();
        for death in found.by_id.values() {
            let id = id_in_report(death).unwrap_or_default();
            let killer = death["verdict"]["killer"].as_str().unwrap_or_default();
            let strange = matches!(
                killer,
                "kernel-oom-memcg" | "kernel-oom-global" | "ray-memory-monitor" | "crash"
            );
            // The monitor of Ray 2.60 also ends idle workers, beside the one that it chose.
            let idle = killer == "ray-memory-monitor" && death["title"] == "ray::IDLE";
            let real = idle || self.crashed_by_itself(death);
            if strange && !real && !staged.contains(&id) && clusters.contains(&&death["cluster"]) {
                wrong.push(format!(
                    "nobody staged this: {}",
                    death["verdict"]["summary"]
                ));
            }
        }
    }
}

/// Fields of a death that belong to the process, however it ended.
const KNOWN_FOR_ANY_END: [&str; 4] = ["role", "worker_id", "job_id", "actor_class"];

/// Returns a death's id in a report of one recording or several.
fn id_in_report(death: &Value) -> Option<u64> {
    in_recording(&death["recording_id"], &death["id"])
}

/// Returns the death that caused it, on its own node or another.
fn cause_of(death: &Value) -> Option<u64> {
    let verdict = &death["verdict"];
    let link = &verdict["cause_link"];
    in_recording(&death["recording_id"], &verdict["cause_death_id"])
        .or_else(|| in_recording(&link["recording_id"], &link["death_id"]))
}

fn in_recording(recording: &Value, id: &Value) -> Option<u64> {
    Some(id.as_u64()? | recording.as_u64().unwrap_or(0) << 40)
}

/// Fields of a death that are compared without privilege too. Roles are not all known then.
const KNOWN_WITHOUT_PRIVILEGE: [&str; 5] =
    ["exit_code", "signal", "worker_id", "job_id", "actor_class"];

/// Returns how the death differs from what is demanded of this field.
fn difference(death: &Value, name: &str, wanted: &Value) -> Option<String> {
    let sender = &death["sender"];
    let found = match name {
        "certainty" | "reason_certainty" => &death["verdict"][name],
        "listed" | "signal" | "exit_code" | "role" | "worker_id" | "job_id" | "actor_class"
        | "node" => &death[name],
        "limit_bytes" | "cgroup" | "constraint" => &death["oom"][name],
        "at_least" => return memory_shortfall(&death["memory"], wanted),
        "says" => {
            let says = death["verdict"]["summary"].as_str().zip(wanted.as_str());
            let says = says.is_some_and(|(summary, wanted)| summary.contains(wanted));
            return (!says).then(|| format!("it does not say {wanted}"));
        }
        "remote" => {
            let remote = death["verdict"]["cause_remote"].as_str();
            let says = remote.zip(wanted.as_str());
            let says = says.is_some_and(|(remote, wanted)| remote.contains(wanted));
            return (!says).then(|| format!("its cause elsewhere is {remote:?}, not {wanted}"));
        }
        "uncaused" => {
            let cause = cause_of(death);
            return cause.map(|cause| format!("its cause is death {cause}, and there is none"));
        }
        "not_before" => {
            let times = seconds(&death["time"]).zip(wanted.as_f64());
            let fits = times.is_some_and(|(time, wanted)| time >= wanted);
            return (!fits).then(|| format!("it died at {}, before {wanted}", death["time"]));
        }
        "logged_within" => return logged_too_far_away(death, wanted.as_f64().unwrap_or_default()),
        "mechanism" => &sender["mechanism"],
        "sender" if wanted.is_null() => {
            let named = sender["pid"].as_u64().is_some_and(|pid| pid != 0);
            return named.then(|| format!("sender is {sender}, and there was none"));
        }
        "sender" => {
            let Some(parts) = wanted.as_object() else {
                return Some(format!("{wanted} is no sender that can be compared"));
            };
            let wrong = parts
                .iter()
                .find(|(key, value)| sender[key.as_str()] != **value);
            return wrong.map(|(key, value)| {
                format!("sender's {key} is {}, not {value}", sender[key.as_str()])
            });
        }
        // When the death was staged, and whether it may be a crash. Neither is compared.
        "time" | "may_crash" => return None,
        _ => return Some(format!("{name} is no field that is compared")),
    };
    (found != wanted).then(|| format!("{name} is {found}, not {wanted}"))
}

/// Complains if the kernel log's time of a death is not within this many seconds of it.
fn logged_too_far_away(death: &Value, within: f64) -> Option<String> {
    let Some(died) = seconds(&death["time"]) else {
        return Some("it has no time".to_owned());
    };
    let mut evidence = death["verdict"]["evidence"]
        .as_array()
        .into_iter()
        .flatten();
    let logged = evidence.find(|one| one["source"] == "kmsg");
    let logged = logged.and_then(|one| seconds(&one["time"]));
    let near = logged.is_some_and(|logged| (logged - died).abs() < within);
    (!near).then(|| format!("it died at {died}, and the kernel log tells it at {logged:?}"))
}

/// Returns the first of the `wanted` figures of memory that is not reached.
fn memory_shortfall(memory: &Value, wanted: &Value) -> Option<String> {
    let short = |(key, least): (&String, &Value)| {
        let found = memory[key.as_str()].as_u64();
        let least = least.as_u64().unwrap_or(u64::MAX);
        (found < Some(least)).then(|| format!("{key} is {found:?}, less than {least}"))
    };
    let Some(wanted) = wanted.as_object() else {
        return Some(format!("{wanted} are no figures"));
    };
    wanted.iter().find_map(short)
}

/// The deaths of a report, by id and by pid.
struct DeathIndex<'a> {
    by_id: HashMap<u64, &'a Value>,
    /// Time of the boot, in seconds since 1970.
    boot: f64,
}

impl<'a> DeathIndex<'a> {
    fn new(report: &'a Value, boot: f64) -> Self {
        let deaths = report["deaths"].as_array();
        let by_id = deaths
            .into_iter()
            .flatten()
            .filter_map(|death| Some((id_in_report(death)?, death)))
            .collect();
        Self { by_id, boot }
    }

    fn deaths_of(&self, who: ProcessIdentity) -> Vec<&'a Value> {
        let ticks = who.start_ticks as f64;
        let start = self.boot + ticks / 100.0;
        let same = |death: &&&Value| {
            death["pid"] == who.pid
                && seconds(&death["start_time"]).is_some_and(|found| (found - start).abs() < 0.05)
        };
        self.by_id.values().filter(same).copied().collect()
    }
}

/// Returns when the machine booted, as the difference of its two clocks.
fn boot() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let seconds = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::Realtime) - seconds(ClockId::Boottime)
}

/// Returns a time of the report in seconds since 1970.
pub fn seconds(time: &Value) -> Option<f64> {
    let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
    Some(time.as_nanosecond() as f64 / 1e9)
}
