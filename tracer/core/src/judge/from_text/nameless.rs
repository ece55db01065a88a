//! Makes deaths of claims that name nobody, if no named death accounts for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::discriminant,
};

use libc::{SIGABRT, SIGKILL, SIGTERM};

use super::{
    Made, Place,
    claim::{Claim, Daemon, RayMemory, Statement, Subject, share_host},
    claims::{after, between, is_close, is_near, is_of_stack},
    death::build,
    text_evidence::TextEvidence,
    verdict::{Verdict, by_ray, is_weak, rank, verdict},
    zone::Clock,
};
use crate::{
    ids::{MINUTE_NS, SECOND_NS},
    judge::report::{Evidence, Killer},
};

/// At most this many deaths that Ray counted and no line names are listed. Further ones become a
/// number in a note.
const MAX_COUNTED: u64 = 50;

/// Slurm tells of the end of a step at most this many lines below that of the task which caused it.
const CANCELLED_LINES: u64 = 8;
/// The name of Slurm in its rows.
const SLURM: &str = "Slurm";
/// What Nomad ends has ended at most this much later.
const ENDS_NS: i64 = 2 * MINUTE_NS;
/// Two programs tell of one end within this time.
const SAME_DEATH_NS: i64 = 10 * SECOND_NS;
/// Nomad lists what happened to a task in lines below each other. Those of another task begin below
/// a heading of four lines.
const EVENT_LINES: u64 = 4;

/// Adds the deaths that nothing else accounts for.
pub(super) fn add(gathered: &TextEvidence, clock: &Clock, made: &mut Vec<Made>) {
    let nameless = &gathered.claims.nameless;
    let joined = join_named(gathered, clock, made);
    let mut told: Vec<Statement> = Vec::new();
    for one in nameless {
        if joined.contains(&one.place) || !needed(one, clock, made, nameless) {
            continue;
        }
        let mut other = one.clone();
        match told.iter_mut().find(|known| alike(known, one)) {
            Some(known) => {
                if tells_more(one, known) {
                    std::mem::swap(known, &mut other);
                }
                complete(known, other);
            }
            None => told.push(other),
        }
    }
    for one in &told {
        let frames = nameless.iter().filter(|frame| is_of_stack(one, frame));
        let claims: Vec<&Statement> = std::iter::once(one).chain(frames).collect();
        let judged = verdict(&claims);
        made.push(death(gathered, clock, one, judged));
    }
    counted(gathered, clock, made);
}

/// Adds what another line of other programs than Ray says of the same death: its time, whose it was.
fn complete(known: &mut Statement, other: Statement) {
    if known.stamp.is_empty() {
        known.stamp = other.stamp;
    }
    let (one, more) = (&mut known.subject, other.subject);
    // srun names the task of the step in which slurmstepd counts a kill.
    let both = [&one.of, &more.of].map(|of| of.as_deref().unwrap_or_default());
    let step = both.iter().find_map(|of| of.strip_prefix("Slurm step "));
    let task = both.iter().find(|of| of.starts_with("Slurm task "));
    let task = task.filter(|task| !task.contains("step "));
    if let Some((task, step)) = task.zip(step) {
        one.of = Some(format!("{task}, step {step}"));
    }
    if one.foreign && more.foreign && one.of.is_none() && one.task.is_none() {
        one.comm = one.comm.take().or(more.comm);
        one.task = more.task;
        one.of = more.of;
    }
}

/// Joins claims that name no process with the deaths that lines close by name. Returns where these
/// claims stand.
fn join_named(gathered: &TextEvidence, clock: &Clock, made: &mut [Made]) -> BTreeSet<Place> {
    let nameless = &gathered.claims.nameless;
    let mut joined = BTreeSet::new();
    let mut explained = BTreeSet::new();
    for one in nameless {
        let victims = victims(one, nameless, made);
        for at in &victims {
            let named = death(gathered, clock, one, verdict(&[one])).death;
            let known = &mut made[*at].death;
            let evidence = std::mem::take(&mut known.verdict.evidence).into_iter();
            let evidence = evidence.chain(named.verdict.evidence.clone()).collect();
            if explained.insert(*at) {
                known.verdict = named.verdict;
                known.end.signal = known.end.signal.or(named.end.signal);
                known.memory.oom = known.memory.oom.take().or(named.memory.oom);
                known.sender = known.sender.take().or(named.sender);
            }
            known.verdict.evidence = evidence;
            made[*at].closed |= is_after_task(one, nameless);
        }
        if !victims.is_empty() {
            let same = nameless.iter().filter(|other| is_end_of_unit(other, one));
            joined.extend(same.map(|other| other.place));
            joined.insert(one.place);
        }
    }
    joined
}

/// Whether this is the end, with a core, of the main process of a unit whose watchdog ran out.
fn is_end_of_unit(other: &Statement, watchdog: &Statement) -> bool {
    let crashed = matches!(&other.claim, Claim::Crash { signal, .. } if *signal == Some(SIGABRT));
    let same = other.subject.of.is_some() && other.subject.of == watchdog.subject.of;
    crashed && same && is_near(other.place, watchdog.place, EVENT_LINES)
}

/// Returns the deaths that a claim without a name is about.
fn victims(one: &Statement, nameless: &[Statement], made: &[Made]) -> Vec<usize> {
    let near =
        |made: &Made| is_near(made.place, one.place, CANCELLED_LINES) && may_be_there(one, made);
    let all = |fits: &dyn Fn(&Made) -> bool| -> Vec<usize> {
        let fitting = made.iter().enumerate().filter(|(_, made)| fits(made));
        fitting.map(|(at, _)| at).collect()
    };
    let only = |fits: &dyn Fn(&Made) -> bool| {
        let found = all(fits);
        if found.len() == 1 { found } else { Vec::new() }
    };
    match &one.claim {
        // A shell saw which process was killed. Slurm counts at the end of a step.
        Claim::KernelOom(_) if is_of(one, "Slurm step ") => only(&|made| {
            let verdict = &made.death.verdict;
            let killed = made.death.end.signal == Some(SIGKILL);
            near(made) && made.place < one.place && verdict.killer == Killer::Unknown && killed
        }),
        // A core was dumped of the main process of the unit.
        Claim::Daemon(daemon) if daemon.signal == Some(SIGABRT) => {
            let main = nameless.iter().any(|other| is_end_of_unit(other, one));
            let dumped = |made: &Made| {
                let abort = made.death.end.signal.is_none_or(|signal| signal == SIGABRT);
                near(made) && abort && made.death.verdict.killer == Killer::Crash
            };
            if main { only(&dumped) } else { Vec::new() }
        }
        // Slurm asks the processes of a step to end, and says so first.
        Claim::Daemon(daemon) if daemon.name == SLURM => all(&|made| {
            let asked = made.death.end.signal == Some(SIGTERM);
            let unknown = made.death.verdict.killer == Killer::Unknown;
            let below = one.place < made.place && near(made);
            below && asked && unknown && made.of.is_none()
        }),
        // systemd-oomd names its victims above the cgroup, and systemd those of a unit.
        Claim::Daemon(daemon) if daemon.unit.is_some() => all(&|made| {
            let sender = made.death.sender.as_ref();
            let here = made.of.is_none() || made.of == one.subject.of;
            near(made) && here && sender.is_some_and(|sender| sender.comm == daemon.name)
        }),
        _ => Vec::new(),
    }
}

/// Whether the first of two claims about one death says more. What was killed for memory says why.
/// A job stands for its steps.
fn tells_more(one: &Statement, known: &Statement) -> bool {
    let says = |one: &Statement| {
        let for_memory = matches!(&one.claim, Claim::Daemon(daemon) if daemon.for_memory);
        let is_job = is_of(one, "Slurm job ");
        (rank(&one.claim), !for_memory, !is_job)
    };
    says(one) < says(known)
}

/// Whether a statement is about a thing of this kind, such as `Slurm job `.
fn is_of(one: &Statement, kind: &str) -> bool {
    let of = one.subject.of.as_deref();
    of.is_some_and(|of| of.starts_with(kind))
}

/// Whether something ended because the program that runs it had acted: a task of Slurm after its
/// job was cancelled, one of Nomad after it was told to stop. Some programs list the newest first.
fn is_after_act(one: &Statement, nameless: &[Statement]) -> bool {
    nameless.iter().any(|other| {
        let Claim::Daemon(daemon) = &other.claim else {
            return false;
        };
        let before = match after(other, one) {
            Some(later) if daemon.name == SLURM => later >= 0,
            Some(later) => {
                (0..=ENDS_NS).contains(&later) && is_near(one.place, other.place, EVENT_LINES)
            }
            None => other.place < one.place,
        };
        before
            && other.place.text == one.place.text
            && is_of(one, &format!("{} ", daemon.name))
            && !is_after_task(other, nameless)
    })
}

/// Whether Slurm ended a step because one of its tasks had ended by itself, or for memory. srun does
/// so with `--kill-on-bad-exit`, and nobody cancelled that step.
fn is_after_task(one: &Statement, nameless: &[Statement]) -> bool {
    let of_part = matches!(&one.claim, Claim::Daemon(daemon) if daemon.after_part);
    let task = |other: &Statement| {
        let ended = matches!(
            &other.claim,
            Claim::Exit { .. } | Claim::Crash { .. } | Claim::Signalled(_) | Claim::KernelOom(_)
        );
        let above = other.place < one.place && is_close(other.place, one.place, CANCELLED_LINES);
        above && ended && (is_of(other, "Slurm task ") || one.subject.of == other.subject.of)
    };
    of_part && nameless.iter().any(task)
}

/// Whether Slurm ended a task with its step, because another task of the step had ended before. A
/// program may catch the signal and abort.
fn is_ended_with_step(one: &Statement, nameless: &[Statement]) -> bool {
    let aborted = matches!(&one.claim, Claim::Crash { signal, .. } if *signal == Some(SIGABRT));
    let ended = aborted || matches!(one.claim, Claim::Signalled(_));
    let ended = ended && is_of(one, "Slurm task ");
    let cancels = |other: &Statement| {
        let soon = between(other, one).is_none_or(|apart| apart <= MINUTE_NS);
        let above = other.place < one.place && is_close(other.place, one.place, CANCELLED_LINES);
        soon && above && is_after_task(other, nameless)
    };
    ended && nameless.iter().any(cancels)
}

/// Whether two claims without a name may speak of the same death. Claims of one kind may, unless
/// daemons name different victims. Ray prints that a worker died and that its connection broke one
/// after the other.
fn alike(one: &Statement, other: &Statement) -> bool {
    if are_apart(one, other) {
        return false;
    }
    match (&one.claim, &other.claim) {
        // systemd reports what its daemon did. It may do so again, later.
        (Claim::Daemon(daemon), Claim::Daemon(again)) if daemon.unit.is_some() => {
            let apart = between(one, other).unwrap_or(0);
            let same = daemon.name == again.name && daemon.unit == again.unit;
            same && apart <= MINUTE_NS
        }
        (Claim::Daemon(daemon), Claim::Daemon(again)) => {
            // A job is ended with its steps.
            let jobs = job(one).zip(job(other));
            daemon == again
                || is_node_failure((one, daemon), (other, again))
                || jobs.is_some_and(|(one, other)| one == other)
                || is_told_in_job((one, daemon), (other, again))
                || is_one_act((one, daemon), (other, again))
        }
        (Claim::Died | Claim::Lost, other) | (other, Claim::Died | Claim::Lost) => is_weak(other),
        // A kernel log without the line on the kill names the process that was chosen.
        (Claim::KernelOom(_), Claim::KernelOom(_)) => {
            let names = one.subject.comm.as_ref().zip(other.subject.comm.as_ref());
            names.is_none_or(|(one, other)| one == other)
        }
        (one, other) => discriminant(one) == discriminant(other),
    }
}

/// Whether a program says twice in short time that it ended one thing.
fn is_one_act((one, daemon): (&Statement, &Daemon), (other, again): (&Statement, &Daemon)) -> bool {
    let same = one.subject.of.is_some() && one.subject.of == other.subject.of;
    let signals = daemon.signal.zip(again.signal);
    let agree = signals.is_none_or(|(one, other)| one == other);
    same && is_soon(one, other) && agree && daemon.name == again.name
}

/// Whether Slurm says that it ended a job, and a program in the job that Slurm ends it.
fn is_told_in_job(
    (one, daemon): (&Statement, &Daemon),
    (other, again): (&Statement, &Daemon),
) -> bool {
    let by_slurm = daemon.name == SLURM && again.name == SLURM;
    by_slurm && is_soon(one, other) && job(one).is_some() != job(other).is_some()
}

/// Whether two lines were written within a minute, or stand close together in a text without times.
fn is_soon(one: &Statement, other: &Statement) -> bool {
    let near = || is_near(one.place, other.place, CANCELLED_LINES);
    between(one, other).map_or_else(near, |apart| apart <= MINUTE_NS)
}

/// Whether srun tells that a node failed, and Slurm that it ended a job for a failed node.
fn is_node_failure(
    (one, daemon): (&Statement, &Daemon),
    (other, again): (&Statement, &Daemon),
) -> bool {
    let failed = |daemon: &Daemon| {
        daemon.name == SLURM && daemon.why.contains("failed") && daemon.why.contains("node ")
    };
    failed(daemon) && failed(again) && job(one).is_some() != job(other).is_some()
}

/// Whether the text says that they are of two units, pods or jobs. A job of Slurm has steps.
fn are_apart(one: &Statement, other: &Statement) -> bool {
    let of = |one: &'_ Statement| one.subject.of.clone().unwrap_or_default();
    let apart = |kind: &str| {
        let (one, other) = (of(one), of(other));
        let names = one.strip_prefix(kind).zip(other.strip_prefix(kind));
        names.is_some_and(|(one, other)| one != other)
    };
    if !one.subject.may_share_host(&other.subject) {
        return true;
    }
    let jobs = job(one).zip(job(other));
    let tasks = one.subject.task.as_ref().zip(other.subject.task.as_ref());
    if tasks.is_some_and(|(one, other)| one != other) || is_said_again(one, other) {
        return true;
    }
    let kinds = [
        "unit ",
        "pod ",
        "container ",
        "Spark executor ",
        "Slurm task ",
        "PBS job ",
        "HTCondor job ",
        "Grid Engine job ",
        "node ",
    ];
    kinds.into_iter().any(apart) || jobs.is_some_and(|(one, other)| one != other)
}

/// Whether a program other than Ray says the same of another end, minutes later.
fn is_said_again(one: &Statement, other: &Statement) -> bool {
    let foreign = one.subject.foreign || matches!(one.claim, Claim::Daemon(_));
    let same = foreign && one.quote == other.quote;
    same && between(one, other).is_some_and(|apart| apart > MINUTE_NS)
}

/// Returns the job of a statement about a job or step of Slurm.
fn job(one: &Statement) -> Option<&str> {
    let of = one.subject.of.as_deref()?;
    let name = of.strip_prefix("Slurm job ");
    let name = name.or_else(|| of.strip_prefix("Slurm step "))?;
    name.split(['.', '+']).next()
}

/// Whether a program other than Ray names what it started, whose end was not at the time of this
/// death.
fn is_other_task(one: &Statement, clock: &Clock, made: &Made) -> bool {
    let time = clock.time(one.place, one.stamp).or(one.stamp.local);
    let apart = time
        .zip(made.time)
        .map(|(one, made)| one.saturating_sub(made).saturating_abs());
    let is_named = one.subject.foreign && one.subject.task.is_some();
    is_named && apart.is_some_and(|apart| apart > SAME_DEATH_NS)
}

/// Whether systemd counts the kills of two units at once, of which the first is inside the other.
fn is_inner(inner: &Statement, outer: &Statement) -> bool {
    let unit = |one: &Statement| {
        one.subject
            .of
            .as_deref()?
            .strip_prefix("unit ")
            .map(str::to_owned)
    };
    let Some((inside, slice)) = unit(inner).zip(unit(outer)) else {
        return false;
    };
    let at_once = between(inner, outer).is_some_and(|apart| apart <= SECOND_NS)
        && inner.subject.may_share_host(&outer.subject)
        && matches!(inner.claim, Claim::KernelOom(_));
    at_once && std::iter::successors(parent(&inside), |unit| parent(unit)).any(|unit| unit == slice)
}

/// Returns the slice that a unit of systemd is in, unless it was configured otherwise.
fn parent(unit: &str) -> Option<String> {
    if let Some(slice) = unit.strip_suffix(".slice") {
        let (above, _) = slice.rsplit_once('-')?;
        return Some(format!("{above}.slice"));
    }
    let (name, kind) = unit.rsplit_once('.')?;
    match (name.split_once('@'), kind) {
        (Some(("user", uid)), "service") => Some(format!("user-{uid}.slice")),
        (Some((template, _)), "service") => Some(format!("system-{template}.slice")),
        (None, "scope") if name.starts_with("session-") => Some("user.slice".into()),
        (None, "service") => Some("system.slice".into()),
        _ => None,
    }
}

/// Whether a death may be on the host that a line names.
fn may_be_there(one: &Statement, made: &Made) -> bool {
    share_host(one.subject.host.as_deref(), made.host.as_deref())
}

/// Whether no named death accounts for a claim.
fn needed(one: &Statement, clock: &Clock, made: &[Made], nameless: &[Statement]) -> bool {
    let there = || made.iter().filter(|made| may_be_there(one, made));
    let killed_by = |killer: Killer| there().any(|made| made.death.verdict.killer == killer);
    match &one.claim {
        Claim::RayMemory(_) => !killed_by(Killer::RayMemoryMonitor),
        Claim::KernelOom(oom) => {
            // systemd gives a unit this result also if its own daemon killed it.
            let of_unit = is_of(one, "unit ") && oom.reporter.is_some();
            let by_daemon = |other: &Statement| matches!(&other.claim, Claim::Daemon(daemon) if daemon.unit.is_some() && daemon.for_memory);
            let of_inner = |other: &Statement| is_inner(other, one);
            there().all(|made| made.death.memory.oom.is_none())
                && !(of_unit && nameless.iter().any(by_daemon))
                && !(of_unit && nameless.iter().any(of_inner))
        }
        Claim::Daemon(_) => !is_after_task(one, nameless),
        Claim::Intended(_) => !killed_by(Killer::RayIntended),
        Claim::Exit { .. } => !killed_by(Killer::Exit) && !is_after_act(one, nameless),
        Claim::Crash { .. } => !killed_by(Killer::Crash) && !is_ended_with_step(one, nameless),
        Claim::Collapse { .. } => !killed_by(Killer::RayCollapse),
        claim if claim.is_no_end() => false,
        // "It died" only repeats a death that the text names better.
        _ => {
            let mut others = nameless.iter();
            let accounts = |other: &Statement| {
                !is_weak(&other.claim) && !are_apart(one, other) && !is_after_task(other, nameless)
            };
            let is_other = |made: &Made| is_other_task(one, clock, made);
            there().all(is_other) && !others.any(accounts) && !is_ended_with_step(one, nameless)
        }
    }
}

fn death(gathered: &TextEvidence, clock: &Clock, one: &Statement, judged: Verdict) -> Made {
    let mut made = build(clock, &one.subject, Some(one), judged);
    made.texts = super::nodes::own_texts(gathered, &[one]);
    made.death.verdict.evidence = vec![Evidence {
        time: made.death.when.time,
        source: super::source(gathered, one.place),
        what: one.quote.clone(),
        by_sender: false,
    }];
    made
}

/// Adds the kills in Ray's own count that no line names.
fn counted(gathered: &TextEvidence, clock: &Clock, made: &mut Vec<Made>) {
    let unnamed = made.iter().filter(|made| {
        made.death.process.pid.0 == 0
            && made.death.work.worker_id.is_none()
            && made.death.verdict.killer == Killer::RayMemoryMonitor
    });
    let unnamed = unnamed.count();
    let summaries = &gathered.remarks.summaries;
    let counted: u64 = summaries.values().map(|one| one.memory).sum();
    let missing = missing(gathered).into_iter();
    let nodes = missing.flat_map(|(node, count)| (0..count.min(MAX_COUNTED)).map(move |_| node));
    let left = nodes.skip(unnamed);
    for node in left.take(usize::try_from(MAX_COUNTED).unwrap_or(usize::MAX)) {
        let of_node = summaries.iter().find(|((id, _), _)| id == node);
        let subject = Subject {
            ip: of_node.and_then(|(_, one)| one.ip.clone()),
            ..Subject::default()
        };
        let judged = by_ray(RayMemory::default());
        let mut one = build(clock, &subject, None, judged);
        one.place = last_place(gathered);
        one.death.verdict.evidence = vec![Evidence {
            time: None,
            source: "Ray's own count".into(),
            what: format!(
                "{counted} {} killed due to memory pressure; no line of these logs names this one",
                if counted == 1 { "worker" } else { "workers" }
            ),
            by_sender: false,
        }];
        made.push(one);
    }
}

/// Returns how many kills for memory Ray counted on each node, less those that are named there.
pub(super) fn missing(gathered: &TextEvidence) -> BTreeMap<&str, u64> {
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for ((node, _), one) in &gathered.remarks.summaries {
        *counted.entry(node.as_str()).or_default() += one.memory;
    }
    let named = |node: &str| {
        let by_ray = gathered.claims.deaths().filter(|process| {
            let mut claims = process.statements.iter();
            let here = process
                .subject
                .node_id
                .as_ref()
                .is_none_or(|id| id.0 == node || node.is_empty());
            here && claims.any(|one| matches!(one.claim, Claim::RayMemory(_)))
        });
        by_ray.count() as u64
    };
    for (node, count) in &mut counted {
        *count = count.saturating_sub(named(node));
    }
    counted
}

fn last_place(gathered: &TextEvidence) -> super::Place {
    super::Place {
        text: gathered.texts.len().saturating_sub(1),
        line: u64::MAX,
    }
}
