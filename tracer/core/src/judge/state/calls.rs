//! Calls: what a worker ran, which call it died in, and what each call left behind.

use std::collections::{HashSet, VecDeque};

use crate::{
    event::{Call, Exit},
    ids::{BootTime, Bytes, SECOND_NS},
    judge::report::CallsReport,
    ray::identify,
};

/// Calls of one process that are kept, the last ones.
const MAX_CALLS: usize = 512;
/// Samples of a running call that are kept; all but those that were higher than all later ones are of no use.
const MAX_HIGHS: usize = 64;
/// A method keeps what it takes if one part in so many is kept.
const KEPT: i64 = 4;
/// The first calls warm up: imports, caches, the allocator's pools, an optimizer's states.
const WARM_UP: usize = 2;
/// Fewer calls are no series.
const SERIES: u32 = 3;
/// Fewer calls are no trend: two after the warm-up, and the last, which holds its arguments.
const TREND: u32 = 5;
/// Fewer tasks do not tell what is used again.
const REUSES: u32 = 3;
/// Less growth than this in a call is noise of the allocator.
const GREW: i64 = 1 << 20;
/// Calls that left less than this together after the warm-up fill nothing.
const MATTERS: Bytes = Bytes(32 << 20);
/// A level that moves by at most one part in so many of what is held is steady.
const STEADY: u64 = 5;
/// So many of the last calls tell what one takes while it runs.
const LAST: usize = 3;

/// A running call is reported within this time; without a report for longer a worker is idle.
const REPORT_NS: i64 = 2 * SECOND_NS;

/// The calls of one process.
#[derive(Debug, Clone, Default)]
pub(in crate::judge) struct Calls {
    complete: VecDeque<Call>,
    running: Option<Call>,
    /// Samples that no later one exceeds.
    highs: VecDeque<(BootTime, Bytes)>,
}

/// What the tasks of a worker left resident, and later ones used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Reused {
    /// The first task.
    pub(in crate::judge) task: String,
    /// All of them.
    pub(in crate::judge) calls: u32,
    /// What stayed resident between them.
    pub(in crate::judge) kept: Bytes,
}

/// A worker that has had nothing to do since its last task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Idle {
    /// The one of its tasks that left most.
    pub(in crate::judge) task: String,
    /// What that grew by.
    pub(in crate::judge) grew: Bytes,
    /// It has had nothing to do for so long.
    pub(in crate::judge) seconds: i64,
    /// What it held when the last one ended.
    pub(in crate::judge) left: Bytes,
}

/// What the calls of one title left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge) struct Growth {
    pub(in crate::judge) title: String,
    /// Complete calls.
    pub(in crate::judge) calls: u32,
    /// What each leaves behind, where most of them left something that was not given back.
    pub(in crate::judge) per_call: Option<Bytes>,
}

impl Growth {
    /// Whether there were enough of them to say what one keeps.
    pub(in crate::judge) fn is_series(&self) -> bool {
        self.calls >= SERIES
    }

    /// Whether they are a trend that fills memory.
    pub(in crate::judge) fn is_steady(&self) -> bool {
        self.calls >= TREND && self.kept() >= MATTERS
    }

    /// What its calls have kept since the warm-up.
    pub(in crate::judge) fn kept(&self) -> Bytes {
        let each = self.per_call.unwrap_or_default();
        let calls = u64::from(self.calls).saturating_sub(WARM_UP as u64);
        Bytes(each.0.saturating_mul(calls))
    }
}

/// Whether it is a task's call, and no actor's.
fn is_task(call: &Call) -> bool {
    identify::title(&call.title).is_some_and(|title| title.actor_class.is_none())
}

impl Calls {
    pub(in crate::judge) fn fold(&mut self, call: &Call) {
        if call.ended.is_none() {
            // An actor that idled when the recording began has its bare class for a title.
            let runs = identify::title(&call.title).is_some_and(|title| title.task.is_some());
            self.running = runs.then(|| call.clone());
            return;
        }
        self.running = None;
        let mut call = call.clone();
        call.peak = self.peak(&call).max(call.peak);
        self.highs.clear();
        if self.complete.len() >= MAX_CALLS {
            self.complete.pop_front();
        }
        self.complete.push_back(call);
    }

    pub(in crate::judge) fn sampled(&mut self, time: BootTime, private: Bytes) {
        while self.highs.back().is_some_and(|(_, high)| *high <= private) {
            self.highs.pop_back();
        }
        if self.highs.len() >= MAX_HIGHS {
            self.highs.pop_front();
        }
        self.highs.push_back((time, private));
    }

    fn peak(&self, call: &Call) -> Option<Bytes> {
        let sampled = self.highs.iter().find(|(time, _)| *time >= call.began);
        let sampled = sampled.map(|(_, high)| *high);
        sampled.max(call.before).max(call.after)
    }

    /// What the call that ran at `time`, or ran last, is called: growth is seen a moment after it was made. `None` where no such call is
    /// known.
    pub(in crate::judge) fn title_at(&self, time: BootTime) -> Option<identify::Title> {
        let mut latest = self.complete.iter().chain(&self.running).rev();
        identify::title(&latest.find(|call| call.began <= time)?.title)
    }

    /// The title of the call that runs, or ran last.
    pub(in crate::judge) fn latest(&self) -> Option<&str> {
        let latest = self.running.as_ref().or(self.complete.back())?;
        Some(&latest.title)
    }

    /// When Ray gave it its worker: a task's last call, an actor's first one, as far as that is kept.
    pub(in crate::judge) fn leased(&self, task: bool) -> Option<BootTime> {
        let all = || self.complete.iter().chain(&self.running);
        let call = if task {
            all().next_back()
        } else {
            all().next().filter(|_| self.complete.len() < MAX_CALLS)
        };
        Some(call?.began)
    }

    /// The task that it ran first.
    pub(in crate::judge) fn first(&self) -> Option<String> {
        let mut all = self.complete.iter().chain(&self.running);
        identify::title(&all.next()?.title)?.task
    }

    /// What it left behind, by title; the title that grew most comes first.
    pub(in crate::judge) fn growth(&self) -> Vec<Growth> {
        let titles: HashSet<&str> = self
            .complete
            .iter()
            .map(|call| call.title.as_str())
            .collect();
        let mut found: Vec<Growth> = titles
            .into_iter()
            .map(|title| self.growth_of(title))
            .collect();
        found.sort_by(|one, other| {
            let order = |growth: &Growth| (growth.per_call, growth.calls);
            order(other)
                .cmp(&order(one))
                .then(one.title.cmp(&other.title))
        });
        found
    }

    /// What grew most, where it is a series.
    pub(in crate::judge) fn steady(&self) -> Option<Growth> {
        let mut grown = self.growth().into_iter();
        grown.find(Growth::is_steady)
    }

    fn growth_of(&self, title: &str) -> Growth {
        let calls: Vec<&Call> = self
            .complete
            .iter()
            .filter(|call| call.title == title)
            .collect();
        let mut steps = self.steps(title);
        // Until the next call begins, the last one holds its arguments.
        if steps.len() > 1 {
            steps.pop_if(|last| !last.whole);
        }
        let (first, last) = (calls.first(), calls.last());
        let number = |call: Option<&&Call>| call.map_or(0, |call| call.nth);
        let dropped = self.complete.len() >= MAX_CALLS;
        let before_first = if dropped {
            number(first).saturating_sub(1)
        } else {
            0
        };
        Growth {
            title: title.to_owned(),
            calls: number(last).saturating_sub(before_first),
            per_call: per_call(&steps).filter(|_| !given_back(&calls, &steps)),
        }
    }

    /// What each call added until the next of any title began, so that what is freed right after a call, its arguments above all, is its
    /// own, and what other methods take and give back is theirs.
    fn steps(&self, title: &str) -> Vec<Step> {
        let nexts = self.complete.iter().skip(1).chain(&self.running);
        let ends = nexts.map(|next| next.before).chain([None]);
        let pairs = self.complete.iter().zip(ends);
        let own: Vec<(&Call, Option<Bytes>)> =
            pairs.filter(|(call, _)| call.title == title).collect();
        let running = self.running.as_ref().filter(|call| call.title == title);
        let numbers = own.iter().skip(1).map(|(call, _)| call.nth);
        let numbers = numbers.map(Some).chain([running.map(|call| call.nth)]);
        own.iter()
            .zip(numbers)
            .filter_map(|((call, end), next)| {
                let (from, to) = (call.before?, end.or(call.after)?);
                Some(Step {
                    bytes: to.0.cast_signed() - from.0.cast_signed(),
                    calls: next.map_or(1, |next| next.saturating_sub(call.nth).max(1)),
                    whole: end.is_some(),
                })
            })
            .collect()
    }

    /// What the next call will have taken on top of `now` when it holds most, as far as the last ones tell, of which each kept `each`;
    /// negative where the running one holds more by now.
    pub(in crate::judge) fn ahead(&self, title: &str, each: Bytes, now: Bytes) -> Option<i64> {
        let own = self
            .complete
            .iter()
            .rev()
            .filter(|call| call.title == title);
        let took = |call: &Call| {
            let peak = call.peak.max(call.after)?;
            Some(peak.0.saturating_sub(call.before?.0))
        };
        let most = own.take(LAST).filter_map(took).max()?;
        let running = self.running.as_ref().and_then(|call| call.before);
        // A short call is told when it has ended: until then, and while its arguments are still there, `now` is not a level to begin at.
        let last = self.complete.back().filter(|call| call.title == title);
        let level = last.and_then(|call| Some(Bytes(call.before?.0 + each.0)));
        let begins = running.unwrap_or_else(|| level.map_or(now, |level| level.min(now)));
        Some((begins.0 + most).cast_signed() - now.0.cast_signed())
    }

    /// What stays resident between tasks and is used again: the level at which they begin rose once and then stayed. A task leaves no
    /// state behind, so that was freed; an actor may keep as much on purpose, so of actors nothing is said.
    pub(in crate::judge) fn reused(&self) -> Option<Reused> {
        let all = || self.complete.iter().chain(&self.running);
        if self.complete.len() >= MAX_CALLS || !all().all(is_task) {
            return None;
        }
        let levels: Vec<u64> = all().filter_map(|call| Some(call.before?.0)).collect();
        let (base, later) = levels.split_first()?;
        let (lowest, highest) = (later.iter().min()?, later.iter().max()?);
        let kept = lowest.checked_sub(*base)?;
        let calls = u32::try_from(levels.len()).ok()?;
        if calls <= REUSES || highest - lowest > kept / STEADY {
            return None;
        }
        let first = self.complete.front()?;
        Some(Reused {
            task: identify::title(&first.title)?.task?,
            calls,
            kept: Bytes(kept),
        })
    }

    /// Whether it runs nothing: a call that has run for a second would have been reported by `now`.
    pub(in crate::judge) fn is_idle(&self, now: BootTime) -> bool {
        let last = self.complete.back().filter(|_| self.running.is_none());
        let ended = last.and_then(|call| call.ended);
        ended.is_some_and(|ended| now.since(ended) > REPORT_NS)
    }

    /// How long nothing has run by `now`, and which task left most of what is held, where all that ran were tasks.
    pub(in crate::judge) fn idle(&self, now: BootTime) -> Option<Idle> {
        let last = self.complete.back().filter(|_| self.running.is_none())?;
        if !self.complete.iter().all(is_task) {
            return None;
        }
        let grew = |call: &Call| Some(call.after?.0.saturating_sub(call.before?.0));
        let most = self.complete.iter().max_by_key(|call| grew(call))?;
        let (left, grew) = (last.after?, Bytes(grew(most)?));
        // A worker is used again: what it holds is one task's only where that one grew by most of it.
        (grew.0 >= left.0 / 2).then_some(Idle {
            task: identify::title(&most.title)?.task?,
            grew,
            seconds: now.since(last.ended?) / SECOND_NS,
            left,
        })
    }

    /// The calls as a death tells them.
    pub(in crate::judge) fn at_death(
        &self,
        time: BootTime,
        exit: &Exit,
        from_start: bool,
        matters: impl Fn(&Growth) -> bool,
    ) -> Option<CallsReport> {
        let title = exit.title.as_deref();
        let running = self
            .running
            .as_ref()
            .filter(|call| title.is_none_or(|title| title == call.title));
        let (grown, steady) = (self.growth(), self.steady());
        let of = |title: &str| grown.iter().find(|growth| growth.title == title);
        let growth = match running {
            Some(call) => of(&call.title),
            None => steady.as_ref(),
        };
        let title = running.map(|call| call.title.as_str());
        let title = title.or_else(|| growth.map(|growth| growth.title.as_str()))?;
        let peak = running.and_then(|call| self.peak(call).max(exit.memory.anon));
        Some(CallsReport {
            task: identify::title(title).and_then(|title| title.task)?,
            died_in: running.map(|call| call.nth),
            from_start,
            running_ms: running.and_then(|call| time.ms_since(call.began)),
            before_bytes: running.and_then(|call| call.before),
            peak_bytes: peak,
            complete: running.map_or_else(
                || growth.map_or(0, |growth| growth.calls),
                |call| call.nth.saturating_sub(1),
            ),
            per_call_bytes: growth
                .filter(|growth| growth.is_steady() && matters(growth))
                .and_then(|growth| growth.per_call),
        })
    }
}

/// What one row of a call, and the calls without a row that followed it, added.
#[derive(Debug, Clone, Copy)]
struct Step {
    bytes: i64,
    calls: u32,
    /// Whether the next call was seen to begin: until then its arguments count in it.
    whole: bool,
}

/// Whether most of what the calls took was given back: right after each, or by other methods, as by the other half of an offload
/// swing; then the level at which calls begin does not rise with what they take.
fn given_back(calls: &[&Call], steps: &[Step]) -> bool {
    let signed = |bytes: Option<Bytes>| Some(bytes?.0.cast_signed());
    let own = calls
        .iter()
        .take(steps.len())
        .filter_map(|call| Some(signed(call.after)? - signed(call.before)?));
    let taken: i64 = own.filter(|own| *own > 0).sum();
    let level = |call: Option<&&Call>| signed(call?.before);
    let Some((first, last)) = level(calls.first()).zip(level(calls.last())) else {
        return false;
    };
    let kept = |steps: &[Step]| steps.iter().map(|step| step.bytes).sum::<i64>();
    let before_last = &steps[..steps.len().min(calls.len().saturating_sub(1))];
    kept(steps) * KEPT < taken || (last - first) * KEPT < kept(before_last)
}

/// The mean of the middle half: without the first calls, which warm up, and without what happened once. `None` where less than half of the
/// calls grew, or where most was given back again.
fn per_call(steps: &[Step]) -> Option<Bytes> {
    let grown: i64 = steps.iter().map(|step| step.bytes.max(0)).sum();
    let kept: i64 = steps.iter().map(|step| step.bytes).sum();
    // Of too few calls the last ones warm up least.
    let usual = &steps[WARM_UP.min(steps.len().saturating_sub(1))..];
    let growing = usual.iter().filter(|step| step.bytes >= GREW).count();
    if growing * 2 < usual.len() || kept * 2 < grown {
        return None;
    }
    let mut each: Vec<i64> = usual
        .iter()
        .map(|step| step.bytes / i64::from(step.calls))
        .collect();
    each.sort_unstable();
    let outer = each.len().div_ceil(4).min(each.len().saturating_sub(1) / 2);
    let middle = each.get(outer..each.len() - outer)?;
    let mean = middle.iter().sum::<i64>() / i64::try_from(middle.len().max(1)).ok()?;
    u64::try_from(mean).ok().filter(|each| *each > 0).map(Bytes)
}

#[cfg(test)]
mod tests;
