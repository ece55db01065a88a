//! Watches one Python process: how its memory moves, and which line causes each move.
//!
//! Its private memory consists of its large mappings and the rest, called the heap here. Each part
//! is followed as a level: its present size against what was recorded of it. So errors of
//! measurement never add up. Growth is assigned to a line only where that is certain: in a mapping
//! that the line asked for and fills, or between two looks that both found the line. Other growth
//! is recorded without a line.

use std::time::{Duration, Instant};

use raytrace_proc::{
    clock,
    growth_records::{NewGrowth, NewMapping},
    memory::MemoryFiles,
    processes,
    resident_table::{ResidentLevel, ResidentTable, Slot},
};

use super::{
    Gone, Look,
    budget::{Budget, Work},
    claims::Claims,
    ledger::{Grown, Ledger},
    level::{MOVE, MemoryPair},
    mappings::{LATE, Mappings, Move, Whose},
    reading::{Reading, is_of_the_job, same_function, same_line},
};
use crate::{
    event::{Observation, Unsampled},
    ids::{BootTime, Pid, ProcessKey},
    read::{Stack, is_python},
};

/// How often a process is looked at: if it grew lately or is near a limit, and otherwise.
const COLD: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(500);
const LATELY: Duration = Duration::from_secs(10);
/// How often a process that grows is looked at, or less often, to keep the cost at a twentieth of
/// the time.
const HOT: Duration = Duration::from_millis(5);
const HOT_SHARE: u32 = 20;
/// How soon a process that grows is looked at again if there was no time to measure it.
const UNPAID: Duration = Duration::from_millis(20);
/// How soon a process that does not run is checked for running again.
const WAKES: Duration = Duration::from_millis(25);
/// How often the kernel's table is checked by a look, for a process that runs and for one that
/// sleeps: a process may run between two ticks.
const CHECK_RUNS: Duration = Duration::from_secs(5);
const CHECK_SLEEPS: Duration = Duration::from_secs(30);
/// How long a process stays of interest after it grew.
const STAYS_HOT: Duration = Duration::from_millis(300);
/// A smaller process that does not rest is starting. Growth by its imports is assigned to no line.
const SMALLEST: u64 = 128 << 20;
/// Growth between two looks that is worth a stack while the process was quiet. For a hot process,
/// any move is.
const FAST: u64 = 8 << 20;
/// Slow growth is recorded in pieces of this size, without a line.
const SLOW: u64 = 64 << 20;
/// A mapping from this size on is followed by itself.
const LARGE: u64 = 16 << 20;
/// By how much the heap must shrink to count: this, or this share of all memory, which is the error
/// of the mappings' levels.
const SHRUNK: u64 = 8 << 20;
const SHRUNK_SHARE: u64 = 64;
/// How long the pages of a range that was given back may still be counted.
const SETTLES: Duration = Duration::from_millis(200);
/// A line that two looks found, at most this far apart, was there all the time.
const BRACKET: Duration = Duration::from_millis(500);
/// Growth up to the first look at a line is assigned to the line if it then grows by this many
/// times as much, within this time.
const PROOF: u64 = 10;
const WAITS: Duration = Duration::from_secs(2);
/// If the line changed between two looks this close to each other, each line gets half.
const CLOSE: Duration = Duration::from_millis(20);

/// A process that is watched.
pub(super) struct Watched {
    process: ProcessKey,
    files: MemoryFiles,
    mappings: Mappings,
    claims: Claims,
    ledger: Ledger,
    reading: Reading,
    /// Its slot in the kernel's table, and the figures there at the last look.
    slot: Option<Slot>,
    before: Option<(Instant, ResidentLevel)>,
    due: Instant,
    hot_until: Instant,
    unsettled_until: Instant,
    /// All memory: at the last look, and at the last look that found a stack or that found the
    /// process at rest.
    last_total: u64,
    read_total: u64,
    /// Shared memory at the last look: without files, and as statm counts it, files included.
    shared: u64,
    statm_shared: u64,
    /// Its memory when everything was last settled and recorded. While it has this much, there is
    /// nothing to do.
    rests_at: Option<MemoryPair>,
    /// The figures that were read last.
    last: MemoryPair,
    /// The heap and shared memory at the last look that found a stack, or that found the process at
    /// rest.
    mark: MemoryPair,
    /// When less memory was counted than was recorded. It is measured later if there is no time.
    shrunk_at: Option<BootTime>,
    /// Whether there was no time for a part of what is not yet recorded.
    lacks_time: bool,
    /// The thread that mapped something last.
    mapper: Option<Pid>,
    /// What was recorded of the heap and of shared memory.
    recorded: MemoryPair,
    /// The last stack, and growth that is assigned to its line if that goes on growing.
    seen: Option<(Instant, Stack)>,
    pending: Option<Pending>,
}

/// Growth up to the first look that found a line. It was caused by this line or by the previous
/// one.
struct Pending {
    stack: Stack,
    level: MemoryPair,
    /// How much the line has grown since.
    proof: u64,
    until: Instant,
}

impl Watched {
    /// Starts to watch a process; `None` where it is not Python, or is gone.
    pub(super) fn new(process: ProcessKey, now: Instant) -> Option<Self> {
        if !is_python(process.pid) {
            return None;
        }
        // Opened before the identity is checked: these files never show a later process with the
        // same pid.
        let files = MemoryFiles::open(process.pid).ok()?;
        let mappings = Mappings::open(process.pid);
        processes::key(process.pid).filter(|own| own.same(process))?;
        let (split, count) = (files.split()?, files.count()?);
        let level = MemoryPair {
            private: count.anon.0,
            shared: split.shmem.unwrap_or_default().0,
        };
        Some(Self {
            process,
            files,
            mappings,
            claims: Claims::default(),
            ledger: Ledger::default(),
            reading: Reading::new(process, now),
            slot: None,
            before: None,
            due: now,
            hot_until: now,
            unsettled_until: now,
            last_total: level.private + level.shared,
            read_total: level.private + level.shared,
            shared: level.shared,
            statm_shared: count.shared.0,
            rests_at: None,
            last: level,
            mark: level,
            shrunk_at: None,
            lacks_time: false,
            mapper: None,
            recorded: level,
            seen: None,
            pending: None,
        })
    }

    pub(super) fn process(&self) -> ProcessKey {
        self.process
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn has_slot(&mut self, slot: Option<Slot>) {
        self.slot = slot;
    }

    /// Whether there is little room for more of its rows.
    pub(super) fn is_full(&self) -> bool {
        self.ledger.is_full()
    }

    /// Whether the kernel saw no change since the last look. If so, the look is put off, which
    /// costs no system call.
    pub(super) fn is_still(
        &mut self,
        levels: Option<ResidentTable>,
        now: Instant,
        near: bool,
    ) -> bool {
        let level = levels.zip(self.slot);
        let level = level.map(|(levels, slot)| levels.of(slot, self.process));
        let before = std::mem::replace(&mut self.before, level.map(|level| (now, level)));
        let Some(((at, before), level)) = before.zip(level) else {
            return false;
        };
        let (hot, ran) = (self.is_hot(now), level.ran(&before));
        let at_rest = !hot && self.rests_at.is_some();
        let check = if ran { CHECK_RUNS } else { CHECK_SLEEPS };
        let still = (!ran || at_rest && level.moved(&before) < MOVE)
            && (hot || at_rest)
            && now.duration_since(at) < check
            && !(ran && self.reading.is_beat_at(now, near, self.last_total));
        if still {
            // Measured from the last real look, so that small moves add up.
            self.before = Some((at, before));
            self.due = now + if hot { WAKES } else { COLD };
        }
        still
    }

    /// Whether it grew just now.
    pub(super) fn is_hot(&self, now: Instant) -> bool {
        now < self.hot_until
    }

    /// Records, after an exec, that all memory of the previous program was given back.
    pub(super) fn lost_its_memory(&mut self, time: BootTime, now: Instant) {
        for one in self.mappings.given_back(now, u64::MAX) {
            let bytes = one.bytes.unsigned_abs();
            self.ledger.freed(time, Some(one.number), bytes);
        }
        if self.recorded.private > 0 {
            self.ledger.freed(time, None, self.recorded.private);
        }
    }

    /// Returns how many large mappings it had until now. Those of the next program have later
    /// numbers.
    pub(super) fn mappings_so_far(&self) -> u32 {
        self.mappings.so_far()
    }

    pub(super) fn number_mappings_from(&mut self, next: u32) {
        self.mappings.number_from(next);
    }

    /// Ends watching the process. Growth that waits for the next look is assigned to no line.
    pub(super) fn ended(
        &mut self,
        time: BootTime,
        send: impl FnMut(BootTime, Observation) -> bool,
    ) {
        if let Some(pending) = self.pending.take() {
            self.grew(time, Err(Unsampled::TooShort), pending.level);
        }
        if self.lacks_time {
            let private = self.last.private;
            let heap = MemoryPair {
                private: private.saturating_sub(self.mappings.recorded()),
                ..self.last
            };
            let owed = heap.less(self.recorded);
            if owed.is_move() {
                self.grew(time, Err(Unsampled::NoTime), owed);
            }
        }
        self.flush(send);
    }

    /// Whether work on so many bytes is worth its time.
    fn may(&mut self, look: &Look<'_>, work: Work, bytes: u64) -> bool {
        let may = look.budget.may(work, bytes);
        self.lacks_time |= !may && Budget::would(work, bytes);
        may
    }

    /// Returns why growth has no line. `otherwise` is the reason if there was time to look.
    fn why(&self, otherwise: Unsampled) -> Unsampled {
        if self.reading.is_refused() {
            Unsampled::Unreadable
        } else if self.lacks_time {
            Unsampled::NoTime
        } else {
            otherwise
        }
    }

    /// Sends the rows that are to be written, and forgets them.
    pub(super) fn flush(&mut self, mut send: impl FnMut(BootTime, Observation) -> bool) {
        let process = self.process;
        if let Some((time, reason)) = self.reading.refusal() {
            send(time, Observation::NoStack { process, reason });
        }
        self.ledger.flush(process, send);
    }

    /// Handles a mapping that one of its threads made. Mostly the kernel took the stack then. If
    /// not, it is read now, before the line is over.
    pub(super) fn mapped(&mut self, look: &mut Look<'_>, new: NewMapping) -> Result<(), Gone> {
        self.mapper = Some(new.mapped.tid);
        self.hot_until = look.now + STAYS_HOT;
        self.due = self.due.min(look.now + HOT);
        let level = self.count().ok_or(Gone)?;
        let bytes = new.mapped.all_bytes.0;
        if !new.stack.is_empty()
            && self.may(look, Work::Lines, bytes)
            && let Some(stack) = self.reading.named(look, new.mapped.tid, &new.stack)
        {
            self.ledger.seen(new.time, &stack);
            self.measure(look, Some(&stack), level.private);
            self.take(look, new, Some(stack), Duration::ZERO);
            return Ok(());
        }
        let is_worth = bytes >= LARGE || !self.is_starting(level);
        let stack = if is_worth && self.may(look, Work::Outside, bytes) {
            self.stack(look, self.mapper)
        } else {
            None
        };
        let age = Duration::from_nanos(look.time.since(new.time).max(0).cast_unsigned());
        self.take(look, new, stack.clone(), age);
        self.settle(look, stack, true)
    }

    /// Handles a report that it grew by much, with the stack that the kernel took then. Growth of
    /// the heap and of shared memory that is not yet recorded is assigned to that line, up to the
    /// reported amount. Growth in large mappings is measured there.
    pub(super) fn stepped(&mut self, look: &mut Look<'_>, new: &NewGrowth) -> Result<(), Gone> {
        self.hot_until = look.now + STAYS_HOT;
        self.due = self.due.min(look.now + HOT);
        let before = self.count().ok_or(Gone)?;
        if self.is_starting(before) {
            return Ok(());
        }
        let bytes = new.private.0 + new.shared.0;
        if !self.may(look, Work::Lines, bytes) {
            return Ok(());
        }
        let Some(mut stack) = self.stepper(look, new) else {
            return Ok(());
        };
        if let Some(native) = &new.native {
            let called = self.reading.called(look, native, bytes);
            stack.native = called.unwrap_or_default();
        }
        self.ledger.seen(new.time, &stack);
        let mut private = before.private;
        let is_own = |own: &Stack| same_function(own, &stack);
        // Private memory in a range that is not measured would count twice.
        let mut counts_twice = false;
        if self.measure(look, Some(&stack), private).is_some() {
            private = private.min(self.count().ok_or(Gone)?.private);
        } else if let Some(told) = self.told(look.now, new.private.0, is_own) {
            self.record(look, vec![told], Some(&stack));
            counts_twice = true;
        } else {
            counts_twice = self.mappings.may_be_filled(look.now, is_own);
        }
        if look.now < self.unsettled_until {
            return Ok(());
        }
        let level = MemoryPair {
            private: private.saturating_sub(self.mappings.resident()),
            shared: before.shared,
        };
        // What was there at the last rest, below a step, was caused by an earlier line.
        let recent = level.less(self.recorded.at_least(self.mark));
        let its = recent.at_most(MemoryPair {
            private: if counts_twice { 0 } else { new.private.0 },
            shared: new.shared.0,
        });
        // The ranges that it asked for are part of the same memory.
        self.claims.recorded_otherwise(&stack, its.private);
        self.recorded = self.recorded.more(its);
        self.mark = self.mark.at_least(self.recorded.at_most(level));
        self.grew(new.time, Ok(stack.clone()), its);
        self.seen = Some((look.now, stack));
        Ok(())
    }

    /// Takes a step for growth of the mapping that its function fills, as far as that is not
    /// recorded yet: the report may come later than a scan.
    fn told(&mut self, now: Instant, bytes: u64, is_own: impl Fn(&Stack) -> bool) -> Option<Move> {
        let recorded = self.recorded.private + self.mappings.recorded();
        let bytes = bytes.min(self.last.private.saturating_sub(recorded));
        self.mappings.told(now, bytes, is_own)
    }

    /// Returns the stack that caused the step. A thread without Python works for the main thread.
    /// If that runs no code of the job, it works for a thread that does.
    fn stepper(&mut self, look: &mut Look<'_>, new: &NewGrowth) -> Option<Stack> {
        if !new.has_main_thread_stack {
            return self.reading.named(look, new.tid, &new.stack);
        }
        let main = self.process.pid;
        let main = self.reading.named(look, main, &new.stack);
        let main = main.filter(is_of_the_job);
        if main.is_some() || !self.may(look, Work::Outside, new.private.0 + new.shared.0) {
            return main;
        }
        self.stack(look, None)
    }

    /// Follows a large mapping. A small one is a claim on growth of the heap, like a sample of a
    /// heap profiler.
    fn take(&mut self, look: &mut Look<'_>, new: NewMapping, stack: Option<Stack>, age: Duration) {
        let (bytes, all) = (new.mapped.bytes.0, new.mapped.all_bytes.0);
        if bytes >= LARGE {
            let range = (new.address, bytes);
            let number = self.mappings.add(range, stack, age, look.now);
            if let (Some(number), Some(native)) = (number, new.native) {
                let own = (self.process, number);
                look.unnamed.keep(own, bytes, native, look.now);
            }
        } else if let Some(mut stack) = stack.filter(|_| age <= LATE) {
            if let Some(native) = &new.native {
                let called = self.reading.called(look, native, all);
                stack.native = called.unwrap_or_default();
            }
            self.claims.add(stack, all, look.now);
        }
    }

    /// Reads its memory, and its stack where that is due.
    pub(super) fn look(&mut self, look: &mut Look<'_>) -> Result<(), Gone> {
        let hot = self.is_hot(look.now);
        let level = self.count().ok_or(Gone)?;
        let total = level.private + level.shared;
        let grown = total.saturating_sub(self.last_total);
        self.last_total = total;
        // A process that grows is opened when its first stack is read, if there is time for one.
        if grown < MOVE && !hot || !look.budget.may(Work::Outside, grown) {
            self.reading.prepare(look, level.private);
        }
        if !hot && self.rests_at == Some(level) && !self.reading.is_beat(look, level) {
            self.due = look.now + self.rest(look);
            return Ok(());
        }
        let waits = self.pending.is_some() || self.mappings.any_filling();
        // Small growth between two looks adds up.
        let unread = total.saturating_sub(self.read_total);
        let worth = if self.reading.is_beat(look, level) {
            total
        } else if hot && (unread >= MOVE || waits) || grown >= FAST {
            unread.max(grown)
        } else {
            0
        };
        let reads = worth > 0 && !self.is_starting(level);
        let stack = if reads && self.may(look, Work::Outside, worth) {
            self.stack(look, self.mapper.filter(|_| waits))
        } else {
            None
        };
        if stack.is_some() || !hot || total < self.read_total {
            self.read_total = total;
        }
        self.settle(look, stack, grown >= MOVE)
    }

    /// Assigns each move since the last look to the line that caused it.
    fn settle(
        &mut self,
        look: &mut Look<'_>,
        stack: Option<Stack>,
        moved: bool,
    ) -> Result<(), Gone> {
        let before = self.count().ok_or(Gone)?;
        if self.is_starting(before) {
            (self.recorded, self.mark) = (before, before);
            self.rests_at = Some(before);
            self.due = look.now + self.rest(look);
            return Ok(());
        }
        let hot = self.is_hot(look.now);
        let Some(filled) = self.measure(look, stack.as_ref(), before.private) else {
            // What is given back is found even then. Otherwise it would be told as held.
            self.shrink(look, before.private);
            // A small rest waits for more growth.
            let rests = !hot && before.private < self.mappings.measured_at() + LARGE;
            self.rests_at = rests.then_some(before);
            self.due = look.now + if hot { UNPAID } else { self.rest(look) };
            return Ok(());
        };
        let after = self.count().ok_or(Gone)?;
        self.shrink(look, before.private.max(after.private));
        let last = self.count().ok_or(Gone)?;
        let in_mappings = self.mappings.resident();
        let least = before.private.min(after.private).min(last.private);
        let level = MemoryPair {
            // Memory moves while it is measured. Only the smallest value is certain.
            private: least.saturating_sub(in_mappings),
            shared: before.shared,
        };
        let settled = look.now >= self.unsettled_until;
        if settled {
            self.pay(look, level);
        }
        let owed = level.less(self.recorded);
        let recent = level.less(self.mark).at_most(owed);
        let grows = filled || moved;
        // A range is gone before the counters have given up its pages. Until then the heap looks
        // too large.
        self.confirm(look, stack.as_ref(), recent);
        if settled && self.record_heap(look, stack.clone(), (owed, recent), hot) {
            self.recorded = self.recorded.at_least(level);
        }
        // Shared memory that was unmapped still exists for others. This is neither growth nor
        // memory given back.
        self.recorded.shared = self.recorded.shared.min(level.shared);
        if settled && (stack.is_some() || !hot) {
            self.mark = level;
        }
        if grows {
            self.hot_until = look.now + STAYS_HOT;
        }
        let at_rest = settled && !hot && self.pending.is_none() && !self.mappings.any_filling();
        self.rests_at = at_rest.then_some(before);
        self.lacks_time &= level.less(self.recorded).is_move();
        let cost = clock::cpu_time().saturating_sub(look.began);
        let wait = HOT.max(cost * HOT_SHARE).min(COLD);
        self.due = look.now + if hot { wait } else { self.rest(look) };
        if let Some(stack) = stack {
            self.seen = Some((look.now, stack));
        }
        Ok(())
    }

    /// Records what grew in mappings, if that is worth its time. Returns whether any did; `None` if
    /// it was not measured.
    fn measure(
        &mut self,
        look: &mut Look<'_>,
        running: Option<&Stack>,
        private: u64,
    ) -> Option<bool> {
        let is_still = |own: &Stack| running.is_none_or(|running| same_function(own, running));
        let grown = self.mappings.unmeasured(private);
        if grown >= MOVE && !self.may(look, Work::Measure, grown) {
            return None;
        }
        let is_due = self.mappings.is_due(look.now) && look.budget.may(Work::Measure, LARGE);
        if grown < MOVE && !is_due {
            self.mappings.leave(look.now, is_still);
            return Some(false);
        }
        let (mappings, now) = (&mut self.mappings, look.now);
        let moves = look.budget.pays(Work::Measure, || {
            let mut moves = mappings.filled(now, is_still);
            moves.extend(mappings.touched(now, private));
            moves
        });
        let any = !moves.is_empty();
        self.record(look, moves, running);
        Some(any)
    }

    /// Assigns the heap's growth to the lines that asked the kernel for it.
    fn pay(&mut self, look: &Look<'_>, level: MemoryPair) {
        let owed = level.less(self.recorded).private;
        for (stack, private) in self.claims.pay(owed, look.now) {
            self.recorded.private += private;
            let its = MemoryPair { private, shared: 0 };
            self.grew(look.time, Ok(stack), its);
        }
        self.mark = self.mark.at_least(self.recorded.at_most(level));
    }

    /// Records other growth of the heap, and that of shared memory, where it can be recorded now.
    /// Returns whether it was recorded.
    fn record_heap(
        &mut self,
        look: &Look<'_>,
        stack: Option<Stack>,
        (owed, recent): (MemoryPair, MemoryPair),
        hot: bool,
    ) -> bool {
        match stack {
            Some(stack) if owed.is_move() => {
                self.credit(look, stack, recent, owed.less(recent));
            }
            // Slow growth that no line asked the kernel for.
            None if !hot && (owed.private >= SLOW || owed.shared >= SLOW) => {
                let why = self.why(Unsampled::TooSlow);
                self.grew(look.time, Err(why), owed);
            }
            _ => return false,
        }
        true
    }

    /// Records moves of mappings. `running` is the stack for moves that no mapper caused.
    fn record(&mut self, look: &mut Look<'_>, moves: Vec<Move>, running: Option<&Stack>) {
        for one in moves {
            let mapping = Some(one.number);
            if one.bytes < 0 {
                let time = self.shrunk_at.unwrap_or(look.time);
                self.ledger.freed(time, mapping, one.bytes.unsigned_abs());
                continue;
            }
            let stack = match one.whose {
                Whose::Mapper(stack) => Some(self.calling(look, one.number, stack)),
                Whose::Running => self.bracketed(look, running),
                Whose::Unseen => None,
            };
            let stack = stack.ok_or(self.why(Unsampled::TooShort));
            let grown = Grown {
                private: one.bytes.unsigned_abs(),
                mapping,
                shared: 0,
            };
            self.ledger.grew(look.time, stack, grown);
        }
    }

    /// Returns the stack that mapped a range, with the native frames, if its growth is worth that.
    fn calling(&mut self, look: &mut Look<'_>, number: u32, mut stack: Stack) -> Stack {
        let Some(bytes) = self.mappings.worth_naming(number) else {
            return stack;
        };
        let Some(native) = look.unnamed.take(self.process, number) else {
            return stack;
        };
        if let Some(called) = self.reading.called(look, &native, bytes) {
            self.mappings.named(number, &called);
            stack.native = called;
        } else {
            look.unnamed
                .keep((self.process, number), bytes, native, look.now);
        }
        stack
    }

    /// Returns the running line, if the previous look found it too.
    fn bracketed(&self, look: &Look<'_>, running: Option<&Stack>) -> Option<Stack> {
        let (at, before) = self.seen.as_ref()?;
        let is = same_line(before, running?) && look.now.duration_since(*at) <= BRACKET;
        running.filter(|_| is).cloned()
    }

    /// Records by how much the heap is below what was recorded of it: first memory of mappings that
    /// are gone, then the heap's own.
    fn shrink(&mut self, look: &mut Look<'_>, private: u64) {
        let least = SHRUNK.max(private / SHRUNK_SHARE);
        let below =
            |own: &Self| (own.recorded.private + own.mappings.recorded()).saturating_sub(private);
        let missing = below(self);
        if missing < least {
            self.shrunk_at = None;
            return;
        }
        self.shrunk_at.get_or_insert(look.time);
        if !look.budget.may(Work::GivenBack, missing) {
            return;
        }
        let (mappings, now) = (&mut self.mappings, look.now);
        let measure = || mappings.given_back(now, missing - least);
        let moves = look.budget.pays(Work::GivenBack, measure);
        if !moves.is_empty() {
            self.unsettled_until = look.now + SETTLES;
        }
        self.record(look, moves, None);
        let bytes = below(self).min(self.recorded.private);
        if bytes >= least {
            let time = self.shrunk_at.unwrap_or(look.time);
            self.ledger.freed(time, None, bytes);
            self.recorded.private -= bytes;
        }
        self.shrunk_at = None;
    }

    /// Assigns growth before a line was seen to that line, only if it is small against what the
    /// line grew since.
    fn confirm(&mut self, look: &Look<'_>, running: Option<&Stack>, recent: MemoryPair) {
        let (Some(running), Some(mut pending)) = (running, self.pending.take()) else {
            return;
        };
        pending.proof += recent.private + recent.shared;
        let level = pending.level;
        if !same_line(&pending.stack, running) || look.now >= pending.until {
            let why = self.why(Unsampled::TooShort);
            self.grew(look.time, Err(why), level);
        } else if pending.proof >= PROOF * (level.private + level.shared) {
            self.grew(look.time, Ok(pending.stack), level);
        } else {
            self.pending = Some(pending);
        }
    }

    /// Assigns the growth of a look that found `stack`. `older` was too slow to be seen earlier.
    fn credit(&mut self, look: &Look<'_>, stack: Stack, level: MemoryPair, older: MemoryPair) {
        let Some((at, before)) = self.seen.clone() else {
            return self.wait(look, stack, level, older);
        };
        let age = look.now.duration_since(at);
        if same_line(&before, &stack) && age <= BRACKET {
            self.grew(look.time, Err(self.why(Unsampled::TooSlow)), older);
            return self.grew(look.time, Ok(stack), level);
        }
        if age > CLOSE || !before.running {
            return self.wait(look, stack, level, older);
        }
        // If the new line only waits, all of it is the previous line's.
        let share = |all: u64| if stack.running { all / 2 } else { all };
        let its = MemoryPair {
            private: share(level.private),
            shared: share(level.shared),
        };
        self.grew(look.time, Err(self.why(Unsampled::TooSlow)), older);
        self.grew(look.time, Ok(before), its);
        self.grew(look.time, Ok(stack), level.less(its));
    }

    fn wait(&mut self, look: &Look<'_>, stack: Stack, level: MemoryPair, older: MemoryPair) {
        self.grew(look.time, Err(self.why(Unsampled::TooSlow)), older);
        if let Some(before) = self.pending.take() {
            let why = self.why(Unsampled::TooShort);
            self.grew(look.time, Err(why), before.level);
        }
        self.pending = Some(Pending {
            stack,
            level,
            proof: 0,
            until: look.now + WAITS,
        });
    }

    fn grew(&mut self, time: BootTime, stack: Result<Stack, Unsampled>, level: MemoryPair) {
        if level.private > 0 || level.shared > 0 {
            let grown = Grown {
                private: level.private,
                mapping: None,
                shared: level.shared,
            };
            self.ledger.grew(time, stack, grown);
        }
    }

    /// Reads the figures; `None` when the process is gone.
    fn count(&mut self) -> Option<MemoryPair> {
        let count = self.files.count()?;
        if count.shared.0.abs_diff(self.statm_shared) >= MOVE {
            self.shared = self.files.split()?.shmem.unwrap_or_default().0;
            self.statm_shared = count.shared.0;
        }
        self.last = MemoryPair {
            private: count.anon.0,
            shared: self.shared,
        };
        Some(self.last)
    }

    /// Returns the time until the next look while the process does not grow.
    fn rest(&self, look: &Look<'_>) -> Duration {
        if look.budget.is_near() || look.now < self.hot_until + LATELY {
            COLD
        } else {
            IDLE
        }
    }

    fn is_starting(&self, level: MemoryPair) -> bool {
        !self.reading.is_open() && level.private < SMALLEST
    }

    /// Reads a stack. It is this process's own, because its files still answer afterwards.
    fn stack(&mut self, look: &mut Look<'_>, tid: Option<Pid>) -> Option<Stack> {
        let stack = self.reading.read(look, tid)?;
        self.files.count()?;
        self.ledger.seen(look.time, &stack);
        Some(stack)
    }
}

#[cfg(test)]
mod tests;
