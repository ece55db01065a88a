//! A file system whose files open, and then never answer reads or requests for attributes.
//!
//! It has a file of every name. It mirrors linux/fuse.h, protocol 7.31.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    path::Path,
};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const ROOT: u64 = 1;
const OTHER: u64 = 2;
/// How the names of files begin whose pages never arrive, and the first of their node numbers. Each
/// is a file of its own, because opening a file waits for pages of it that are being read. All
/// other names are one file.
pub(crate) const MEMORY: &str = "memory-";
const FIRST: u64 = 3;
const NOT_KNOWN: i32 = -libc::ENOSYS;
/// The buffer of a request. Requests are smaller here.
const REQUEST: usize = 256 << 10;

/// Mounts the file system on a folder. Only this process and its children see it.
pub(crate) fn mounted(folder: &Path) -> Result<File> {
    // SAFETY: this program has one thread, so only its own view of the mounts changes.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        device.as_raw_fd()
    );
    let options = std::ffi::CString::new(options)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("hang", folder, "fuse", flags, Some(options.as_c_str())).context("mount")?;
    Ok(device)
}

/// Answers what is needed to open a file, until the file system is unmounted.
pub(crate) fn serve(mut device: File) {
    let mut request = vec![0; REQUEST];
    let mut asked = HashSet::new();
    while let Ok(length) = device.read(&mut request) {
        let word =
            |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap_or_default());
        let long =
            |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap_or_default());
        if length < 40 {
            continue;
        }
        let (opcode, unique, node) = (word(4), long(8), long(16));
        let (error, body) = match (opcode, node) {
            (INIT, _) => (0, init()),
            (LOOKUP, _) => (0, entry(numbered(&request[40..]).unwrap_or(OTHER))),
            (GETATTR, ROOT) => (0, attributes(ROOT)),
            (OPEN | OPENDIR, _) => (0, vec![0; 16]),
            // At its first request a reader waits without the lock of its memory. It holds the lock
            // when it asks again, and then it gets no answer.
            (READ, node) if asked.insert(node) => (-libc::EIO, Vec::new()),
            // These never get an answer.
            (GETATTR | READ | FORGET, _) => continue,
            _ => (NOT_KNOWN, Vec::new()),
        };
        let mut answer = Vec::new();
        let all = u32::try_from(16 + body.len()).unwrap_or_default();
        answer.extend(all.to_ne_bytes());
        answer.extend(error.to_ne_bytes());
        answer.extend(unique.to_ne_bytes());
        answer.extend(body);
        // The request may have been cancelled meanwhile.
        let _not_wanted = device.write(&answer);
    }
}

/// Returns the node of a file whose pages never arrive, by its name.
fn numbered(name: &[u8]) -> Option<u64> {
    let name = name.split(|byte| *byte == 0).next()?;
    let number = std::str::from_utf8(name).ok()?.strip_prefix(MEMORY)?;
    Some(FIRST + number.parse::<u64>().ok()?)
}

/// `struct fuse_init_out`
fn init() -> Vec<u8> {
    let mut body = Vec::new();
    for word in [7u32, 31, 0, 0, 0, 4096] {
        body.extend(word.to_ne_bytes());
    }
    body.resize(64, 0);
    body
}

/// `struct fuse_entry_out` of a file, with a validity of no time.
fn entry(node: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for long in [node, 0, 0, 0, 0] {
        body.extend(long.to_ne_bytes());
    }
    body.extend(attribute(node));
    body
}

/// `struct fuse_attr_out`
fn attributes(node: u64) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend(attribute(node));
    body
}

/// `struct fuse_attr`: a folder, or a file of 1 MiB.
fn attribute(node: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for long in [node, 1 << 20, 2048, 0, 0, 0] {
        body.extend(long.to_ne_bytes());
    }
    let mode = if node == ROOT { 0o40_755u32 } else { 0o100_644 };
    for word in [0u32, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
        body.extend(word.to_ne_bytes());
    }
    body
}
