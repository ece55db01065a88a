//! Loads the object `memory`: what watched processes map, and how their resident memory changes.
//!
//! It may fail to load where `deaths` loads. Growth is then known from samples alone.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use aya::{
    Btf as AyaBtf, Ebpf,
    maps::{HashMap, Map, MapData, PerCpuArray, RingBuf},
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};
use raytrace_ebpf::{
    MEMORY_OBJECT,
    records::{self, MemoryHook, MemoryOffsets, NONE, Offsets, Steps, Watched},
};
use rustc_hash::FxHashMap;

use super::{
    MemoryRecord, ResidentTable, Slot,
    error::{KernelError, chain},
    fields::Fields,
    hooks,
    interpreter_map::InterpreterMap,
    ledger, programs,
};
use crate::{
    event::{Ledger, MemoryPart, Probe, ProbeState, Step},
    ids::{BootTime, Bytes, Pid, ProcessKey},
};

const WATCHED_WORDS: usize = size_of::<Watched>() / 8;
const STEPS_WORDS: usize = size_of::<Steps>() / 8;
/// Where the steps begin in these words.
const RING: usize = std::mem::offset_of!(Steps, steps) / 8;

/// The loaded object.
pub struct Growth {
    /// Holds the programs. They are detached when it is dropped.
    _ebpf: Ebpf,
    ring: RingBuf<MapData>,
    levels: Option<ResidentTable>,
    /// The slot of each process in that table, and the free slots.
    slots: FxHashMap<Pid, (ProcessKey, Slot)>,
    free: Vec<Slot>,
    watched: HashMap<MapData, u32, [u64; WATCHED_WORDS]>,
    steps: HashMap<MapData, u32, [u64; STEPS_WORDS]>,
    counters: PerCpuArray<MapData, u64>,
    interpreters: Option<InterpreterMap>,
    received: [u64; MemoryHook::COUNT],
    page: u64,
}

/// Returns the offsets for the object, with those already found for `deaths`.
pub(super) fn offsets(fields: &Fields<'_>, known: &Offsets) -> MemoryOffsets {
    // Each count is a `percpu_counter` since 6.2; before, it was a long.
    let (size, count) = match known.percpu_counter_size {
        0 => (8, 0),
        size => (size, known.percpu_counter_count),
    };
    let thread = fields.btf.offset("task_struct", "thread");
    let base = fields.btf.offset("thread_struct", "fsbase");
    let mut offsets = MemoryOffsets {
        task_mm: known.task_mm,
        mm_counts: [0, 1, 2, 3].map(|member| known.mm_rss_stat + size * member + count),
        task_thread_pointer: thread
            .zip(base)
            .map_or(NONE, |(thread, base)| thread + base),
        has_registers: u32::from(cfg!(target_arch = "x86_64") && gives_registers()),
        ..MemoryOffsets::default()
    };
    for hook in MemoryHook::ALL {
        (hooks::of_memory(hook).offsets)(fields, &mut offsets);
    }
    offsets
}

/// Whether a program may read its task's registers (since Linux 5.15).
pub(super) fn gives_registers() -> bool {
    let helpers = [
        BpfHelper::BPF_FUNC_get_current_task_btf,
        BpfHelper::BPF_FUNC_task_pt_regs,
    ];
    let is_here = |helper| is_helper_supported(ProgramType::RawTracePoint, helper);
    helpers
        .into_iter()
        .all(|helper| matches!(is_here(helper), Ok(true)))
}

/// Loads the object and attaches its hooks. The probes say what is missing.
pub(super) fn load(offsets: &MemoryOffsets, btf: &AyaBtf) -> (Option<Growth>, Vec<Probe>) {
    match Growth::load(offsets, btf) {
        Ok((growth, probes)) => (Some(growth), probes),
        Err(error) => {
            let reason = error.to_string();
            let missing = |hook: MemoryHook| Probe {
                name: hook.name().to_owned(),
                state: ProbeState::Missing,
                reason: Some(reason.clone()),
                required: hook.is_required(),
            };
            (None, MemoryHook::ALL.map(missing).into())
        }
    }
}

impl Growth {
    fn load(offsets: &MemoryOffsets, btf: &AyaBtf) -> Result<(Self, Vec<Probe>), KernelError> {
        if offsets.unmapped_length == NONE {
            return Err(KernelError::NoField {
                structure: "vm_unmapped_area_info",
                field: "length",
            });
        }
        // SAFETY: MemoryOffsets is repr(C), plain integers without padding, and outlives the slice.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(offsets).cast::<u8>(),
                size_of::<MemoryOffsets>(),
            )
        };
        let mut ebpf = programs::loader()
            .override_global("OFFSETS", bytes, true)
            .load(MEMORY_OBJECT)
            .map_err(|error| KernelError::Load(chain(&error)))?;
        let mut probes = Vec::new();
        for hook in MemoryHook::ALL {
            let required = hook.is_required();
            for stem in hook.programs() {
                let (probe, _) = programs::attach_hook(&mut ebpf, btf, hook.name(), stem);
                probes.push(Probe { required, ..probe });
            }
        }
        let map = |ebpf: &mut Ebpf, name: &str| {
            ebpf.take_map(name)
                .ok_or_else(|| KernelError::Load(format!("the object has no map {name}")))
        };
        let wrong = |error: aya::maps::MapError| KernelError::Load(error.to_string());
        let interpreters = if offsets.task_thread_pointer == NONE {
            None
        } else {
            let map = HashMap::try_from(map(&mut ebpf, "PYTHONS")?).map_err(wrong)?;
            Some(InterpreterMap(map))
        };
        let levels = match ebpf.map("LEVELS") {
            Some(Map::Array(levels)) => ResidentTable::map(levels.fd().as_fd()).ok(),
            _ => None,
        };
        let places = u32::try_from(records::WATCHED).unwrap_or(u32::MAX);
        let growth = Self {
            levels,
            slots: FxHashMap::default(),
            free: (0..places).rev().map(Slot).collect(),
            ring: RingBuf::try_from(map(&mut ebpf, "MAPPINGS")?).map_err(wrong)?,
            watched: HashMap::try_from(map(&mut ebpf, "WATCHED")?).map_err(wrong)?,
            steps: HashMap::try_from(map(&mut ebpf, "STEPS")?).map_err(wrong)?,
            counters: PerCpuArray::try_from(map(&mut ebpf, "LEDGER")?).map_err(wrong)?,
            interpreters,
            _ebpf: ebpf,
            received: [0; MemoryHook::COUNT],
            page: rustix::param::page_size() as u64,
        };
        Ok((growth, probes))
    }

    /// Watches a process from now on. Does nothing if it is watched already.
    pub fn watch(&mut self, process: ProcessKey) {
        let pid = process.pid;
        match self.slots.get(&pid) {
            Some((own, _)) if own.same(process) => return,
            // The slot of an earlier process with this pid; its end was missed.
            Some((own, _)) => self.give_up(*own),
            None => {}
        }
        // All slots are taken: this process is known from samples alone.
        let Some(slot) = self.free.pop() else { return };
        let mut watched = [0; WATCHED_WORDS];
        (watched[0], watched[1]) = (process.start.0, u64::from(slot.0));
        if self.watched.insert(pid.0, watched, 0).is_err() {
            self.free.push(slot);
            return;
        }
        self.slots.insert(pid, (process, slot));
    }

    fn give_up(&mut self, process: ProcessKey) {
        let Some(slot) = self.slot(process) else {
            return;
        };
        self.slots.remove(&process.pid);
        let _gone = self.watched.remove(&process.pid.0);
        self.free.push(slot);
    }

    /// Returns the table of what the kernel saw of all processes; `None` if it cannot be mapped.
    pub fn levels(&self) -> Option<ResidentTable> {
        self.levels
    }

    /// Returns a process's slot in that table, while it is watched.
    pub fn slot(&self, process: ProcessKey) -> Option<Slot> {
        let (own, slot) = self.slots.get(&process.pid)?;
        own.same(process).then_some(*slot)
    }

    /// Stops watching a process, and returns its last steps, the oldest first. Steps of a later
    /// process with its pid are kept.
    pub fn forget(&mut self, process: ProcessKey) -> Vec<Step> {
        let pid = process.pid.0;
        self.give_up(process);
        let is_it = |start: u64| ProcessKey::new(pid, start).same(process);
        let Some(kept) = self.steps.get(&pid, 0).ok().filter(|own| is_it(own[0])) else {
            return Vec::new();
        };
        let _gone = self.steps.remove(&pid);
        steps(&kept, self.page)
    }

    /// Returns the map through which Python stacks are requested, at the first call. Returns `None`
    /// on machines where the programs cannot tell threads apart.
    pub fn take_interpreters(&mut self) -> Option<InterpreterMap> {
        self.interpreters.take()
    }

    /// Takes all records that were written since the last call.
    pub fn drain(&mut self, mut sink: impl FnMut(MemoryRecord)) {
        while let Some(item) = self.ring.next() {
            if let Some((hook, told)) = hooks::decode_memory(&item, self.page) {
                self.received[hook as usize] += u64::from(hooks::of_memory(hook).is_counted);
                sink(told);
            }
        }
    }

    /// Returns the loss ledger, with a row for each hook.
    pub fn ledger(&self) -> Vec<Ledger> {
        MemoryHook::ALL.map(|hook| self.row(hook)).into()
    }

    fn row(&self, hook: MemoryHook) -> Ledger {
        let received = self.received[hook as usize];
        Ledger {
            received,
            written: received,
            ..ledger::counted(&self.counters, hook.row(), hook.name())
        }
    }
}

impl AsFd for Growth {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor belongs to the map that `self` owns, and lives as long as it.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

/// Decodes the words of a [`Steps`] record, the oldest step first.
fn steps(words: &[u64; STEPS_WORDS], page: u64) -> Vec<Step> {
    let [_, taken, ..] = *words;
    let ring = &words[RING..];
    let all = records::STEPS as u64;
    (taken.saturating_sub(all)..taken)
        .filter_map(|number| {
            let at = usize::try_from(number % all).ok()? * 2;
            let pages = ring[at + 1].cast_signed();
            let part = match pages & 3 {
                0 => MemoryPart::File,
                1 => MemoryPart::Anon,
                2 => MemoryPart::Swap,
                _ => MemoryPart::Shmem,
            };
            Some(Step {
                time: BootTime(ring[at]),
                part,
                bytes: Bytes((pages >> 2).max(0).cast_unsigned() * page),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_steps_come_in_order() {
        let mut words = [0; STEPS_WORDS];
        let taken = records::STEPS as u64 + 3;
        words[1] = taken;
        for number in 0..taken {
            let at = RING + usize::try_from(number).expect("small") % records::STEPS * 2;
            (words[at], words[at + 1]) = (100 + number, number << 2 | 1);
        }
        let found = steps(&words, 4096);
        assert_eq!(found.len(), records::STEPS);
        let first = found.first().expect("a step");
        assert_eq!(
            (first.time, first.part, first.bytes),
            (BootTime(103), MemoryPart::Anon, Bytes(3 * 4096))
        );
        assert!(found.is_sorted_by_key(|step| step.time));
    }
}
