//! Finds the C and Rust frames between an allocation and the innermost Python frame.
//!
//! They are unwound from the registers and the stack that the kernel took. Unwinding follows
//! `.eh_frame` in the process's memory: its files are neither mapped nor run. Names are read from
//! the symbol tables of the files. All of it is bounded: frames, bytes that are read for a stack,
//! and what is kept from one stack to the next.

mod demangle;
mod elf;
mod modules;
mod names;
mod row;
mod symbols;
mod walk;

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use raytrace_proc::growth_records;

use crate::{event::NativeFrame, ids::Pid};
use modules::Modules;
pub(super) use names::Names;
use row::Row;

/// How many frames of a stack are reported, the innermost.
const MOST_FRAMES: usize = 16;
/// For how many code addresses of a process the result is kept. A job has some hundreds.
const MOST_KEPT: usize = 8192;
/// The same for all processes together: 10 MiB.
const MOST_OF_ALL: usize = 65_536;
/// How many bytes of a process's memory one stack may read. Each read counts as [`A_READ`] bytes
/// more. A new stack takes some 20 KiB.
const MOST_READ: u64 = 1 << 20;
const A_READ: u64 = 1024;

/// Foreign bytes that are read in pieces: a process's memory, or a file.
pub(super) trait Bytes {
    /// Returns exactly `length` bytes, starting at `at`.
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>>;
}

/// For fuzzing: finds the names and the callers of some addresses. `program` is both the file and
/// the memory.
pub fn look_through(program: &[u8]) {
    struct Image<'a>(&'a [u8]);
    impl Bytes for Image<'_> {
        fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
            let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
            let bytes = self.0.get(at..at.checked_add(length)?)?;
            Some(bytes.to_vec())
        }
    }
    let image = Image(program);
    let addresses: Vec<u64> = (0..program.len() as u64).step_by(0x333).collect();
    for name in symbols::names(&image, &addresses).into_iter().flatten() {
        let _readable = demangle::readable(&name);
    }
    let Some(tables) = modules::tables(&image, 0) else {
        return;
    };
    for address in addresses {
        let _found = row::find(&image, &tables, address);
    }
}

/// A process's memory with a limit on how much one stack may read.
struct Budget<'a, M> {
    memory: &'a M,
    left: Cell<u64>,
}

impl<M> Budget<'_, M> {
    fn is_spent(&self) -> bool {
        self.left.get() == 0
    }
}

impl<M: Bytes> Bytes for Budget<'_, M> {
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let left = self.left.get().checked_sub(length.saturating_add(A_READ));
        self.left.set(left.unwrap_or(0));
        left?;
        self.memory.bytes(at, length)
    }
}

/// What is known about a code address.
#[derive(Debug, Clone)]
struct Place {
    /// The number of its module.
    module: usize,
    /// Where its function begins, as an address in its file.
    function: u64,
    /// How to find its caller; `None` where that is not known.
    row: Option<Row>,
    name: Name,
}

/// A function's name.
#[derive(Debug, Clone)]
enum Name {
    /// Not searched yet.
    Unread,
    /// The name in its file, if it has one.
    Read(Option<Arc<str>>),
}

impl Place {
    fn name(&self) -> Option<&str> {
        match &self.name {
            Name::Unread => None,
            Name::Read(name) => name.as_deref(),
        }
    }

    /// Whether this is Python's own evaluation loop. From here on, the Python frames describe the
    /// stack.
    fn is_python(&self) -> bool {
        self.name().is_some_and(|name| name.starts_with("_PyEval_"))
    }
}

/// What is known about one process.
#[derive(Default)]
pub(super) struct Unwinder {
    modules: Modules,
    places: HashMap<u64, Option<Place>>,
    /// How many places all processes keep, those of this one included.
    of_all: Arc<AtomicUsize>,
}

impl Drop for Unwinder {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Unwinder {
    /// Returns the native frames of a thread down to Python's, the innermost first.
    pub(super) fn frames(
        &mut self,
        pid: Pid,
        memory: &impl Bytes,
        names: &mut Names,
        native: &growth_records::Native,
        now: Instant,
    ) -> Vec<NativeFrame> {
        if !Arc::ptr_eq(&self.of_all, &names.places) {
            self.forget();
            self.of_all = Arc::clone(&names.places);
        }
        let is_full =
            self.places.len() > MOST_KEPT || self.of_all.load(Ordering::Relaxed) > MOST_OF_ALL;
        if self.modules.refresh(pid, now) || is_full {
            self.forget();
        }
        let memory = Budget {
            memory,
            left: Cell::new(MOST_READ),
        };
        let mut addresses = self.walk(pid, &memory, native, now);
        // If a new library was found, all places were forgotten. Then the walk is repeated.
        if addresses
            .first()
            .is_some_and(|first| !self.places.contains_key(first))
        {
            addresses = self.walk(pid, &memory, native, now);
        }
        self.name(pid, names, &addresses);
        let places = addresses
            .iter()
            .map_while(|address| self.places.get(address)?.as_ref())
            .take_while(|place| !place.is_python());
        let frames = places.map(|place| NativeFrame {
            library: self.modules.library(place.module),
            function: place.name().map(str::to_owned),
        });
        let mut frames: Vec<NativeFrame> = frames.collect();
        frames.dedup_by(|later, one| later == one && one.function.is_none());
        frames.truncate(MOST_FRAMES);
        frames
    }

    fn walk(
        &mut self,
        pid: Pid,
        memory: &Budget<'_, impl Bytes>,
        native: &growth_records::Native,
        now: Instant,
    ) -> Vec<u64> {
        walk::walk(native, |address| {
            let place = self.place(pid, memory, address, now)?;
            place.row.clone().filter(|_| !place.is_python())
        })
    }

    fn place(
        &mut self,
        pid: Pid,
        memory: &Budget<'_, impl Bytes>,
        address: u64,
        now: Instant,
    ) -> Option<&Place> {
        if !self.places.contains_key(&address) {
            let (module, newly) = self.modules.at(pid, address, now)?;
            if newly {
                self.forget();
            }
            let found = self.look(memory, module, address);
            // If the budget ended the search, the address is searched again next time.
            if found.is_none() && memory.is_spent() {
                return None;
            }
            self.keep(address, found);
        }
        self.places.get(&address)?.as_ref()
    }

    fn keep(&mut self, address: u64, found: Option<Place>) {
        if self.places.insert(address, found).is_none() {
            self.of_all.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn forget(&mut self) {
        let count = self.places.len();
        self.of_all.fetch_sub(count, Ordering::Relaxed);
        self.places.clear();
    }

    fn look(&mut self, memory: &impl Bytes, module: usize, address: u64) -> Option<Place> {
        let tables = self.modules.tables(module, memory)?;
        let (begin, row) = row::find(memory, &tables, address)?;
        Some(Place {
            module,
            function: begin.wrapping_sub(tables.bias),
            row,
            name: Name::Unread,
        })
    }

    /// Finds the names that are not known yet, with one search for each file.
    fn name(&mut self, pid: Pid, names: &mut Names, addresses: &[u64]) {
        let mut wanted: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
        for address in addresses {
            if let Some(Some(place)) = self.places.get(address)
                && matches!(place.name, Name::Unread)
            {
                let its = wanted.entry(place.module).or_default();
                its.push((*address, place.function));
            }
        }
        for (module, wanted) in wanted {
            let functions: Vec<u64> = wanted.iter().map(|(_, function)| *function).collect();
            let found = names.of(pid, self.modules.path(module), &functions);
            for ((address, _), name) in wanted.iter().zip(found) {
                if let Some(Some(place)) = self.places.get_mut(address) {
                    place.name = Name::Read(name);
                }
            }
        }
    }
}

fn word<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<[u8; LENGTH]> {
    bytes.get(at..at.checked_add(LENGTH)?)?.try_into().ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(word(bytes, at)?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(word(bytes, at)?))
}

#[cfg(test)]
mod tests;
