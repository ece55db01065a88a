//! Follows the large mappings of one process.
//!
//! Each has the stack that asked for it, and how much of it is backed by memory. The kernel reports
//! when a range was mapped, and by which thread. Its residency shows what became of it since. So
//! growth in a new mapping is assigned to the line that mapped it, however late it is measured, and
//! what was given back is measured, not guessed.

use std::time::{Duration, Instant};

use raytrace_proc::pagemap::Pagemap;

use crate::{
    event::NativeFrame,
    ids::{Bytes, Pid},
    read::Stack,
};

/// How many mappings are followed. Memory of later ones counts as outside of any mapping.
const MOST: usize = 512;
/// Smaller moves are not recorded, nor are moves below this share of the mapping, which is the
/// error of residency.
const MOVE: u64 = 1 << 20;
const MOVE_SHARE: u64 = 128;
/// After this time without growth, a mapping is no longer filled by its mapper.
const REST: Duration = Duration::from_secs(5);
/// A mapping that has rested and is filled to less than this share is reserve space of an
/// allocator, or a library. Later growth there counts as the heap's. In a training with verl, scans
/// of such mappings took half of the time for stacks.
const RESERVED_SHARE: u64 = 8;
const RESERVED: u64 = 16 << 20;
/// When a mapping is filled to this share, it is worth naming what mapped it: it is no library,
/// of which a few pages are written.
const NAMED_SHARE: u64 = 16;
/// How often mappings are scanned while the process does not grow.
const SCANS: Duration = Duration::from_secs(1);
/// A stack that was read later than this after the mapping may be that of the next line.
pub(super) const LATE: Duration = Duration::from_millis(5);

/// One mapping.
struct Mapping {
    number: u32,
    address: u64,
    length: u64,
    /// The stack that asked for it, while it fills it.
    own: Option<Stack>,
    /// What was already there when the stack was read late. It is assigned to the stack only if the
    /// stack is seen to go on filling.
    doubted: u64,
    /// How much was filled without a gap from the beginning, at the last scan. Only the rest is
    /// scanned, until memory is given back.
    solid: u64,
    /// How much of it was private memory at the last scan, and how much of that was recorded.
    there: u64,
    recorded: u64,
    grew_at: Instant,
    /// Whether it was found to stay almost empty. From then on, only memory that is given back is
    /// looked for.
    is_reserved: bool,
}

/// How much one mapping changed since it was last recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) number: u32,
    /// Grown (positive) or given back.
    pub(super) bytes: i64,
    /// Who caused the growth.
    pub(super) whose: Whose,
}

/// Who caused growth in a mapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The stack that mapped it and fills it.
    Mapper(Stack),
    /// The stack that runs now.
    Running,
    /// A line that was too short to sample.
    Unseen,
}

/// The mappings of one process.
pub(super) struct Mappings {
    pagemap: Option<Pagemap>,
    live: Vec<Mapping>,
    next: u32,
    /// The process's private memory when the mappings with room were last scanned, or the lowest
    /// value since.
    scanned_at: u64,
    scan_again: Instant,
}

impl Mappings {
    /// Starts without mappings. Without the right to read residency, none is ever added.
    pub(super) fn open(pid: Pid) -> Self {
        Self {
            pagemap: Pagemap::open(pid).ok(),
            live: Vec::new(),
            next: 0,
            scanned_at: 0,
            scan_again: Instant::now(),
        }
    }

    /// Returns how many mappings there were until now.
    pub(super) fn so_far(&self) -> u32 {
        self.next
    }

    /// Starts numbering at `next`, after the mappings of the previous program.
    pub(super) fn number_from(&mut self, next: u32) {
        self.next = next;
    }

    /// Returns all that was recorded of the mappings: the part of the process's private memory that
    /// is in them.
    pub(super) fn recorded(&self) -> u64 {
        self.live.iter().map(|mapping| mapping.recorded).sum()
    }

    /// Returns the part of the process's private memory that was in the mappings when they were last
    /// scanned. It may be more than was recorded: small moves are not.
    pub(super) fn resident(&self) -> u64 {
        let there = |mapping: &Mapping| mapping.there.max(mapping.recorded);
        self.live.iter().map(there).sum()
    }

    /// Adds a range that was mapped `age` before the stack `own` was read. Returns its number, if it
    /// is followed.
    pub(super) fn add(
        &mut self,
        (address, length): (u64, u64),
        own: Option<Stack>,
        age: Duration,
        now: Instant,
    ) -> Option<u32> {
        let pagemap = self.pagemap.as_ref()?;
        // The range was free: an older mapping there is gone, or it included space that the kernel
        // added for alignment.
        for older in &mut self.live {
            older.make_room(address, address + length);
        }
        if self.live.len() >= MOST {
            return None;
        }
        let there = pagemap.private(address, Bytes(length)).bytes.0;
        // What is there already was not measured before.
        self.scanned_at = self.scanned_at.saturating_sub(there);
        self.live.push(Mapping {
            number: self.next,
            address,
            length,
            own,
            doubted: if age > LATE { there } else { 0 },
            solid: 0,
            there,
            recorded: 0,
            grew_at: now,
            is_reserved: false,
        });
        self.next += 1;
        Some(self.next - 1)
    }

    /// Returns by how much the process's private memory grew since mappings were last measured.
    /// While that is less than a move, none of them has grown by one either, unless as much was
    /// given back elsewhere.
    pub(super) fn unmeasured(&mut self, private: u64) -> u64 {
        self.scanned_at = self.scanned_at.min(private);
        private - self.scanned_at
    }

    /// Returns the process's private memory when they were last measured, or the lowest value since.
    pub(super) fn measured_at(&self) -> u64 {
        self.scanned_at
    }

    /// Returns how many bytes it explains to name what a mapping's mapper had called; `None` while
    /// almost nothing of it is filled.
    pub(super) fn worth_naming(&self, number: u32) -> Option<u64> {
        let mapping = self.live.iter().find(|mapping| mapping.number == number)?;
        let is_worth = mapping.recorded >= mapping.length / NAMED_SHARE;
        is_worth.then_some(mapping.length)
    }

    /// Notes what the mapper had called.
    pub(super) fn named(&mut self, number: u32, called: &[NativeFrame]) {
        let mut all = self.live.iter_mut();
        let mapping = all.find(|mapping| mapping.number == number);
        if let Some(own) = mapping.and_then(|mapping| mapping.own.as_mut()) {
            own.native = called.to_vec();
        }
    }

    /// Returns the growth that the mappers caused. `is_still` tells whether a mapper is still in
    /// the function that runs. If not, its mapping is no longer filled by it.
    pub(super) fn filled(&mut self, now: Instant, is_still: impl Fn(&Stack) -> bool) -> Vec<Move> {
        let Some(pagemap) = &self.pagemap else {
            return Vec::new();
        };
        let filling = self.live.iter_mut().filter(|mapping| mapping.own.is_some());
        filling
            .flat_map(|mapping| mapping.fill(pagemap, now, &is_still))
            .collect()
    }

    /// Whether mappings were last scanned so long ago that one may have grown by as much as another
    /// gave back.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.scan_again
    }

    /// Lets go of mappings whose mapper is done, without a scan.
    pub(super) fn leave(&mut self, now: Instant, is_still: impl Fn(&Stack) -> bool) {
        for mapping in &mut self.live {
            let rests = now.duration_since(mapping.grew_at) >= REST;
            if mapping.doubted == 0
                && mapping
                    .own
                    .as_ref()
                    .is_some_and(|own| rests || !is_still(own))
            {
                mapping.own = None;
            }
        }
    }

    /// Takes growth that the kernel reported of a function for that of the newest mapping that the
    /// function fills, without a scan. The next scan corrects it.
    pub(super) fn told(
        &mut self,
        now: Instant,
        bytes: u64,
        by: impl Fn(&Stack) -> bool,
    ) -> Option<Move> {
        let mut newest = self.live.iter_mut().rev();
        let filled = newest.find(|mapping| mapping.own.as_ref().is_some_and(&by))?;
        let own = filled.own.clone()?;
        let there = filled.length.min(filled.recorded + bytes);
        filled.there = filled.there.max(there);
        filled.grow_to(there, now, Whose::Mapper(own))
    }

    /// Returns the growth in mappings with room that others than their mappers caused. `private` is
    /// all private memory of the process.
    pub(super) fn touched(&mut self, now: Instant, private: u64) -> Vec<Move> {
        let Some(pagemap) = &self.pagemap else {
            return Vec::new();
        };
        (self.scanned_at, self.scan_again) = (private, now + SCANS);
        let roomy = self.live.iter_mut();
        let roomy = roomy
            .filter(|mapping| mapping.own.is_none() && !mapping.is_reserved && !mapping.is_full());
        let moves = roomy
            .filter_map(|mapping| mapping.grow(pagemap, now, Whose::Running))
            .collect();
        self.live
            .retain(|mapping| mapping.recorded > 0 || !mapping.is_reserved);
        moves
    }

    /// Returns what was given back. The newest mappings are scanned first, until more than `bytes`
    /// are found: most memory that is given back is new. A mapping that is gone is removed.
    pub(super) fn given_back(&mut self, now: Instant, bytes: u64) -> Vec<Move> {
        let Some(pagemap) = &self.pagemap else {
            return Vec::new();
        };
        let (mut moves, mut found) = (Vec::new(), 0);
        for mapping in self.live.iter_mut().rev() {
            if found > bytes {
                break;
            }
            let moved = mapping.shrink(pagemap);
            found += moved.as_ref().map_or(0, |one| one.bytes.unsigned_abs());
            moves.extend(moved);
        }
        let is_new = |mapping: &Mapping| now.duration_since(mapping.grew_at) < REST;
        self.live
            .retain(|mapping| mapping.recorded > 0 || mapping.length > 0 && is_new(mapping));
        moves
    }

    /// Whether a mapper is filling a mapping now.
    pub(super) fn any_filling(&self) -> bool {
        self.live.iter().any(|mapping| mapping.own.is_some())
    }

    /// Whether growth now may be that of a mapping: of one that such a stack mapped, or of a new
    /// one whose mapper is not known.
    pub(super) fn may_be_filled(&self, now: Instant, by: impl Fn(&Stack) -> bool) -> bool {
        self.live.iter().any(|mapping| match &mapping.own {
            Some(own) => by(own),
            None => now.duration_since(mapping.grew_at) < REST && !mapping.is_full(),
        })
    }
}

impl Mapping {
    /// Keeps the longer part outside `[from, to)`.
    fn make_room(&mut self, from: u64, to: u64) {
        let end = self.address + self.length;
        if to <= self.address || end <= from {
            return;
        }
        let (below, above) = (from.saturating_sub(self.address), end.saturating_sub(to));
        if below < above {
            self.address = to;
        }
        self.length = below.max(above);
        self.solid = 0;
    }

    /// Returns the private memory in it.
    fn scan(&mut self, pagemap: &Pagemap) -> u64 {
        let rest = self.length - self.solid;
        self.there = self.solid;
        if rest > 0 {
            let found = pagemap.private(self.address + self.solid, Bytes(rest));
            self.there += found.bytes.0;
            self.solid += found.solid.0;
        }
        self.there
    }

    /// Whether so little room is left that no further move counts.
    fn is_full(&self) -> bool {
        self.recorded + self.least() > self.length
    }

    fn least(&self) -> u64 {
        MOVE.max(self.length / MOVE_SHARE)
    }

    /// Returns the growth that is the mapper's. When the mapper is done, later growth is assigned
    /// to others.
    fn fill(
        &mut self,
        pagemap: &Pagemap,
        now: Instant,
        is_still: impl Fn(&Stack) -> bool,
    ) -> Vec<Move> {
        let Some(own) = self.own.clone() else {
            return Vec::new();
        };
        let still = is_still(&own);
        let there = self.scan(pagemap);
        let mut moves = Vec::new();
        if self.doubted > 0 {
            let goes_on = still && there >= self.doubted + self.length / 16;
            if !goes_on {
                // It was filled before its stack was read, so the line is not known.
                moves.extend(self.grow_to(there, now, Whose::Unseen));
                self.own = None;
            }
            self.doubted = 0;
        }
        moves.extend(self.grow_to(there, now, Whose::Mapper(own)));
        if !still || self.is_full() || now.duration_since(self.grew_at) >= REST {
            self.own = None;
        }
        moves
    }

    fn grow(&mut self, pagemap: &Pagemap, now: Instant, whose: Whose) -> Option<Move> {
        let there = self.scan(pagemap);
        let limit = RESERVED.min(self.length / RESERVED_SHARE);
        self.is_reserved = there < limit && now.duration_since(self.grew_at) >= REST;
        self.grow_to(there, now, whose)
    }

    fn grow_to(&mut self, there: u64, now: Instant, whose: Whose) -> Option<Move> {
        if there < self.recorded + self.least() {
            return None;
        }
        let by = there - self.recorded;
        self.recorded = there;
        self.grew_at = now;
        Some(self.moved(by.cast_signed(), whose))
    }

    fn shrink(&mut self, pagemap: &Pagemap) -> Option<Move> {
        self.solid = 0;
        let there = self.scan(pagemap);
        if self.recorded < there + self.least() && (there > 0 || self.recorded == 0) {
            return None;
        }
        let by = self.recorded - there;
        self.recorded = there;
        Some(self.moved(-by.cast_signed(), Whose::Unseen))
    }

    fn moved(&self, bytes: i64, whose: Whose) -> Move {
        Move {
            number: self.number,
            bytes,
            whose,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Runs one test at a time: another one may get the addresses of memory that is given back.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates memory of this process that is certainly a mapping of its own.
    fn memory(mebibytes: usize) -> Vec<u8> {
        Vec::with_capacity(mebibytes << 20)
    }

    fn stack() -> Stack {
        Stack {
            tid: None,
            running: true,
            frames: Vec::new(),
            native: Vec::new(),
        }
    }

    fn sum(moves: &[Move], whose: &Whose) -> i64 {
        let its = moves.iter().filter(|one| one.whose == *whose);
        its.map(|one| one.bytes).sum::<i64>() >> 20
    }

    #[test]
    fn almost_empty_mapping_is_left_to_the_heap() {
        let _alone = alone();
        let mut mappings = Mappings::open(Pid(std::process::id()));
        let (mut kept, mut library, arena) = (memory(64), memory(128), memory(128));
        let now = Instant::now();
        for (memory, mebibytes) in [(&kept, 64), (&library, 128), (&arena, 128)] {
            let range = (memory.as_ptr() as u64, mebibytes * MIB);
            mappings.add(range, None, Duration::ZERO, now);
        }
        library.resize(6 << 20, 1);
        mappings.touched(now, 64 * MIB);
        // It was not looked at for as long as it takes to rest.
        kept.resize(32 << 20, 1);
        let rested = now + REST;
        let moves = mappings.touched(rested, 128 * MIB);
        assert!(
            (30..=36).contains(&sum(&moves, &Whose::Running)),
            "{moves:?}"
        );
        let lengths: Vec<u64> = mappings.live.iter().map(|one| one.length >> 20).collect();
        assert!(lengths.starts_with(&[64, 128]), "{lengths:?}");
        let recorded = mappings.recorded();
        library.resize(40 << 20, 1);
        mappings.touched(rested + SCANS, 256 * MIB);
        assert_eq!(mappings.recorded(), recorded, "its growth is the heap's");
        drop((library, kept));
        let freed = mappings.given_back(rested + SCANS, u64::MAX);
        assert!(sum(&freed, &Whose::Unseen) <= -36, "{freed:?}");
        assert_eq!(mappings.recorded(), 0, "{freed:?}");
    }

    /// What is given back is measured.
    #[test]
    fn growth_is_the_mappers_until_it_moves_on() {
        let _alone = alone();
        let mut mappings = Mappings::open(Pid(std::process::id()));
        let mut kept = memory(64);
        let now = Instant::now();
        mappings.add(
            (kept.as_ptr() as u64, 64 * MIB),
            Some(stack()),
            Duration::ZERO,
            now,
        );
        assert!(mappings.any_filling());
        kept.resize(32 << 20, 1);
        let first = mappings.filled(now, |_| true);
        assert!(
            (30..=36).contains(&sum(&first, &Whose::Mapper(stack()))),
            "{first:?}"
        );
        assert!(mappings.filled(now, |_| false).is_empty());
        assert!(!mappings.any_filling());
        kept.resize(64 << 20, 1);
        let rest = mappings.touched(now + SCANS, 0);
        assert!((26..=34).contains(&sum(&rest, &Whose::Running)), "{rest:?}");
        assert!((60..=68).contains(&(mappings.recorded() >> 20)));
        assert!(mappings.given_back(now, u64::MAX).is_empty());
        drop(kept);
        let gone = mappings.given_back(now, u64::MAX);
        assert!(
            (-68..=-60).contains(&sum(&gone, &Whose::Unseen)),
            "{gone:?}"
        );
        assert_eq!(mappings.recorded(), 0);
        assert!(mappings.given_back(now + SCANS + REST, u64::MAX).is_empty());
        assert!(mappings.live.is_empty());
    }

    #[test]
    fn newest_mappings_are_scanned_first() {
        let _alone = alone();
        let mut mappings = Mappings::open(Pid(std::process::id()));
        let now = Instant::now();
        // Nothing is in them any more.
        let kept = [memory(64), memory(64)];
        for empty in &kept {
            let range = (empty.as_ptr() as u64, 64 * MIB);
            mappings.add(range, Some(stack()), Duration::ZERO, now);
        }
        for mapping in &mut mappings.live {
            mapping.recorded = 32 * MIB;
        }
        let mut found = || {
            let moves = mappings.given_back(now, 0);
            moves.iter().map(|one| one.number).collect::<Vec<u32>>()
        };
        assert_eq!((found(), found(), found()), (vec![1], vec![0], vec![]));
        drop(kept);
    }

    /// A stack that was read late gets earlier growth only if it goes on filling.
    #[test]
    fn late_stack_owns_earlier_growth_only_if_it_fills() {
        let _alone = alone();
        let late = LATE * 10;
        for goes_on in [false, true] {
            let mut mappings = Mappings::open(Pid(std::process::id()));
            let mut kept = memory(64);
            kept.resize(32 << 20, 1);
            let now = Instant::now();
            mappings.add((kept.as_ptr() as u64, 64 * MIB), Some(stack()), late, now);
            if goes_on {
                kept.resize(48 << 20, 1);
            }
            let found = mappings.filled(now, |_| true);
            let whose = if goes_on {
                Whose::Mapper(stack())
            } else {
                Whose::Unseen
            };
            assert!(sum(&found, &whose) >= 30, "{found:?}");
            drop(kept);
        }
    }

    #[test]
    fn new_mapping_replaces_older_ones_there() {
        let mapping = |address, length| Mapping {
            number: 0,
            address,
            length,
            own: None,
            doubted: 0,
            solid: 0,
            there: 0,
            recorded: 0,
            grew_at: Instant::now(),
            is_reserved: false,
        };
        for (from, to, left) in [
            (0, 10, (10, 90)),
            (90, 120, (0, 90)),
            (20, 30, (30, 70)),
            (100, 110, (0, 100)),
            (0, 100, (0, 0)),
        ] {
            let mut older = mapping(0, 100);
            older.make_room(from, to);
            assert_eq!((older.address, older.length), left, "{from}..{to}");
        }
    }
}
