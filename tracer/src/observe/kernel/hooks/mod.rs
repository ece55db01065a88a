//! The hooks, one file each: the fields of the kernel that it alone reads, and what its records say.
//!
//! The program of a hook is in `tracer-ebpf/src`, in a file of the same name; its record, its tracepoint and its row of the loss
//! ledger are in `records.rs` there. The two tables here are complete: what is new there does not compile until it has a row.

mod bytes;
mod exec;
mod exit;
mod fork;
mod rename;
mod signal_deliver;
mod signal_generate;
mod tick;
mod victim;
mod vm_unmapped_area;

use raytrace_ebpf::records::{Header, Hook, Kind, MemoryHook, MemoryOffsets, Offsets};

use bytes::take;
pub use rename::NewTitle;

use super::{MemoryRecord, error::KernelError, fields::Fields, symbols::Symbols};
use crate::{event::Observation, ids::BootTime};

/// A hook of the object `deaths`.
pub(super) struct Deaths {
    /// Without it acts are not observed: who is tracked, who ended, and who sent a signal.
    pub(super) is_needed: bool,
    /// Finds the fields that no other hook reads.
    pub(super) offsets: fn(&Fields<'_>, &mut Offsets) -> Result<(), KernelError>,
    /// What a record says; `None` for one that is too short, or says nothing.
    decode: fn(&Decoder, &[u8]) -> Option<Observation>,
}

/// A hook of the object `memory`.
pub(super) struct Memory {
    /// Whether the row of the ledger counts its records.
    pub(super) is_counted: bool,
    /// Finds the fields that no other hook reads, where the kernel has them.
    pub(super) offsets: fn(&Fields<'_>, &mut MemoryOffsets),
    /// What a record says, in pages of this size; its length says which parts it has.
    decode: fn(&[u8], u64) -> Option<MemoryRecord>,
}

/// Reads nothing that others do not read.
const NO_FIELDS: fn(&Fields<'_>, &mut Offsets) -> Result<(), KernelError> = |_, _| Ok(());

pub(super) const fn of(hook: Hook) -> Deaths {
    match hook {
        Hook::Victim => victim::HOOK,
        Hook::Signal => signal_generate::HOOK,
        Hook::Deliver => signal_deliver::HOOK,
        Hook::Fork => fork::HOOK,
        Hook::Exec => exec::HOOK,
        Hook::Exit => exit::HOOK,
        Hook::Rename => rename::HOOK,
    }
}

pub(super) const fn of_memory(hook: MemoryHook) -> Memory {
    match hook {
        MemoryHook::Mapped => vm_unmapped_area::HOOK,
        MemoryHook::Tick => tick::HOOK,
    }
}

/// Who sends a record.
enum Sender {
    Deaths(Hook),
    Memory(MemoryHook),
}

const fn sender(kind: Kind) -> Sender {
    match kind {
        Kind::Fork => Sender::Deaths(Hook::Fork),
        Kind::Exec => Sender::Deaths(Hook::Exec),
        Kind::Signal => Sender::Deaths(Hook::Signal),
        Kind::Delivered => Sender::Deaths(Hook::Deliver),
        Kind::Victim => Sender::Deaths(Hook::Victim),
        Kind::Exit => Sender::Deaths(Hook::Exit),
        Kind::Rename => Sender::Deaths(Hook::Rename),
        Kind::Mapped => Sender::Memory(MemoryHook::Mapped),
        Kind::Growth => Sender::Memory(MemoryHook::Tick),
    }
}

/// Decodes the records of `deaths`; knows the kernel's symbols and page size. Any bytes are decoded or refused, none can panic.
pub(super) struct Decoder {
    symbols: Symbols,
    page: u64,
}

impl Decoder {
    pub(super) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            page: rustix::param::page_size() as u64,
        }
    }

    /// The time and content of a record that is a new title's.
    pub(super) fn title<'a>(&self, bytes: &'a [u8]) -> Option<(BootTime, NewTitle<'a>)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        let is_title = Kind::of(header.kind)? == Kind::Rename;
        let new = is_title.then(|| rename::title(self, bytes))??;
        Some((BootTime(header.time), new))
    }

    /// The hook, time and content of a record; `None` for one that is too short or of an unknown kind.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<(Hook, BootTime, Observation)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        // The others come by the ring of the other object.
        let Sender::Deaths(hook) = sender(Kind::of(header.kind)?) else {
            return None;
        };
        let what = (of(hook).decode)(self, bytes)?;
        Some((hook, BootTime(header.time), what))
    }
}

/// A record of `memory`, and the hook that sent it.
pub(super) fn decode_memory(bytes: &[u8], page: u64) -> Option<(MemoryHook, MemoryRecord)> {
    let header: Header = take(bytes, size_of::<Header>())?;
    let Sender::Memory(hook) = sender(Kind::of(header.kind)?) else {
        return None;
    };
    let what = (of_memory(hook).decode)(bytes, page)?;
    Some((hook, what))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(kind in 0u32..12, bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
            let decoder = Decoder::new(Symbols::default());
            let mut record = kind.to_le_bytes().to_vec();
            record.extend(bytes);
            let _ = decoder.decode(&record);
            let _ = decode_memory(&record, 4096);
        }
    }
}
