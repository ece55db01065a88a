//! The hooks, one file each: the kernel fields that only it reads, and how its records are decoded.
//!
//! The program of a hook is in `tracer-ebpf/src`, in a file of the same name. Its record, its
//! tracepoint and its row of the loss ledger are in `records.rs` there. The two tables here are
//! complete: a new hook or kind of record does not compile until it has a row in them.

mod bytes;
mod exec;
mod exit;
mod fork;
mod interference;
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
    /// Whether acts can be observed only with this hook: which processes are tracked, which ended,
    /// and who sent a signal.
    pub(super) is_needed: bool,
    /// What is lost without it, said where it is missing; empty if the ledger and the mode say it.
    pub(super) cost: &'static str,
    /// Finds the fields that no other hook reads.
    pub(super) offsets: fn(&Fields<'_>, &mut Offsets) -> Result<(), KernelError>,
    /// Decodes a record; `None` for one that is too short or carries nothing.
    decode: fn(&Decoder, &[u8]) -> Option<Observation>,
}

/// A hook of the object `memory`.
pub(super) struct Memory {
    /// Whether its row of the ledger counts its records.
    pub(super) is_counted: bool,
    /// Finds the fields that no other hook reads, if the kernel has them.
    pub(super) offsets: fn(&Fields<'_>, &mut MemoryOffsets),
    /// Decodes a record, with pages of this size. The length of the record says which parts it has.
    decode: fn(&[u8], u64) -> Option<MemoryRecord>,
}

/// For a hook that reads only fields that other hooks read too.
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
        Hook::Attach => interference::ATTACH,
        Hook::TraceMe => interference::TRACE_ME,
        Hook::MemoryWrite => interference::MEMORY_WRITE,
        Hook::MemoryAccess => interference::MEMORY_ACCESS,
    }
}

pub(super) const fn of_memory(hook: MemoryHook) -> Memory {
    match hook {
        MemoryHook::Mapped => vm_unmapped_area::HOOK,
        MemoryHook::Tick => tick::HOOK,
    }
}

/// The hook that sends a record.
enum Sender {
    Deaths(Hook),
    Memory(MemoryHook),
}

const fn sender(kind: Kind) -> Sender {
    match kind {
        Kind::Fork | Kind::TracedAtFork => Sender::Deaths(Hook::Fork),
        Kind::Exec | Kind::TracedAtExec => Sender::Deaths(Hook::Exec),
        Kind::Signal | Kind::Traced => Sender::Deaths(Hook::Signal),
        Kind::Delivered => Sender::Deaths(Hook::Deliver),
        Kind::Victim => Sender::Deaths(Hook::Victim),
        Kind::Exit => Sender::Deaths(Hook::Exit),
        Kind::Rename => Sender::Deaths(Hook::Rename),
        Kind::Attached => Sender::Deaths(Hook::Attach),
        Kind::TraceMe => Sender::Deaths(Hook::TraceMe),
        Kind::MemoryWritten => Sender::Deaths(Hook::MemoryWrite),
        Kind::VmWritten => Sender::Deaths(Hook::MemoryAccess),
        Kind::Mapped => Sender::Memory(MemoryHook::Mapped),
        Kind::Growth => Sender::Memory(MemoryHook::Tick),
    }
}

/// Decodes the records of `deaths`. It knows the kernel's symbols and page size. Any bytes are
/// decoded or refused; none can cause a panic.
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

    /// Returns the time and title of a record, if it is a new title's.
    pub(super) fn title<'a>(&self, bytes: &'a [u8]) -> Option<(BootTime, NewTitle<'a>)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        let is_title = Kind::of(header.kind)? == Kind::Rename;
        let new = is_title.then(|| rename::title(self, bytes))??;
        Some((BootTime(header.time), new))
    }

    /// Returns the hook, time and content of a record; `None` for one that is too short or of an
    /// unknown kind.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<(Hook, BootTime, Observation)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        // Records of the object `memory` arrive in its own ring.
        let Sender::Deaths(hook) = sender(Kind::of(header.kind)?) else {
            return None;
        };
        let what = match Kind::of(header.kind)? {
            Kind::Traced | Kind::TracedAtFork | Kind::TracedAtExec => {
                interference::decode(self, bytes)?
            }
            _ => (of(hook).decode)(self, bytes)?,
        };
        Some((hook, BootTime(header.time), what))
    }

    /// Returns the signal that the process of an exit had caught, if its record has one.
    pub(super) fn caught(bytes: &[u8]) -> Option<(BootTime, Observation)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        let is_exit = Kind::of(header.kind)? == Kind::Exit;
        is_exit.then(|| exit::caught(bytes))?
    }
}

/// Decodes a record of `memory`. Returns the hook that sent it, too.
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
        fn any_bytes_are_decoded_or_refused(kind in 0u32..20, bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
            let decoder = Decoder::new(Symbols::default());
            let mut record = kind.to_le_bytes().to_vec();
            record.extend(bytes);
            let _ = decoder.decode(&record);
            let _ = Decoder::caught(&record);
            let _ = decode_memory(&record, 4096);
        }
    }
}
