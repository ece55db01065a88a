//! Names of functions, read once for each file and function, whichever process has it.

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

/// Functions that are kept of all files together; when there are more, all are looked for again.
const MOST: usize = 8192;

impl Bytes for File {
    fn bytes(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// What is shared by all processes.
#[derive(Default)]
pub(in super::super) struct Names {
    /// By file and by where the function begins in it; `None` where the file does not say.
    known: HashMap<(FileId, u64), Option<Arc<str>>>,
    /// Places that all processes have kept.
    pub(super) places: Arc<AtomicUsize>,
}

impl Names {
    /// The names of the functions that begin there, in the same order.
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
