//! Finds a cgroup's limit that Ray does not see, so the kernel kills before Ray does.

use std::collections::BTreeSet;

use super::{
    Run, about, call_growth, children, controller, facts::Member, leak, merged, more_memory,
};
use crate::{
    cgroup_path::is_within,
    ids::{Bytes, EventId, size},
    judge::report::{About, Certainty, Death, Finding, Killer},
    ray::{
        memory_monitor::THRESHOLD,
        start::{Change, Start},
    },
};

/// Processes that hold this many times the limit had not taken their memory under it.
const FAR_TOO_SMALL: f64 = 1.25;
/// The share of the limit that rounding the threshold may cost.
const ROUNDING_COSTS: f64 = 0.02;
/// The share of the limit at which Ray should act.
const BEFORE_THE_KERNEL: f64 = 0.9;

pub(super) fn find(run: Run<'_>) -> Vec<Finding> {
    let kills = run
        .memory_kills()
        .filter(|death| death.verdict.killer == Killer::KernelOomMemcg);
    let growing = growing(run);
    let grew = call_growth::find(run);
    let kept_by_a_line = kills_of(&grew, |about| about.own_line);
    let before_optimizer = kills_of(&grew, |about| about.before_optimizer);
    merged(kills.filter_map(|death| {
        let oom = death.memory.oom.as_ref()?;
        let (cgroup, limit) = (oom.cgroup.clone()?, oom.limit_bytes?);
        let monitor = run.monitor(death).filter(|monitor| monitor.enabled)?;
        let (threshold, total) = (monitor.threshold_bytes?, monitor.total_bytes?);
        if limit > threshold || total.0 == 0 {
            return None;
        }
        let summary = format!(
            "Ray cannot see the limit of {cgroup}: it counts {} as all memory and acts above {}, but the kernel killed at {}",
            size(total),
            size(threshold),
            size(limit)
        );
        let certainty = match death.verdict.reason_certainty {
            Certainty::Proven => Certainty::Proven,
            _ => Certainty::Inferred,
        };
        let mut finding = about("hidden-limit", certainty, death, summary);
        finding.evidence = vec![
            format!("limit {} B in {cgroup}", limit.0),
            format!("raylet.out: threshold {} B of {} B", threshold.0, total.0),
        ];
        let before_optimizer = before_optimizer.contains(&death.id);
        let (higher, more, took) = raise(run, death, (&cgroup, limit), before_optimizer);
        if !keeps_growing(&growing, death) {
            finding.remedy.push(higher.clone());
            let room = more_memory::room(run, death).filter(|room| room.bytes >= more);
            finding.cost = Some("none in results or time, if the machine has the memory".into());
            if let Some(room) = room.filter(|_| took.0 > 0) {
                let left = size(room.bytes);
                finding.summary.push_str(&format!(
                    "; at least {left} of the machine were {}",
                    room.free
                ));
                finding.cost = Some(more_memory::cost(
                    "none in results or time",
                    took,
                    kept_by_a_line.contains(&death.id),
                ));
                finding.about.has_room = true;
            }
        }
        // A threshold is a remedy only if all of Ray is inside the cgroup with that limit. With
        // resource isolation Ray does not read the threshold.
        let below = run
            .node(death)
            .is_some_and(|node| !node.isolated && is_within(node.cgroup.as_deref(), &cgroup));
        if let Some(threshold) = lower_threshold(run, death, limit, total).filter(|_| below) {
            let value = threshold.value(limit, total);
            let at = threshold.position(&value, limit, total);
            let change = Change::environment(THRESHOLD, &value).at(run.started(death));
            if death.is_retried() {
                let then = format!("{change}: Ray then kills before the kernel does, {at}");
                finding.remedy.push(format!("{then}, and retries"));
            } else {
                // It is another way to fail: the only one to see the limit while memory keeps growing.
                finding.remedy.push(format!(
                    "{change}: saves no memory, and a call without a retry still fails, but Ray then kills before the kernel does, with a message that names memory, {at}"
                ));
            }
        }
        if finding.remedy.is_empty() {
            let only = "this only delays the kill while memory keeps growing";
            finding.remedy.push(format!("{higher}; {only}"));
        }
        finding.not_if = Some("the limit was changed while Ray ran".into());
        Some(((cgroup, death.cluster), finding))
    }))
}

/// Returns findings about memory that keeps growing, by a line or in each call. A higher limit
/// would only be hit a little later.
pub(super) fn growing(run: Run<'_>) -> Vec<Finding> {
    let of_lines = controller::find(run).into_iter();
    let of_lines = of_lines.chain(children::find(run));
    // A saving is known only if the line is.
    let of_lines = of_lines.filter(|finding| finding.saving.is_some());
    of_lines.chain(leak::find(run)).collect()
}

/// Returns the kills that such findings are about.
fn kills_of(grew: &[Finding], such: fn(&About) -> bool) -> BTreeSet<EventId> {
    let found = grew.iter().filter(|finding| such(&finding.about));
    found.flat_map(|finding| finding.deaths.clone()).collect()
}

pub(super) fn keeps_growing(growing: &[Finding], death: &Death) -> bool {
    growing.iter().any(|one| one.deaths.contains(&death.id))
}

/// Returns what to type for a higher limit and why by so much, how much more that is, and what the
/// running calls had taken.
fn raise(
    run: Run<'_>,
    death: &Death,
    (cgroup, limit): (&str, Bytes),
    before_optimizer: bool,
) -> (String, Bytes, Bytes) {
    let inside = || run.inside(death).iter();
    let took = Bytes(inside().filter_map(Member::grown).map(|took| took.0).sum());
    let listed = Bytes(inside().map(|held| held.private.0).sum());
    let held = death
        .memory
        .own_private()
        .map_or(listed, |own| own.max(listed));
    // Where the processes had been moved into a cgroup that is far too small, its limit is no
    // measure.
    let (above, least) = if held.gib() > FAR_TOO_SMALL * limit.gib() {
        (format!(" (its processes held {})", size(held)), held)
    } else {
        (String::new(), limit)
    };
    let mut more = more_memory::extra_memory(least, took);
    if before_optimizer {
        more.0 += took.0;
    }
    let (value, wanted) = typed(Bytes(least.0 + more.0));
    let start = Start::of_cgroup(cgroup).unwrap_or_else(|| run.started(death));
    let host = run.host(death.recording_id);
    let how = Change::MemoryLimit {
        size: value,
        cgroup: cgroup.to_owned(),
        version: host.and_then(|host| host.cgroup_version),
        host: host.map(|host| host.name.clone()),
    };
    let how = how.at(start);
    let from_to = from_to(limit, wanted);
    let why = match (took.0 > least.0 / 4, before_optimizer) {
        (false, _) => "a quarter more".to_owned(),
        (true, false) => format!("as much again as the calls had added ({})", size(took)),
        (true, true) => format!(
            "as much again as the calls had added ({}), and that once more for the optimizer's first step",
            size(took)
        ),
    };
    let text = format!(
        "raise the limit of {cgroup} from {from_to} or more{above}: {how}; the value allows for {why}"
    );
    (text, more, took)
}

/// Returns `8.0 to 12.0 GiB`. A unit that both have is not repeated.
fn from_to(from: Bytes, to: Bytes) -> String {
    let (from, to) = (size(from), size(to));
    let unit = to.rsplit(' ').next().unwrap_or_default();
    let from = from.strip_suffix(unit).map_or(from.as_str(), str::trim_end);
    format!("{from} to {to}")
}

/// Returns a limit as it is typed, `10G` or `512M`, and its size.
fn typed(wanted: Bytes) -> (String, Bytes) {
    let (unit, name) = if wanted.0 >= 1 << 32 {
        (1 << 30, "G")
    } else {
        (1 << 20, "M")
    };
    let count = wanted.0.div_ceil(unit);
    (format!("{count}{name}"), Bytes(count * unit))
}

/// A threshold for Ray's monitor. It includes memory in use outside the cgroup.
struct Threshold {
    gib: f64,
    outside_gib: f64,
    /// Where Ray counts memory.
    counted: &'static str,
}

impl Threshold {
    /// Returns the fraction that is typed, rounded down to the digits at which rounding costs
    /// little of the limit.
    fn value(&self, limit: Bytes, total: Bytes) -> String {
        let fraction = self.gib / total.gib();
        let round = |digits: i32| {
            let scale = 10_f64.powi(digits);
            (fraction * scale).floor() / scale
        };
        let is_close = |digits: &i32| {
            (fraction - round(*digits)) * total.gib() <= ROUNDING_COSTS * limit.gib()
        };
        let digits = (2..9).find(is_close).unwrap_or(9);
        format!("{:.*}", usize::try_from(digits).unwrap_or(9), round(digits))
    }

    /// Says when Ray kills with the value that is typed, and both parts of that figure. A sum above
    /// the limit would look wrong.
    fn position(&self, value: &str, limit: Bytes, total: Bytes) -> String {
        let all = total.times(value.parse().unwrap_or_default());
        let outside = Bytes(1 << 30).times(self.outside_gib);
        if self.outside_gib <= 0.05 {
            return format!("at {} in use", size(all));
        }
        // With less outside, the cgroup is full first.
        let needed = Bytes(all.0.saturating_sub(limit.0));
        let counted = self.counted;
        let (all, outside) = (size(all), size(outside));
        if needed.0 == 0 {
            return format!("at {all} in use {counted} ({outside} outside the limited cgroup)");
        }
        let inside = size(Bytes(1 << 30).times(self.gib - self.outside_gib));
        let needed = size(needed);
        format!(
            "at {all} in use {counted}: {inside} in the limited cgroup and, as at this kill, {outside} outside it (with less than {needed} outside, the kernel is first)"
        )
    }
}

/// Returns the threshold at which Ray acts before the kernel does.
///
/// Ray counts the whole machine, or the cgroup whose limit it takes for all memory. Memory in use
/// there but outside the smaller cgroup is added, if known. `None` if the threshold would be below
/// what was in use before any job, because Ray would kill at once.
fn lower_threshold(run: Run<'_>, death: &Death, limit: Bytes, total: Bytes) -> Option<Threshold> {
    let at_death = death.memory.at_death.iter();
    let of_cgroup = at_death
        .flat_map(|node| &node.limits)
        .find(|one| one.limit_bytes == Some(total))
        .map(|one| one.usage_bytes);
    let sums = run.limit_members(death)?.sums.as_ref();
    let used = of_cgroup.or_else(|| Some(sums?.1.used()));
    let outside = used.map_or(0.0, |used| (used.gib() - limit.gib()).max(0.0));
    let at = outside + BEFORE_THE_KERNEL * limit.gib();
    let before = run.facts.used_before.filter(|_| of_cgroup.is_none());
    let before = before.map_or(0.0, Bytes::gib);
    let counted = if of_cgroup.is_some() {
        "in the cgroup that Ray counts"
    } else {
        "on the whole machine"
    };
    (at > before && at < total.gib()).then_some(Threshold {
        gib: at,
        outside_gib: outside,
        counted,
    })
}

/// Rounds down to two significant digits, so that no small limit becomes 0.
pub(crate) fn rounded_down(fraction: f64) -> String {
    let mut digits = 2;
    let mut scale = 100.0;
    while fraction * scale < 10.0 && digits < 9 {
        digits += 1;
        scale *= 10.0;
    }
    format!("{:.digits$}", (fraction * scale).floor() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_has_digits_enough_for_its_limit() {
        let gib = |size: u64| Bytes(size << 30);
        let value = |outside: f64, limit: u64, total: u64| {
            let threshold = Threshold {
                gib: outside + BEFORE_THE_KERNEL * gib(limit).gib(),
                outside_gib: outside,
                counted: "",
            };
            threshold.value(gib(limit), gib(total))
        };
        assert_eq!(value(2.2, 8, 24), "0.39");
        // Two digits would be below what is in use outside.
        assert_eq!(value(502.0, 8, 2048), "0.2486");
        assert_eq!(value(252.0, 4, 512), "0.4992");
    }
}
