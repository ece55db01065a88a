//! Memory around a death: the biggest processes and the victim's figures at that moment.

use crate::{
    event::{Exit, MemorySplit},
    ids::{BootTime, Bytes, Pid, ProcessKey},
    judge::{
        query::{crowd, minute, monitor},
        report::{MemoryReport, TopProcess, TopRest},
        state::{processes::ProcessState, snapshot::Snapshot, trail::Outside, world::World},
    },
};

/// How many of the biggest processes a death keeps.
const TOP: usize = 5;

/// The memory picture at `exit`, from the samples before it. Cheap for a normal exit: nobody asks there.
pub(in crate::judge) fn snapshot(world: &World, exit: &Exit, time: BootTime) -> Snapshot {
    let sampled = world
        .processes
        .get(exit.process)
        .and_then(|state| state.memory);
    let memory = at_death(&exit.memory, sampled, time);
    let gpu = world.gpus.at_end(exit.process, time);
    if exit.status == Some(0) {
        return Snapshot {
            memory,
            gpu,
            ..Snapshot::default()
        };
    }
    let (top, top_rest) = biggest(world, exit.process, &memory, time);
    Snapshot {
        minute: Some(minute::before(world, exit, time, &top)),
        top,
        top_rest,
        crowd: crowd::around(world, exit.process, memory.private()),
        memory,
        gpu,
        shared: world.shared_files.biggest(&world.processes),
        monitor: monitor::counted(world, exit.process, time),
    }
}

/// Whose memory a figure is.
enum Of<'a> {
    Dying(Option<&'a ProcessState>),
    Tracked(&'a ProcessState, BootTime),
    Outside(&'a Outside, BootTime),
}

/// The biggest processes at the end of `dying`, that one among them, and what the smaller ones held. Only what is kept is put into words: thousands may die at once.
fn biggest(
    world: &World,
    dying: ProcessKey,
    memory: &MemoryReport,
    time: BootTime,
) -> (Vec<TopProcess>, Option<TopRest>) {
    let alive = world
        .processes
        .iter()
        .filter(|state| state.exit.is_none() && !state.key.same(dying))
        .filter_map(|state| {
            let (sampled, split) = state.memory?;
            Some((split.private()?, state.key.pid, Of::Tracked(state, sampled)))
        });
    let own = memory.private();
    let own = own.map(|own| (own, dying.pid, Of::Dying(world.processes.get(dying))));
    let outside = world.outside.values();
    let outside = outside.map(|(sampled, one)| (one.private, one.pid, Of::Outside(one, *sampled)));
    let mut found: Vec<(Bytes, Pid, Of<'_>)> = alive.chain(own).chain(outside).collect();
    found.sort_by_key(|(private, pid, _)| std::cmp::Reverse((*private, *pid)));
    let rest = found.iter().skip(TOP).map(|(private, ..)| *private);
    let rest = TopRest::of(rest.filter(|private| private.0 > 0));
    let kept = found.into_iter().take(TOP);
    let top = kept.map(|(private_bytes, pid, of)| {
        let victim = matches!(of, Of::Dying(_));
        let (title, cgroup, age_ms) = match of {
            Of::Dying(state) => (
                state.map_or_else(String::new, ProcessState::label),
                state.and_then(|state| state.cgroup.clone()),
                memory.age_ms,
            ),
            Of::Tracked(state, sampled) => {
                (state.label(), state.cgroup.clone(), age_ms(time, sampled))
            }
            Of::Outside(one, sampled) => {
                (one.name.clone(), one.cgroup.clone(), age_ms(time, sampled))
            }
        };
        TopProcess {
            pid,
            title,
            private_bytes,
            victim,
            cgroup,
            age_ms,
        }
    });
    (top.collect(), rest)
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
            age_ms(time, when),
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

fn age_ms(now: BootTime, then: BootTime) -> Option<u64> {
    u64::try_from(now.since(then) / 1_000_000).ok()
}
