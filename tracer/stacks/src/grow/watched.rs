//! One Python process: how its memory moves, and whose each move is.
//!
//! Its private memory is that in its large mappings and the rest, called the heap here. Each is followed as a level: what it is now against
//! what was recorded of it, so that an error of measurement never adds up. Growth is a line's only where that is certain: in a mapping that the
//! line asked for and fills, or between two looks that found the line; else it is recorded without one.

use std::time::{Duration, Instant};

use raytrace_proc::{
    clock,
    growth_records::{NewGrowth, NewMapping},
    memory::MemoryFiles,
    processes,
    resident_table::{ResidentLevel, ResidentTable, Slot},
};

use super::{
    Gone, Left, Look,
    claims::Claims,
    ledger::{Grown, Ledger},
    level::{MOVE, MemoryPair},
    mappings::{LATE, Mappings, Move, Whose},
    reading::{Reading, is_of_the_job, same_function, same_line},
};
use crate::{
    event::Observation,
    ids::{BootTime, Pid, ProcessKey},
    read::{Stack, is_python},
};

/// A process that grew lately, or is near a limit, is looked at this often; another one that seldom.
const COLD: Duration = Duration::from_millis(100);
const IDLE: Duration = Duration::from_millis(500);
const LATELY: Duration = Duration::from_secs(10);
/// One that grows this often, or as seldom as keeps the time for it at a twentieth.
const HOT: Duration = Duration::from_millis(5);
const HOT_SHARE: u32 = 20;
/// One that does not run is seen to run again this soon.
const WAKES: Duration = Duration::from_millis(25);
/// What the kernel saw is checked this often, of one that runs and of one that sleeps: a process may run between two ticks.
const CHECK_RUNS: Duration = Duration::from_secs(5);
const CHECK_SLEEPS: Duration = Duration::from_secs(30);
/// What grew stays of interest this long.
const STAYS_HOT: Duration = Duration::from_millis(300);
/// A smaller one that does not rest is starting: its imports are nobody's line.
const SMALLEST: u64 = 128 << 20;
/// From here on it is opened when it rests: Ray's idle workers have as much.
const PREPARED: u64 = 48 << 20;
/// Growth between two looks that is worth a stack; while hot, a move is.
const FAST: u64 = 8 << 20;
/// Slow growth is recorded, without a line, in pieces of this size.
const SLOW: u64 = 64 << 20;
/// A mapping of this size is followed by itself.
const LARGE: u64 = 16 << 20;
/// What the heap must shrink by to count: this, or the share of all memory that the levels of mappings may err by.
const SHRUNK: u64 = 8 << 20;
const SHRUNK_SHARE: u64 = 64;
/// Pages of a range that was given back are gone after this.
const SETTLES: Duration = Duration::from_millis(200);
/// A line that was there at two looks so far apart was there all the time.
const BRACKET: Duration = Duration::from_millis(500);
/// Growth up to the first look at a line is its own where the line grows by so many times as much afterwards, in so long.
const PROOF: u64 = 10;
const WAITS: Duration = Duration::from_secs(2);
/// Where the line changed between two looks so near to each other, each gets half.
const CLOSE: Duration = Duration::from_millis(20);

/// One process.
pub(super) struct Watched {
    process: ProcessKey,
    files: MemoryFiles,
    mappings: Mappings,
    claims: Claims,
    ledger: Ledger,
    reading: Reading,
    /// Its place in the kernel's table, and what that had at the last look.
    slot: Option<Slot>,
    before: Option<(Instant, ResidentLevel)>,
    due: Instant,
    hot_until: Instant,
    unsettled_until: Instant,
    /// All memory at the last look, and at the last one that found a stack or was one of a process at rest.
    last_total: u64,
    read_total: u64,
    /// At the last look: shared memory, and that as statm has it, files included.
    shared: u64,
    statm_shared: u64,
    /// What it had when it was settled last and nothing was left to be recorded: while it has that, there is nothing to do.
    rests_at: Option<MemoryPair>,
    /// The heap and shared memory at the last look that found a stack, or that was one of a process at rest.
    mark: MemoryPair,
    /// The thread that mapped something last.
    mapper: Option<Pid>,
    /// What was recorded: of the heap and of shared memory.
    recorded: MemoryPair,
    /// The last stack, and growth that is its line's if that goes on.
    last: Option<(Instant, Stack)>,
    pending: Option<Pending>,
}

/// Growth up to the first look that found a line: its own, or that of the one before.
struct Pending {
    stack: Stack,
    level: MemoryPair,
    /// What the line grew since.
    proof: u64,
    until: Instant,
}

impl Watched {
    /// Takes on a process; `None` where it is no Python, or is gone.
    pub(super) fn new(process: ProcessKey, now: Instant) -> Option<Self> {
        if !is_python(process.pid) {
            return None;
        }
        // Opened before the identity is checked: these files never tell of a later process with the same pid.
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
            mark: level,
            mapper: None,
            recorded: level,
            last: None,
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

    /// Whether there is hardly room for more of its rows.
    pub(super) fn is_full(&self) -> bool {
        self.ledger.is_full()
    }

    /// Whether the kernel saw nothing of it since the last look, which is then put off: that costs no system call.
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
            // Measured from the look, so that small moves add up.
            self.before = Some((at, before));
            self.due = now + if hot { WAKES } else { COLD };
        }
        still
    }

    /// Whether it grew just now.
    pub(super) fn is_hot(&self, now: Instant) -> bool {
        now < self.hot_until
    }

    /// Its program is another one now: all that it held was given back.
    pub(super) fn lost_its_memory(&mut self, time: BootTime, now: Instant) {
        for one in self.mappings.given_back(now) {
            let bytes = one.bytes.unsigned_abs();
            self.ledger.freed(time, Some(one.number), bytes);
        }
        if self.recorded.private > 0 {
            self.ledger.freed(time, None, self.recorded.private);
        }
    }

    /// How many large mappings it had so far; those of the next program have later numbers.
    pub(super) fn mappings_so_far(&self) -> u32 {
        self.mappings.so_far()
    }

    pub(super) fn number_mappings_from(&mut self, next: u32) {
        self.mappings.number_from(next);
    }

    /// It has ended: growth that waits for the next look is nobody's.
    pub(super) fn ended(
        &mut self,
        time: BootTime,
        send: impl FnMut(BootTime, Observation) -> bool,
    ) {
        if let Some(pending) = self.pending.take() {
            self.grew(time, None, pending.level);
        }
        self.flush(send);
    }

    /// Sends what is to be written, which is then no longer held.
    pub(super) fn flush(&mut self, mut send: impl FnMut(BootTime, Observation) -> bool) {
        let process = self.process;
        if let Some((time, reason)) = self.reading.refusal() {
            send(time, Observation::NoStack { process, reason });
        }
        self.ledger.flush(process, send);
    }

    /// A thread of it mapped something. Mostly the kernel took the stack then; else it is read now, before the line is over.
    pub(super) fn mapped(&mut self, look: &mut Look<'_>, new: &NewMapping) -> Result<(), Gone> {
        self.mapper = Some(new.mapped.tid);
        self.hot_until = look.now + STAYS_HOT;
        self.due = self.due.min(look.now + HOT);
        let age = Duration::from_nanos(look.time.since(new.time).max(0).cast_unsigned());
        let (tid, native) = (new.mapped.tid, new.native.as_ref());
        if let Some(stack) = self.reading.named(look, tid, &new.stack, native) {
            self.ledger.seen(new.time, &stack);
            if look.left >= Left::Measures {
                let private = self.count().ok_or(Gone)?.private;
                self.measure(look, Some(&stack), private);
            }
            self.take(look, new, Some(stack), Duration::ZERO);
            return Ok(());
        }
        let stack = self.stack(look, self.mapper);
        self.take(look, new, stack.clone(), age);
        self.settle(look, stack, true)
    }

    /// It grew by much, and the kernel took the stack just then: what the heap and shared memory owe since is that line's, as far as it
    /// was recorded. What is in large mappings is measured there.
    pub(super) fn stepped(&mut self, look: &mut Look<'_>, new: &NewGrowth) -> Result<(), Gone> {
        self.hot_until = look.now + STAYS_HOT;
        self.due = self.due.min(look.now + HOT);
        let before = self.count().ok_or(Gone)?;
        if self.is_starting(before) || look.now < self.unsettled_until {
            return Ok(());
        }
        // A range that fills and is not measured would count twice.
        if look.left < Left::Steps || look.left < Left::Measures && self.mappings.any_filling() {
            return Ok(());
        }
        let Some(stack) = self.stepper(look, new) else {
            return Ok(());
        };
        self.ledger.seen(new.time, &stack);
        if look.left >= Left::Measures {
            self.measure(look, Some(&stack), before.private);
        }
        let after = self.count().ok_or(Gone)?;
        let level = MemoryPair {
            private: (before.private.min(after.private)).saturating_sub(self.mappings.recorded()),
            shared: before.shared,
        };
        // What was there at the last rest, below a step, is an earlier line's.
        let recent = level.less(self.recorded.at_least(self.mark));
        let its = recent.at_most(MemoryPair {
            private: new.private.0,
            shared: new.shared.0,
        });
        // The ranges that it asked for are of the same memory.
        self.claims.recorded_otherwise(&stack, its.private);
        self.recorded = self.recorded.more(its);
        self.mark = self.mark.at_least(self.recorded.at_most(level));
        self.grew(new.time, Some(stack.clone()), its);
        self.last = Some((look.now, stack));
        Ok(())
    }

    /// Whose step it was. A thread without Python works for the main thread, or where that runs nothing of the job, for one that does.
    fn stepper(&mut self, look: &mut Look<'_>, new: &NewGrowth) -> Option<Stack> {
        let native = new.native.as_ref();
        if !new.of_main {
            return self.reading.named(look, new.tid, &new.stack, native);
        }
        let main = self.process.pid;
        let main = self.reading.named(look, main, &new.stack, native);
        main.filter(is_of_the_job)
            .or_else(|| self.stack(look, None))
    }

    /// Follows a large mapping; a small one stands for growth of the heap, as the samples of a heap profiler do.
    fn take(&mut self, look: &Look<'_>, new: &NewMapping, stack: Option<Stack>, age: Duration) {
        let (bytes, all) = (new.mapped.bytes.0, new.mapped.all_bytes.0);
        if bytes >= LARGE {
            let range = (new.address, bytes);
            self.mappings.add(range, stack, age, look.now);
        } else if let Some(stack) = stack.filter(|_| age <= LATE) {
            self.claims.add(stack, all, look.now);
        }
    }

    /// Looks at its memory, and at its stack where that is due.
    pub(super) fn look(&mut self, look: &mut Look<'_>) -> Result<(), Gone> {
        let hot = self.is_hot(look.now);
        let level = self.count().ok_or(Gone)?;
        let total = level.private + level.shared;
        let grown = total.saturating_sub(self.last_total);
        self.last_total = total;
        // What grows is opened by its first stack, where there is time for one.
        if look.left < Left::Stacks || grown < MOVE && !hot {
            self.reading.prepare(look, level.private >= PREPARED);
        }
        if !hot && self.rests_at == Some(level) && !self.reading.is_beat(look, level) {
            self.due = look.now + self.rest(look);
            return Ok(());
        }
        let waits = self.pending.is_some() || self.mappings.any_filling();
        // Small growth between two looks adds up.
        let unread = total.saturating_sub(self.read_total);
        let reads =
            hot && (unread >= MOVE || waits) || grown >= FAST || self.reading.is_beat(look, level);
        let stack = if reads && !self.is_starting(level) {
            self.stack(look, self.mapper.filter(|_| waits))
        } else {
            None
        };
        if stack.is_some() || !hot || total < self.read_total {
            self.read_total = total;
        }
        self.settle(look, stack, grown >= MOVE)
    }

    /// Gives each move since the last look to whom it belongs.
    fn settle(
        &mut self,
        look: &mut Look<'_>,
        stack: Option<Stack>,
        moved: bool,
    ) -> Result<(), Gone> {
        let before = self.count().ok_or(Gone)?;
        if look.left < Left::Measures {
            self.due = look.now + COLD;
            return Ok(());
        }
        if self.is_starting(before) {
            (self.recorded, self.mark) = (before, before);
            self.rests_at = Some(before);
            self.due = look.now + self.rest(look);
            return Ok(());
        }
        let hot = self.is_hot(look.now);
        let filled = self.measure(look, stack.as_ref(), before.private);
        let after = self.count().ok_or(Gone)?;
        self.shrink(look, before.private.max(after.private));
        let last = self.count().ok_or(Gone)?;
        let in_mappings = self.mappings.recorded();
        let least = before.private.min(after.private).min(last.private);
        let level = MemoryPair {
            // Memory moves while it is measured: what is less is certain.
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
        // A range is gone before the counters have given up its pages: until then the heap looks too large.
        self.confirm(look, stack.as_ref(), recent);
        if settled && self.record_heap(look, stack.clone(), (owed, recent), hot) {
            self.recorded = self.recorded.at_least(level);
        }
        // What was unmapped of shared memory is still there for others: it is neither growth nor given back.
        self.recorded.shared = self.recorded.shared.min(level.shared);
        if settled && (stack.is_some() || !hot) {
            self.mark = level;
        }
        if grows {
            self.hot_until = look.now + STAYS_HOT;
        }
        let at_rest = settled && !hot && self.pending.is_none() && !self.mappings.any_filling();
        self.rests_at = at_rest.then_some(before);
        let cost = clock::cpu_time().saturating_sub(look.began);
        let wait = HOT.max(cost * HOT_SHARE).min(COLD);
        self.due = look.now + if hot { wait } else { self.rest(look) };
        if let Some(stack) = stack {
            self.last = Some((look.now, stack));
        }
        Ok(())
    }

    /// Records what grew in mappings; whether one did.
    fn measure(&mut self, look: &Look<'_>, running: Option<&Stack>, private: u64) -> bool {
        let is_still = |own: &Stack| running.is_none_or(|running| same_function(own, running));
        let mut moves = self.mappings.filled(look.now, is_still);
        moves.extend(self.mappings.touched(look.now, private));
        let any = !moves.is_empty();
        self.record(look, moves, running);
        any
    }

    /// Gives the heap's growth to the lines that asked the kernel for it.
    fn pay(&mut self, look: &Look<'_>, level: MemoryPair) {
        let owed = level.less(self.recorded).private;
        for (stack, private) in self.claims.pay(owed, look.now) {
            self.recorded.private += private;
            let its = MemoryPair { private, shared: 0 };
            self.grew(look.time, Some(stack), its);
        }
        self.mark = self.mark.at_least(self.recorded.at_most(level));
    }

    /// Records the heap's other growth and that of shared memory, where it can be recorded now.
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
            // Slow growth of what nobody asked the kernel for.
            None if !hot && (owed.private >= SLOW || owed.shared >= SLOW) => {
                self.grew(look.time, None, owed);
            }
            _ => return false,
        }
        true
    }

    /// Records moves of mappings; `running` is whose those are that are nobody's own.
    fn record(&mut self, look: &Look<'_>, moves: Vec<Move>, running: Option<&Stack>) {
        for one in moves {
            let mapping = Some(one.number);
            if one.bytes < 0 {
                self.ledger
                    .freed(look.time, mapping, one.bytes.unsigned_abs());
                continue;
            }
            let stack = match one.whose {
                Whose::Mapper(stack) => Some(stack),
                Whose::Running => self.bracketed(look, running),
                Whose::Unseen => None,
            };
            let grown = Grown {
                private: one.bytes.unsigned_abs(),
                mapping,
                shared: 0,
            };
            self.ledger.grew(look.time, stack, grown);
        }
    }

    /// The running line, where it ran at the look before too.
    fn bracketed(&self, look: &Look<'_>, running: Option<&Stack>) -> Option<Stack> {
        let (at, before) = self.last.as_ref()?;
        let is = same_line(before, running?) && look.now.duration_since(*at) <= BRACKET;
        running.filter(|_| is).cloned()
    }

    /// What the heap is below what was recorded of it: of mappings that are gone, else the heap's own.
    fn shrink(&mut self, look: &Look<'_>, private: u64) {
        let least = SHRUNK.max(private / SHRUNK_SHARE);
        let below =
            |own: &Self| (own.recorded.private + own.mappings.recorded()).saturating_sub(private);
        if below(self) < least {
            return;
        }
        let moves = self.mappings.given_back(look.now);
        if !moves.is_empty() {
            self.unsettled_until = look.now + SETTLES;
        }
        self.record(look, moves, None);
        let bytes = below(self).min(self.recorded.private);
        if bytes >= least {
            self.ledger.freed(look.time, None, bytes);
            self.recorded.private -= bytes;
        }
    }

    /// Growth before a line was seen is its own only where it is little against what that grew since.
    fn confirm(&mut self, look: &Look<'_>, running: Option<&Stack>, recent: MemoryPair) {
        let (Some(running), Some(mut pending)) = (running, self.pending.take()) else {
            return;
        };
        pending.proof += recent.private + recent.shared;
        let level = pending.level;
        if !same_line(&pending.stack, running) || look.now >= pending.until {
            self.grew(look.time, None, level);
        } else if pending.proof >= PROOF * (level.private + level.shared) {
            self.grew(look.time, Some(pending.stack), level);
        } else {
            self.pending = Some(pending);
        }
    }

    /// Growth of this look, and what is older and was too slow to be seen, at a look that found `stack`.
    fn credit(&mut self, look: &Look<'_>, stack: Stack, level: MemoryPair, older: MemoryPair) {
        let Some((at, before)) = self.last.clone() else {
            return self.wait(look, stack, level, older);
        };
        let age = look.now.duration_since(at);
        if same_line(&before, &stack) && age <= BRACKET {
            self.grew(look.time, None, older);
            return self.grew(look.time, Some(stack), level);
        }
        if age > CLOSE || !before.running {
            return self.wait(look, stack, level, older);
        }
        // All of it is the line's before, where the new one only waits.
        let share = |all: u64| if stack.running { all / 2 } else { all };
        let its = MemoryPair {
            private: share(level.private),
            shared: share(level.shared),
        };
        self.grew(look.time, None, older);
        self.grew(look.time, Some(before), its);
        self.grew(look.time, Some(stack), level.less(its));
    }

    fn wait(&mut self, look: &Look<'_>, stack: Stack, level: MemoryPair, older: MemoryPair) {
        self.grew(look.time, None, older);
        if let Some(before) = self.pending.take() {
            self.grew(look.time, None, before.level);
        }
        self.pending = Some(Pending {
            stack,
            level,
            proof: 0,
            until: look.now + WAITS,
        });
    }

    fn grew(&mut self, time: BootTime, stack: Option<Stack>, level: MemoryPair) {
        if level.private > 0 || level.shared > 0 {
            let grown = Grown {
                private: level.private,
                mapping: None,
                shared: level.shared,
            };
            self.ledger.grew(time, stack, grown);
        }
    }

    /// The figures now; `None` when the process is gone.
    fn count(&mut self) -> Option<MemoryPair> {
        let count = self.files.count()?;
        if count.shared.0.abs_diff(self.statm_shared) >= MOVE {
            self.shared = self.files.split()?.shmem.unwrap_or_default().0;
            self.statm_shared = count.shared.0;
        }
        Some(MemoryPair {
            private: count.anon.0,
            shared: self.shared,
        })
    }

    /// How long nothing is to be done with it while it does not grow.
    fn rest(&self, look: &Look<'_>) -> Duration {
        if look.near || look.now < self.hot_until + LATELY {
            COLD
        } else {
            IDLE
        }
    }

    fn is_starting(&self, level: MemoryPair) -> bool {
        !self.reading.is_open() && level.private < SMALLEST
    }

    /// Reads a stack; it is this process's own, for its files still answer afterwards.
    fn stack(&mut self, look: &mut Look<'_>, tid: Option<Pid>) -> Option<Stack> {
        let stack = self.reading.read(look, tid)?;
        self.files.count()?;
        self.ledger.seen(look.time, &stack);
        Some(stack)
    }
}

#[cfg(test)]
mod tests;
