//! Renders a memory death in five lines, for a chat, an alert or a Kubernetes Event.
//!
//! The lines are the cause, the call and line, one fix, what it costs, and how to see more. If
//! another process than the victim had grown, that process replaces the call.

use std::collections::{BTreeSet, HashMap};

use libc::SIGKILL;

use crate::{
    event::Role,
    ids::EventId,
    judge::report::{Death, Killer, Mechanism, Relation, Report},
    phrase::{self, when},
    show::{
        Style, answer, brief,
        causes::{self, Cause, Entry, has_remedy_for_same_job},
        facts, fleet, held, rank,
        sanitize::{self, columns},
        select::SelectedReport,
        size::size,
        view::View,
        words,
    },
    signals,
};

/// Longest line, in characters.
const LINE: usize = 190;
/// Longest line on a terminal or in a chat, in columns.
const COLUMNS: usize = 100;
/// Ends a cost that is cut short.
const MORE: &str = "; all costs: the report";
/// Width of a label.
const LABEL: usize = 8;

/// The rule about kills of what is tried again.
const LOOP: &str = "retry-loop";

/// What the lines may disclose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disclosure {
    /// Everything, for those who may read the recording.
    All,
    /// No command line, no path, and no name of a process that is not part of Ray, for what leaves
    /// the machine. The death is one of a [redacted](crate::show::redact::redact) report.
    Public,
}

/// Returns the most important first cause of a report: a memory kill that ended a job, else another
/// death that ended a job, else a memory kill, else the first.
pub fn most_important_cause(report: &Report) -> Option<Cause<'_>> {
    let ended = |cause: &Cause<'_>| {
        let mut jobs = report.jobs.iter().filter_map(|job| job.ended_by_death_id);
        jobs.any(|id| id == cause.death.id || cause.cascade.iter().any(|death| death.id == id))
    };
    // Whoever stops a job that is killed again and again says nothing about why.
    let stopped = |cause: &Cause<'_>| {
        let mut loops = report.findings.iter().filter(|one| one.rule == LOOP);
        loops.any(|one| one.deaths.contains(&cause.death.id)) && was_stopped(report, cause.death)
    };
    let rank = |cause: &Cause<'_>| {
        let memory = cause.death.is_memory_kill();
        (!ended(cause) && !stopped(cause), !memory, cause.number)
    };
    causes::all(report).into_iter().min_by_key(rank)
}

/// Returns whether a signal to another process ended the job of a death.
fn was_stopped(report: &Report, death: &Death) -> bool {
    let its = report.jobs.iter().find(|job| {
        job.cluster == death.cluster && Some(&job.job_id) == death.work.job_id.as_ref()
    });
    let by = its.and_then(|job| job.ended_by_death_id);
    let by = report.deaths.iter().find(|one| Some(one.id) == by);
    by.is_some_and(|by| by.verdict.killer == Killer::Signal)
}

/// Returns the five lines of a death. `more` is the last one, on how to see more.
pub fn lines(report: &Report, death: &Death, disclosure: Disclosure, more: &str) -> [String; 5] {
    let third = grew(death).filter(|_| disclosure == Disclosure::All);
    // If another process had grown, who killed is not the cause.
    let killed = if third.is_some() {
        "killed "
    } else {
        "cause  "
    };
    let (fix, cost) = fix(report, death, LINE - LABEL);
    let call = || {
        format!(
            "call    {}{}",
            call(death),
            whose(report, death, disclosure)
        )
    };
    [
        format!("{killed} {}", cause(death, disclosure)),
        third.unwrap_or_else(call),
        format!("fix     {fix}"),
        format!("cost    {cost}"),
        format!("more    {more}"),
    ]
    .map(|line| sanitize::line(&line, LINE))
}

/// Returns the five lines for a terminal. Only the last one, a command, may be longer than that.
fn short_lines(view: &View<'_>, death: &Death, more: &str) -> [String; 5] {
    let report = &view.shown.report;
    let all = lines(report, death, Disclosure::All, more);
    let lead = all[0].split(' ').next().unwrap_or_default();
    let memory = death.is_memory_kill();
    let sure = words::certainty(death).to_lowercase();
    let causes = if memory {
        short_causes(view, death).to_vec()
    } else {
        let crash = brief::crash(view, death);
        crash
            .map(|text| format!("{text} [{sure}]"))
            .into_iter()
            .collect()
    };
    let causes: Vec<String> = causes
        .iter()
        .map(|text| format!("{lead:<7} {text}"))
        .collect();
    let grew = held_lines(view, death);
    let grew: Vec<String> = grew.iter().map(|line| format!("line    {line}")).collect();
    let has_suspect = !all[1].starts_with("call");
    let (fix, cost) = fix(report, death, COLUMNS - LABEL);
    let fits = |text: &String| columns(text) <= COLUMNS;
    let first = |texts: &[String], other: &String| {
        let found = texts.iter().find(|text| fits(text));
        found.or(texts.last()).unwrap_or(other).clone()
    };
    let cut = |line: &str| sanitize::whole_words(line, COLUMNS);
    [
        cut(&first(&causes, &all[0])),
        cut(&first(
            if memory && !has_suspect {
                grew.as_slice()
            } else {
                &[]
            },
            &all[1],
        )),
        cut(&format!("fix     {fix}")),
        cut(&format!("cost    {cost}")),
        all[4].clone(),
    ]
}

/// Returns who killed a process for memory and why, the most detailed text first.
fn short_causes(view: &View<'_>, death: &Death) -> [String; 4] {
    let who = brief::headline(view, death, false);
    let ray = who.replacen("Ray's memory monitor", "Ray", 1);
    let without_pid = ray.split(", pid ").next().unwrap_or_default();
    let why = brief::why(view, death);
    let why = why.split("; ").next().unwrap_or_default();
    let short = brief::short_why(death);
    let sure = words::certainty(death).to_lowercase();
    [
        format!("{who}: {why} [{sure}]"),
        format!("{ray}: {short} [{sure}]"),
        format!("{without_pid}: {short} [{sure}]"),
        format!("{who} [{sure}]"),
    ]
}

/// Returns the line that holds most of what was held, with and without its figure.
fn held_lines(view: &View<'_>, death: &Death) -> Vec<String> {
    let line = |figure| held::largest(view, death, figure)?.line;
    [line(true), line(false)].into_iter().flatten().collect()
}

/// Renders the most important first cause in five lines, or one line if no death is abnormal. In a
/// report of several recordings, a line with the fix follows for each other job that failed.
pub fn text(shown: &SelectedReport, style: &Style) -> String {
    let report = &shown.report;
    let Some(cause) = most_important_cause(report) else {
        return "no abnormal deaths\n".to_owned();
    };
    let number = shown.number(cause.death.id).unwrap_or(cause.number);
    let command = command(shown, style);
    let again = when(command.ends_with(" -"), ", with the same input");
    let view = View::new(shown, style);
    let all = causes::all(report);
    let count = all.len();
    let entries = rank::entries(&view, all);
    let leading = answer::leading(&view, &entries);
    let others = leading.iter().filter(|id| **id != cause.death.id);
    let (also, jobs) = if fleet::is_fleet_report(report) {
        let told = others.filter_map(|id| of_another_job(&view, &entries, *id));
        (String::new(), told.collect())
    } else {
        let numbers = answer::numbers(&entries, others);
        let also = format!(" (also --kill {})", numbers.join(", "));
        (when(!numbers.is_empty(), &also).to_owned(), Vec::new())
    };
    let one = (count > 1).then(|| format!("1 of {count} first causes{also}"));
    let node = cause.death.node.as_deref();
    let node = node.map(|node| format!("on {node}"));
    let whose = phrase::known([one, node], ", ");
    let whose = whose.map_or_else(String::new, |all| format!("{all}: "));
    let more = format!("{whose}{command} --kill {number}{again}");
    let lines = short_lines(&view, cause.death, &more);
    lines
        .into_iter()
        .chain(jobs)
        .map(|line| line + "\n")
        .collect()
}

/// Returns `KILL 2 on gpu-07: fix …`, for another first cause that leads.
fn of_another_job(view: &View<'_>, entries: &[Entry<'_>], id: EventId) -> Option<String> {
    let mut causes = entries.iter().map(Entry::first);
    let cause = causes.find(|cause| cause.death.id == id)?;
    let node = cause.death.node.as_deref().map(sanitize::name);
    let on = node.map_or_else(String::new, |node| format!(" on {node}"));
    let lead = format!("{}{on}: fix ", cause.label());
    let room = COLUMNS.saturating_sub(columns(&lead));
    let (fix, _) = fix(&view.shown.report, cause.death, room);
    Some(sanitize::whole_words(&format!("{lead}{fix}"), COLUMNS))
}

/// Returns the five lines of each first cause, for each death of its cascade too.
pub fn of_each(shown: &SelectedReport, style: &Style) -> HashMap<EventId, Vec<String>> {
    let view = View::new(shown, style);
    let mut found = HashMap::new();
    for cause in shown.causes() {
        let more = format!("{} --kill {}", command(shown, style), cause.number);
        let lines = short_lines(&view, cause.death, &more).to_vec();
        found.extend(cause.cascade.iter().map(|next| (next.id, lines.clone())));
        found.insert(cause.death.id, lines);
    }
    found
}

/// Returns the command that reports the same.
fn command(shown: &SelectedReport, style: &Style) -> String {
    let texts = &shown.report.texts;
    if texts.is_empty() {
        let file = style.file.as_deref().unwrap_or("FILE");
        return format!("raytrace report {}{}", sanitize::quoted(file), style.span);
    }
    let log = match texts.as_slice() {
        [only] if only.name == "stdin" => "-".to_owned(),
        [only] => sanitize::quoted(&only.name),
        _ => "LOGS".to_owned(),
    };
    format!("raytrace explain {log}")
}

fn cause(death: &Death, disclosure: Disclosure) -> String {
    let said = match disclosure {
        Disclosure::All => words::headline(death),
        Disclosure::Public => public_headline(death),
    };
    format!("{said} [{}]", words::certainty(death).to_lowercase())
}

/// Returns what happened to a process. The only foreign text in it is names of Ray's classes and
/// tasks.
pub fn public_headline(death: &Death) -> String {
    let who = public_name(death);
    match death.verdict.killer {
        Killer::RayMemoryMonitor => {
            let at = death.memory.at_death.as_ref();
            let above = at.and_then(|at| at.ray_threshold_bytes);
            let above = above.map_or_else(String::new, |above| format!(" above {}", size(above)));
            format!("Ray's memory monitor killed {who}{above}")
        }
        Killer::KernelOomMemcg => {
            let limit = death.memory.oom.as_ref().and_then(|oom| oom.limit_bytes);
            let limit = limit.map_or_else(String::new, |limit| format!(" of {}", size(limit)));
            format!("the kernel killed {who}: a memory cgroup hit its limit{limit}")
        }
        Killer::KernelOomGlobal => {
            format!("the kernel killed {who}: the machine was out of memory")
        }
        Killer::KernelOom => format!("the kernel's OOM killer killed {who}"),
        Killer::RayIntended => format!("Ray stopped {who} on purpose, not for memory"),
        Killer::RayCollapse => format!("{who} died because another process had died"),
        Killer::KernelOther => format!("the kernel killed {who}, not for memory"),
        Killer::Signal => format!("{who} was killed by {}{}", signal(death), sender(death)),
        Killer::Crash if death.end.signal == Some(SIGKILL) => {
            format!("{who} killed itself with SIGKILL")
        }
        Killer::Crash => format!("{who} crashed with {}", signal(death)),
        Killer::Exit => match death.end.exit_code {
            Some(code) => format!("{who} exited with code {code}"),
            None => format!("{who} exited"),
        },
        Killer::Unknown => format!("{who} ended; who killed it is unknown"),
    }
}

fn signal(death: &Death) -> String {
    death
        .end
        .signal
        .map_or_else(|| "a signal".to_owned(), signals::name)
}

fn sender(death: &Death) -> &'static str {
    let Some(sender) = &death.sender else {
        return "";
    };
    match (sender.mechanism, sender.relation) {
        (Mechanism::Tty, _) => " from a terminal",
        (Mechanism::CgroupKill, _) => " by cgroup.kill",
        (_, Relation::Parent) => " from its parent",
        (_, Relation::SameJob) => " from its own job",
        (_, Relation::Ray) => " from Ray",
        (_, Relation::ContainerRuntime) => " from the container runtime",
        (_, Relation::WorkloadManager) => " from the workload manager",
        (_, Relation::OomDaemon) => " from an OOM daemon",
        (_, Relation::Other) => " from outside Ray",
    }
}

/// Returns the task or class of a worker, or the role of another process.
pub fn public_name(death: &Death) -> String {
    let code = death
        .work
        .task_name
        .as_ref()
        .or(death.work.actor_class.as_ref());
    let name = match (death.process.role, code) {
        (Role::Worker, Some(code)) => sanitize::name(code),
        (Role::Worker, None) => "a worker".to_owned(),
        (Role::Driver, _) => "a driver".to_owned(),
        (Role::Raylet, _) => "the raylet".to_owned(),
        (Role::Gcs, _) => "the GCS".to_owned(),
        (Role::Dashboard, _) => "the dashboard".to_owned(),
        (Role::Agent, _) => "an agent of Ray's".to_owned(),
        (Role::Descendant, _) => "a process of a worker or driver".to_owned(),
        (Role::Other, _) => "a process outside Ray".to_owned(),
    };
    match death.process.pid.0 {
        0 => name,
        pid => format!("{name} (pid {pid})"),
    }
}

/// Returns `; job 02000000, pod rl-0, host gpu-07`, for those who do not see the report.
fn whose(report: &Report, death: &Death, disclosure: Disclosure) -> String {
    if disclosure == Disclosure::All {
        return String::new();
    }
    let recordings = &report.recordings;
    let mut own = recordings.iter();
    let own = own.find(|one| Some(one.id) == death.recording_id);
    let host = own.or(recordings.first()).map(|one| &one.host.name);
    let kubernetes = death.process.place.kubernetes.as_ref();
    let pod = kubernetes.and_then(|one| one.pod.as_ref());
    let parts = [
        (death.work.job_id.as_ref()).map(|job| format!("job {}", job.0)),
        pod.map(|pod| format!("pod {}", sanitize::name(pod))),
        host.map(|host| format!("host {}", sanitize::name(host))),
    ];
    phrase::known(parts, ", ").map_or_else(String::new, |parts| format!("; {parts}"))
}

/// `grew    TaskRunner, pid 3120, held 402.6 GiB …; the victim held 3.3 GiB`.
fn grew(death: &Death) -> Option<String> {
    Some(format!("grew    {}", facts::suspect(death)?))
}

/// Returns the call that the process died in, and the line that ran last.
fn call(death: &Death) -> String {
    let calls = death.activity.calls.as_ref();
    let number = calls.and_then(|calls| {
        let number = calls.died_in?;
        Some(format!("call {number} of {}", sanitize::name(&calls.task)))
    });
    let line = facts::running(death).map(|line| match line.as_str() {
        facts::RAYS_OWN => format!("in {line}"),
        line => format!("at {}", sanitize::line(line, 100)),
    });
    phrase::known([number, line], " ").unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the first remedy for this death, else one for another memory kill of its job, and says
/// so; and what it costs. Both are at most `room` characters.
fn fix(report: &Report, death: &Death, room: usize) -> (String, String) {
    let findings = || report.findings.iter();
    let of_it = findings().find(|one| one.is_remedy_for(death.id));
    let own = BTreeSet::from([death.id]);
    let beside = || findings().find(|one| has_remedy_for_same_job(report, one, &own));
    let (finding, whose) = match (of_it, beside) {
        (Some(finding), _) => (Some(finding), ""),
        (None, beside) => (beside(), " (for another kill of this job)"),
    };
    let Some((finding, remedy)) = finding.and_then(|one| Some((one, one.remedy.first()?))) else {
        return ("unknown".to_owned(), "unknown".to_owned());
    };
    let left = room.saturating_sub(whose.chars().count());
    let remedy = remedy.trim_end_matches('.');
    let remedy = if remedy.chars().count() > left {
        sanitize::without_remarks(remedy)
    } else {
        remedy.to_owned()
    };
    let remedy = sanitize::whole_clauses(&remedy, left);
    let cost = finding.cost.as_deref().unwrap_or("not known");
    (
        format!("{remedy}{whose}"),
        sanitize::with_more(cost, room, MORE),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        judge::report::{Certainty, Finding},
        show::{redact::redact, sample},
    };

    #[test]
    fn verl_job_in_five_lines() {
        let report = sample::verl();
        let leading = most_important_cause(&report).expect("a first cause");
        let lines = lines(
            &report,
            leading.death,
            Disclosure::All,
            "raytrace report x --kill 1",
        );
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn kills_in_a_loop_come_before_who_stopped_the_job() {
        let mut report = sample::stopped();
        let leading = |report: &Report| {
            let cause = most_important_cause(report).expect("a first cause");
            cause.death.id
        };
        assert_eq!(leading(&report), EventId(1));
        report.findings.clear();
        assert_eq!(leading(&report), EventId(9), "a retry may have succeeded");
    }

    #[test]
    fn fix_has_its_cost() {
        let mut report = sample::verl();
        let death = most_important_cause(&report)
            .expect("a first cause")
            .death
            .clone();
        report.findings = vec![Finding {
            remedy: vec!["num_cpus=4".into()],
            cost: Some("long ".repeat(40)),
            deaths: vec![death.id],
            ..Finding::new("many-workers", Certainty::Inferred, "4 of 1 GiB each")
        }];
        let room = LINE - LABEL;
        let (found, cost) = fix(&report, &death, room);
        assert_eq!(found, "num_cpus=4");
        assert!(
            cost.ends_with(&format!("…{MORE}")) && cost.chars().count() <= room,
            "{cost}"
        );
        report.findings[0].cost = Some("slower; and it changes the training".into());
        assert_eq!(
            fix(&report, &death, room).1,
            "slower; and it changes the training"
        );
        assert_eq!(fix(&report, &death, 31).1, format!("slower{MORE}"));
        report.findings[0].cost = None;
        report.findings[0].remedy = vec![format!("a=4 b=2: set both: {}", "why ".repeat(60))];
        let told = fix(&report, &death, room);
        assert_eq!(told, ("a=4 b=2: set both".into(), "not known".into()));
    }

    #[test]
    fn public_lines_name_only_rays_processes() {
        let report = redact(&sample::others());
        for death in &report.deaths {
            let text = lines(&report, death, Disclosure::Public, "raytrace report").join("\n");
            for foreign in ["bash", "python3", "/usr", "train.py"] {
                assert!(!text.contains(foreign), "{foreign} in {text}");
            }
        }
    }

    #[test]
    fn hostile_names_fit_a_kubernetes_event() {
        let report = redact(&sample::hostile());
        for death in &report.deaths {
            let lines = lines(&report, death, Disclosure::Public, "raytrace report");
            let text = lines.join("\n");
            assert!(text.len() <= 1024, "{} bytes", text.len());
            assert_eq!(text.lines().count(), 5);
        }
    }
}
