//! Processes that hang whoever reads them.
//!
//! Most of them hold the lock of their memory for ever once they are told to, as in the well-known
//! hang of `ps`. One thread takes the lock to wait for a page of a file, and the page never
//! arrives. Another thread waits to change the mappings, so no further reader gets the lock. One
//! process has a file open whose attributes never arrive. The name of that file is NAME, with the
//! pid of the process in place of `*`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, PipeReader, Read as _, Write as _, pipe},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::Path,
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::{die_with_parent, fork, fuse, memory, pause, say_ready};

const LENGTH: usize = 4096;
/// Memory of the forked child. The recorder does not look at a smaller fork.
const KEPT: usize = 16 << 20;
/// Places of the processes among the pids. Those of further users follow.
const ROOTS: usize = 0;
const WITH_A_FILE: usize = 1;
const RAYLET: usize = 2;
const CHILD: usize = 3;
const LATER: usize = 4;
/// How many processes hold their locks at the first line of the input: all but the one with the
/// file.
const FIRST: usize = 3;

/// What the processes share.
struct Stage<'a> {
    folder: &'a Path,
    device: File,
    ready: UnixStream,
}

/// Starts the processes and prints their pids in the order of the constants above.
///
/// These are a process of root's, the one with the file, a raylet of the first user with this
/// session, and the raylet's child. One process of each further user follows. Those hold their
/// locks at the second line of the input.
pub(crate) fn run(folder: &Path, name: &str, session: &str, users: &[&str]) -> Result<()> {
    let (raylets, later) = users.split_first().context("whose raylet?")?;
    let device = fuse::mounted(folder)?;
    let (ready, done) = UnixStream::pair()?;
    let (first, second) = (pipe()?, pipe()?);
    let stage = Stage {
        folder,
        device,
        ready,
    };
    // These processes wait for answers that are given only below.
    stage.holder(ROOTS, &first.0, || Ok(()))?;
    stage.with_a_file(name)?;
    stage.raylet(raylets.parse()?, session, &first.0)?;
    for (number, user) in later.iter().enumerate() {
        let user = user.parse()?;
        stage.holder(LATER + number, &second.0, || become_user(user))?;
    }
    let Stage { device, ready, .. } = stage;
    thread::spawn(move || fuse::serve(device));
    drop(ready);
    let mut pids = vec![0; LATER + later.len()];
    let mut lines = BufReader::new(done).lines();
    for _ in 0..pids.len() {
        let line = lines.next().context("a child ended")??;
        let (number, pid) = line.split_once(' ').context("no number")?;
        pids[number.parse::<usize>().context(line.clone())?] = pid.parse()?;
    }
    say_ready(&pids)?;
    let mut input = std::io::stdin().lines();
    for (mut cue, count) in [(first.1, FIRST), (second.1, later.len())] {
        if input.next().is_none() {
            return Ok(());
        }
        cue.write_all(&vec![b'x'; count])?;
    }
    input.for_each(drop);
    Ok(())
}

impl Stage<'_> {
    /// Starts a process that holds its lock from the moment when it can read a byte of `cue`.
    fn holder(
        &self,
        number: usize,
        cue: &PipeReader,
        before: impl FnOnce() -> Result<()>,
    ) -> Result<u32> {
        fork(|| {
            self.close();
            let holds = before().and_then(|()| self.holds(number));
            self.hold_at(cue, number, holds);
        })
    }

    /// Starts two processes of this user: one called `raylet`, and a fork of it.
    fn raylet(&self, user: u32, session: &str, cue: &PipeReader) -> Result<u32> {
        let socket = format!("--raylet_socket_name={session}/sockets/raylet");
        let session = format!("--session-dir={session}");
        fork(|| {
            self.close();
            let holds = become_user(user)
                .and_then(|()| called("raylet", &["raylet", &socket, &session]))
                .and_then(|()| self.holder(CHILD, cue, become_large))
                .and_then(|_| self.holds(RAYLET));
            self.hold_at(cue, RAYLET, holds);
        })
    }

    /// Maps a page that never arrives, and starts a thread that takes the lock for it when the
    /// returned sender is dropped.
    fn holds(&self, number: usize) -> Result<Sender<()>> {
        let file = File::open(self.folder.join(format!("{}{number}", fuse::MEMORY)))?;
        // SAFETY: a new private mapping at an address of the kernel's choice, of a file that nobody
        // truncates.
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
        let (now, told) = channel::<()>();
        thread::spawn(move || {
            let _now = told.recv();
            // SAFETY: the page is mapped as long as this process lives. The read never returns.
            unsafe { (page as *const u8).read_volatile() }
        });
        thread::spawn(change_mappings);
        Ok(now)
    }

    /// Reports that it is ready, and holds its lock when it is told to. It allocates nothing after
    /// that.
    fn hold_at(&self, mut cue: &PipeReader, number: usize, holds: Result<Sender<()>>) {
        let own = std::process::id();
        let text = holds.as_ref().map_or_else(
            |error| format!("{error:#}\n"),
            |_| format!("{number} {own}\n"),
        );
        // If nobody reads this, nobody waits for it any more.
        let _told = (&self.ready).write_all(text.as_bytes());
        let _told = cue.read_exact(&mut [0]);
        drop(holds);
        pause();
    }

    /// Starts a process that has the file open until it ends.
    fn with_a_file(&self, name: &str) -> Result<u32> {
        fork(|| {
            self.close();
            let own = std::process::id();
            let name = name.replace('*', &own.to_string());
            let file = File::open(self.folder.join(name));
            let text = file.as_ref().map_or_else(
                |error| format!("{error:#}\n"),
                |_| format!("{WITH_A_FILE} {own}\n"),
            );
            // As above: nobody may wait for it any more.
            let _told = (&self.ready).write_all(text.as_bytes());
            pause();
        })
    }

    /// Closes the device in a child. The file system ends with the last process that has it open.
    fn close(&self) {
        // SAFETY: this is the child's own copy of the descriptor. The child neither uses nor drops
        // it.
        unsafe { libc::close(self.device.as_raw_fd()) };
    }
}

/// Maps and unmaps a page for ever.
fn change_mappings() {
    loop {
        // SAFETY: a new mapping that nothing else uses.
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
}

fn called(name: &str, arguments: &[&str]) -> Result<()> {
    rustix::thread::set_name(&std::ffi::CString::new(name)?)?;
    memory::lengthen(LENGTH, arguments)
}

/// Takes enough memory for the recorder to look at its pages.
fn become_large() -> Result<()> {
    std::mem::forget(std::hint::black_box(vec![1_u8; KEPT]));
    called("child", &["child"])
}

/// Becomes a user, like a program that has given up its rights.
fn become_user(user: u32) -> Result<()> {
    // SAFETY: setresuid(2) takes three numbers, and this process has one thread.
    let done = unsafe { libc::setresuid(user, user, user) };
    ensure!(done == 0, "setresuid: {}", std::io::Error::last_os_error());
    // Changing the user has reset the parent-death signal.
    die_with_parent();
    Ok(())
}
