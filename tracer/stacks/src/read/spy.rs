//! Builds a py-spy reader for an interpreter that is already located.
//!
//! `PythonSpy::new` would search for the interpreter itself. It maps the files of the process,
//! which a job may truncate meanwhile (SIGBUS), and trusts the lengths in them. The result of that
//! search is known already (`binary`, `elf`). py-spy may also panic on what it reads from a process
//! that runs on.

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

/// How often a torn read is tried.
const TRIES: usize = 3;
/// The word size in which py-spy reads variables.
const WORD: u64 = 8;

thread_local! {
    /// Whether this thread is in py-spy.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a part of py-spy. Its reads of a running process are torn now and then: sums of lines
/// overflow, tables are shorter than they say. A panic because of that is an error here, and prints
/// nothing.
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

/// Runs a part of py-spy, and tries again at once if it fails: a torn stack says nothing about the
/// next read.
pub(super) fn again<T>(mut part: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    for _ in 1..TRIES {
        if let Ok(found) = guarded(&mut part) {
            return Ok(found);
        }
    }
    guarded(part)
}

/// Checks that an `Instant` may be all zeros. If not, the compiler refuses this constant.
const _: Instant = {
    // SAFETY: the compiler checks the value of a constant.
    unsafe { MaybeUninit::zeroed().assume_init() }
};

/// Builds a reader for the process `pid`. Also returns where its interpreter is.
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
    // SAFETY: `to` points to room for it. Each field of py-spy 0.4.3, which Cargo.toml requires
    // exactly and without `unwind`, is written. The exception is `thread_name_lookup_time`, an
    // `Instant`: no other crate can write one, and all zeros are a valid one.
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

/// Finds the interpreter of a process. `spy` knows its version.
pub(super) fn locate(
    info: &mut PythonProcessInfo,
    spy: &mut PythonSpy,
) -> anyhow::Result<PythonProcessLayout> {
    trust_the_symbol(info);
    // Otherwise a Python without an interpreter lock would be refused.
    spy.config.gil_only = false;
    again(|| PythonProcessLayout::new(info, &spy.process, &spy.version, &spy.config))
}

/// Makes py-spy rely on the symbol that says where the interpreter is. If the interpreter is not
/// there yet, the process is starting. py-spy would then search all variables for something
/// similar, which takes long and could find something else. So the search is pointed at an empty
/// address. The list of variables must not be empty: py-spy fails on that (an unaligned slice).
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
    fn panic_is_an_error() {
        let table: Vec<u8> = Vec::new();
        let torn = guarded(|| Ok(table[std::hint::black_box(7)]));
        assert!(torn.is_err());
        assert_eq!(guarded(|| Ok(7)).expect("a number"), 7);
    }
}
