//! Processes that cannot be looked at.
//!
//! Most of them hold the lock of their memory for ever once they are told to, as in the classic `ps` that hangs: a thread waits with it
//! for a page of a file that never comes, and since another one wants to change the mappings, nobody else gets it. One has a file open
//! that never says what it is; its name has the process's pid for the `*` of the name that is wanted.

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
/// A fork of less is not looked at.
const KEPT: usize = 16 << 20;
/// Their places among the pids; those of further users follow.
const ROOTS: usize = 0;
const WITH_A_FILE: usize = 1;
const RAYLET: usize = 2;
const CHILD: usize = 3;
const LATER: usize = 4;
/// So many hold their locks at the first line of the input: all of these but the one with the file.
const FIRST: usize = 3;

/// What the processes share.
struct Stage<'a> {
    folder: &'a Path,
    device: File,
    ready: UnixStream,
}

/// The pids are those of one of root's, of the one with the file, of a raylet of the first user with this session and of its child, and
/// of one of each further user. The latter hold their locks at the second line of the input.
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
    // These wait for answers that are given only below.
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
    /// One that holds its lock from the moment when it can read a byte of `cue`.
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

    /// Two of this user: a program that is called a raylet, and a fork of it.
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

    /// Maps a page that never comes, and starts what will hold the lock for it: when this sender is dropped.
    fn holds(&self, number: usize) -> Result<Sender<()>> {
        let file = File::open(self.folder.join(format!("{}{number}", fuse::MEMORY)))?;
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
        let (now, told) = channel::<()>();
        thread::spawn(move || {
            let _now = told.recv();
            // SAFETY: the page is mapped as long as this process lives. It never comes.
            unsafe { (page as *const u8).read_volatile() }
        });
        thread::spawn(change_mappings);
        Ok(now)
    }

    /// Says that it is there, and holds its lock when it is told to. Nothing is allocated from then on.
    fn hold_at(&self, mut cue: &PipeReader, number: usize, holds: Result<Sender<()>>) {
        let own = std::process::id();
        let text = holds.as_ref().map_or_else(
            |error| format!("{error:#}\n"),
            |_| format!("{number} {own}\n"),
        );
        // Nobody reads it only where nobody waits any more.
        let _told = (&self.ready).write_all(text.as_bytes());
        let _told = cue.read_exact(&mut [0]);
        drop(holds);
        pause();
    }

    /// One that has the file open until it ends.
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
            // As above.
            let _told = (&self.ready).write_all(text.as_bytes());
            pause();
        })
    }

    /// The file system ends with the last process that has its device.
    fn close(&self) {
        // SAFETY: a descriptor of the child's alone, which never uses it and never drops it.
        unsafe { libc::close(self.device.as_raw_fd()) };
    }
}

/// Maps something and gives it back, for ever.
fn change_mappings() {
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
}

fn called(name: &str, arguments: &[&str]) -> Result<()> {
    rustix::thread::set_name(&std::ffi::CString::new(name)?)?;
    memory::lengthen(LENGTH, arguments)
}

/// With memory whose pages are looked at.
fn become_large() -> Result<()> {
    std::mem::forget(std::hint::black_box(vec![1_u8; KEPT]));
    called("child", &["child"])
}

/// As a program that has given up its rights.
fn become_user(user: u32) -> Result<()> {
    // SAFETY: it takes three numbers, and this process has one thread.
    let done = unsafe { libc::setresuid(user, user, user) };
    ensure!(done == 0, "setresuid: {}", std::io::Error::last_os_error());
    // That has been taken back.
    die_with_parent();
    Ok(())
}
