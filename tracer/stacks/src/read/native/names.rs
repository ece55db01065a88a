//! Finds names of functions.
//!
//! Each is read once for each file and function, whichever process runs it.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::{Arc, atomic::AtomicUsize},
};

use raytrace_proc::rooted;

use super::{
    super::binary::{self, FileId},
    Bytes, demangle, symbols,
};
use crate::ids::Pid;

/// How many functions are kept of all files together. When there are more, all are dropped and
/// found again.
const MOST: usize = 8192;

impl Bytes for File {
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// The names that all processes share.
#[derive(Default)]
pub(in super::super) struct Names {
    /// By file, and by where the function begins in it; `None` where the file has no name for it.
    known: HashMap<(FileId, u64), Option<Arc<str>>>,
    /// How many places all processes have kept.
    pub(super) places: Arc<AtomicUsize>,
}

impl Names {
    /// Returns the names of the functions that begin at these addresses, in the same order.
    pub(super) fn of(&mut self, pid: Pid, path: &Path, functions: &[u64]) -> Vec<Option<Arc<str>>> {
        let opened = rooted::file(pid, path);
        let known = opened.and_then(|file| Some((binary::id(&file.metadata().ok()?), file)));
        let Some((id, file)) = known else {
            return vec![None; functions.len()];
        };
        let mut new = functions.to_vec();
        new.sort_unstable();
        new.dedup();
        let is_new = |function: &u64| !self.known.contains_key(&(id, *function));
        if self.known.len() + new.iter().filter(|one| is_new(one)).count() > MOST {
            self.known.clear();
        } else {
            new.retain(is_new);
        }
        if !new.is_empty() {
            let names = symbols::names(&file, &new);
            for (function, name) in new.into_iter().zip(names) {
                let name = name.and_then(|name| demangle::readable(&name));
                self.known.insert((id, function), name.map(Arc::from));
            }
        }
        let name = |function: &u64| self.known.get(&(id, *function)).cloned().flatten();
        functions.iter().map(name).collect()
    }
}
