//! Reads whose end a block of lines tells of, and when: what a heading above names, and a time and
//! a limit that stand beside the end.
//!
//! `kubectl describe` has the name of a pod above the states of its containers, with the time of an
//! end and the limit of the container below it. The mails of PBS, the accounts of Grid
//! Engine and the logs of `HTCondor` begin with the job, `coredumpctl info` with the process, and
//! what Open MPI and Horovod say of the first rank that failed with its name.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{line::LogLine, pattern, rows, stamp};
use crate::{
    ids::{Bytes, Pid},
    judge::from_text::claim::{Claim, Place, Stamp, Statement, Subject},
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 16] = [
    "Name:  ",
    "Roles:  ",
    "Pod Name: ",
    "\"podName\":",
    "PBS Job Id: ",
    "jobnumber  ",
    "      PID: ",
    ".000) ",
    "container name: ",
    "Finished: ",
    "inishedAt\":",
    "inishedAt: ",
    "container finished at: ",
    "\"lastTimestamp\":",
    "Process name: ",
    "Exit code: ",
];
/// The time and the limit of a container stand at most this many lines below its last state.
const STATE_LINES: u64 = 16;
/// A time stands at most this many lines above the end that it dates.
const TIME_LINES: u64 = 2;
/// The description of a pod is at most this long.
const POD_LINES: u64 = 400;
/// What a batch system tells of a job is at most this long.
const JOB_LINES: u64 = 12;
/// What Grid Engine's `qacct` has of a job below its number.
const ACCOUNT_LINES: u64 = 40;
/// An event in the log of an `HTCondor` job.
const EVENT_LINES: u64 = 4;
/// The exit code of a rank stands right below its name.
const RANK_LINES: u64 = 1;

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^\s*(?:Name:  +|Pod Name: +|"podName": ?")([a-z0-9][a-z0-9.-]{0,252})"?,?$"#)
});
static CORE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s+PID: (\d{1,10}) \((.{1,64})\)$"));
static GRID_ENGINE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^jobnumber +(\d{1,12})$"));
static PBS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*PBS Job Id: +([\w.\[\]-]{1,100})$"));
static CONTAINER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\s*container name: +([a-z0-9][a-z0-9.-]{0,252})$"));
static CONDOR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\d{3} \(0*(\d{1,12})\.0*(\d{1,9})\.\d+\) (?:(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)|(\d\d)/(\d\d) (\d\d:\d\d:\d\d)) ",
    )
});
static RANK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*Process name: +(?:\[\[\d+,\d+\],(\d{1,9})\]|([\w.-]{1,100}\[\d{1,9}\]))$")
});
/// What stands below the name of a rank.
static RANK_EXIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*Exit code: +(-?\d{1,9})$"));
static LIMIT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\s*memory: +(\d{1,15})(Ki|Mi|Gi|Ti|k|M|G|T)?$"));
/// A line of a block on the state of a container.
static STATE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^\s*"?(?:Reason|reason|termination reason|Exit Code|exit code|ExitCode|exitCode|OOMKilled|message)"?: *"#,
    )
});
static FINISHED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^\s*"?(?:Finished|FinishedAt|finishedAt|container finished at|lastTimestamp)"?: *"?([^"]{10,40}?)"?,?$"#,
    )
});

/// What a block is about.
#[derive(Debug)]
struct Heading {
    /// `pod train-0`, `PBS job 12.head1`.
    of: String,
    /// The process, where the block is about one.
    process: Option<(Pid, String)>,
    stamp: Stamp,
    line: u64,
    /// How many lines below it are about the same.
    lines: u64,
}

/// The block that is being read, and ends in it whose time or limit has not been read.
#[derive(Debug, Default)]
pub(super) struct Headings {
    heading: Option<Heading>,
    finished: Option<(Stamp, Place)>,
    pending: Vec<Statement>,
    /// Whether the amounts below are what a container asks for, not its limits.
    requests: bool,
}

impl Headings {
    /// Returns whether the next lines may tell of the end that was read.
    pub(super) fn is_open(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads a line. The statements from `before` on are those of this line.
    pub(super) fn line(&mut self, line: &LogLine, before: usize, out: &mut Vec<Statement>) {
        let place = line.place;
        let text = line.text.trim_end();
        if let Some(found) = heading(text, line) {
            self.heading = Some(found);
        }
        out.extend(self.rank(text, line).filter(|_| out.len() == before));
        // Only a node has roles.
        if text.starts_with("Roles:  ")
            && let Some(named) = &mut self.heading
            && place.line.saturating_sub(named.line) <= TIME_LINES
            && let Some(node) = named.of.strip_prefix("pod ")
        {
            named.of = format!("node {node}");
        }
        if let Some(stamp) = finished(text) {
            self.finished = Some((stamp, place));
            for one in self.pending.iter_mut().filter(|one| one.stamp.is_empty()) {
                one.stamp = stamp;
            }
        }
        match text.trim() {
            "Limits:" | "limits:" => self.requests = false,
            "Requests:" | "requests:" => self.requests = true,
            _ => {}
        }
        let limit = limit(text).filter(|_| !self.requests);
        if let Some(limit) = limit {
            let kills = self.pending.iter_mut();
            for one in kills.filter(|one| matches!(one.claim, Claim::KernelOom(_))) {
                if let Claim::KernelOom(oom) = &mut one.claim {
                    oom.limit = Some(limit);
                }
                let amount = text.trim().trim_start_matches("memory:").trim();
                let of = one.subject.of.take();
                let of = of.unwrap_or_else(|| "a container".into());
                one.subject.of = Some(format!("{of} (memory limit {amount})"));
            }
        }
        let late = |one: &Statement| place.line.saturating_sub(one.place.line) > STATE_LINES;
        // In the description of a pod, the next container begins with its id.
        let is_next = text.trim_start().starts_with("Container ID:");
        if self.pending.iter().any(late) || limit.is_some() || is_next {
            out.splice(before..before, self.pending.drain(..));
        }
    }

    /// Reads the exit code of a rank below its name.
    fn rank(&self, text: &str, line: &LogLine) -> Option<Statement> {
        let found = RANK_EXIT.captures(text)?;
        let heading = self.heading.as_ref()?;
        let near = line.place.line.saturating_sub(heading.line) <= RANK_LINES;
        let is_rank = heading.lines == RANK_LINES && near;
        let claim = rows::by_code(found[1].parse().ok()?).filter(|_| is_rank)?;
        let subject = Subject {
            foreign: true,
            ..Subject::default()
        };
        Some(line.states(subject, claim))
    }

    /// Names and dates what has been read of the current line, and keeps an end whose time or limit
    /// may stand below it.
    pub(super) fn name(&mut self, line: &LogLine, before: usize, out: &mut Vec<Statement>) {
        let place = line.place;
        let below = |above: u64| place.line.saturating_sub(above);
        let heading = self.heading.as_ref();
        let heading = heading.filter(|heading| below(heading.line) <= heading.lines);
        let is_state = STATE.is_match(&line.text);
        if out.len() == before || (heading.is_none() && !is_state) {
            return;
        }
        let finished = self.finished.filter(|(_, at)| below(at.line) <= TIME_LINES);
        for mut one in out.split_off(before) {
            let nameless = one.subject.pid.is_none() && one.subject.of.is_none();
            let here = one.place == place && is_end(&one.claim) && nameless;
            if let Some(heading) = heading.filter(|_| here) {
                match &heading.process {
                    Some((pid, comm)) if line.text.starts_with(char::is_whitespace) => {
                        one.subject.pid = Some(*pid);
                        one.subject.comm = Some(comm.clone());
                    }
                    // It is no line of the table below the process.
                    Some(_) => {}
                    None => one.subject.of = Some(heading.of.clone()),
                }
                if one.stamp.is_empty() {
                    one.stamp = heading.stamp;
                }
            }
            let dated = here || (is_state && one.place == place);
            if let Some((stamp, _)) = finished.filter(|_| dated && one.stamp.is_empty()) {
                one.stamp = stamp;
            }
            let by_program = matches!(&one.claim, Claim::KernelOom(oom) if oom.reporter.is_some());
            if (here && by_program) || (dated && is_state && one.stamp.is_empty()) {
                self.requests = false;
                self.pending.push(one);
            } else {
                out.push(one);
            }
        }
    }

    /// Hands over what still waits at the end of the text.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        out.append(&mut self.pending);
    }
}

fn is_end(claim: &Claim) -> bool {
    matches!(
        claim,
        Claim::KernelOom(_)
            | Claim::Daemon(_)
            | Claim::Signalled(_)
            | Claim::Crash { .. }
            | Claim::Exit { .. }
            | Claim::Died
    )
}

fn heading(text: &str, line: &LogLine) -> Option<Heading> {
    let of = |kind: &str, found: &Captures<'_>, lines| Heading {
        of: format!("{kind} {}", &found[1]),
        process: None,
        stamp: Stamp::default(),
        line: line.place.line,
        lines,
    };
    if let Some(found) = NAME.captures(text) {
        return Some(of("pod", &found, POD_LINES));
    }
    if let Some(found) = PBS.captures(text) {
        return Some(of("PBS job", &found, JOB_LINES));
    }
    if let Some(found) = GRID_ENGINE.captures(text) {
        return Some(of("Grid Engine job", &found, ACCOUNT_LINES));
    }
    if let Some(found) = CORE.captures(text) {
        let process = found[1]
            .parse()
            .ok()
            .map(|pid| (Pid(pid), found[2].to_owned()));
        return Some(Heading {
            process,
            ..of("process", &found, JOB_LINES)
        });
    }
    if let Some(found) = RANK.captures(text) {
        let rank = found
            .get(1)
            .map(|rank| format!("MPI rank {}", rank.as_str()));
        let named = || Some(format!("Horovod process {}", found.get(2)?.as_str()));
        return Some(Heading {
            of: rank.or_else(named)?,
            process: None,
            stamp: Stamp::default(),
            line: line.place.line,
            lines: RANK_LINES,
        });
    }
    if let Some(found) = CONTAINER.captures(text) {
        return Some(of("container", &found, JOB_LINES));
    }
    let found = CONDOR.captures(text)?;
    let day = |month| stamp::month_day(month, found.get(5)?.as_str(), found.get(6)?.as_str());
    Some(Heading {
        of: format!("HTCondor job {}.{}", &found[1], &found[2]),
        process: None,
        stamp: Stamp {
            local: found.get(3).and_then(|at| stamp::local(at.as_str())),
            day: found.get(4).and_then(|month| day(month.as_str())),
            ..Stamp::default()
        },
        line: line.place.line,
        lines: EVENT_LINES,
    })
}

/// Returns the time at which a block says that a container ended.
fn finished(text: &str) -> Option<Stamp> {
    let found = FINISHED.captures(text)?;
    let utc = stamp::zoned(&found[1]).or_else(|| stamp::mail(&found[1]));
    utc.map(|utc| Stamp {
        utc: Some(utc),
        ..Stamp::default()
    })
}

fn limit(text: &str) -> Option<Bytes> {
    let found = LIMIT.captures(text)?;
    let number: u64 = found[1].parse().ok()?;
    let factor: u64 = match found.get(2).map_or("", |unit| unit.as_str()) {
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => 1,
    };
    number.checked_mul(factor).map(Bytes)
}
