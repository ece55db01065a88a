//! Walks from a thread's registers and the copy of its stack to the addresses of its frames.

use raytrace_ebpf::records::register;
use raytrace_proc::growth_records::Native;

use super::{
    row::{Registers, Row},
    u64_at,
};

/// How many frames are walked at most.
const MOST: usize = 48;

/// Returns an address in the call of each frame, the innermost first. `row_of` returns how to find
/// the caller of a frame. If it finds none, the walk ends with that frame.
pub(super) fn walk(native: &Native, mut row_of: impl FnMut(u64) -> Option<Row>) -> Vec<u64> {
    let saved = &native.registers;
    let bottom = saved[register::RSP];
    let at = |address: u64| {
        let at = usize::try_from(address.checked_sub(bottom)?).ok()?;
        u64_at(&native.stack, at)
    };
    let mut registers = Registers::of(saved);
    let mut address = saved[register::RIP];
    let mut addresses = Vec::new();
    let mut last = None;
    while addresses.len() < MOST {
        addresses.push(address);
        let Some(row) = row_of(address) else { break };
        let Some((caller, frame)) = registers.caller(&row, at) else {
            break;
        };
        // The stack grows down, so a caller's frame has a higher address.
        if last.is_some_and(|last| frame <= last) || caller == 0 {
            break;
        }
        last = Some(frame);
        // A return address is after its call, which may be the last instruction of its function.
        address = caller - 1;
    }
    addresses
}
