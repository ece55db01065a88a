//! Builds a py-spy reader for an interpreter that is already located.
//!
//! `PythonSpy::new` looks for the interpreter by itself: it maps the files of the process, which a job may cut meanwhile (SIGBUS), and
//! takes the lengths that they state for true. What it would find is known already (`binary`, `elf`). And it may panic on what it reads while
//! the process goes on.

use std::{
    cell::Cell,
    collections::HashMap,
    mem::MaybeUninit,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    time::Instant,
};

use anyhow::anyhow;
use py_spy::{
    Config, PythonSpy,
    python_process_info::{PythonProcessInfo, PythonProcessLayout, get_python_version},
};
use remoteprocess::Process;

/// A torn read is tried this often.
const TRIES: usize = 3;
/// What py-spy reads variables by.
const WORD: u64 = 8;

thread_local! {
    /// Whether this thread is in py-spy.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a part of py-spy. What that reads of a running process is torn now and then: lines that add up beyond any number, tables shorter
/// than they say. A panic at that is an error here, and prints nothing.
fn guarded<T>(part: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !INSIDE.get() {
                print(what);
            }
        }));
    });
    INSIDE.set(true);
    let done = panic::catch_unwind(AssertUnwindSafe(part));
    INSIDE.set(false);
    done.unwrap_or_else(|_| Err(anyhow!("what was read of it makes no sense")))
}

/// The same, tried again at once where it fails: a stack that is torn says nothing of the next read of it.
pub(super) fn again<T>(mut part: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    for _ in 1..TRIES {
        if let Ok(found) = guarded(&mut part) {
            return Ok(found);
        }
    }
    guarded(part)
}

/// What is zero throughout is an `Instant`; the compiler refuses this where it is none.
const _: Instant = {
    // SAFETY: the value of a constant is checked.
    unsafe { MaybeUninit::zeroed().assume_init() }
};

/// One for the process `pid`, and where its interpreter is.
pub(super) fn new(
    pid: i32,
    info: &mut PythonProcessInfo,
    config: Config,
) -> anyhow::Result<(PythonSpy, PythonProcessLayout)> {
    let process = Process::new(pid)?;
    let version = guarded(|| get_python_version(info, &process))?;
    trust_the_symbol(info);
    let addresses = again(|| PythonProcessLayout::new(info, &process, &version, &config))?;
    let mut spy = MaybeUninit::<PythonSpy>::zeroed();
    let to = spy.as_mut_ptr();
    // SAFETY: `to` points to room for it. Each field of py-spy 0.4.3, which Cargo.toml asks for exactly and without `unwind`, is written
    // but `thread_name_lookup_time`, an `Instant` that no other crate can write, and that zeros are.
    let spy = unsafe {
        (&raw mut (*to).pid).write(pid);
        (&raw mut (*to).process).write(process);
        (&raw mut (*to).version).write(version);
        (&raw mut (*to).addresses).write(addresses.clone());
        (&raw mut (*to).config).write(config);
        (&raw mut (*to).short_filenames).write(HashMap::new());
        (&raw mut (*to).python_thread_ids).write(HashMap::new());
        (&raw mut (*to).python_thread_names).write(HashMap::new());
        (&raw mut (*to).dockerized).write(false);
        spy.assume_init()
    };
    Ok((spy, addresses))
}

/// Where the interpreter of a process is, of which a py-spy knows the version.
pub(super) fn locate(
    info: &mut PythonProcessInfo,
    spy: &mut PythonSpy,
) -> anyhow::Result<PythonProcessLayout> {
    trust_the_symbol(info);
    // Else one without a lock of the interpreter would be refused.
    spy.config.gil_only = false;
    again(|| PythonProcessLayout::new(info, &spy.process, &spy.version, &spy.config))
}

/// A symbol says where the interpreter is. If that is not there yet, the process is starting: py-spy's search through all variables for something
/// alike would take long, and could find something else. It is sent to where nothing is, for it goes wrong (an unaligned slice) on no variables at all.
fn trust_the_symbol(info: &mut PythonProcessInfo) {
    let is_known = info.get_symbol("_PyRuntime").is_some();
    let binaries = [&mut info.python_binary, &mut info.libpython_binary];
    for binary in binaries.into_iter().flatten() {
        if is_known || binary.bss_size < WORD {
            (binary.bss_addr, binary.bss_size) = (0, WORD);
        }
        if is_known || binary.pyruntime_size < WORD {
            binary.pyruntime_addr = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let table: Vec<u8> = Vec::new();
        let torn = guarded(|| Ok(table[std::hint::black_box(7)]));
        assert!(torn.is_err());
        assert_eq!(guarded(|| Ok(7)).expect("a number"), 7);
    }
}
