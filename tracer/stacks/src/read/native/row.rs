//! Finds the caller of an address, by its row of `.eh_frame` in the process's memory.
//!
//! Mirrors the Linux Standard Base 5.0, "Exception Frames", as gcc, clang and rustc write it: a
//! table of four-byte entries relative to `.eh_frame_hdr`. Rules that need an expression, and
//! signal frames, are not followed.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameOffset, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection as _, X86_64,
};
use raytrace_ebpf::records::{REGISTERS, register};

use super::{Bytes, modules::Tables, u32_at};

/// How many entries of the table are read at once.
const BLOCK: u32 = 128;
const ENTRY: u32 = 8;
/// Longer entries are not read. That of Python's evaluation loop has some KiB.
const LONGEST_CIE: u64 = 1 << 10;
const LONGEST_FDE: u64 = 32 << 10;
/// The registers that are followed, by their DWARF numbers: those that a function preserves, the
/// stack pointer and the return address.
const FOLLOWED: [gimli::Register; 8] = [
    X86_64::RBX,
    X86_64::RBP,
    X86_64::RSP,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
    X86_64::RA,
];

/// Where the caller's value of a register is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Still in the register.
    Same,
    /// On the stack, at this offset from the frame.
    At(i64),
    Unknown,
}

/// The rules of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The register and the offset. Their sum is the address of the frame.
    frame: (usize, i64),
    rules: [Rule; FOLLOWED.len()],
}

/// The values of [`FOLLOWED`], as far as they are known.
pub(super) struct Registers([Option<u64>; FOLLOWED.len()]);

impl Registers {
    /// Takes the values that the kernel saved.
    pub(super) fn of(saved: &[u64; REGISTERS]) -> Self {
        let places = [
            register::RBX,
            register::RBP,
            register::RSP,
            register::R12,
            register::R13,
            register::R14,
            register::R15,
            register::RIP,
        ];
        Self(places.map(|place| Some(saved[place])))
    }

    /// Moves on to the caller. Returns its return address, and where this frame ends. `stack` reads
    /// words of the stack.
    pub(super) fn caller(
        &mut self,
        row: &Row,
        stack: impl Fn(u64) -> Option<u64>,
    ) -> Option<(u64, u64)> {
        let (base, offset) = row.frame;
        let frame = self.0[base]?.wrapping_add_signed(offset);
        let mut caller = [None; FOLLOWED.len()];
        for (number, rule) in row.rules.iter().enumerate() {
            caller[number] = match rule {
                Rule::Same => self.0[number],
                Rule::At(offset) => stack(frame.wrapping_add_signed(*offset)),
                Rule::Unknown => None,
            };
        }
        caller[number(X86_64::RSP)?] = Some(frame);
        let address = caller[number(X86_64::RA)?]?;
        self.0 = caller;
        Some((address, frame))
    }
}

fn number(register: gimli::Register) -> Option<usize> {
    FOLLOWED.iter().position(|own| *own == register)
}

/// Returns where the function at `address` begins, and its row there; no row where it cannot be
/// followed.
pub(super) fn find(
    memory: &impl Bytes,
    tables: &Tables,
    address: u64,
) -> Option<(u64, Option<Row>)> {
    let wanted = i64::try_from(address).ok()? - i64::try_from(tables.header).ok()?;
    let entries = tables.header.checked_add(12)?;
    let read = |first: u32, count: u32| {
        let at = entries.checked_add(u64::from(first) * u64::from(ENTRY))?;
        memory.bytes(at, u64::from(count) * u64::from(ENTRY))
    };
    let begins = |entry: &[u8]| Some(i64::from(u32_at(entry, 0)?.cast_signed()));
    let (mut low, mut high) = (0, tables.count);
    while high - low > BLOCK {
        let middle = low + (high - low) / 2;
        if begins(&read(middle, 1)?)? <= wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    let block = read(low, high - low)?;
    let before = block
        .chunks_exact(ENTRY as usize)
        .take_while(|entry| begins(entry).is_some_and(|begin| begin <= wanted));
    let entry = before.last()?;
    let offset = i64::from(u32_at(entry, 4)?.cast_signed());
    row(memory, tables.header.checked_add_signed(offset)?, address)
}

/// Returns the row for `address` from the entry at `at`, if the address is in the entry's function.
fn row(memory: &impl Bytes, at: u64, address: u64) -> Option<(u64, Option<Row>)> {
    let head = memory.bytes(at, 8)?;
    let length = u64::from(u32_at(&head, 0)?);
    let common = at
        .checked_add(4)?
        .checked_sub(u64::from(u32_at(&head, 4)?))?;
    let common_length = u64::from(u32_at(&memory.bytes(common, 4)?, 0)?);
    let fits = (4..=LONGEST_FDE).contains(&length) && (4..=LONGEST_CIE).contains(&common_length);
    let mut section = fits.then(|| memory.bytes(common, common_length + 4))??;
    let begin = section.len();
    section.extend(memory.bytes(at, length + 4)?);
    // The distance from this field to the common entry, which now begins the section.
    let distance = u32::try_from(begin).ok()? + 4;
    section[begin + 4..begin + 8].copy_from_slice(&distance.to_le_bytes());
    let frames = EhFrame::new(&section, LittleEndian);
    // Addresses are relative to their own position. This base is right for the second entry.
    let bases = BaseAddresses::default().set_eh_frame(at.wrapping_sub(begin as u64));
    let entry = frames
        .fde_from_offset(&bases, EhFrameOffset(begin), EhFrame::cie_from_offset)
        .ok()?;
    if !entry.contains(address) {
        return None;
    }
    let function = entry.initial_address();
    if entry.is_signal_trampoline() {
        return Some((function, None));
    }
    let mut context = UnwindContext::new();
    let found = entry.unwind_info_for_address(&frames, &bases, &mut context, address);
    Some((function, found.ok().and_then(followed)))
}

fn followed(row: &gimli::UnwindTableRow<usize>) -> Option<Row> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
        return None;
    };
    let mut rules = [Rule::Same; FOLLOWED.len()];
    for (rule, register) in rules.iter_mut().zip(FOLLOWED) {
        *rule = match row.register(register) {
            // Without a rule, the return address is not known.
            None if register == X86_64::RA => Rule::Unknown,
            None | Some(RegisterRule::SameValue) => Rule::Same,
            Some(RegisterRule::Offset(offset)) => Rule::At(offset),
            Some(_) => Rule::Unknown,
        };
    }
    Some(Row {
        frame: (number(*register)?, *offset),
        rules,
    })
}
