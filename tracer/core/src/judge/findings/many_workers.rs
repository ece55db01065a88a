//! Finds many workers of one class and size that together fill the limit.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Run, about,
    facts::Member,
    framework::MORE_ON_GPU,
    gpus,
    part_of::part_of,
    ranks,
    ray_remote::{ENV_RUNNERS, in_python, is_user_code, options_of, rounded_up},
    remedy, resources,
};
use crate::{
    event::Role,
    ids::{Bytes, EventId, SECOND_NS, size},
    judge::report::{Certainty, Death, Finding, Saving},
    ray::{
        framework::{Framework, RemedyGoal},
        start::Change,
    },
};

/// Fewer workers than this are not too many.
const MIN_WORKERS: u32 = 3;
/// The workers together hold more than this share of the limit.
const SHARE: f64 = 0.5;
/// From the smallest to the largest, sizes differ by at most this share of the largest. Workers of
/// other sizes have just begun, or do something else.
const SPREAD: f64 = 0.2;
/// The share of the limit that the workers and everything else should fill.
const FILL: f64 = 0.8;

/// The memory of a killed process may be counted for so long.
const FREED_NS: i64 = 2 * SECOND_NS;

/// What it costs to start fewer ranks of a framework, where their number is not known.
const FEWER_RANKS: &str =
    "less parallelism; ranks that share a model take over the parts of those that are gone";

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let found = by_class(run).into_iter().map(|(class, mut finding)| {
        let known: BTreeSet<EventId> = finding.deaths.iter().copied().collect();
        let others = run.memory_kills().filter(|death| fills(run, death, class));
        let others = others.map(|death| death.id);
        finding
            .deaths
            .extend(others.filter(|id| !known.contains(id)));
        finding
    });
    found.collect()
}

/// Returns a finding for each class whose workers filled the limit at a kill. It has the text of
/// the first such kill.
fn by_class(run: Run<'_>) -> Vec<(&str, Finding)> {
    let mut found: Vec<(&str, Finding)> = Vec::new();
    let mut none_fit: BTreeSet<&str> = BTreeSet::new();
    for death in run.memory_kills() {
        let Some((limit, class)) = run.limit(death).zip(biggest(run.inside(death))) else {
            continue;
        };
        let name = class.name;
        let fills = class.sum.gib() > SHARE * limit.gib();
        if class.processes < MIN_WORKERS || !fills || none_fit.contains(name) {
            continue;
        }
        if let Some((_, known)) = found.iter_mut().find(|(known, _)| *known == name) {
            known.deaths.push(death.id);
        } else if let Some(fit) = fitting(run, name) {
            found.push((name, finding(run, death, limit, class, &fit)));
        } else {
            none_fit.insert(name);
        }
    }
    found
}

/// Returns the `memory=` that this rule advises for a task. Another rule must not advise a second
/// value.
pub(super) fn memory_of(run: Run<'_>, task: &str) -> Option<String> {
    let of_task = by_class(run).into_iter().filter(|(name, _)| *name == task);
    let mut remedies = of_task.flat_map(|(_, finding)| finding.remedy);
    remedies.find(|text| text.starts_with("memory="))
}

/// Returns whether a class filled the limit at a kill, whatever the sizes of its workers were then.
fn fills(run: Run<'_>, death: &Death, class: &str) -> bool {
    let members = run.inside(death).iter().filter(|held| is_of(held, class));
    let sizes: Vec<u64> = members.map(|held| held.private.0).collect();
    let sum = Bytes(sizes.iter().sum());
    let limit = run.limit(death).filter(|_| sizes.len() > 1);
    limit.is_some_and(|limit| sum.gib() > SHARE * limit.gib())
}

fn finding(run: Run<'_>, death: &Death, limit: Bytes, class: Class<'_>, fit: &Fit<'_>) -> Finding {
    let inside = run.inside(death);
    let members: Vec<&Member> = inside
        .iter()
        .filter(|held| is_of(held, class.name))
        .collect();
    let held = Bytes(members.iter().map(|held| held.private.0).sum());
    let each = class.sum.gib() / f64::from(class.processes);
    // Says which kill it was, since the workers may have had other sizes at other kills.
    let when = if run.memory_kills().nth(1).is_some() {
        format!(" when pid {} was killed", run.pid_of_kill(death))
    } else {
        String::new()
    };
    let [part, percent, whole] = part_of(class.sum, limit);
    let unlike = match class.others {
        0 => String::new(),
        others => format!(" (beside {others} of another size)"),
    };
    let summary = format!(
        "{} {} of {} each{unlike} held {part} together{when}, {percent} of the limit of {whole}",
        class.processes,
        class.name,
        if each < 1.0 {
            Bytes(class.sum.0 / u64::from(class.processes)).finer_size()
        } else {
            format!("{each:.1} GiB")
        },
    );
    let mut finding = about("many-workers", Certainty::Inferred, death, summary);
    finding.evidence = vec![
        format!(
            "{}: {} processes, the smallest {}, the largest {}; {} of another size",
            class.name,
            class.processes,
            class.smallest.finer_size(),
            class.largest.finer_size(),
            class.others
        ),
        format!(
            "everything else that counts: {}",
            size(others(death, inside, held))
        ),
    ];
    finding.about.pids = members.iter().map(|held| held.pid).collect();
    finding.about.bytes = class.sum;
    let too_many = TooManyWorkers {
        held,
        fit,
        at_this_kill: fit.at.id == death.id,
        is_actor: is_actor(death, inside, class.name),
        on_gpu: gpus::compute_on_gpus(run, &members),
        class,
    };
    too_many.remedies(run, death, &mut finding);
    finding.not_if = Some("a single one would reach the limit (then look at its growth)".into());
    finding
}

fn is_of(held: &Member, class: &str) -> bool {
    held.role == Role::Worker && held.class.as_deref() == Some(class)
}

/// How many workers of a class fit, by the kill that allows the fewest.
struct Fit<'a> {
    most: f64,
    /// What one worker takes, by that kill.
    each: Bytes,
    /// What else counted against the limit at that kill.
    others: Bytes,
    limit: Bytes,
    at: &'a Death,
}

/// Returns how many workers fit: the least that any memory kill allows. Only kills count at which
/// several workers of the class filled the limit.
fn fitting<'a>(run: Run<'a>, name: &str) -> Option<Fit<'a>> {
    let mut by_time: Vec<&Death> = run.memory_kills().collect();
    by_time.sort_by_key(|death| death.when.act_time);
    let kills = run.memory_kills();
    let (late, alone): (Vec<&Death>, Vec<&Death>) =
        kills.partition(|death| is_after_another(&by_time, death));
    let least = |kills: Vec<&'a Death>| {
        let bounds = kills
            .into_iter()
            .filter_map(|death| bound(run, death, name));
        bounds.reduce(|one, other| if other.most < one.most { other } else { one })
    };
    least(alone).or_else(|| least(late))
}

/// Returns how many workers fit by one kill.
fn bound<'a>(run: Run<'a>, death: &'a Death, name: &str) -> Option<Fit<'a>> {
    let limit = run.limit(death)?;
    let inside = run.inside(death);
    let class = classes(inside).into_iter().find(|one| one.name == name)?;
    let members = inside.iter().filter(|held| is_of(held, name));
    let held = Bytes(members.map(|held| held.private.0).sum());
    let fills = class.processes > 1 && class.sum.gib() > SHARE * limit.gib();
    if !fills {
        return None;
    }
    let others = others(death, inside, held);
    let room = FILL * limit.gib() - others.gib();
    let each = reached(run, &class);
    let most = (room / each.gib()).floor();
    let most = most.clamp(1.0, f64::from(class.processes + class.others) - 1.0);
    Some(Fit {
        most,
        each,
        others,
        limit,
        at: death,
    })
}

/// Returns whether another process was killed for memory so shortly before that its memory was
/// still counted, although it is no longer listed. The kills are in the order of their times.
fn is_after_another(kills: &[&Death], death: &Death) -> bool {
    let since = |other: &Death| death.when.act_time.since(other.when.act_time);
    let first = kills.partition_point(|other| since(other) >= FREED_NS);
    let mut before = kills[first..].iter().take_while(|other| since(other) > 0);
    before.any(|other| {
        let acts = [death, other].map(|one| one.verdict.act.map_or(one.id, |act| act.death_id));
        acts[0] != acts[1] && other.cluster == death.cluster
    })
}

/// Returns what else fills the limit, by what was counted at the kill, else by the processes that
/// are listed.
fn others(death: &Death, inside: &[Member], class: Bytes) -> Bytes {
    let listed = || inside.iter().map(|held| held.private.0).sum();
    let used = death.memory.used_at_kill();
    let used = used.map_or_else(listed, |used| used.0);
    Bytes(used.saturating_sub(class.0))
}

/// Returns what one worker takes: the most that any worker of its class reached, if none of these
/// had got that far, else the average of these.
fn reached(run: Run<'_>, class: &Class<'_>) -> Bytes {
    let mut owners = run.report.owners.iter();
    let owner = owners.find(|owner| owner.class == class.name);
    let most = owner.and_then(|owner| owner.largest_bytes);
    let more = most.filter(|most| *most > class.largest);
    more.unwrap_or(Bytes(class.sum.0 / u64::from(class.processes.max(1))))
}

/// Returns whether the workers of a class are actors, by the victim or by the methods that they
/// run.
fn is_actor(death: &Death, inside: &[Member], class: &str) -> bool {
    let victims = death.work.actor_class.as_deref() == Some(class) && death.work.actor_id.is_some();
    let runs_method = |held: &Member| {
        let method = held
            .doing
            .as_deref()
            .and_then(|doing| doing.strip_prefix(class));
        held.class.as_deref() == Some(class) && method.is_some_and(|method| method.starts_with('.'))
    };
    victims || inside.iter().any(runs_method)
}

/// The workers of a class that are too many, and how many fit.
struct TooManyWorkers<'a> {
    class: Class<'a>,
    /// What all workers of the class held.
    held: Bytes,
    fit: &'a Fit<'a>,
    /// Whether `fit` comes from this kill.
    at_this_kill: bool,
    is_actor: bool,
    on_gpu: bool,
}

impl TooManyWorkers<'_> {
    /// Adds the remedies, as settings of the framework or library that starts the workers, else as
    /// Ray's own.
    fn remedies(&self, run: Run<'_>, death: &Death, finding: &mut Finding) {
        let (name, fit) = (self.class.name, self.fit.most);
        finding.cost = Some("less parallelism".into());
        if run.framework.starts_workers() {
            return self.in_its_keys(run, finding);
        }
        let knob = library_setting(run, &self.class, fit, self.is_actor);
        let cpus = cpus_for_each(run, death, fit).filter(|_| !self.is_actor);
        let left = match (&knob, cpus) {
            (None, Some((_, at_once))) => at_once,
            _ => fit,
        };
        let stays = self.fit.each.times(left);
        let less = Bytes(self.held.0.saturating_sub(stays.0));
        finding.saving = Some(Saving::of(Some(name), less));
        finding.remedy = match (knob, cpus) {
            (Some(knob), _) => vec![knob],
            // If a pool asks for more than there is, the actors that do not fit wait forever.
            (None, _) if self.is_actor => vec![format!(
                "start at most {fit:.0} {name} on this node, where {} were",
                self.at_kill()
            )],
            (None, Some((cpus, at_once))) => vec![
                format!(
                    "num_cpus={cpus} {}: {at_once:.0} at once instead of {}{}",
                    options_of(name),
                    self.at_kill(),
                    self.size_elsewhere()
                ),
                self.counted(run, death, left),
            ],
            (None, None) => vec![
                format!("at most {fit:.0} at once: a higher num_cpus for {name}"),
                self.counted(run, death, left),
            ],
        };
        if !is_user_code(run, name) {
            finding.remedy.retain(|text| !text.contains("@ray.remote"));
        }
        let mut owners = run.report.owners.iter();
        let unfinished = owners.any(|owner| owner.class == name && owner.calls == 0);
        let more = if unfinished {
            "; none had finished a call, so each may take more"
        } else if run.report.recordings.is_empty() {
            "; how much more each may take is not in the logs"
        } else {
            ""
        };
        if let Some(first) = finding.remedy.first_mut() {
            first.push_str(more);
        }
    }

    /// Returns how many workers of the class there were at the kill.
    fn at_kill(&self) -> u32 {
        self.class.processes + self.class.others
    }

    /// Returns ` (each took up to 217 MiB)`, if they were larger at another kill.
    fn size_elsewhere(&self) -> String {
        if self.at_this_kill {
            return String::new();
        }
        format!(" (each took up to {})", self.fit.each.finer_size())
    }

    /// Returns the `memory=` for each worker with which Ray runs at most `most` of them at once. If
    /// the memory that the node offers is not known, it must be set too.
    fn counted(&self, run: Run<'_>, death: &Death, most: f64) -> String {
        let each = rounded_up(self.fit.each);
        let node = run.node(death);
        let all = node.and_then(|node| resources::of_raylet(&node.argv, "memory"));
        let options = options_of(self.class.name);
        let Some(all) = all.map(|all| Bytes(1).times(all)) else {
            let offered = each.times(most).0.to_string();
            let offered = Change::flag("memory", &offered).at(run.started(death));
            let bytes = in_python(each);
            return format!("memory={bytes} {options}, with {offered}: {most:.0} at once");
        };
        let more_than_fit = Bytes(all.times(1.0 / (most + 1.0)).0 + 1);
        let each = rounded_up(each.max(more_than_fit));
        let at_once = all.0 / each.0.max(1);
        format!(
            "memory={} {options}: {at_once} at once instead of {} (Ray reserves it; it is no limit)",
            in_python(each),
            self.at_kill()
        )
    }

    /// Returns why only so many fit, with the figures from which that was computed.
    fn reason(&self, run: Run<'_>) -> String {
        let Fit {
            most,
            each,
            others,
            limit,
            at,
        } = self.fit;
        let fills = most * each.gib() + others.gib() <= FILL * limit.gib();
        let (each, others, limit) = (size(*each), size(*others), size(*limit));
        // At another kill they had another size than the one in the summary.
        let took = if self.at_this_kill {
            format!("each takes {each}, everything else took {others}")
        } else {
            let pid = run.pid_of_kill(at);
            format!("when pid {pid} was killed, each took {each} and everything else {others}")
        };
        if fills {
            let percent = 100.0 * FILL;
            format!("to fill at most {percent:.0} % of the limit of {limit}: {took}")
        } else {
            format!("and even that may be too many: {took}, of the limit of {limit}")
        }
    }

    /// Adds remedies as settings of the framework. It expects no saving from fewer ranks, because
    /// what is sharded moves to the ranks that stay.
    fn in_its_keys(&self, run: Run<'_>, finding: &mut Finding) {
        let (name, fit) = (self.class.name, self.fit.most);
        finding.cost = Some(FEWER_RANKS.into());
        let mut keys = remedy::keys(run, RemedyGoal::Fewer, Some(name));
        if let Some(fewer) = ranks::at_most(run, fit)
            && let Some(one) = keys.iter_mut().find(|one| one.contains(fewer.key))
        {
            *one = fewer.text();
            finding.cost = Some(fewer.cost());
        }
        let at_most = format!("at most {fit:.0} {name} on this node, {}", self.reason(run));
        let keys = keys.into_iter().map(|key| format!("{key}: {at_most}"));
        finding.remedy = keys.collect();
        if finding.remedy.is_empty() {
            finding.remedy.push(at_most);
        }
        let offloads = Some(remedy::keys(run, RemedyGoal::LessOnHost, Some(name)));
        let offloads = offloads.filter(|keys| self.on_gpu && !keys.is_empty());
        if let Some(offloads) = offloads {
            finding.remedy.splice(0..0, offloads);
            finding.cost = Some(MORE_ON_GPU.into());
        }
    }
}

/// Returns what the user types if a library of Ray's starts the workers.
fn library_setting(run: Run<'_>, class: &Class<'_>, fit: f64, is_actor: bool) -> Option<String> {
    let name = class.name;
    let inner = |prefix: &str| name.strip_prefix(prefix)?.strip_suffix(')');
    if let Some(operator) = inner("MapWorker(") {
        let function = operator
            .split_once('(')
            .map_or(operator, |(_, function)| function.trim_end_matches(')'));
        return Some(format!(
            "concurrency={fit:.0} in the .map_batches() of {function}"
        ));
    }
    if name == "RayTrainWorker" {
        return Some(format!("ScalingConfig(num_workers={fit:.0})"));
    }
    if ENV_RUNNERS.iter().any(|one| name.ends_with(one)) {
        return Some(format!("config.env_runners(num_env_runners={fit:.0})"));
    }
    // The trials of a function. Those of a class have the user's own name.
    if name == "ImplicitFunc" {
        let each = match run.report.nodes.len() {
            0 | 1 => "",
            _ => " for each node of the cluster",
        };
        return Some(format!(
            "max_concurrent_trials={fit:.0} in the tune.TuneConfig{each}"
        ));
    }
    match run.framework {
        Framework::Data if !is_actor => Some(format!(
            "concurrency={fit:.0} in the read or map call that runs {name}"
        )),
        Framework::Serve if is_actor => Some(format!(
            "num_replicas={fit:.0} in the @serve.deployment of {name}"
        )),
        _ => None,
    }
}

/// Returns how many CPUs each worker must ask for, so that at most `fit` of them run at once on the
/// victim's node, and how many then do.
///
/// Above one, Ray takes whole CPUs only. If only one worker runs, some CPUs are left for other
/// tasks.
fn cpus_for_each(run: Run<'_>, death: &Death, fit: f64) -> Option<(f64, f64)> {
    let node = run.facts.nodes.get(usize::try_from(death.cluster?).ok()?)?;
    let all = resources::of_raylet(&node.argv, "CPU")?;
    let least = (all / (fit.floor() + 1.0)).floor() + 1.0;
    let at_once = (all / least).floor();
    // The same value for each number that runs at once, whatever was seen to fit.
    let each = if at_once > 1.0 {
        (all / at_once).floor()
    } else {
        (all / 2.0).floor() + 1.0
    };
    (each > 1.0 && each <= all).then_some((each, at_once))
}

/// Workers of one class and about one size.
struct Class<'a> {
    name: &'a str,
    processes: u32,
    sum: Bytes,
    smallest: Bytes,
    largest: Bytes,
    /// How many workers of the class are smaller or larger.
    others: u32,
}

/// Returns the class whose workers of one size held the most.
fn biggest(inside: &[Member]) -> Option<Class<'_>> {
    classes(inside).into_iter().max_by_key(|class| class.sum)
}

/// Returns the workers of each class that are of about one size.
fn classes(inside: &[Member]) -> Vec<Class<'_>> {
    let mut classes: BTreeMap<&str, Vec<Bytes>> = BTreeMap::new();
    for member in inside.iter().filter(|member| member.role == Role::Worker) {
        if let Some(name) = member.class.as_deref() {
            classes.entry(name).or_default().push(member.private);
        }
    }
    let even = classes
        .into_iter()
        .filter_map(|(name, sizes)| even(name, sizes));
    even.collect()
}

/// Returns, of the workers of one class, those of about one size that hold the most together.
fn even(name: &str, mut sizes: Vec<Bytes>) -> Option<Class<'_>> {
    sizes.sort_unstable();
    let alike = |from: usize| {
        let largest = (1.0 - SPREAD) * sizes[from].gib();
        let until = sizes[..=from].partition_point(|size| size.gib() <= largest);
        &sizes[until..=from]
    };
    let sum = |of: &[Bytes]| of.iter().map(|size| size.0).sum::<u64>();
    let most = (0..sizes.len()).map(alike).max_by_key(|of| sum(of))?;
    let count = |of: &[Bytes]| u32::try_from(of.len()).unwrap_or(u32::MAX);
    Some(Class {
        name,
        processes: count(most),
        sum: Bytes(sum(most)),
        smallest: *most.first()?,
        largest: *most.last()?,
        others: count(&sizes) - count(most),
    })
}
