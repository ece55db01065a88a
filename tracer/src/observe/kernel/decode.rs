//! From the bytes of a ring record to an observation. Any bytes are decoded or refused, none can panic.

use raytrace_ebpf::records::{
    self, Exec, Exit, Fork, GROUP_EXIT, Header, Hook, Kind, Rename, SENDER_COMPAT,
    SENDER_EXEC_SEEN, SENDER_EXITING, SENDER_KERNEL_THREAD, SENDER_SAME_ROOT, TOOK_EFFECT, Victim,
};

use super::{symbols::Symbols, system_calls};
use crate::{
    cgroup_path,
    event::{self, CgroupLevel, MemorySplit, Observation, OomVictim, Sender},
    ids::{BootTime, Bytes, Pid, ProcessKey},
};

/// Pages that mean "no limit": `PAGE_COUNTER_MAX` is `LONG_MAX / PAGE_SIZE`.
const NO_LIMIT_PAGES: u64 = (1 << 63) / 4096 - 1;

/// Decodes records; knows the kernel's symbols and page size.
pub(super) struct Decoder {
    symbols: Symbols,
    page: u64,
}

impl Decoder {
    pub(super) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            page: rustix::param::page_size() as u64,
        }
    }

    /// The hook, time and content of a record; `None` for one that is too short or of an unknown kind.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<(Hook, BootTime, Observation)> {
        let header: Header = take(bytes, size_of::<Header>())?;
        let (hook, what) = match Kind::of(header.kind)? {
            Kind::Fork => (Hook::Fork, fork(&take(bytes, size_of::<Fork>())?)),
            Kind::Exec => (
                Hook::Exec,
                exec(&take(bytes, std::mem::offset_of!(Exec, argv))?),
            ),
            Kind::Signal => (
                Hook::Signal,
                signal(&take(bytes, size_of::<records::Signal>())?),
            ),
            Kind::Delivered => (
                Hook::Deliver,
                delivered(&take(bytes, size_of::<records::Delivered>())?),
            ),
            Kind::Victim => (
                Hook::Victim,
                self.victim(&take(bytes, size_of::<Victim>())?),
            ),
            Kind::Exit => (
                Hook::Exit,
                self.exit(&take(bytes, std::mem::offset_of!(Exit, title))?),
            ),
            Kind::Rename => (
                Hook::Rename,
                self.rename(&take(bytes, std::mem::offset_of!(Rename, title))?)?,
            ),
            // These come by the ring of the other object.
            Kind::Mapped | Kind::Grew => return None,
        };
        Some((hook, BootTime(header.time), what))
    }

    fn victim(&self, record: &Victim) -> Observation {
        let frames = usize::try_from(record.stack_bytes).unwrap_or(0) / 8;
        let stack = record.stack.iter().take(frames);
        Observation::OomVictim(OomVictim {
            victim: key(record.victim),
            victim_tid: Pid(record.victim.tid),
            signalled: record.signalled != 0,
            mm: record.mm,
            invoker: key(record.invoker),
            invoker_comm: text(&record.invoker_comm),
            stack: stack
                .filter_map(|address| self.symbols.name(*address))
                .map(str::to_owned)
                .collect(),
            cgroups: self.levels(&record.cgroups),
            score_adj: record.score_adj,
            memory: self.memory(&record.memory),
        })
    }

    fn levels(&self, records: &[records::Cgroup]) -> Vec<CgroupLevel> {
        let valid: Vec<&records::Cgroup> = records
            .iter()
            .take_while(|level| level.valid != 0)
            .collect();
        let names: Vec<String> = valid.iter().map(|level| text(&level.name)).collect();
        let level = |(at, level): (usize, &&records::Cgroup)| CgroupLevel {
            path: path(&names[at..]),
            usage: Bytes(level.usage.saturating_mul(self.page)),
            limit: (level.max < NO_LIMIT_PAGES).then(|| Bytes(level.max.saturating_mul(self.page))),
            shared_with_invoker: level.shared != 0,
        };
        valid.iter().enumerate().map(level).collect()
    }

    fn memory(&self, memory: &records::Memory) -> MemorySplit {
        let bytes = |pages: i64| {
            u64::try_from(pages)
                .ok()
                .map(|pages| Bytes(pages.saturating_mul(self.page)))
        };
        // A batched counter can lie a little below zero while memory goes up and down on several CPUs.
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

    fn exit(&self, record: &Exit) -> Observation {
        let length = usize::try_from(record.title_length).ok();
        Observation::Exit(event::Exit {
            process: key(record.process),
            ns_pid: ns_pid(record.ns_pid, record.process.tgid),
            parent: (record.parent != 0).then_some(Pid(record.parent)),
            comm: text(&record.comm),
            status: Some(record.status & 0xffff),
            title: length.map(|length| {
                arguments(record.title.get(..length).unwrap_or(&record.title)).join(" ")
            }),
            memory: self.memory(&record.memory),
            mm: record.mm,
            uid: Some(record.uid),
            harvested: false,
        })
    }

    /// A new title; `None` for a name that was set without one.
    fn rename(&self, record: &Rename) -> Option<Observation> {
        let length = usize::try_from(record.title_length).ok()?;
        let title = text(record.title.get(..length).unwrap_or(&record.title));
        let comm = text(&record.comm);
        (!comm.is_empty() && title.starts_with(&comm)).then(|| Observation::Title {
            process: key(record.process),
            title,
            memory: self.memory(&record.memory),
        })
    }
}

/// Copies the first `need` bytes (at least) of a record into a `T`, zeroes behind.
pub(super) fn take<T: Copy>(bytes: &[u8], need: usize) -> Option<T> {
    let bytes = bytes.get(..bytes.len().min(size_of::<T>()))?;
    if bytes.len() < need {
        return None;
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: every T here is a repr(C) record of integers and byte arrays, valid for any bits; at most its size is copied.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), bytes.len());
        Some(value.assume_init())
    }
}

fn key(process: records::Process) -> ProcessKey {
    ProcessKey::new(process.tgid, process.start)
}

fn ns_pid(inner: u32, outer: u32) -> Option<Pid> {
    (inner != 0 && inner != outer).then_some(Pid(inner))
}

/// Bytes up to the first NUL, as text.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// NUL-separated arguments, without the NULs that a shortened title leaves behind.
fn arguments(bytes: &[u8]) -> Vec<String> {
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

/// A path from its names, innermost first; the root's name is empty.
fn path(names: &[String]) -> String {
    let parts: Vec<&str> = names
        .iter()
        .rev()
        .map(String::as_str)
        .filter(|name| !name.is_empty() && *name != "/")
        .collect();
    format!("/{}", parts.join("/"))
}

fn fork(record: &Fork) -> Observation {
    Observation::Fork {
        parent: key(record.parent),
        child: key(record.child),
    }
}

fn exec(record: &Exec) -> Observation {
    let length = (record.argv_length as usize).min(record.argv.len());
    Observation::Exec(event::Exec {
        process: key(record.process),
        parent: (record.parent != 0).then_some(Pid(record.parent)),
        ns_pid: ns_pid(record.ns_pid, record.process.tgid),
        comm: text(&record.comm),
        argv: arguments(&record.argv[..length]),
        uid: Some(record.uid),
        file: file(record.file),
    })
}

/// The kernel gives no file the number 0.
fn file(record: records::File) -> Option<event::FileId> {
    (record.inode != 0).then_some(event::FileId {
        inode: record.inode,
        device: record.device,
    })
}

fn delivered(record: &records::Delivered) -> Observation {
    Observation::Delivered {
        process: key(record.process),
        signal: record.signal,
        code: record.code,
    }
}

fn signal(record: &records::Signal) -> Observation {
    let has = |flag: u32| record.flags & flag != 0;
    let cgroup: Vec<String> = record
        .cgroup
        .iter()
        .map(|name| text(name))
        .take_while(|name| !name.is_empty())
        .collect();
    let cgroup = path(&cgroup);
    let [uid, effective_uid, saved_uid] = record.sender_uids;
    let command = usize::try_from(record.command_length).unwrap_or(0);
    let command = record.command.get(..command).unwrap_or(&record.command);
    Observation::Signal(event::Signal {
        target: key(record.target),
        target_tid: Pid(record.target.tid),
        signal: record.signal,
        code: record.code,
        group: record.group != 0,
        result: record.result,
        group_exit: has(GROUP_EXIT),
        group_exit_code: record.group_exit_code,
        took_effect: has(TOOK_EFFECT),
        parent_death_signal: record.parent_death_signal,
        sender: Sender {
            process: key(record.sender),
            tid: Pid(record.sender.tid),
            comm: text(&record.sender_comm),
            uid,
            effective_uid: Some(effective_uid),
            saved_uid: Some(saved_uid),
            file: file(record.file),
            argv: arguments(command),
            exec_seen: has(SENDER_EXEC_SEEN),
            same_root: has(SENDER_SAME_ROOT),
            exiting: has(SENDER_EXITING),
            kernel_thread: has(SENDER_KERNEL_THREAD),
            exe: exe(&record.exe),
            container_id: cgroup_path::container(&cgroup),
            cgroup: Some(cgroup),
            ancestors: ancestors(&record.ancestors),
        },
        call: system_calls::read(record.call, has(SENDER_COMPAT), record.arguments),
    })
}

fn exe(parts: &[[u8; records::EXE_PART]]) -> Option<String> {
    let names: Vec<String> = parts
        .iter()
        .map(|part| text(part))
        .take_while(|name| !name.is_empty())
        .collect();
    let whole = names.len() < parts.len();
    (!names.is_empty()).then(|| {
        if whole {
            path(&names)
        } else {
            format!("…{}", path(&names))
        }
    })
}

fn ancestors(records: &[records::Ancestor]) -> Vec<event::Ancestor> {
    records
        .iter()
        .take_while(|ancestor| ancestor.tgid != 0)
        .map(|ancestor| event::Ancestor {
            pid: Pid(ancestor.tgid),
            comm: text(&ancestor.comm),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(kind in 0u32..10, bytes in proptest::collection::vec(any::<u8>(), 0..6000)) {
            let decoder = Decoder::new(Symbols::default());
            let mut record = kind.to_le_bytes().to_vec();
            record.extend(bytes);
            let _ = decoder.decode(&record);
        }
    }

    #[test]
    fn a_padded_title_loses_its_padding_only() {
        assert_eq!(arguments(b"ray::A.go\0\0\0\0"), ["ray::A.go"]);
        assert_eq!(arguments(b"a\0\0b\0"), ["a", "", "b"]);
        assert!(arguments(b"\0\0").is_empty());
    }

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
        let told = decoder.rename(&record);
        assert!(
            matches!(&told, Some(Observation::Title { title, .. }) if title == "ray::Class.method"),
            "{told:?}"
        );
        record.comm = *b"worker.io\0\0\0\0\0\0\0";
        assert_eq!(decoder.rename(&record), None);
    }

    #[test]
    fn a_cgroup_path_is_put_together_from_the_inside_out() {
        let names = ["leaf".to_owned(), "ray".to_owned(), String::new()];
        assert_eq!(path(&names), "/ray/leaf");
        assert_eq!(path(&names[2..]), "/");
    }
}
