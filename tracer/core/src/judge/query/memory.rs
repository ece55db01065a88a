//! Reports memory around a death: the biggest processes and the victim's figures at that moment.

use crate::{
    cgroup_path::is_within,
    event::{Exit, MemorySplit, Role},
    ids::{BootTime, Bytes, Pid, ProcessKey, SECOND_NS},
    judge::{
        query::{live_processes, minute, monitor, oom},
        report::{MemoryReport, OutsideCgroup, TopProcess, TopRest},
        state::{
            processes::ProcessState,
            recent_samples::Outside,
            snapshot::{Biggest, Names, Snapshot},
            world::World,
        },
    },
    signals::ENDING,
};

/// A process that caught a signal in order to end is gone within this time.
const ENDS_WITHIN_NS: i64 = 10 * SECOND_NS;
/// Less than this is not worth a figure of another time.
const FREED: u64 = 64 << 20;

/// How many of the biggest processes a death keeps.
const TOP: usize = 5;

/// Returns the memory at `exit`, from the samples before it. It is cheap for a normal exit, because
/// nobody asks there.
pub(crate) fn snapshot(world: &World, names: &mut Names, exit: &Exit, time: BootTime) -> Snapshot {
    let sampled = world
        .processes
        .get(exit.process)
        .and_then(|state| state.memory);
    let memory = at_death(&exit.memory, sampled, time);
    let memory = at_signal(world, exit, time, memory);
    let gpu = world.gpus.at_end(exit.process, time);
    if exit.status == Some(0) {
        return Snapshot {
            memory,
            gpu,
            ..Snapshot::default()
        };
    }
    let full = full_cgroups(world, exit, time);
    let found = holders(world, exit.process, &memory);
    let cgroups = std::iter::once(None).chain(full.iter().map(|path| Some(path.as_str())));
    let biggest: Vec<Biggest> = cgroups
        .map(|cgroup| biggest(world, &found, cgroup, &memory, time))
        .collect();
    // The one that the others are below.
    let outermost = full.iter().min_by_key(|path| path.len());
    Snapshot {
        minute: Some(Box::new(minute::last_minute(world, exit, time, &biggest))),
        biggest,
        live_processes: Some(Box::new(live_processes::around(
            world,
            names,
            exit.process,
            memory.private(),
            outermost.map(String::as_str),
        ))),
        memory,
        gpu,
        shared: world.shared_files.biggest(&world.processes),
        monitor: monitor::counted(world, exit.process, time),
    }
}

/// Returns the cgroups of which one may have been full, by paths that the dying process is known
/// to be in.
fn full_cgroups(world: &World, exit: &Exit, time: BootTime) -> Vec<String> {
    if exit.code().is_some() {
        return Vec::new();
    }
    let own = world.processes.get(exit.process);
    let own = own.and_then(|state| state.cgroup.as_deref());
    let mut found = oom::may_be_full(world, exit, time);
    found.retain(|path| is_within(own, path));
    found
}

/// The process that a figure belongs to.
enum Of<'a> {
    Dying(Option<&'a ProcessState>),
    Tracked(&'a ProcessState, BootTime),
    Outside(&'a Outside, BootTime),
}

impl Of<'_> {
    fn is_in(&self, path: &str) -> bool {
        match self {
            Self::Dying(_) => true,
            Self::Tracked(state, _) => is_within(state.cgroup.as_deref(), path),
            Self::Outside(one, _) => is_within(one.cgroup.as_deref(), path),
        }
    }
}

/// A process with its private memory.
type Holder<'a> = (Bytes, Pid, Of<'a>);

/// Returns the processes whose memory is known at the end of `dying`, the biggest first.
fn holders<'a>(world: &'a World, dying: ProcessKey, memory: &MemoryReport) -> Vec<Holder<'a>> {
    let alive = world
        .processes
        .alive()
        .filter(|state| !state.key.same(dying))
        .filter_map(|state| {
            let (sampled, split) = state.memory?;
            Some((split.private()?, state.key.pid, Of::Tracked(state, sampled)))
        });
    let own = memory.private();
    let own = own.map(|own| (own, dying.pid, Of::Dying(world.processes.get(dying))));
    let outside = world.outside.values();
    let outside = outside.map(|(sampled, one)| (one.private, one.pid, Of::Outside(one, *sampled)));
    let mut found: Vec<Holder<'_>> = alive.chain(own).chain(outside).collect();
    let order = |(private, pid, _): &Holder<'_>| std::cmp::Reverse((*private, *pid));
    found.sort_unstable_by_key(order);
    found
}

/// Returns the biggest processes, of `cgroup` if one is given, and what the other ones held. The
/// dying one comes last if it is smaller than those.
fn biggest(
    world: &World,
    found: &[Holder<'_>],
    cgroup: Option<&str>,
    memory: &MemoryReport,
    time: BootTime,
) -> Biggest {
    let counts = |(_, _, of): &&Holder<'_>| cgroup.is_none_or(|path| of.is_in(path));
    let (found, others): (Vec<&Holder<'_>>, Vec<&Holder<'_>>) = found.iter().partition(counts);
    let role = |of: &Of<'_>| match of {
        Of::Dying(state) => state.map(|state| state.role),
        Of::Tracked(state, _) => Some(state.role),
        Of::Outside(..) => None,
    };
    let title = |of: &Of<'_>| match of {
        Of::Dying(state) => state.map_or_else(String::new, ProcessState::label),
        Of::Tracked(state, _) => state.label(),
        Of::Outside(one, _) => one.name.clone(),
    };
    let is_dying = |(_, _, of): &&&Holder<'_>| matches!(of, Of::Dying(_));
    let victim = found.iter().skip(TOP).find(is_dying);
    let top: Vec<TopProcess> = (found.iter().take(TOP).chain(victim))
        .map(|(private_bytes, pid, of)| {
            let (cgroup, age_ms) = match of {
                Of::Dying(state) => (state.and_then(|state| state.cgroup.clone()), memory.age_ms),
                Of::Tracked(state, sampled) => (state.cgroup.clone(), time.ms_since(*sampled)),
                Of::Outside(one, sampled) => (one.cgroup.clone(), time.ms_since(*sampled)),
            };
            TopProcess {
                pid: *pid,
                title: title(of),
                role: role(of),
                private_bytes: *private_bytes,
                victim: matches!(of, Of::Dying(_)),
                cgroup,
                age_ms,
            }
        })
        .collect();
    let rest = found.iter().skip(TOP).filter(|one| !is_dying(one));
    let rest = rest.filter(|(private, ..)| private.0 > 0);
    // Thousands of processes may die at once, so nothing is copied here.
    let rest = rest.map(|(private, _, of)| {
        let names = names(world, of);
        (*private, move |class: &str| is_of(names, class))
    });
    Biggest {
        cgroup: cgroup.map(str::to_owned),
        rest: TopRest::of(rest, &top),
        top,
        outside: cgroup.map(|_| sum(&others)),
    }
}

/// Returns what processes held together.
fn sum(others: &[&Holder<'_>]) -> OutsideCgroup {
    let held = others.iter().filter(|(private, ..)| private.0 > 0);
    OutsideCgroup {
        processes: u32::try_from(held.clone().count()).unwrap_or(u32::MAX),
        private_bytes: Bytes(held.map(|(private, ..)| private.0).sum()),
    }
}

/// Returns what a worker runs or ran last, by its title, and its class. What that task took is still
/// there when the worker's title says that it is idle.
fn names<'a>(world: &'a World, of: &Of<'a>) -> [Option<&'a str>; 2] {
    let (Of::Dying(Some(state)) | Of::Tracked(state, _)) = *of else {
        return [None, None];
    };
    if state.role != Role::Worker {
        return [None, None];
    }
    let calls = world.calls.get(&state.key.truncated());
    let title = calls
        .and_then(|calls| calls.latest())
        .or(state.title.as_deref());
    let named = title.and_then(|title| title.strip_prefix("ray::"));
    [named.map(str::trim_end), state.actor_class.as_deref()]
}

/// Whether it is a worker of this class, or one that runs this task or ran it last.
fn is_of([named, actor_class]: [Option<&str>; 2], class: &str) -> bool {
    let titled = named
        .and_then(|name| name.strip_prefix(class))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    titled || actor_class == Some(class)
}

/// Returns the memory at the first of the signals to end that a process caught before it exited, if
/// it held far more then: it frees its memory while it ends.
fn at_signal(world: &World, exit: &Exit, time: BootTime, memory: MemoryReport) -> MemoryReport {
    let mut signals = world.signals_to(exit.process).iter();
    let first = signals.find(|sent| {
        exit.code().is_some()
            && ENDING.contains(&sent.what.signal)
            && sent.what.sender.process != exit.process
            && (0..ENDS_WITHIN_NS).contains(&time.since(sent.time))
    });
    let held = first.and_then(|first| {
        let samples = world.recent_samples.get(exit.process)?;
        Some((samples.at(first.time)?, first.time))
    });
    let left = memory.private().unwrap_or_default().0;
    let freed = |held: Bytes| held.0 / 2 > left && held.0 - left > FREED;
    match held.filter(|(held, _)| freed(*held)) {
        Some((held, sent)) => MemoryReport {
            anon_bytes: Some(held),
            own_bytes: None,
            age_ms: time.ms_since(sent),
            ..memory
        },
        None => memory,
    }
}

fn at_death(
    split: &MemorySplit,
    sampled: Option<(BootTime, MemorySplit)>,
    time: BootTime,
) -> MemoryReport {
    let (split, age_ms) = match sampled {
        Some((when, sample)) if split.resident().is_none_or(|bytes| bytes == Bytes(0)) => (
            MemorySplit {
                peak: split.peak.or(sample.peak),
                ..sample
            },
            time.ms_since(when),
        ),
        _ => (*split, None),
    };
    MemoryReport {
        anon_bytes: split.anon,
        own_bytes: split.own,
        file_bytes: split.file,
        shmem_bytes: split.shmem,
        swap_bytes: split.swap,
        peak_bytes: split.peak,
        age_ms,
    }
}
