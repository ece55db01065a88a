//! Decodes a new title: a thread changed its name, and usually its process's title with it.
//!
//! Thousands of these records come each second, and most are not worth a row. So a title is read in
//! place, without a copy.

use std::{borrow::Cow, mem::offset_of};

use raytrace_ebpf::records::Rename;

use super::{
    Deaths, Decoder, NO_FIELDS,
    bytes::{first_string, key, memory, take},
};
use crate::{
    event::{MemorySplit, Observation},
    ids::ProcessKey,
};

/// A new title, borrowed from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTitle<'a> {
    /// The process.
    pub process: ProcessKey,
    /// The title.
    pub title: Cow<'a, str>,
    /// The memory that the process held then.
    pub memory: MemorySplit,
    /// Whether titles of the process before this one were left out.
    pub after_gap: bool,
}

impl From<NewTitle<'_>> for Observation {
    fn from(new: NewTitle<'_>) -> Self {
        Self::Title {
            process: new.process,
            title: new.title.into_owned(),
            memory: new.memory,
        }
    }
}

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    cost: "",
    offsets: NO_FIELDS,
    decode: |decoder, bytes| title(decoder, bytes).map(Into::into),
};

/// Returns the new title; `None` if only the name was set.
pub(super) fn title<'a>(decoder: &Decoder, bytes: &'a [u8]) -> Option<NewTitle<'a>> {
    // The last field of the record is cut to the bytes that were read.
    let before = offset_of!(Rename, title);
    let record: Rename = take(bytes, before)?;
    let length = usize::try_from(record.title_length).ok()?;
    let title = &bytes[before..];
    let title = first_string(title.get(..length).unwrap_or(title));
    let comm = first_string(&record.comm);
    (!comm.is_empty() && title.starts_with(comm)).then(|| NewTitle {
        process: key(record.process),
        title: String::from_utf8_lossy(title),
        memory: memory(&record.memory, decoder.page),
        after_gap: record.over > 0,
    })
}

#[cfg(test)]
mod tests {
    use raytrace_ebpf::records::{self, Header, Kind};

    use super::*;
    use crate::observe::kernel::symbols::Symbols;

    #[test]
    fn name_must_begin_the_title() {
        let memory = records::Memory {
            file: 1,
            anon: 2,
            swap: 0,
            shmem: 0,
            peak: 3,
        };
        let mut record = Rename {
            header: Header {
                kind: Kind::Rename as u32,
                reserved: 0,
                time: 5,
            },
            process: records::Process {
                tgid: 7,
                tid: 7,
                start: 1,
            },
            memory,
            comm: *b"ray::Class.meth\0",
            title_length: 17,
            over: 0,
            title: [0; records::TITLE],
        };
        record.title[..17].copy_from_slice(b"ray::Class.method");
        let decoder = Decoder::new(Symbols::default());
        let told = |record: Rename| {
            // SAFETY: `Rename` is repr(C), integers and byte arrays without padding.
            let bytes: [u8; size_of::<Rename>()] = unsafe { std::mem::transmute(record) };
            // The kernel's program sends no more than the title.
            let told = title(&decoder, &bytes[..offset_of!(Rename, title) + 17]);
            told.map(|new| new.title.into_owned())
        };
        assert_eq!(told(record).as_deref(), Some("ray::Class.method"));
        record.comm = *b"worker.io\0\0\0\0\0\0\0";
        assert_eq!(told(record), None);
    }
}
