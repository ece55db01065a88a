//! A thread changed its name, and most often its process's title with it.

use raytrace_ebpf::records::Rename;

use super::{
    Deaths, Decoder, NO_FIELDS,
    bytes::{key, memory, take, text},
};
use crate::event::Observation;

pub(super) const HOOK: Deaths = Deaths {
    is_needed: false,
    offsets: NO_FIELDS,
    // Its last field is cut to what was read.
    decode: |decoder, bytes| rename(decoder, &take(bytes, std::mem::offset_of!(Rename, title))?),
};

/// A new title; `None` for a name that was set without one.
fn rename(decoder: &Decoder, record: &Rename) -> Option<Observation> {
    let length = usize::try_from(record.title_length).ok()?;
    let title = text(record.title.get(..length).unwrap_or(&record.title));
    let comm = text(&record.comm);
    (!comm.is_empty() && title.starts_with(&comm)).then(|| Observation::Title {
        process: key(record.process),
        title,
        memory: memory(&record.memory, decoder.page),
    })
}

#[cfg(test)]
mod tests {
    use raytrace_ebpf::records::{self, Header, Kind};

    use super::*;
    use crate::observe::kernel::symbols::Symbols;

    #[test]
    fn a_name_that_does_not_begin_the_title_is_no_title() {
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
            reserved: 0,
            title: [0; records::TITLE],
        };
        record.title[..17].copy_from_slice(b"ray::Class.method");
        let decoder = Decoder::new(Symbols::default());
        let told = rename(&decoder, &record);
        assert!(
            matches!(&told, Some(Observation::Title { title, .. }) if title == "ray::Class.method"),
            "{told:?}"
        );
        record.comm = *b"worker.io\0\0\0\0\0\0\0";
        assert_eq!(rename(&decoder, &record), None);
    }
}
