//! Keeps calls: what a worker ran, which call it died in, and what each call left behind.

use std::collections::{HashSet, VecDeque};

use crate::{
    event::{Call, Exit},
    ids::{BootTime, Bytes, SECOND_NS},
    judge::report::CallsReport,
    ray::identify,
};

/// At most this many calls of one process are kept: the last ones.
const MAX_CALLS: usize = 512;
/// At most this many samples of a running call are kept. Only those that were higher than all later
/// ones are of use.
const MAX_HIGHS: usize = 64;
/// A method keeps what it takes if at least one part in this many stays.
const KEPT: i64 = 4;
/// The first calls are warm-up: imports, caches, the allocator's pools, an optimizer's states.
pub(crate) const WARM_UP: usize = 2;
/// Fewer calls are no series.
const SERIES: u32 = 3;
/// Fewer calls are no trend: two after the warm-up, and the last, which holds its arguments.
const TREND: u32 = 5;
/// Fewer tasks do not show that memory is used again.
const REUSES: u32 = 3;
/// Less growth than this in a call is noise of the allocator.
const GREW: i64 = 1 << 20;
/// Calls that left less than this in all after the warm-up do not fill memory.
const MATTERS: Bytes = Bytes(32 << 20);
/// A level is steady if it moves by at most one part in this many of what is held.
const STEADY: u64 = 5;
/// This many of the last calls tell what one takes while it runs.
const LAST: usize = 3;

/// A running call is reported within this time. A worker without a report for longer is idle.
const REPORT_NS: i64 = 2 * SECOND_NS;

/// The calls of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    complete: VecDeque<Call>,
    running: Option<Call>,
    /// Samples that no later one exceeds.
    highs: VecDeque<(BootTime, Bytes)>,
}

/// What the tasks of a worker left resident and later ones used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReusedMemory {
    /// The task that it ran first.
    pub(crate) task: String,
    /// The number of its tasks.
    pub(crate) calls: u32,
    /// What stayed resident between them.
    pub(crate) kept: Bytes,
}

/// A worker that has had nothing to do since its last task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdleWorker {
    /// The task that left most.
    pub(crate) task: String,
    /// How much that task grew the worker.
    pub(crate) grew: Bytes,
    /// How long it has had nothing to do, in seconds.
    pub(crate) seconds: i64,
    /// What it held when its last task ended.
    pub(crate) left: Bytes,
}

/// What the calls of one title left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Growth {
    pub(crate) title: String,
    /// The number of complete calls.
    pub(crate) calls: u32,
    /// What each call leaves behind, if most of them left something that was not given back.
    pub(crate) per_call: Option<Bytes>,
}

impl Growth {
    /// Whether there were enough calls to say what one keeps.
    pub(crate) fn is_series(&self) -> bool {
        self.calls >= SERIES
    }

    /// Whether the calls are a trend that fills memory.
    pub(crate) fn is_steady(&self) -> bool {
        self.calls >= TREND && self.kept() >= MATTERS
    }

    /// Returns what the calls have kept since the warm-up.
    pub(crate) fn kept(&self) -> Bytes {
        let each = self.per_call.unwrap_or_default();
        let calls = u64::from(self.calls).saturating_sub(WARM_UP as u64);
        Bytes(each.0.saturating_mul(calls))
    }
}

/// Whether it is the call of a task, and not of an actor.
fn is_task(call: &Call) -> bool {
    identify::title(&call.title).is_some_and(|title| title.actor_class.is_none())
}

impl Calls {
    pub(crate) fn fold(&mut self, call: &Call) {
        if call.ended.is_none() {
            // The title of an actor that was idle when the recording began is its class alone.
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
        // Many workers run one task, and `push_back` would make room for four.
        if self.complete.is_empty() {
            self.complete.reserve_exact(1);
        }
        self.complete.push_back(call);
    }

    /// Returns whether a call began after `time`.
    pub(crate) fn began_after(&self, time: BootTime) -> bool {
        let mut calls = self.running.iter().chain(&self.complete);
        calls.any(|call| call.began > time)
    }

    pub(crate) fn sampled(&mut self, time: BootTime, private: Bytes) {
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

    /// Returns the title of the call that ran at `time`, or ran last. Growth is seen a moment after
    /// it happened. `None` if no such call is known.
    pub(crate) fn title_at(&self, time: BootTime) -> Option<identify::Title> {
        let mut latest = self.complete.iter().chain(&self.running).rev();
        identify::title(&latest.find(|call| call.began <= time)?.title)
    }

    /// Returns the title of the call that runs, or ran last.
    pub(crate) fn latest(&self) -> Option<&str> {
        let latest = self.running.as_ref().or(self.complete.back())?;
        Some(&latest.title)
    }

    /// Whether the method or task that ran at `time` began again later, and ended.
    pub(crate) fn ran_again(&self, time: BootTime) -> bool {
        let all = || self.complete.iter().chain(&self.running);
        let then = all().rev().find(|call| call.began <= time);
        let again = |call: &Call| then.is_some_and(|then| then.title == call.title);
        let mut later = self.complete.iter().filter(|call| call.began > time);
        later.any(again)
    }

    /// Returns when Ray gave out the worker: at a task's last call, or at an actor's first one, as
    /// far as that is kept.
    pub(crate) fn leased(&self, task: bool) -> Option<BootTime> {
        let all = || self.complete.iter().chain(&self.running);
        let call = if task {
            all().next_back()
        } else {
            all().next().filter(|_| self.complete.len() < MAX_CALLS)
        };
        Some(call?.began)
    }

    /// Returns the task that it ran first.
    pub(crate) fn first(&self) -> Option<String> {
        let mut all = self.complete.iter().chain(&self.running);
        identify::title(&all.next()?.title)?.task
    }

    /// Returns what calls left behind, by title. The title that grew most comes first.
    pub(crate) fn growth(&self) -> Vec<Growth> {
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

    /// Returns the title that grew most, of those with a trend that fills memory.
    pub(crate) fn steady(&self) -> Option<Growth> {
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
        // Until the next call begins, the last one still holds its arguments.
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

    /// Returns what each call added until the next call of any title began. So what is freed right
    /// after a call, above all its arguments, counts for that call. What other methods take and
    /// give back counts for them.
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

    /// Returns how much more than `now` the next call will hold at its peak, as far as the last
    /// calls tell. Each of these kept `each`. The result is negative if the running call already
    /// holds more.
    pub(crate) fn next_call_peak_above(&self, title: &str, each: Bytes, now: Bytes) -> Option<i64> {
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
        // A short call is reported when it has ended. Until then, and while its arguments are still
        // there, the next call does not begin at `now`.
        let last = self.complete.back().filter(|call| call.title == title);
        let level = last.and_then(|call| Some(Bytes(call.before?.0 + each.0)));
        let begins = running.unwrap_or_else(|| level.map_or(now, |level| level.min(now)));
        Some((begins.0 + most).cast_signed() - now.0.cast_signed())
    }

    /// Returns what stays resident between tasks and is used again: the level at which tasks begin
    /// rose once and then stayed.
    ///
    /// A task leaves no state behind, so that memory was freed. An actor may keep as much on
    /// purpose, so actors are left out.
    pub(crate) fn reused(&self) -> Option<ReusedMemory> {
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
        Some(ReusedMemory {
            task: identify::title(&first.title)?.task?,
            calls,
            kept: Bytes(kept),
        })
    }

    /// Whether it runs nothing. A call that has run for a second would have been reported by `now`.
    pub(crate) fn is_idle(&self, now: BootTime) -> bool {
        let last = self.complete.back().filter(|_| self.running.is_none());
        let ended = last.and_then(|call| call.ended);
        ended.is_some_and(|ended| now.since(ended) > REPORT_NS)
    }

    /// Returns how long nothing has run by `now`, and which task left most of what is held. Only
    /// for workers that ran nothing but tasks.
    pub(crate) fn idle(&self, now: BootTime) -> Option<IdleWorker> {
        let last = self.complete.back().filter(|_| self.running.is_none())?;
        if !self.complete.iter().all(is_task) {
            return None;
        }
        let grew = |call: &Call| Some(call.after?.0.saturating_sub(call.before?.0));
        let most = self.complete.iter().max_by_key(|call| grew(call))?;
        let (left, grew) = (last.after?, Bytes(grew(most)?));
        // A worker is used again. What it holds is one task's only if that task grew by most of it.
        (grew.0 >= left.0 / 2).then_some(IdleWorker {
            task: identify::title(&most.title)?.task?,
            grew,
            seconds: now.since(last.ended?) / SECOND_NS,
            left,
        })
    }

    /// Returns the calls as a death reports them.
    pub(crate) fn at_death(
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

/// What one row of a call added, together with the calls without a row that followed it.
#[derive(Debug, Clone, Copy)]
struct Step {
    bytes: i64,
    calls: u32,
    /// Whether the next call was seen to begin. Until then, the arguments of this call count in it.
    whole: bool,
}

/// Whether most of what the calls took was given back, right after each call or by other methods.
/// The other half of an offload swing is such a method. Then the level at which calls begin does
/// not rise with what they take.
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

/// Returns the mean of the middle half. This leaves out the first calls, which warm up, and what
/// happened once. `None` if less than half of the calls grew, or if most was given back.
fn per_call(steps: &[Step]) -> Option<Bytes> {
    let grown: i64 = steps.iter().map(|step| step.bytes.max(0)).sum();
    let kept: i64 = steps.iter().map(|step| step.bytes).sum();
    // If there are too few calls, the last ones are the least affected by warm-up.
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
