//! Parses the kernel's type information (`/sys/kernel/btf/vmlinux`), as far as offsets need it.
//!
//! Mirrors Documentation/bpf/btf.rst (format version 1, kinds up to 19, `ENUM64`) and the layout
//! section of uapi/linux/btf.h (2026). By that section, kinds that are not known here are skipped.
//! The parser is kept to a few functions because full parsers hold all 130,000 types of a kernel in
//! memory, several times what the recorder may use.

/// Why the type information could not be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BtfError {
    /// The data is not BTF, or is cut off.
    #[error("the kernel's type information is damaged at byte {0}")]
    Damaged(usize),
    /// It has a kind that this version does not know, and the kernel does not tell the kind's size.
    #[error(
        "the kernel's type information has types of a kind that this raytrace does not know ({0}): please report the kernel's version"
    )]
    Kind(u32),
}

/// Type information with an index from a type's id to its position.
pub(super) struct Btf {
    data: Vec<u8>,
    positions: Vec<u32>,
    strings: usize,
}

const STRUCT: u32 = 4;
const UNION: u32 = 5;
const FORWARD: u32 = 7;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;

#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    flag: bool,
    count: u32,
    size_or_type: u32,
    body: usize,
}

impl Btf {
    pub(super) fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let word = |at: usize| word(&data, at).ok_or(BtfError::Damaged(at));
        if word(0)? & 0xffff != 0xeb9f {
            return Err(BtfError::Damaged(0));
        }
        let header = word(4)? as usize;
        let types = header + word(8)? as usize;
        let end = types + word(12)? as usize;
        let strings = header + word(16)? as usize;
        let layout = Layout::of(&data, header);
        let mut positions = vec![0];
        let mut at = types;
        while at < end {
            positions.push(u32::try_from(at).map_err(|_| BtfError::Damaged(at))?);
            let info = word(at + 4)?;
            let (kind, count) = (kind(info), count(info));
            let size = body_size(kind, count).or_else(|| layout.body_size(&data, kind, count));
            at += 12 + size.ok_or(BtfError::Kind(kind))?;
        }
        Ok(Self {
            data,
            positions,
            strings,
        })
    }

    fn get(&self, id: u32) -> Option<Type> {
        let at = *self.positions.get(id as usize).filter(|_| id != 0)? as usize;
        let info = word(&self.data, at + 4)?;
        Some(Type {
            name: word(&self.data, at)?,
            kind: kind(info),
            flag: info >> 31 != 0,
            count: count(info),
            size_or_type: word(&self.data, at + 8)?,
            body: at + 12,
        })
    }

    fn name_is(&self, offset: u32, name: &str) -> bool {
        let start = self.strings + offset as usize;
        let bytes = self.data.get(start..start + name.len() + 1);
        bytes.is_some_and(|bytes| &bytes[..name.len()] == name.as_bytes() && bytes[name.len()] == 0)
    }

    fn find(&self, name: &str, kinds: &[u32]) -> Option<Type> {
        (1..u32::try_from(self.positions.len()).ok()?)
            .filter_map(|id| self.get(id))
            .find(|found| kinds.contains(&found.kind) && self.name_is(found.name, name))
    }

    /// Follows typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> Option<Type> {
        for _ in 0..16 {
            let found = self.get(id)?;
            if !matches!(found.kind, 8..=11 | 18) {
                return Some(found);
            }
            id = found.size_or_type;
        }
        None
    }

    /// Returns the byte offset and type of a field. Anonymous members are searched too.
    fn field(&self, of: Type, name: &str) -> Option<(u32, u32)> {
        for member in 0..of.count as usize {
            let at = of.body + member * 12;
            let member_name = word(&self.data, at)?;
            let type_id = word(&self.data, at + 4)?;
            let bits = word(&self.data, at + 8)?;
            let offset = if of.flag { bits & 0x00ff_ffff } else { bits } / 8;
            if self.name_is(member_name, name) {
                return Some((offset, type_id));
            }
            if member_name == 0
                && let Some(inner) = self
                    .resolve(type_id)
                    .filter(|inner| matches!(inner.kind, STRUCT | UNION))
                && let Some((more, found)) = self.field(inner, name)
            {
                return Some((offset + more, found));
            }
        }
        None
    }

    /// Returns the byte offset of a path of fields, such as `memory.usage`, in a named struct.
    pub(super) fn offset(&self, structure: &str, path: &str) -> Option<u32> {
        let mut of = self.find(structure, &[STRUCT, UNION])?;
        let mut total = 0;
        for name in path.split('.') {
            let (offset, type_id) = self.field(of, name)?;
            total += offset;
            of = self.resolve(type_id)?;
        }
        Some(total)
    }

    /// Returns the size of a struct.
    pub(super) fn size(&self, structure: &str) -> Option<u32> {
        self.find(structure, &[STRUCT])
            .map(|found| found.size_or_type)
    }

    /// Whether a field is an array (of anything).
    pub(super) fn is_array(&self, structure: &str, name: &str) -> bool {
        let field = self
            .find(structure, &[STRUCT])
            .and_then(|of| self.field(of, name));
        field
            .and_then(|(_, id)| self.resolve(id))
            .is_some_and(|found| found.kind == 3)
    }

    /// Returns the value of an enumerator.
    pub(super) fn enumerator(&self, enumeration: &str, name: &str) -> Option<u32> {
        let found = self.find(enumeration, &[6])?;
        (0..found.count as usize).find_map(|at| {
            let at = found.body + at * 8;
            self.name_is(word(&self.data, at)?, name)
                .then(|| word(&self.data, at + 4))
                .flatten()
        })
    }

    /// Whether the first argument of a tracepoint is a pointer. The tracepoint's prototype is
    /// `btf_trace_NAME`.
    pub(super) fn first_argument_is_pointer(&self, tracepoint: &str) -> Option<bool> {
        let typedef = self.find(&format!("btf_trace_{tracepoint}"), &[TYPEDEF])?;
        let pointer = self.resolve(typedef.size_or_type)?;
        let prototype = self
            .resolve(pointer.size_or_type)
            .filter(|found| found.kind == 13 && found.count >= 2)?;
        let argument = word(&self.data, prototype.body + 8 + 4)?;
        Some(self.resolve(argument)?.kind == 2)
    }

    /// Makes type information that has only the prototypes of these tracepoints, and these
    /// functions. Loading a `tp_btf` or an `fentry` program looks them up. Each keeps its id, so
    /// the ids between them are filled with forward declarations without a name.
    pub(super) fn prototypes(&self, tracepoints: &[&str], functions: &[&str]) -> Vec<u8> {
        let prototype = |name: &&str| (TYPEDEF, format!("btf_trace_{name}"));
        let function = |name: &&str| (FUNCTION, (*name).to_owned());
        let tracepoints = tracepoints.iter().map(prototype);
        let names: Vec<(u32, String)> = tracepoints.chain(functions.iter().map(function)).collect();
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        let mut written = 0;
        for id in 1..u32::try_from(self.positions.len()).unwrap_or(0) {
            let Some(found) = self.get(id) else { continue };
            let is_it = |(kind, name): &&(u32, String)| {
                found.kind == *kind && self.name_is(found.name, name)
            };
            let Some((kind, name)) = names.iter().find(is_it) else {
                continue;
            };
            for _ in written + 1..id {
                types.extend([0, FORWARD << 24, 0]);
            }
            types.extend([size(strings.len()), kind << 24, 0]);
            written = id;
            strings.extend(name.bytes().chain([0]));
        }
        let (length, strings_length) = (size(types.len() * 4), size(strings.len()));
        let mut data = vec![0x9f, 0xeb, 1, 0];
        let header = [24, 0, length, length, strings_length];
        for word in header.into_iter().chain(types) {
            data.extend(word.to_le_bytes());
        }
        data.extend(strings);
        data
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// The kind in 7 bits. Older kernels use 5 and have zeros in the others.
fn kind(info: u32) -> u32 {
    (info >> 24) & 0x7f
}

/// The count in 24 bits. Older kernels use 16 and have zeros in the others.
fn count(info: u32) -> u32 {
    info & 0x00ff_ffff
}

/// The section in which the kernel gives the sizes of all its kinds: for each, `struct btf_layout {
/// u8 info_sz, u8 elem_sz, u16 flags }`.
#[derive(Clone, Copy)]
struct Layout {
    start: usize,
    length: usize,
}

impl Layout {
    /// Finds the section. It is empty if the header has none.
    fn of(data: &[u8], header: usize) -> Self {
        let field = |at| word(data, at).filter(|_| header >= 32).unwrap_or(0) as usize;
        Self {
            start: header + field(24),
            length: field(28),
        }
    }

    fn body_size(self, data: &[u8], kind: u32, count: u32) -> Option<usize> {
        let at = kind as usize * 4;
        let known = (at + 4 <= self.length).then_some(self.start + at)?;
        let (once, each) = (*data.get(known)?, *data.get(known + 1)?);
        Some(usize::from(once) + usize::from(each) * count as usize)
    }
}

/// Returns the bytes after the head of a type of this kind; `None` if the kind is not known.
fn body_size(kind: u32, count: u32) -> Option<usize> {
    let count = count as usize;
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => count * 12,
        6 | 13 => count * 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_btf_is_refused() {
        assert_eq!(Btf::parse(Vec::new()).err(), Some(BtfError::Damaged(0)));
        assert_eq!(
            Btf::parse(vec![0x9f, 0xeb, 1, 0]).err(),
            Some(BtfError::Damaged(4))
        );
        if let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") {
            for cut in [24, 100, 4096, data.len() / 2] {
                let parsed = Btf::parse(data[..cut].to_vec());
                assert!(
                    parsed.is_err()
                        || parsed.is_ok_and(|btf| btf.offset("task_struct", "nothing").is_none())
                );
            }
        }
    }

    /// Makes a struct `s` with the field `f`. Before it is a type of kind 77, which has 4 bytes and
    /// then two elements of 8 bytes. With `told`, a layout section gives the size of that kind.
    fn with_new_kind(told: bool) -> Vec<u8> {
        let mut types: Vec<u32> = vec![0, 77 << 24 | 2, 0];
        types.extend([0xffff_ffff; 5]);
        types.extend([1, STRUCT << 24 | 1, 16, 3, 2, 64]);
        let strings = b"\0s\0f\0\0\0";
        let (bytes, length) = (types.len() * 4, strings.len());
        let mut layout = vec![0; 77 * 4];
        layout.extend([4, 8, 0, 0]);
        let header = if told { 32 } else { 24 };
        let mut data = vec![0x9f, 0xeb, 1, 0];
        let ends = [bytes + length, layout.len()];
        let words = [header, 0, bytes, bytes, length].into_iter();
        for word in words.chain(ends.into_iter().filter(|_| told)) {
            data.extend(u32::try_from(word).expect("a word").to_le_bytes());
        }
        data.extend(types.into_iter().flat_map(u32::to_le_bytes));
        data.extend(strings);
        data.extend(layout);
        data
    }

    /// Without a size, parsing fails with the kind's number.
    #[test]
    fn unknown_kind_of_known_size_is_skipped() {
        let skipped = Btf::parse(with_new_kind(true)).expect("BTF");
        assert_eq!(skipped.offset("s", "f"), Some(8));
        assert_eq!(skipped.size("s"), Some(16));
        let named = Btf::parse(with_new_kind(false)).err();
        assert_eq!(named, Some(BtfError::Kind(77)));
    }

    #[test]
    fn fields_of_the_running_kernel_are_found() {
        let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            crate::skips::skipped("no /sys/kernel/btf/vmlinux");
            return;
        };
        let btf = Btf::parse(data).expect("BTF");
        assert!(btf.offset("task_struct", "tgid").is_some());
        assert!(btf.offset("mem_cgroup", "memory.usage").is_some());
        assert!(btf.offset("file", "f_path.dentry").is_some());
        assert!(btf.first_argument_is_pointer("mark_victim").is_some());
        assert_eq!(
            btf.first_argument_is_pointer("signal_generate"),
            Some(false)
        );
        assert_eq!(btf.offset("no_such_struct", "x"), None);
        let tracepoints = ["mark_victim", "signal_generate", "no_such_tracepoint"];
        let alone = btf.prototypes(&tracepoints, &["out_of_memory", "no_such_function"]);
        let alone = Btf::parse(alone).expect("BTF");
        let id = |of: &Btf, kind: u32, name: &str| {
            let named = |id: &u32| {
                let found = of.get(*id).filter(|found| found.kind == kind);
                found.is_some_and(|found| of.name_is(found.name, name))
            };
            (1..u32::try_from(of.positions.len()).expect("an id")).find(named)
        };
        for (kind, name) in [
            (TYPEDEF, "btf_trace_mark_victim"),
            (TYPEDEF, "btf_trace_signal_generate"),
            (FUNCTION, "out_of_memory"),
        ] {
            assert!(id(&btf, kind, name).is_some(), "{name}");
            assert_eq!(id(&btf, kind, name), id(&alone, kind, name));
        }
        assert_eq!(id(&alone, TYPEDEF, "btf_trace_no_such_tracepoint"), None);
        assert_eq!(id(&alone, FUNCTION, "no_such_function"), None);
    }
}
