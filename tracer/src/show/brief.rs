//! Tells the most important first cause in a few lines: why, what was held, the line, and the fix.

use std::borrow::Cow;

use crate::{
    ids::Bytes,
    judge::{
        cause::{Cause, Scope},
        report::{Certainty, Death, Finding, Killer},
    },
    show::{
        alike, cascade,
        causes::{self, Entry},
        facts::{self, Fact},
        findings::{self, FindingText},
        held, sanitize,
        size::{of, size},
        time::span,
        view::View,
        words,
    },
};

/// Longest text of a row, in characters: two lines of a report at 100 columns.
const ROW: usize = 172;
/// Longest text of another way, whose cost is as important as what it saves: three lines.
const OTHER_WAY: usize = 258;
/// Ends a cost that is cut short.
const MORE_BELOW: &str = "; all costs: WHAT TO CHANGE";
/// Follows what Ray's log says that processes held.
const RAYS_FIGURE: &str = " by Ray's log, which leaves out what a process shares with its forks";
/// A call that added less than this is not told.
const ADDED: u64 = 10 << 20;

/// Returns `the kernel killed WorkerDict.update_actor, pid 16336`, for one kill for memory by the
/// kernel or by Ray. Its size and its limit have lines of their own, and so has a possible cause of a
/// crash if another line says why.
pub fn headline(view: &View<'_>, death: &Death, says_why: bool) -> String {
    let mut death = Cow::Borrowed(death);
    if says_why
        && let Cause::Crash {
            shared_memory: true,
            ..
        } = death.verdict.cause
    {
        let crash = death.to_mut();
        if let Cause::Crash { shared_memory, .. } = &mut crash.verdict.cause {
            *shared_memory = false;
        }
    }
    let death = &*death;
    if !death.verdict.killer.is_memory_kill() {
        return words::headline(death);
    }
    let who = match death.verdict.killer {
        Killer::RayMemoryMonitor => "Ray's memory monitor",
        _ => "the kernel",
    };
    let pid = match death.process.pid.0 {
        0 => String::new(),
        pid => format!(", pid {pid}"),
    };
    let act = death.verdict.act.filter(|act| act.death_id == death.id);
    let others = act.map_or(0, |act| act.victims.saturating_sub(1));
    let is_other = |one: &&Death| {
        one.id != death.id && one.verdict.act.is_some_and(|act| act.death_id == death.id)
    };
    let named: Vec<&Death> = view.shown.report.deaths.iter().filter(is_other).collect();
    let more = match others {
        0 => String::new(),
        more if named
            .iter()
            .all(|one| words::class(one) == words::class(death)) =>
        {
            format!(", and {more} more")
        }
        more => format!(", and {more} more ({})", cascade::classes(&named)),
    };
    format!("{who} killed {}{pid}{more}", words::name(death))
}

/// Returns the facts of the first screen: who and why, what was held, which line, what to change,
/// what that costs, and another way.
pub fn facts(view: &View<'_>, entry: &Entry<'_>) -> Vec<Fact> {
    let death = entry.first().death;
    if !death.is_memory_kill() {
        return other_death(view, entry);
    }
    let mut told: Vec<Fact> = match entry.causes.as_slice() {
        [_] => vec![("why", why(view, death))],
        causes => alike::facts(view, causes),
    };
    told.extend(facts::suspect(death).map(|text| ("bigger", text)));
    let single = entry.causes.len() == 1;
    let added = added(view, death, !held::is_victim(death));
    // The figure of a line and that of a call differ in what they count.
    let held = held::largest(view, death, added.is_none()).filter(|_| single);
    let mut findings = view.shown.report.findings.iter();
    let shared = findings.find_map(|one| {
        let shared = one.about.shared.as_deref()?;
        one.deaths.contains(&death.id).then_some(shared)
    });
    if let Some(shared) = shared.filter(|_| single) {
        told.push(("held", sanitize::line(shared, ROW)));
    } else if let Some(held) = held {
        let added = match added {
            None if is_rays_figure(view, death) => RAYS_FIGURE.to_owned(),
            added => added.unwrap_or_default(),
        };
        told.push(("held", format!("{}{added}", held.amount)));
        told.extend(held.line.map(|line| ("line", line)));
    }
    told.extend(remedy(view, death));
    told.retain(|(_, text)| !text.is_empty());
    told
}

/// Returns whether what processes held is known from Ray's log alone.
fn is_rays_figure(view: &View<'_>, death: &Death) -> bool {
    let by_ray = death.verdict.killer == Killer::RayMemoryMonitor;
    by_ray && view.shown.report.recordings.is_empty()
}

/// Returns the facts of a death that was no memory kill.
fn other_death(view: &View<'_>, entry: &Entry<'_>) -> Vec<Fact> {
    let death = entry.first().death;
    let mut told = match entry.causes.as_slice() {
        [_] => facts::shared(view, death),
        causes => alike::facts(view, causes),
    };
    let all = findings::all(view);
    let found = all.iter().find(|one| one.finding.is_remedy_for(death.id));
    let why = found.and_then(|one| crash_reason(one, death).map(|why| ("why", why)));
    let line = || facts::running(death).filter(|_| facts::runs_own_code(death));
    told.extend(why.or_else(|| line().map(|line| ("line", line))));
    let held = found.and_then(|one| one.finding.about.shared.as_deref());
    told.extend(held.map(|held| ("held", sanitize::line(held, ROW))));
    if found.is_some() {
        told.extend(remedy(view, death));
    }
    told
}

/// Returns what was found about a crash. Its headline names only the signal.
fn crash_reason(found: &FindingText<'_>, death: &Death) -> Option<String> {
    let is_crash = death.verdict.killer == Killer::Crash;
    let summary = sanitize::line(&found.finding.summary, sanitize::ADVICE);
    is_crash.then(|| format!("{summary}{}", inferred(found)))
}

/// Returns who ended a process that was not killed for memory, with what was found about its crash.
pub fn crash(view: &View<'_>, death: &Death) -> Option<String> {
    let all = findings::all(view);
    let found = all.iter().find(|one| one.finding.is_remedy_for(death.id))?;
    let why = crash_reason(found, death)?;
    let pid = death.process.pid;
    Some(format!("{} (pid {pid}): {why}", words::name(death)))
}

/// Returns why a process was killed for memory, with the figures.
pub fn why(view: &View<'_>, death: &Death) -> String {
    // An OOM daemon has its reason in the headline.
    if !death.verdict.killer.is_memory_kill() {
        return facts::why(view, death).unwrap_or_default();
    }
    let oom = death.memory.oom.as_ref();
    let full = match (
        death.verdict.killer,
        oom.and_then(|oom| oom.cgroup.as_deref()),
    ) {
        (Killer::RayMemoryMonitor, _) => return facts::why(view, death).unwrap_or_default(),
        (Killer::KernelOomMemcg, Some(path)) => {
            format!(
                "{} was full",
                words::cgroup_name([&death.process.place].into_iter(), path)
            )
        }
        (Killer::KernelOomMemcg, None) => "a cgroup was full; which one is not known".to_owned(),
        _ if oom.and_then(|oom| oom.constraint) == Some(Scope::Sysrq) => {
            "somebody asked the kernel for an OOM kill (sysrq f)".to_owned()
        }
        (Killer::KernelOomGlobal, _) => "the machine was out of memory".to_owned(),
        _ => "whether a cgroup or the machine was full is not known".to_owned(),
    };
    let figures = oom.and_then(|oom| match (oom.usage_bytes, oom.limit_bytes) {
        (Some(usage), Some(limit)) => Some(format!(", {}", of(usage, limit))),
        (None, Some(limit)) if death.verdict.killer == Killer::KernelOom => {
            Some(format!("; a limit of {} is named", size(limit)))
        }
        (None, Some(limit)) => Some(format!(" at {}", size(limit))),
        _ => None,
    });
    let monitor = facts::late_monitor(view, death);
    let monitor = monitor.map_or_else(String::new, |text| format!("; {text}"));
    let source = facts::source_of_reason(death);
    format!("{full}{}{monitor}{source}", figures.unwrap_or_default())
}

/// Returns why a process was killed for memory, in some words.
pub fn short_why(death: &Death) -> String {
    let at = death.memory.at_death.as_ref();
    let threshold = at.and_then(|at| at.ray_threshold_bytes);
    let limit = death.memory.oom.as_ref().and_then(|oom| oom.limit_bytes);
    match (death.verdict.killer, threshold, limit) {
        (Killer::RayMemoryMonitor, Some(threshold), _) => {
            format!("above {}", threshold.finer_size())
        }
        (Killer::KernelOomMemcg, _, Some(limit)) => format!("cgroup full at {}", size(limit)),
        (Killer::KernelOomMemcg, ..) => "a cgroup was full".to_owned(),
        (Killer::KernelOomGlobal, ..) => "machine full".to_owned(),
        _ => "for memory".to_owned(),
    }
}

/// Returns what the running calls had added: `; their first calls, still running, had added
/// 3.1 GiB in 14 s`. A finding about them has the figure of all processes. Of a leak, returns what
/// each call keeps: `; each of 8 processes kept 30 MiB a call, over 7 calls`.
/// `of_several` says that not the victim alone held most.
fn added(view: &View<'_>, death: &Death, of_several: bool) -> Option<String> {
    let calls = death.activity.calls.as_ref()?;
    let about = |rule: &str| {
        let mut findings = view.shown.report.findings.iter();
        findings.find(|one| {
            let same = one.about.task.as_deref() == Some(&calls.task);
            one.rule == rule && same && one.deaths.contains(&death.id)
        })
    };
    if let Some((each, leak)) = calls.per_call_bytes.zip(about("leak")) {
        let who = match leak.about.pids.len() {
            0 | 1 if of_several => format!("pid {}", death.process.pid),
            0 | 1 => "it".to_owned(),
            many => format!("each of {many} processes"),
        };
        let (each, number) = (each.finer_size(), words::thousands(calls.complete.into()));
        return Some(format!("; {who} kept {each} a call, over {number} calls"));
    }
    let number = calls.died_in?;
    let of_calls = about("call-grew");
    let alone = || {
        let end = death.memory.own.private()?;
        Some(Bytes(end.0.saturating_sub(calls.before_bytes?.0)))
    };
    let (bytes, several) = match of_calls {
        Some(finding) => (finding.about.bytes, finding.about.pids.len() > 1),
        None => (alone()?, false),
    };
    if bytes.0 < ADDED {
        return None;
    }
    let ran = calls
        .running_ms
        .map(|ms| span(ms.saturating_mul(1_000_000)));
    let ran = ran.map_or_else(String::new, |ran| format!(" in {ran}"));
    let which = match (number, several) {
        (number, false) if of_several => format!("call {number} of pid {}", death.process.pid),
        (1, true) if calls.from_start => "their first calls, still running,".to_owned(),
        (1, false) if calls.from_start => "its first call, still running,".to_owned(),
        (_, true) => "their calls, still running,".to_owned(),
        (number, false) => format!("call {number}, still running,"),
    };
    Some(format!("; {which} had added {}{ran}", size(bytes)))
}

/// Returns what to change for a death, what that costs, and another way.
fn remedy(view: &View<'_>, death: &Death) -> Vec<Fact> {
    let report = &view.shown.report;
    let all = findings::all(view);
    let mut own = all.iter().filter(|one| one.finding.is_remedy_for(death.id));
    let of_job = |one: &&FindingText<'_>| {
        let ids = [death.id].into();
        causes::has_remedy_for_same_job(report, one.finding, &ids)
    };
    let first = own.next().or_else(|| all.iter().find(of_job));
    let Some(first) = first else {
        if !death.is_memory_kill() {
            return Vec::new();
        }
        let mut found = report.findings.iter();
        let explains = |one: &Finding| one.rule != "nothing-fits" && one.deaths.contains(&death.id);
        let text = match death.memory.small_victim() {
            _ if found.any(explains) => {
                "none is known for what was found, which stands below".to_owned()
            }
            // `explain` reads parts of logs.
            Some((own, used)) if !report.texts.is_empty() => format!(
                "unknown: what filled the memory is not in these logs. The victim held only {} of {}; raylet.out of its node lists the largest processes",
                size(own),
                size(used)
            ),
            _ => "unknown: no rule explains what filled the memory".to_owned(),
        };
        return vec![("fix", text)];
    };
    let whose = if first.finding.is_remedy_for(death.id) {
        ""
    } else {
        " (for another kill of this job)"
    };
    let mut told = vec![("fix", fix(first, whose))];
    // A cost that is cut short says nothing.
    let cost = first.part("Cost").map(str::to_owned);
    told.extend(cost.map(|cost| ("cost", cost)));
    // It is never without its cost.
    let next = own.next().filter(|next| differs(first, next)).map(in_short);
    let or = first.part("Or").map(|text| cut(text, ROW).to_owned());
    // Beside a higher limit, the way that changes the job says more than another limit.
    let other = if first.finding.about.has_room {
        next.or(or)
    } else {
        or.or(next)
    };
    told.extend(other.map(|text| ("or", text)));
    told
}

/// Returns whether another finding advises something else, not the same setting once more.
fn differs(first: &FindingText<'_>, next: &FindingText<'_>) -> bool {
    let change = |one: &FindingText<'_>| {
        let fix = one.part("Fix").unwrap_or_default();
        fix.split(' ').next().unwrap_or_default().to_owned()
    };
    !change(first).contains('=') || change(first) != change(next)
}

/// Returns what to change, what that saves, and how sure it is.
fn fix(found: &FindingText<'_>, whose: &str) -> String {
    let inferred = inferred(found);
    let fix = found.part("Fix").unwrap_or_default();
    let end = format!("{}{inferred}{whose}", found.saves());
    let fix = cut(fix, ROW.saturating_sub(end.chars().count()));
    format!("{fix}{end}")
}

fn inferred(found: &FindingText<'_>) -> &'static str {
    match found.finding.certainty {
        Certainty::Proven => "",
        Certainty::Inferred | Certainty::Unknown => " (inferred)",
    }
}

/// Returns the remedy of another finding, with what it saves and costs.
fn in_short(found: &FindingText<'_>) -> String {
    let fix = found.part("Fix").unwrap_or_default();
    let fix = cut(fix, ROW);
    let (saves, inferred) = (found.saves(), inferred(found));
    let told = format!("{fix}{saves}{inferred}");
    let room = OTHER_WAY.saturating_sub(told.chars().count() + "; costs: ".len());
    let cost = found.part("Cost").map(|cost| {
        // The first clause of a cost is always whole.
        let first = cost.split("; ").next().unwrap_or(cost).chars().count();
        sanitize::with_more(cost, room.max(first + MORE_BELOW.len() + 2), MORE_BELOW)
    });
    let cost = cost.map_or_else(String::new, |text| format!("; costs: {text}"));
    format!("{told}{cost}")
}

/// Returns the first clauses of a text that fit.
fn cut(text: &str, room: usize) -> &str {
    sanitize::whole_clauses(text, room)
}
