//! Finds the settings whose change fits the change of memory or deaths.
//!
//! A setting fits by what it is known to do, by proportion, or because nothing else changed.

use super::{
    Diff, Fit, OwnerChange, OwnerSide, SettingChange, Value, savings,
    settings::{self, CGROUP_LIMIT, COMMAND, COUNTED, THRESHOLD},
};
use crate::{
    ids::{Bytes, size},
    judge::report::{Certainty, Finding, Killer, Report},
    ray::framework::{self, Effect},
};

/// A change of a peak by fewer bytes is noise between two runs.
const SMALL: f64 = 64.0 * 1024.0 * 1024.0;
/// A peak that moved by a smaller share counts as the same.
const SAME: f64 = 0.1;
/// The size of the object store, which is shared memory and not that of any process.
const OBJECT_STORE: &str = "object_store_memory";
/// Two proportions that differ by a smaller share count as equal.
const CLOSE: f64 = 0.2;

/// The changed settings, sorted by what they can explain.
#[derive(Debug, Default)]
pub(super) struct Fits {
    /// Those that fit, the strongest first.
    pub(super) explains: Vec<Fit>,
    /// Those that may have an effect too, which cannot be told from that of the others.
    pub(super) may_explain: Vec<Fit>,
    /// Those that cannot be the reason.
    pub(super) cannot_explain: Vec<Fit>,
}

/// Sorts the changed settings by what they can explain, in the reports on both runs too.
pub(super) fn find(diff: &Diff, a: &Report, b: &Report) -> Fits {
    let mut by_proportion = Vec::new();
    let mut cannot_explain = Vec::new();
    let mut open: Vec<&SettingChange> = Vec::new();
    let by_findings = diff.settings.iter();
    let by_findings = by_findings.filter_map(|change| named_by_a_finding(change, a, b));
    let mut by_effect: Vec<Fit> = by_findings.collect();
    let (keys, classes): (Vec<String>, Vec<Option<String>>) = by_effect
        .iter()
        .map(|fit| (fit.key.clone(), fit.class.clone()))
        .unzip();
    let is_open = |fit: &Fit| fit.class.is_none() || !classes.contains(&fit.class);
    for change in &diff.settings {
        if keys.contains(&change.key) {
            continue;
        }
        if change.key == COMMAND {
            by_effect.extend(command(diff, change));
        } else if settings::is_model(change) {
            by_effect.extend(another_model(diff, change));
        } else if change.key == CGROUP_LIMIT {
            by_effect.extend(cgroup_limit(diff, change));
        } else if let Some(found) = known_effect(diff, change).or_else(|| advised(change, a, b)) {
            by_effect.push(found);
        } else if let Some(why) = no_reason(change).or_else(|| wrong_way(diff, change)) {
            cannot_explain.push(fit(change, None, why));
        } else if let Some(found) = threshold(diff, change) {
            by_effect.push(found);
        } else if let Some(found) = proportion(diff, change)
            .or_else(|| bound(diff, change))
            .filter(is_open)
        {
            by_proportion.push(found);
        } else {
            open.push(change);
        }
    }
    by_effect.append(&mut by_proportion);
    // Another model or program explains more than any setting. What Ray counts explains more than
    // how often it checks.
    by_effect.sort_by_key(|fit| match fit.key.as_str() {
        key if settings::names_a_model(key) => 0,
        COMMAND => 1,
        COUNTED | CGROUP_LIMIT => 2,
        _ => 3,
    });
    let mut may_explain = Vec::new();
    match (open.as_slice(), by_effect.is_empty()) {
        ([only], true) => by_effect.extend(sole(diff, only)),
        (several, _) => {
            may_explain.extend(several.iter().filter_map(|change| may_act(diff, change)));
        }
    }
    Fits {
        explains: by_effect,
        may_explain,
        cannot_explain,
    }
}

/// Returns the fit of a setting that only one of the runs has and that a finding about that run
/// names, such as the file of a reward function that keeps memory.
fn named_by_a_finding(change: &SettingChange, a: &Report, b: &Report) -> Option<Fit> {
    let (side, report, value) = match (&change.a, &change.b) {
        (Some(value), None) => ("A", a, value),
        (None, Some(value)) => ("B", b, value),
        _ => return None,
    };
    let pair = format!("{}={}", change.key, value.value);
    let mut findings = report.findings.iter();
    let names = |finding: &&Finding| finding.remedy.iter().any(|text| text.contains(&pair));
    let finding = findings.find(names)?;
    let why = format!("in {side} only; {}", finding.summary);
    Some(of_finding(change, finding, why))
}

/// Returns the fit of a setting that one run has as a finding about the other run advises.
fn advised(change: &SettingChange, a: &Report, b: &Report) -> Option<Fit> {
    if decides(change) {
        return None;
    }
    let (first, second) = (in_force(change.a.as_ref())?, in_force(change.b.as_ref())?);
    let back = SettingChange {
        key: change.key.clone(),
        a: change.b.clone(),
        b: change.a.clone(),
    };
    let of_a = savings::advising(a, change).map(|found| ("A", found));
    let of_b = savings::advising(b, &back).map(|found| ("B", found));
    let (side, finding) = of_a.xor(of_b)?;
    let why = format!(
        "{first} in A, {second} in B; in {side}: {}",
        finding.summary
    );
    Some(of_finding(change, finding, why))
}

fn of_finding(change: &SettingChange, finding: &Finding, why: String) -> Fit {
    let saving = finding.saving.as_ref();
    let class = saving.and_then(|saving| saving.class.as_deref());
    fit(change, class, why)
}

/// Returns the fit of a setting that may have an effect, if the memory of a class that it may act
/// on changed.
fn may_act(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    if decides(change) {
        return None;
    }
    let classes = acts_on(change);
    let of_it = || moved(diff).filter(|owner| is_of(owner, classes));
    let same_way = direction(change).and_then(|way| of_it().find(|owner| is_same_way(owner, way)));
    let owner = same_way.or_else(|| of_it().next())?;
    let why = format!(
        "its effect cannot be told from that of the other changes; {}",
        peaks(owner)
    );
    Some(fit(change, Some(&owner.class), why))
}

/// Returns why a size cannot be the reason: it moved one way, and the classes that it acts on moved
/// the other way.
fn wrong_way(diff: &Diff, change: &SettingChange) -> Option<String> {
    let classes = acts_on(change);
    if classes.is_empty() {
        return None;
    }
    let way = direction(change)?;
    let mut of_it = moved(diff).filter(|owner| is_of(owner, classes));
    let first = of_it.next()?;
    if is_same_way(first, way) || of_it.any(|owner| is_same_way(owner, way)) {
        return None;
    }
    let turned = if way > 0.0 { "raised" } else { "lowered" };
    Some(format!("it was {turned}; {}", peaks(first)))
}

/// Returns by how much a number changed; `None` if it did not.
fn direction(change: &SettingChange) -> Option<f64> {
    let number = |value: &Option<Value>| in_force(value.as_ref())?.parse::<f64>().ok();
    let direction = number(&change.b)? - number(&change.a)?;
    (direction != 0.0).then_some(direction)
}

fn is_same_way(owner: &OwnerChange, direction: f64) -> bool {
    owner.peak_delta() as f64 * direction > 0.0
}

/// Returns whether a setting decides when Ray kills, and moves no memory itself.
fn decides(change: &SettingChange) -> bool {
    framework::decides_kills(&change.key) || change.key == COUNTED || change.key == THRESHOLD
}

/// Returns the fit of another model, if memory changed: what the class that changed most gained or
/// lost.
fn another_model(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let moved = moved(diff).filter(|owner| is_of(owner, &[]));
    let most = moved.max_by_key(|owner| owner.peak_delta().unsigned_abs())?;
    Some(fit(
        change,
        Some(&most.class),
        format!("another model; {}", peaks(most)),
    ))
}

/// Returns the fit of another command, if memory or deaths changed.
fn command(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let deaths = diff.deaths.iter().any(|death| death.a != death.b);
    let figures = moved(diff).next().map(peaks);
    if !deaths && figures.is_none() {
        return None;
    }
    let (a, b) = (in_force(change.a.as_ref())?, in_force(change.b.as_ref())?);
    let figures = figures.map_or_else(String::new, |figures| format!("; {figures}"));
    let why = format!("the command changed ({a} in A, {b} in B){figures}");
    Some(fit(change, None, why))
}

fn fit(change: &SettingChange, class: Option<&str>, why: String) -> Fit {
    Fit {
        key: change.key.clone(),
        class: class.map(str::to_owned),
        why,
        certainty: Certainty::Inferred,
    }
}

fn in_force(value: Option<&Value>) -> Option<&str> {
    value
        .filter(|value| value.effective)
        .map(|value| value.value.as_str())
}

/// Returns what the framework's table says about a setting with this value.
fn effect(key: &str, value: Option<&Value>) -> Option<framework::SettingEffect> {
    let pair = (key.to_owned(), in_force(value)?.to_owned());
    framework::setting_effects(&[pair]).into_iter().next()
}

/// Returns why a setting cannot have moved host memory.
fn no_reason(change: &SettingChange) -> Option<String> {
    let set = [&change.a, &change.b];
    if set.iter().all(|value| in_force(value.as_ref()).is_none()) {
        return Some("it is in force in neither run".into());
    }
    let idle = |value: &Option<Value>| {
        let known = effect(&change.key, value.as_ref())?;
        matches!(known.effect, Effect::GpuOnly | Effect::Nothing).then_some(known.why)
    };
    set.into_iter().find_map(idle).map(str::to_owned)
}

/// Returns the fit of a setting that moves memory to the host, if a class moved with it.
fn known_effect(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let host = |value: &Option<Value>| {
        let known = effect(&change.key, value.as_ref())?;
        let weight = match known.effect {
            Effect::MovesToHost => 1.0,
            Effect::Pinned => known.value.parse().ok()?,
            Effect::GpuOnly | Effect::Nothing | Effect::RemedySetting => return None,
        };
        Some((weight, known.why))
    };
    let (a, b) = (host(&change.a), host(&change.b));
    let why = a.or(b)?.1;
    // Another framework may do the same by a setting of its own.
    let also = |one: &SettingChange| {
        let other = if a.is_some() { &one.b } else { &one.a };
        let its = effect(&one.key, other.as_ref());
        one.key != change.key && its.is_some_and(|its| its.why == why)
    };
    if a.is_some() != b.is_some() && diff.settings.iter().any(also) {
        return None;
    }
    let classes = acts_on(change);
    let weight = |side: Option<(f64, _)>| side.map_or(0.0, |(weight, _)| weight);
    let direction = weight(b) - weight(a);
    let moved = moved(diff)
        .filter(|owner| is_of(owner, classes))
        .find(|owner| owner.peak_delta() as f64 * direction > 0.0)?;
    let side = if direction > 0.0 { "B" } else { "A" };
    let figures = peaks(moved);
    let why = format!("{why}, in {side} only; {figures}");
    Some(fit(change, Some(&moved.class), why))
}

/// Returns parts of the names of the classes that a setting acts on; none if that is not known.
fn acts_on(change: &SettingChange) -> &'static [String] {
    let sides = [&change.a, &change.b];
    let mut known = sides
        .into_iter()
        .filter_map(|side| effect(&change.key, side.as_ref()));
    known.next().map_or(&[], |known| known.acts_on)
}

fn is_of(owner: &OwnerChange, classes: &[String]) -> bool {
    // What a child made by fork has is its parent's, and no setting of the parent's class acts on
    // it.
    let named = |part: &String| owner.class.contains(part.as_str());
    !owner.is_of_children() && (classes.is_empty() || classes.iter().any(named))
}

/// Returns the fit of a size that bounds what the calls of a class take, if that class moved the
/// same way.
fn bound(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let classes = acts_on(change);
    let way = direction(change)?;
    let mut moved = moved(diff).filter(|owner| !classes.is_empty() && is_of(owner, classes));
    let moved = moved.find(|owner| is_same_way(owner, way))?;
    let why = format!("it bounds what {} takes; {}", moved.class, peaks(moved));
    Some(fit(change, Some(&moved.class), why))
}

/// The kernel's kills for memory.
const BY_KERNEL: [Killer; 3] = [
    Killer::KernelOomMemcg,
    Killer::KernelOomGlobal,
    Killer::KernelOom,
];

/// Returns how many deaths each run had by these killers.
fn kills(diff: &Diff, killers: &[Killer]) -> (u32, u32) {
    let deaths = || {
        diff.deaths
            .iter()
            .filter(|death| killers.contains(&death.killer))
    };
    (
        deaths().map(|death| death.a).sum(),
        deaths().map(|death| death.b).sum(),
    )
}

/// Returns the fit of a cgroup's limit at which the kernel killed, if the number of its kills
/// changed.
fn cgroup_limit(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let (a, b) = kills(diff, &BY_KERNEL);
    let limit = |value: &Option<Value>| {
        value
            .as_ref()
            .map_or("none".to_owned(), |one| one.value.clone())
    };
    let why = format!(
        "{} in A, {} in B; the kernel killed {a} in A, {b} in B",
        limit(&change.a),
        limit(&change.b)
    );
    (a != b).then(|| fit(change, None, why))
}

/// Returns the fit of a setting that decides when Ray's monitor kills, if the number of its kills
/// changed.
fn threshold(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    if !decides(change) || change.key == THRESHOLD || is_how_often(change) {
        return None;
    }
    let (a, b) = kills(diff, &[Killer::RayMemoryMonitor]);
    let (c, d) = kills(diff, &BY_KERNEL);
    (a != b).then(|| {
        let mut why =
            format!("it decides when Ray's monitor kills; the monitor killed {a} in A, {b} in B");
        // Each killer that killed.
        if c + d > 0 {
            why.push_str(&format!("; the kernel killed {c} in A, {d} in B"));
        }
        fit(change, None, why)
    })
}

/// Returns whether only the interval of the monitor changed, not whether it runs. That decides no
/// kill.
fn is_how_often(change: &SettingChange) -> bool {
    let is_off = |value: &Option<Value>| in_force(value.as_ref()) == Some("0");
    change.key.ends_with("refresh_ms") && is_off(&change.a) == is_off(&change.b)
}

/// Returns the fit of a number that changed by the same factor as a class that it may act on.
fn proportion(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    if change.key.trim_start_matches('-').replace('-', "_") == OBJECT_STORE {
        return None;
    }
    let number = |value: &Option<Value>| in_force(value.as_ref())?.parse::<f64>().ok();
    let (a, b) = (number(&change.a)?, number(&change.b)?);
    if a <= 0.0 || b <= 0.0 {
        return None;
    }
    let factor = b / a;
    let classes = acts_on(change);
    let mut owners = diff.owners.iter().filter(|owner| is_of(owner, classes));
    owners.find_map(|owner| {
        let (first, second) = (owner.a?, owner.b?);
        let (what, shown) = grows_by(factor, first, second)?;
        let why = format!("value × {factor:.2}; the {what} of {} {shown}", owner.class);
        Some(fit(change, Some(&owner.class), why))
    })
}

/// Returns which figure of a class changed by `factor`: its growth per call, the number of its
/// processes, or its peak. The number of processes may also change by the inverse.
fn grows_by(factor: f64, a: OwnerSide, b: OwnerSide) -> Option<(&'static str, String)> {
    let close = |first: f64, second: f64, factor: f64| {
        let own = second / first;
        (first > 0.0 && (own / factor - 1.0).abs() < CLOSE && (own - 1.0).abs() > SAME)
            .then_some(own)
    };
    let change = |own: f64, first: String, second: String| {
        let moved = if own < 1.0 { "fell" } else { "rose" };
        format!("{moved} from {first} to {second} (× {own:.2})")
    };
    if let (Some(first), Some(second)) = (a.per_call_bytes, b.per_call_bytes)
        && let Some(own) = close(first.0 as f64, second.0 as f64, factor)
    {
        let shown = change(own, size(first), size(second));
        return Some(("growth per call", shown));
    }
    // What each process asks for decides how many there are: twice the CPUs, half as many.
    let either = |first: f64, second: f64| {
        close(first, second, factor).or_else(|| close(first, second, 1.0 / factor))
    };
    if let Some(own) = either(f64::from(a.processes), f64::from(b.processes)) {
        let shown = change(own, a.processes.to_string(), b.processes.to_string());
        return Some(("number of processes", shown));
    }
    let (first, second) = (a.private_peak_bytes?, b.private_peak_bytes?);
    let own = close(first.0 as f64, second.0 as f64, factor)?;
    let big = (first.0 as f64 - second.0 as f64).abs() > SMALL;
    big.then(|| ("peak", change(own, size(first), size(second))))
}

/// Returns the fit of the only change that is left open.
fn sole(diff: &Diff, change: &SettingChange) -> Option<Fit> {
    let moved = moved(diff).next()?;
    let why = format!("no other known setting changed; {}", peaks(moved));
    Some(fit(change, Some(&moved.class), why))
}

/// Returns the classes whose peak changed, the largest change first.
fn moved(diff: &Diff) -> impl Iterator<Item = &OwnerChange> {
    diff.owners.iter().filter(|owner| {
        let delta = owner.peak_delta().unsigned_abs() as f64;
        let peak = |side: Option<OwnerSide>| side.and_then(|side| side.private_peak_bytes);
        let most = peak(owner.a).max(peak(owner.b)).map_or(0, |bytes| bytes.0);
        delta > SMALL && delta > SAME * most as f64
    })
}

fn peaks(owner: &OwnerChange) -> String {
    let peak = |side: Option<OwnerSide>| {
        let bytes = side.and_then(|side| side.private_peak_bytes);
        size(bytes.unwrap_or(Bytes(0)))
    };
    format!(
        "{} held {} in A, {} in B",
        owner.class,
        peak(owner.a),
        peak(owner.b)
    )
}
