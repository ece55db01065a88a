//! Tests unwinding, with this program's own stack and with damaged tables.

use std::{cell::RefCell, fs::File, hint::black_box};

use raytrace_ebpf::records::{REGISTERS, register};

use super::{super::code::Memory, *};
use crate::damage::{Random, flip};

/// Takes the registers and the stack of this thread, as the kernel would.
#[expect(
    clippy::inline_always,
    reason = "these are the registers of its caller"
)]
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn here() -> growth_records::Native {
    let mut registers = [0u64; REGISTERS];
    // SAFETY: registers are copied into an array that is ours.
    unsafe {
        std::arch::asm!(
            "mov [{to} + 8 * 4], rbp",
            "mov [{to} + 8 * 5], rbx",
            "mov [{to} + 8 * 3], r12",
            "mov [{to} + 8 * 2], r13",
            "mov [{to} + 8 * 1], r14",
            "mov [{to} + 8 * 0], r15",
            "mov [{to} + 8 * 19], rsp",
            "lea {address}, [rip]",
            "mov [{to} + 8 * 16], {address}",
            to = in(reg) registers.as_mut_ptr(),
            address = out(reg) _,
        );
    }
    let from = registers[register::RSP] as *const u8;
    // SAFETY: the frames of the test and of the thread's start are above this address: a test's
    // thread has 2 MiB of stack.
    let stack = unsafe { std::slice::from_raw_parts(from, 2048) };
    growth_records::Native {
        registers,
        stack: stack.to_vec(),
    }
}

#[inline(never)]
#[cfg(target_arch = "x86_64")]
fn innermost(room: &mut [u64; 9]) -> growth_records::Native {
    room[0] += 1;
    let taken = here();
    black_box(room);
    taken
}

#[inline(never)]
#[cfg(target_arch = "x86_64")]
fn its_caller() -> growth_records::Native {
    let mut room = [7; 9];
    let taken = innermost(black_box(&mut room));
    black_box(room);
    taken
}

fn own() -> (Pid, Memory) {
    let pid = Pid(std::process::id());
    (pid, Memory::open(pid).expect("own memory"))
}

/// They are known the second time.
#[test]
#[cfg(target_arch = "x86_64")]
fn own_frames_are_named_and_cached() {
    let (pid, memory) = own();
    let (mut unwinder, mut names) = (Unwinder::default(), Names::default());
    let taken = its_caller();
    let now = Instant::now();
    let first = unwinder.frames(pid, &memory, &mut names, &taken, now);
    let began = Instant::now();
    let second = unwinder.frames(pid, &memory, &mut names, &taken, now);
    println!("{first:#?}, again {:?}", began.elapsed());
    assert_eq!(first, second);
    let functions: Vec<&str> = first
        .iter()
        .filter_map(|frame| frame.function.as_deref()?.rsplit("::").next())
        .collect();
    let wanted = ["innermost", "its_caller", "own_frames_are_named_and_cached"];
    assert_eq!(functions.get(..3), Some(wanted.as_slice()), "{functions:?}");
    let program = std::env::current_exe().expect("a program");
    let program = program.file_name().expect("a name").to_string_lossy();
    assert_eq!(first[0].library, program);
    assert!(first.len() <= MOST_FRAMES);
}

/// Bytes, some of which are changed.
struct Damaged<'a, B> {
    bytes: &'a B,
    random: RefCell<Random>,
    /// How many bytes there are for each one that is changed.
    rate: usize,
}

impl<B: Bytes> Bytes for Damaged<'_, B> {
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.bytes(at, length)?;
        let mut random = self.random.borrow_mut();
        let mut at = random.below(self.rate);
        while let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << random.below(8);
            at += 1 + random.below(self.rate);
        }
        Some(bytes)
    }
}

/// Damaged tables, stacks and registers are tried.
#[test]
#[cfg(target_arch = "x86_64")]
fn damaged_unwind_data_ends_the_walk() {
    let (pid, memory) = own();
    let mut names = Names::default();
    let now = Instant::now();
    for round in 0..2000_u64 {
        let mut random = Random(round * 7919 + 1);
        let mut taken = its_caller();
        if round % 2 == 0 {
            let at = random.below(REGISTERS);
            taken.registers[at] ^= 1 << random.below(64);
            taken.stack = flip(&taken.stack, &mut random);
        }
        let memory = Damaged {
            bytes: &memory,
            rate: 1 << (round % 12),
            random: RefCell::new(random),
        };
        let found = Unwinder::default().frames(pid, &memory, &mut names, &taken, now);
        assert!(found.len() <= MOST_FRAMES);
    }
}

/// Names may be wrong or missing.
#[test]
fn damaged_symbols_never_panic() {
    let file = File::open("/proc/self/exe").expect("this program");
    let addresses = [0, 0x1000, 0x10_0000, u64::MAX];
    for round in 0..20_u64 {
        let damaged = Damaged {
            bytes: &file,
            random: RefCell::new(Random(round * 7919 + 1)),
            rate: 1 << (round % 12),
        };
        let found = symbols::names(&damaged, &addresses);
        assert_eq!(found.len(), addresses.len());
    }
    let nothing = File::open("/dev/null").expect("nothing");
    assert_eq!(symbols::names(&nothing, &addresses), vec![None; 4]);
}

#[test]
fn stack_that_reads_too_much_is_given_up() {
    let (pid, memory) = own();
    let budget = Budget {
        memory: &memory,
        left: Cell::new(3 * A_READ),
    };
    let here = own as *const () as u64;
    let mut unwinder = Unwinder::default();
    let now = Instant::now();
    assert!(unwinder.place(pid, &budget, here, now).is_none());
    assert!(budget.is_spent() && unwinder.places.is_empty());
    let budget = Budget {
        memory: &memory,
        left: Cell::new(MOST_READ),
    };
    assert!(unwinder.place(pid, &budget, here, now).is_some());
    println!("{} bytes", MOST_READ - budget.left.get());
}

/// They count until their process is gone.
#[test]
fn kept_places_are_counted_for_all_processes() {
    let all = Arc::new(AtomicUsize::new(0));
    let unwinder = || {
        let mut new = Unwinder::default();
        new.of_all = Arc::clone(&all);
        new
    };
    let (mut one, mut other) = (unwinder(), unwinder());
    one.keep(1, None);
    one.keep(1, None);
    other.keep(1, None);
    assert_eq!(all.load(Ordering::Relaxed), 2);
    one.forget();
    drop(other);
    assert_eq!(all.load(Ordering::Relaxed), 0);
}
