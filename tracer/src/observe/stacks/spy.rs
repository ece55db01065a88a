//! A py-spy for an interpreter that was found here.
//!
//! `PythonSpy::new` looks for the interpreter by itself: it maps the files of the process, which a job may cut meanwhile (SIGBUS), and
//! takes the lengths that they state for true. What it would find is known already (`binary`, `elf`).

use std::{collections::HashMap, mem::MaybeUninit, time::Instant};

use py_spy::{
    Config, PythonSpy,
    python_process_info::{PythonProcessInfo, PythonProcessLayout, get_python_version},
};
use remoteprocess::Process;

/// What is zero throughout is an `Instant`; the compiler refuses this where it is none.
const _: Instant = {
    // SAFETY: the value of a constant is checked.
    unsafe { MaybeUninit::zeroed().assume_init() }
};

/// One for the process `pid`, and where its interpreter is.
pub(super) fn new(
    pid: i32,
    info: &PythonProcessInfo,
    config: Config,
) -> anyhow::Result<(PythonSpy, PythonProcessLayout)> {
    let process = Process::new(pid)?;
    let version = get_python_version(info, &process)?;
    let addresses = PythonProcessLayout::new(info, &process, &version, &config)?;
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
