//! Reads OOM reports in kernel logs: complete, without their beginning, or as single lines.
//!
//! Formats of `mm/oom_kill.c`: 2.6.32 to 4.18 (`Kill process A … or sacrifice child`, then `Killed
//! process B`: B died; `Task in /a killed as a result of limit of /b`), 4.19 to 4.20, and 5.0 on
//! (`oom-kill:constraint=…`, then `Memory cgroup out of memory: Killed process …`). The columns of
//! the task dump differ between kernels and are named by its header.

use std::{collections::HashMap, sync::LazyLock};

use regex::Regex;

use super::{line::LogLine, pattern, rows, task_dump::Columns};
use crate::{
    event::KernelLog,
    ids::{Bytes, Pid},
    judge::{
        cause::Scope,
        from_text::claim::{
            Claim, Daemon, KernelOom, PidNamespace, Place, Statement, Subject, Task, TextRemarks,
        },
    },
    kernel_log,
};

/// Keywords of these lines.
pub(super) const KEYWORDS: [&str; 19] = [
    "oom-kill:constraint=",
    "Killed process ",
    "Kill process ",
    "killed as a result of limit of",
    "invoked oom-killer",
    "oom_kill_process",
    "mem_cgroup_out_of_memory",
    "memory: usage ",
    "Memory cgroup stats for ",
    "oom_score_adj name",
    "oom_reaper: reaped process",
    "memory.oom.group set",
    ": segfault at ",
    "] general protection",
    "] trap ",
    "NVRM: Xid (",
    "Kernel panic - not syncing: ",
    "Oops: ",
    "invalid opcode: ",
];
/// A line further than this from the report's first line does not belong to it.
const MAX_LINES: u64 = 6000;
/// The most tasks of a dump that are kept, not counting raylets.
const MAX_TASKS: usize = 10;
/// The most hosts whose kernel logs are told apart in one text.
const MAX_HOSTS: usize = 64;
/// The most kills that wait for their second line.
const MAX_PENDING: usize = 256;

static USAGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^memory: usage (\d+)kB, limit (\d+)kB"));
static STATS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^Memory cgroup stats for (/[^:\s]*)"));
static RESULT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Task in (\S+) killed as a result of limit of (\S+)"));
static CHOSEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(Memory cgroup out of memory|Out of memory): Kill process (\d+) \((.*)\) score \d+ or sacrifice child",
    )
});
static GLOBAL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Out of memory(?: \(oom_kill_allocating_task\))?: Killed process "));
static KILLED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Killed process (\d+)(?:,? UID \d+,)? \(([^()]*)\)"));
static REAPED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"oom_reaper: reaped process (\d+) \((.*)\), now anon-rss:"));
static PANIC: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|\] )Kernel panic - not syncing: (Out of memory: )?(.*)$"));
static ROW: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\[ *\d+\] +(.+)$"));

/// The kernel logs in one text: one, or one for each host of a merged journal.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    all: Vec<(Option<String>, Kernel)>,
    /// The number of that of the last line.
    last: usize,
}

impl Kernels {
    /// Returns whether the next lines belong to a task dump.
    pub(super) fn are_open(&self) -> bool {
        self.all.iter().any(|(_, kernel)| kernel.columns.is_some())
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: &LogLine, out: &mut Vec<Statement>) {
        self.of(line.host.as_ref()).line(line, out);
    }

    /// Adds the kills that have no second line in the text.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        for (_, kernel) in &mut self.all {
            kernel.flush(out);
        }
    }

    /// Returns the log of a host. A line without one belongs to that of the line before.
    fn of(&mut self, host: Option<&String>) -> &mut Kernel {
        let of_host = |(known, _): &(Option<String>, Kernel)| known.as_ref() == host;
        let known = self.all.iter().position(of_host);
        let unnamed = || self.all.iter().position(|(known, _)| known.is_none());
        match known.or_else(unnamed) {
            _ if host.is_none() && !self.all.is_empty() => {}
            Some(at) => self.last = at,
            None if self.all.len() < MAX_HOSTS => {
                self.last = self.all.len();
                self.all.push((None, Kernel::default()));
            }
            None => {}
        }
        let (name, kernel) = &mut self.all[self.last];
        if name.is_none() {
            *name = host.cloned();
        }
        kernel
    }
}

/// The report that is being read, and kills that wait for their second line.
#[derive(Debug, Default)]
struct Kernel {
    report: Report,
    pending: HashMap<Pid, Statement>,
    /// The process that an old kernel chose, until the line that names the one that died.
    chosen: Option<Statement>,
    columns: Option<Columns>,
}

#[derive(Debug, Default)]
struct Report {
    first: u64,
    invoker: Option<String>,
    usage: Option<Bytes>,
    limit: Option<Bytes>,
    stats: Option<String>,
    result: Option<(String, String)>,
    /// The line that has them.
    result_line: Option<LogLine>,
    /// The line of the stack by which it chose a victim, until that is named.
    decided: Option<LogLine>,
    /// Whether that stack has the function for a full cgroup.
    in_cgroup: bool,
    /// The scope that an old kernel names above the kill, and the number of that line.
    chosen: Option<(Scope, u64)>,
    /// Whether lines of another report are mixed in.
    mixed: bool,
    tasks: Vec<Task>,
    /// Whether a kill was read. Later lines belong to the next report, unless the whole group is
    /// killed.
    kill_seen: bool,
    group: bool,
    /// The line of the last kill, and of the one that the kills of a whole group belong to.
    last_kill: Option<Place>,
    decision: Option<Place>,
}

impl Kernel {
    fn line(&mut self, line: &LogLine, out: &mut Vec<Statement>) {
        let place = line.place;
        let text = line.text.trim();
        if self.dump(text) {
            return;
        }
        if place.line.saturating_sub(self.report.first) > MAX_LINES {
            self.report = Report::default();
        }
        if self.context(text, line, out) {
            return;
        }
        out.extend(panic(text, line));
        match kernel_log::parse(text) {
            Some(KernelLog::Invoked { comm, .. }) => self.invoked(comm, line, out),
            Some(KernelLog::OomKill {
                constraint,
                oom_memcg,
                task_memcg,
                comm,
                pid,
                ..
            }) => {
                let oom = KernelOom {
                    scope: Scope::parse(&constraint),
                    cgroup: oom_memcg,
                    task_cgroup: task_memcg,
                    ..KernelOom::default()
                };
                self.chosen_victim(pid, comm, oom, line, out);
            }
            Some(KernelLog::OomGroup { cgroup }) => {
                let named = self.report.last_kill.is_some();
                self.report.decided = Some(line.clone()).filter(|_| !named);
                self.report.group = true;
                self.report.in_cgroup = true;
                self.report.stats = Some(cgroup);
                self.report.decision = self.report.last_kill.or(Some(place));
            }
            Some(KernelLog::Fault { comm, pid, text }) => {
                out.push(line.states(subject(Some(pid), comm), rows::crashed(&text)));
            }
            Some(killed @ KernelLog::Killed { .. }) => self.killed(&killed, line, out),
            // A GPU error is not a death; `gpu_error` reads it.
            Some(KernelLog::Xid { .. }) => {}
            None => self.unparsed_line(text, line, out),
        }
    }

    fn invoked(&mut self, comm: String, line: &LogLine, out: &mut Vec<Statement>) {
        out.extend(self.report.without_victim());
        let place = line.place;
        let open = self.report.invoker.is_some() && !self.report.kill_seen;
        self.report = Report {
            first: place.line,
            invoker: Some(comm),
            mixed: open,
            ..Report::default()
        };
    }

    /// Reads a line that says which memory was full, and returns whether it was one.
    fn context(&mut self, text: &str, line: &LogLine, out: &mut Vec<Statement>) -> bool {
        if let Some(found) = USAGE.captures(text) {
            let kilobytes = |at: usize| found[at].parse::<u64>().ok()?.checked_mul(1024).map(Bytes);
            self.report.mixed |= self.report.usage.is_some();
            self.report.usage = kilobytes(1);
            self.report.limit = kilobytes(2);
        } else if let Some(found) = STATS.captures(text) {
            let stats = found[1].to_owned();
            // A terminal may have broken the path in the line above.
            if let Some((task, limit)) = &mut self.report.result {
                let is_cut =
                    |path: &&mut String| stats.len() > path.len() && stats.starts_with(&**path);
                let is_part = task
                    .strip_prefix(&**limit)
                    .is_some_and(|rest| !rest.starts_with('/'));
                if let Some(path) = Some(limit).filter(|path| is_part && is_cut(path)) {
                    path.clone_from(&stats);
                }
            }
            self.report.stats = Some(stats);
        } else if let Some(found) = RESULT.captures(text) {
            self.report.result = Some((found[1].to_owned(), found[2].to_owned()));
            self.report.result_line = Some(line.clone());
        } else if let Some(found) = CHOSEN.captures(text) {
            let scope = match &found[1] {
                "Out of memory" => is_global(&CHOSEN, text).then_some(Scope::Global),
                _ => Some(Scope::Memcg),
            };
            self.report.chosen = scope.map(|scope| (scope, line.place.line));
            let comm = format!("{} (pid {}) or a child of it", &found[3], &found[2]);
            self.choose(comm, scope, line, out);
        } else if text.contains("oom_kill_process") {
            let decided = Some(line.clone()).filter(|_| self.report.invoker.is_some());
            self.report.decided = decided.filter(|_| !self.report.kill_seen);
        } else if text.contains("mem_cgroup_out_of_memory") {
            self.report.in_cgroup = true;
        } else {
            return false;
        }
        true
    }

    /// Keeps the process that an old kernel chose. It may have killed a child of it instead.
    fn choose(
        &mut self,
        comm: String,
        scope: Option<Scope>,
        line: &LogLine,
        out: &mut Vec<Statement>,
    ) {
        self.report.decided = None;
        let report = &self.report;
        let (task_cgroup, cgroup) = report.result.clone().unzip();
        let oom = KernelOom {
            scope,
            cgroup,
            task_cgroup,
            limit: report.limit,
            usage: report.usage,
            invoker: report.invoker.clone(),
            ..KernelOom::default()
        };
        out.extend(self.chosen.replace(killed(line, None, comm, oom)));
    }

    /// Reads the header or a row of the task dump, and returns whether the line was one.
    fn dump(&mut self, text: &str) -> bool {
        if heads_dump(text) {
            self.columns = Columns::of(text);
            self.report.tasks.clear();
            return true;
        }
        let Some(columns) = &self.columns else {
            return false;
        };
        let Some(row) = ROW.captures(text) else {
            self.columns = None;
            return false;
        };
        if let Some(task) = columns.task(&row[1]) {
            let tasks = &mut self.report.tasks;
            tasks.push(task);
            tasks.sort_by_key(|task| (task.comm != "raylet", std::cmp::Reverse(task.memory)));
            tasks.truncate(
                MAX_TASKS
                    + tasks
                        .iter()
                        .filter(|task| task.comm == "raylet")
                        .count()
                        .min(MAX_TASKS),
            );
        }
        true
    }

    fn chosen_victim(
        &mut self,
        pid: Pid,
        comm: String,
        oom: KernelOom,
        line: &LogLine,
        out: &mut Vec<Statement>,
    ) {
        if self.pending.len() >= MAX_PENDING {
            self.flush(out);
        }
        self.report.decided = None;
        self.pending.insert(pid, killed(line, Some(pid), comm, oom));
    }

    fn killed(&mut self, killed: &KernelLog, line: &LogLine, out: &mut Vec<Statement>) {
        let KernelLog::Killed {
            pid,
            comm,
            memcg,
            anon,
            file,
            shmem,
            score_adj,
        } = killed
        else {
            return;
        };
        let own = if *memcg {
            Some(Scope::Memcg)
        } else if is_global(&GLOBAL, &line.text) {
            Some(Scope::Global)
        } else {
            None
        };
        let oom = KernelOom {
            anon: Some(*anon),
            file: Some(*file),
            shmem: *shmem,
            score_adj: *score_adj,
            ..self.finish(*pid, own, line.place, out)
        };
        out.push(self::killed(line, Some(*pid), comm.clone(), oom));
    }

    /// Returns what the report says about this kill. The line that chose the victim becomes a
    /// statement of its own.
    fn finish(
        &mut self,
        pid: Pid,
        own: Option<Scope>,
        place: Place,
        out: &mut Vec<Statement>,
    ) -> KernelOom {
        self.chosen = None;
        let chosen = self.pending.remove(&pid);
        let mut oom = match chosen.as_ref().map(|chosen| &chosen.claim) {
            Some(Claim::KernelOom(oom)) => (**oom).clone(),
            _ => KernelOom::default(),
        };
        let report = &mut self.report;
        oom.group = report.group;
        // The line that the whole group is killed follows the first kill.
        oom.decision = report.decision.or(Some(place));
        report.last_kill = Some(place);
        let above = report
            .chosen
            .take()
            .filter(|(_, line)| place.line.saturating_sub(*line) <= 3);
        let known = [own, oom.scope, above.map(|(scope, _)| scope)];
        oom.scope = agreed(known.iter().flatten().copied());
        if let Some((task, limit)) = report
            .result
            .take()
            .filter(|_| oom.scope != Some(Scope::Global))
        {
            oom.scope = oom.scope.or(above.is_none().then_some(Scope::Memcg));
            oom.task_cgroup = oom.task_cgroup.or(Some(task));
            oom.cgroup = oom.cgroup.or(Some(limit));
        }
        let same = report.stats.is_none() || oom.cgroup.is_none() || report.stats == oom.cgroup;
        let fresh = !report.mixed && same && (!report.kill_seen || report.group);
        if fresh {
            if oom.scope == Some(Scope::Memcg) {
                oom.cgroup = oom.cgroup.or_else(|| report.stats.clone());
                oom.limit = report.limit;
                oom.usage = report.usage;
            }
            oom.invoker.clone_from(&report.invoker);
            oom.tasks.clone_from(&report.tasks);
        }
        report.kill_seen = true;
        report.decided = None;
        out.extend(chosen);
        oom
    }

    /// Reads lines that the parser of whole lines does not know: cut lines, and those of the OOM
    /// reaper.
    fn unparsed_line(&mut self, text: &str, line: &LogLine, out: &mut Vec<Statement>) {
        if let Some(found) = REAPED.captures(text) {
            let Ok(pid) = found[1].parse().map(Pid) else {
                return;
            };
            let subject = subject(Some(pid), found[2].to_owned());
            out.push(line.states(subject, Claim::Reaped));
        } else if let Some(found) = KILLED.captures(text) {
            let Ok(pid) = found[1].parse().map(Pid) else {
                return;
            };
            let own = if text.contains("Memory cgroup out of memory: Killed") {
                Some(Scope::Memcg)
            } else if is_global(&GLOBAL, text) {
                Some(Scope::Global)
            } else {
                None
            };
            let oom = self.finish(pid, own, line.place, out);
            out.push(killed(line, Some(pid), found[2].to_owned(), oom));
        }
    }

    fn flush(&mut self, out: &mut Vec<Statement>) {
        out.extend(self.report.without_victim());
        out.extend(self.chosen.take());
        let mut left: Vec<Statement> = self.pending.drain().map(|(_, one)| one).collect();
        left.sort_by_key(|one| one.place);
        out.append(&mut left);
    }
}

impl Report {
    /// Returns the kill whose victim the text does not name.
    fn without_victim(&mut self) -> Option<Statement> {
        let result = self.result_line.take().zip(self.result.take());
        let (line, result) = match (result, self.decided.take()) {
            (Some((line, result)), _) => (line, Some(result)),
            (None, decided) => (decided?, None),
        };
        let in_cgroup = result.is_some() || self.in_cgroup;
        let of_group = self.stats.clone().filter(|_| self.group);
        let (task_cgroup, cgroup) = result.unzip();
        let task_cgroup = task_cgroup.or(of_group);
        let oom = KernelOom {
            scope: in_cgroup.then_some(Scope::Memcg),
            cgroup,
            task_cgroup,
            limit: self.limit,
            usage: self.usage,
            invoker: self.invoker.clone(),
            ..KernelOom::default()
        };
        let subject = Subject {
            pid_namespace: PidNamespace::Host,
            ..Subject::default()
        };
        Some(line.states(subject, Claim::KernelOom(Box::new(oom))))
    }
}

/// Reads the end of a whole machine, unless the line was written by a program.
fn panic(text: &str, line: &LogLine) -> Option<Statement> {
    let found = PANIC.captures(text).filter(|_| is_of_kernel(line))?;
    let why = match found.get(1) {
        Some(_) => "it was out of memory and panicked",
        None => "it panicked",
    };
    let subject = subject(None, "every process of the machine".to_owned());
    let daemon = by_kernel(format!("{why}: {}", &found[2]), found.get(1).is_some());
    Some(line.states(subject, Claim::Daemon(daemon)))
}

fn by_kernel(why: String, for_memory: bool) -> Daemon {
    Daemon {
        name: "the kernel".into(),
        pid: None,
        signal: None,
        why,
        for_memory,
        fix: None,
        unit: None,
        after_part: false,
        after: None,
    }
}

/// Returns whether no program wrote the line, as far as its prefix says.
fn is_of_kernel(line: &LogLine) -> bool {
    let program = line.program.as_ref().map(|(name, _)| name.as_str());
    program.is_none_or(|name| name == "kernel") && line.speaker.is_none()
}

/// Returns whether a line is the header of a task dump.
pub(super) fn heads_dump(text: &str) -> bool {
    text.contains(" uid ") && text.contains(" tgid ") && text.contains(" rss")
}

/// Reads a GPU error of NVIDIA's driver, unless the line was written by a program.
pub(super) fn gpu_error(line: &LogLine, remarks: &mut TextRemarks) {
    if is_of_kernel(line)
        && let Some(told) = kernel_log::xid::parse(&line.text)
    {
        remarks.gpu_errors.add_line((line.place, line.stamp), &told);
    }
}

/// Returns whether the text that `regex` finds is at the beginning of a message. Behind `Memory
/// cgroup` it has another meaning.
fn is_global(regex: &Regex, text: &str) -> bool {
    let before = regex.find(text).map(|found| &text[..found.start()]);
    before.is_some_and(|before| {
        before.trim().is_empty()
            || [": ", "] ", "; ", "  ", "\t"]
                .iter()
                .any(|end| before.ends_with(end))
    })
}

/// Returns the scope that all lines agree on. A kill by a cpuset or memory policy says "Out of
/// memory" in its second line.
fn agreed(scopes: impl Iterator<Item = Scope>) -> Option<Scope> {
    let mut agreed = None;
    for scope in scopes {
        agreed = match (agreed, scope) {
            (None, scope) => Some(scope),
            (Some(known), scope) if known == scope => Some(known),
            (Some(Scope::Global), special @ (Scope::Cpuset | Scope::Mempolicy))
            | (Some(special @ (Scope::Cpuset | Scope::Mempolicy)), Scope::Global) => Some(special),
            _ => return None,
        };
    }
    agreed
}

fn subject(pid: Option<Pid>, comm: String) -> Subject {
    Subject {
        pid_namespace: PidNamespace::Host,
        pid,
        comm: Some(comm),
        ..Subject::default()
    }
}

fn killed(line: &LogLine, pid: Option<Pid>, comm: String, oom: KernelOom) -> Statement {
    line.states(subject(pid, comm), Claim::KernelOom(Box::new(oom)))
}
