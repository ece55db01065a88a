//! Two processes that cannot be looked at.
//!
//! The first holds the lock of its memory for ever, as in the classic `ps` that hangs: a thread waits with it for a page of a file that
//! never comes, and since another one wants to change the mappings, nobody else gets it. The second has a file open that never says
//! what it is, whose name has its own pid for the `*` of the name that is wanted.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::net::UnixStream,
    },
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::{fork, fuse, pause, wait};

const LENGTH: usize = 4096;

pub(crate) fn run(folder: &Path, name: &str) -> Result<()> {
    let device = fuse::mounted(folder)?;
    let (ready, done) = UnixStream::pair()?;
    let is_ready = |act: &dyn Fn() -> Result<()>| {
        close(device.as_raw_fd());
        let text = act().map_or_else(|error| format!("{error:#}\n"), |()| "done\n".to_owned());
        // Nobody reads it only where nobody waits any more.
        let _told = (&ready).write_all(text.as_bytes());
        pause();
    };
    // The children wait for answers that are given only below.
    let first = fork(|| is_ready(&|| first(folder)))?;
    let second = fork(|| is_ready(&|| second(folder, name)))?;
    thread::spawn(move || fuse::serve(device));
    drop(ready);
    let mut lines = BufReader::new(done).lines();
    for _ in 0..2 {
        let line = lines.next().context("a child ended")??;
        anyhow::ensure!(line == "done", "{line}");
    }
    wait(&[first, second])
}

/// The file system ends with the last process that has its device.
fn close(device: RawFd) {
    // SAFETY: a descriptor of the child's alone, which never uses it.
    unsafe { libc::close(device) };
}

fn first(folder: &Path) -> Result<()> {
    let file = File::open(folder.join("memory"))?;
    // SAFETY: a new private mapping at no given address, of a file that nobody cuts.
    let page = unsafe {
        mmap(
            std::ptr::null_mut(),
            LENGTH,
            ProtFlags::READ,
            MapFlags::PRIVATE,
            &file,
            0,
        )
    }?;
    let page = page as usize;
    thread::spawn(move || {
        // When the other thread is there: to start one changes the mappings.
        thread::sleep(Duration::from_millis(100));
        // SAFETY: the page is mapped as long as this process lives. It never comes.
        unsafe { (page as *const u8).read_volatile() }
    });
    thread::spawn(|| {
        loop {
            // SAFETY: a mapping of its own, which nobody knows.
            let _changed = unsafe {
                mmap_anonymous(
                    std::ptr::null_mut(),
                    LENGTH,
                    ProtFlags::READ,
                    MapFlags::PRIVATE,
                )
                .and_then(|mapped| munmap(mapped, LENGTH))
            };
            thread::sleep(Duration::from_millis(1));
        }
    });
    Ok(())
}

fn second(folder: &Path, name: &str) -> Result<()> {
    let name = name.replace('*', &std::process::id().to_string());
    // Open until it ends.
    std::mem::forget(File::open(folder.join(name))?);
    Ok(())
}
