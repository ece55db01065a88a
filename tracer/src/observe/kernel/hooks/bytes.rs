//! Decodes what several hooks have in their records: keys, names, arguments, paths, memory.

use raytrace_ebpf::records;

use crate::{
    event::{self, MemorySplit},
    ids::{Bytes, Pid, ProcessKey},
    observe::kernel::Native,
};

/// Copies a record of at least `need` bytes into a `T`. What is missing of `T` is zero.
pub(super) fn take<T: Copy>(bytes: &[u8], need: usize) -> Option<T> {
    let bytes = bytes.get(..bytes.len().min(size_of::<T>()))?;
    if bytes.len() < need {
        return None;
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: every T here is a repr(C) record of integers and byte arrays, valid for any bits; at
    // most its size is copied.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), bytes.len());
        Some(value.assume_init())
    }
}

pub(super) fn key(process: records::Process) -> ProcessKey {
    ProcessKey::new(process.tgid, process.start)
}

pub(super) fn ns_pid(inner: u32, outer: u32) -> Option<Pid> {
    (inner != 0 && inner != outer).then_some(Pid(inner))
}

/// Returns the bytes up to the first NUL.
pub(super) fn first_string(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Returns the same as text.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(first_string(bytes)).into_owned()
}

/// Splits NUL-separated arguments, without the NULs that a shortened title leaves at its end.
pub(super) fn arguments(bytes: &[u8]) -> Vec<String> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    if end == 0 {
        return Vec::new();
    }
    bytes[..end]
        .split(|byte| *byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Joins the names of a path, innermost first. The root's name is empty.
pub(super) fn path(names: &[String]) -> String {
    let parts: Vec<&str> = names
        .iter()
        .rev()
        .map(String::as_str)
        .filter(|name| !name.is_empty() && *name != "/")
        .collect();
    format!("/{}", parts.join("/"))
}

/// Returns the file of a record; `None` for inode 0, which no file has.
pub(super) fn file(record: records::File) -> Option<event::FileId> {
    (record.inode != 0).then_some(event::FileId {
        inode: record.inode,
        device: record.device,
    })
}

/// Returns a process by its pid and name; `None` for pid 0.
pub(super) fn named(record: &records::Ancestor) -> Option<event::Ancestor> {
    (record.tgid != 0).then(|| event::Ancestor {
        pid: Pid(record.tgid),
        comm: text(&record.comm),
    })
}

/// Converts the memory of a process from pages of this size to bytes.
pub(super) fn memory(memory: &records::Memory, page: u64) -> MemorySplit {
    let bytes = |pages: i64| {
        u64::try_from(pages)
            .ok()
            .map(|pages| Bytes(pages.saturating_mul(page)))
    };
    // A batched counter can be slightly below zero while memory rises and falls on several CPUs. -1
    // means that it could not be read.
    let counter = |pages: i64| {
        if pages == -1 {
            None
        } else {
            bytes(pages.max(0))
        }
    };
    MemorySplit {
        anon: counter(memory.anon),
        file: counter(memory.file),
        shmem: counter(memory.shmem),
        swap: counter(memory.swap),
        peak: bytes(memory.peak),
        own: None,
    }
}

/// Returns the native part of a record, which begins at byte `at`.
pub(super) fn native(item: &[u8], at: usize) -> Option<Native> {
    let part = item.get(at..).filter(|part| !part.is_empty())?;
    let before = std::mem::offset_of!(records::Native, stack);
    let (head, stack) = part.split_at_checked(before)?;
    let words: Vec<u64> = head
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        .collect();
    let (registers, bytes) = words.split_first_chunk()?;
    let bytes = usize::try_from(*bytes.first()?).ok()?;
    Some(Native {
        registers: *registers,
        stack: stack.get(..bytes).filter(|stack| !stack.is_empty())?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_loses_its_padding_only() {
        assert_eq!(arguments(b"ray::A.go\0\0\0\0"), ["ray::A.go"]);
        assert_eq!(arguments(b"a\0\0b\0"), ["a", "", "b"]);
        assert!(arguments(b"\0\0").is_empty());
    }

    #[test]
    fn path_is_joined_from_the_innermost_name() {
        let names = ["leaf".to_owned(), "ray".to_owned(), String::new()];
        assert_eq!(path(&names), "/ray/leaf");
        assert_eq!(path(&names[2..]), "/");
    }
}
