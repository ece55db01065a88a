//! Processes that are killed and whose end was not seen: they wait in the kernel, for a disk that does not answer or while a core is written.

use super::{
    act, assemble,
    memory::{Snapshot, snapshot},
    report::Death,
    world::{ExitSeen, World},
};
use crate::{
    event::{Exit, MemorySplit, Source},
    ids::{EventId, Pid, ProcessKey},
};

/// An end that takes less is none that waits.
const LONG_NS: i64 = 1_000_000_000;

/// What stands for the event of an end that was not seen: events are numbered from 1.
const NO_EVENT: EventId = EventId(0);

/// Whether this end was not seen.
pub(super) fn is(exit: &ExitSeen) -> bool {
    exit.id == NO_EVENT
}

/// Each as the death that it will be, without an end and a number.
pub(super) fn all(world: &World) -> Vec<Death> {
    let waiting = world.signals.keys().filter_map(|key| waiting(world, *key));
    let mut pending: Vec<Death> = waiting.collect();
    pending.sort_by_key(|death| (death.act_time, death.pid));
    pending
}

fn waiting(world: &World, key: ProcessKey) -> Option<Death> {
    let state = world.processes.get(key)?;
    // What nobody may send to the first process of a pid namespace is delivered to it all the same, and does nothing.
    let took_effect = || {
        world
            .signals_to(key)
            .iter()
            .any(|seen| seen.what.took_effect)
    };
    if world.exit(key).is_some() || state.ns_pid == Some(Pid(1)) && !took_effect() {
        return None;
    }
    let exit = Exit {
        process: state.key,
        ns_pid: state.ns_pid,
        parent: state.parent,
        comm: state.comm.clone(),
        status: None,
        title: state.title.clone(),
        memory: MemorySplit::default(),
        mm: 0,
        uid: state.uid,
        harvested: false,
    };
    let time = world.last_time;
    let mut exit = ExitSeen {
        id: NO_EVENT,
        time,
        source: Source::Kernel,
        exit,
        around: Snapshot::default(),
    };
    let killed = match act::of(world, &exit) {
        act::Act::Killed(signal) => signal.time,
        act::Act::Exited { .. } | act::Act::Unseen { .. } => return None,
    };
    (time.since(killed) >= LONG_NS).then(|| {
        exit.around = snapshot(world, &exit.exit, time);
        let mut death = assemble::death(world, &exit, None);
        death.exit_time = None;
        for text in [&mut death.verdict.clause, &mut death.verdict.summary] {
            *text = text.replacen("was ended by", "was killed by", 1);
        }
        death
    })
}
