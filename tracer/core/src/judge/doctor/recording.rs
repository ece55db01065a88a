//! Checks whether this machine can record: each probe, and where the recording goes.

use super::{ADVICE_FOLLOWS, Check, State, facts::Machine};
use crate::{
    event::{Mode, Probe, ProbeState},
    ids::{Bytes, size},
};

/// A recording needs less, but its disk should not be the first thing to fill up.
const ENOUGH_DISK: Bytes = Bytes(1 << 30);

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = vec![mode(machine)];
    if machine.mode.is_none() {
        return checks;
    }
    let of_ebpf = |probe: &&Probe| machine.mode == Some(Mode::Ebpf) || probe.name != "ebpf";
    let probes: Vec<&Probe> = machine.probes.iter().filter(of_ebpf).collect();
    checks.extend(attached(&probes));
    let others = probes.iter().filter(|probe| probe.state != ProbeState::Ok);
    checks.extend(others.map(|probe| not_attached(probe, machine)));
    checks.push(output(machine));
    checks
}

fn mode(machine: &Machine) -> Check {
    let check = |state, text: String| Check::new("recording.mode", state, text);
    let Some(found) = machine.mode else {
        let text = "this raytrace was built without recording (its feature record)";
        return check(State::Note, text.into()).word("");
    };
    if found == Mode::Ebpf {
        return check(State::Ok, "mode ebpf: verdicts can be proven".into())
            .word("")
            .value(&"ebpf");
    }
    let reason = machine
        .probes
        .iter()
        .find(|probe| probe.name == "ebpf")
        .and_then(|probe| probe.reason.clone())
        .unwrap_or_default();
    // The advice is printed once, as the command.
    let (reason, advice) = reason
        .split_once(ADVICE_FOLLOWS)
        .unwrap_or((&reason, &machine.advice));
    check(
        State::Problem,
        format!("mode procfs: no verdict can be proven, and senders of signals are not recorded: {reason}"),
    )
    .word("NO eBPF")
    .value(&"procfs")
    .expected(&"ebpf")
    .command(advice)
}

fn attached(probes: &[&Probe]) -> Option<Check> {
    let names: Vec<&str> = probes
        .iter()
        .filter(|probe| probe.state == ProbeState::Ok)
        .map(|probe| probe.name.as_str())
        .collect();
    let text = format!("{} of {} probes can be attached", names.len(), probes.len());
    (!names.is_empty())
        .then(|| Check::new("recording.probes", State::Ok, text).value(&names.join(" ")))
}

/// The whole reason is among the probes of the JSON.
fn not_attached(probe: &Probe, machine: &Machine) -> Check {
    let reason = probe.reason.as_deref().unwrap_or("no reason given");
    let reason = short(reason);
    let state = if probe.required {
        State::Problem
    } else {
        State::Missing
    };
    let found = match probe.state {
        ProbeState::Degraded => "degraded",
        _ => "missing",
    };
    Check::new(
        format!("recording.probe.{}", probe.name),
        state,
        format!("{}: {reason}", probe.name),
    )
    .word(if probe.required { "MISSING" } else { found })
    .value(&found)
    .expected(&"ok")
    .command(machine.advice.clone())
}

/// Longest reason of a missing probe, in characters, so that it stays on one line.
const LONGEST_REASON: usize = 64;

/// Returns the first clauses of a reason: what is missed comes first, and the error after it.
fn short(reason: &str) -> &str {
    let ends = reason.match_indices(": ").map(|(at, _)| at);
    let fitting = ends
        .chain([reason.len()])
        .filter(|end| reason[..*end].chars().count() <= LONGEST_REASON);
    let first = reason.find(": ").unwrap_or(reason.len());
    &reason[..fitting.last().unwrap_or(first)]
}

fn output(machine: &Machine) -> Check {
    let folder = &machine.output;
    let text = format!("{}: {} free for recordings", folder.path, size(folder.free));
    let check = |state| Check::new("recording.output", state, text.clone());
    if folder.free >= ENOUGH_DISK {
        return check(State::Ok).value(&folder.free.0);
    }
    check(State::Problem)
        .word("DISK FULL")
        .value(&folder.free.0)
        .expected(&ENOUGH_DISK.0)
        .command("raytrace record -o /FOLDER/WITH/SPACE/run.raytrace")
}
