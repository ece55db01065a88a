//! Finds an interpreter's structures in a process.
//!
//! They are searched once for each program file, then moved to the address at which another process
//! has it. Parsing the symbols of a Python takes 10 ms and some MiB. Moving the result takes one
//! read of /proc/PID/maps.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use py_spy::{
    binary_parser::BinaryInfo,
    python_process_info::{ContainsAddr, PythonProcessInfo, is_python_lib},
};

use raytrace_proc::{
    maps::{self, Map},
    rooted,
};

use super::{StackError, elf};
use crate::ids::Pid;

/// The symbols that lead to the interpreter, Python 3.7 to 3.15.
const SYMBOLS: [&str; 6] = [
    "_PyRuntime",
    "Py_Version",
    "Py_GetVersion.version",
    "version",
    "interp_head",
    "_PyThreadState_Current",
];

/// More than a kernel with default settings lets a process have: 65,530 mappings with paths of 200
/// bytes.
const MAPS_BYTES: u64 = 16 << 20;

/// For how many files something is kept. A node has a few. A job that keeps bringing new files
/// cannot make the recorder use more memory.
const MOST_FILES: usize = 64;

/// Identifies a file, whatever its name: device and inode, and the time of its last change, because
/// inodes are reused.
pub(super) type FileId = (u64, u64, i64);

/// Returns the id of a file.
pub(super) fn id(known: &fs::Metadata) -> FileId {
    (known.dev(), known.ino(), known.mtime())
}

/// Keeps what was found in a file. If there are too many, all others are dropped: what is still
/// needed is found again.
pub(super) fn keep<T>(kept: &mut HashMap<FileId, T>, file: FileId, found: T) {
    if kept.len() >= MOST_FILES && !kept.contains_key(&file) {
        kept.clear();
    }
    kept.insert(file, found);
}

/// Parsed files, with the address at which each was mapped then.
#[derive(Default)]
pub(super) struct Binaries(HashMap<FileId, ParsedBinary>);

struct ParsedBinary {
    start: u64,
    info: BinaryInfo,
}

/// The address ranges of a process, for a search in stripped programs.
struct Ranges(Vec<(u64, u64)>);

impl ContainsAddr for Ranges {
    fn contains_addr(&self, address: usize) -> bool {
        let mut ranges = self.0.iter();
        ranges.any(|(start, end)| (*start..*end).contains(&(address as u64)))
    }
}

impl Binaries {
    /// Returns what py-spy needs to know about a process, and the file that contains its
    /// interpreter.
    pub(super) fn of(&mut self, pid: Pid) -> Result<(FileId, PythonProcessInfo), StackError> {
        let maps = maps::read(pid, MAPS_BYTES)?;
        let maps: Vec<Map<'_>> = maps::parse(&maps).collect();
        let exe = format!("/proc/{pid}/exe");
        let name = fs::read_link(&exe)?.to_string_lossy().into_owned();
        let program = maps
            .iter()
            .find(|map| map.executable && map.name == name)
            .or(maps.first())
            .ok_or_else(|| StackError::Open("the process has no memory".into()))?;
        let library = maps
            .iter()
            .filter(|map| map.executable && map.name.starts_with('/') && is_python_lib(map.name))
            .min_by_key(|map| map.offset)
            .map(|map| {
                let file = rooted::file(pid, Path::new(map.name));
                let gone = || StackError::Open(format!("its {} cannot be opened", map.name));
                self.info(file.ok_or_else(gone)?, map)
            })
            .transpose()?;
        let program = File::open(&exe)
            .map_err(StackError::from)
            .and_then(|file| self.info(file, program));
        let (id, python_binary, libpython_binary) = if let Some((id, library)) = library {
            (id, program.ok().map(|(_, info)| info), Some(library))
        } else {
            let (id, info) = program?;
            (id, Some(info), None)
        };
        let ranges = maps.iter().map(|map| (map.start, map.end));
        let info = PythonProcessInfo {
            python_binary,
            libpython_binary,
            maps: Box::new(Ranges(ranges.collect())),
            python_filename: exe.into(),
            dockerized: false,
        };
        Ok((id, info))
    }

    fn info(&mut self, file: File, map: &Map<'_>) -> Result<(FileId, BinaryInfo), StackError> {
        let id = id(&file.metadata()?);
        if let Some(parsed) = self.0.get(&id) {
            let by = map.start.wrapping_sub(parsed.start);
            return Ok((id, moved(&parsed.info, by)));
        }
        let info = elf::parse(file, (map.start, map.end - map.start), &SYMBOLS)?;
        let here = moved(&info, 0);
        let start = map.start;
        keep(&mut self.0, id, ParsedBinary { start, info });
        Ok((id, here))
    }
}

/// Returns the same file moved up by `by`. 0 stands for a part that it does not have, and stays 0.
fn moved(info: &BinaryInfo, by: u64) -> BinaryInfo {
    let to = |address: u64| match address {
        0 => 0,
        address => address.wrapping_add(by),
    };
    BinaryInfo {
        symbols: info
            .symbols
            .iter()
            .map(|(name, at)| (name.clone(), to(*at)))
            .collect(),
        bss_addr: to(info.bss_addr),
        bss_size: info.bss_size,
        pyruntime_addr: to(info.pyruntime_addr),
        pyruntime_size: info.pyruntime_size,
        addr: to(info.addr),
        size: info.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_files_are_bounded() {
        let mut kept = HashMap::new();
        for inode in 0..1000 {
            keep(&mut kept, (1, inode, 0), inode);
            assert!(kept.len() <= MOST_FILES, "{}", kept.len());
            assert_eq!(kept.get(&(1, inode, 0)), Some(&inode));
        }
        let before = kept.len();
        keep(&mut kept, (1, 999, 0), 7);
        assert_eq!((kept.len(), kept[&(1, 999, 0)]), (before, 7));
    }

    #[test]
    fn absent_parts_stay_at_zero() {
        let info = BinaryInfo {
            symbols: HashMap::from([("_PyRuntime".to_owned(), 0x1500)]),
            bss_addr: 0x1000,
            bss_size: 8,
            pyruntime_addr: 0,
            pyruntime_size: 0,
            addr: 0x400,
            size: 0x2000,
        };
        let found = moved(&info, 0x7000_0000);
        assert_eq!((found.bss_addr, found.pyruntime_addr), (0x7000_1000, 0));
        assert_eq!(found.symbols["_PyRuntime"], 0x7000_1500);
    }
}
