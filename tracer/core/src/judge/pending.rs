//! Finds processes that were killed and whose end was not seen.
//!
//! They wait in the kernel, for a disk that does not answer or while a core is written.

use crate::{
    event::{Exit, Source},
    ids::{EventId, Pid, ProcessKey, SECOND_NS},
    judge::{
        death, fatal_act,
        query::memory::snapshot,
        report::Death,
        state::{snapshot::Names, timestamped::ExitSeen, world::World},
        verdict::Verdicts,
    },
};

/// An end that takes less time is not pending.
const LONG_NS: i64 = SECOND_NS;

/// Returns each as the death that it will be, without an end and an id.
pub(super) fn all(world: &World) -> Vec<Death> {
    let waiting = world.signals.keys().filter_map(|key| waiting(world, *key));
    let mut pending: Vec<Death> = waiting.collect();
    pending.sort_by_key(|death| (death.when.act_time, death.process.pid));
    pending
}

fn waiting(world: &World, key: ProcessKey) -> Option<Death> {
    let state = world.processes.get(key)?;
    // The first process of a pid namespace is protected from some signals. They are seen all the
    // same, but do nothing.
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
        uid: state.uid,
        ..Exit::default()
    };
    let time = world.last_time;
    let mut exit = ExitSeen {
        id: EventId::NONE,
        time,
        source: Source::Kernel,
        exit,
        around: Box::default(),
    };
    let killed = match fatal_act::of(world, &exit) {
        fatal_act::FatalAct::Killed(signal) => signal.time,
        fatal_act::FatalAct::Exited { .. } | fatal_act::FatalAct::Unseen { .. } => return None,
    };
    (time.since(killed) >= LONG_NS).then(|| {
        *exit.around = snapshot(world, &mut Names::default(), &exit.exit, time);
        let mut death = death::of(&Verdicts::new(world, None), &exit);
        death.when.exit_time = None;
        death
    })
}
