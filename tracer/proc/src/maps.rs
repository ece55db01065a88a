//! Reads and parses the mappings of a process: /proc/PID/maps, up to a bound.
//!
//! Mirrors `show_map_vma` of `fs/proc/task_mmu.c`, Linux 6.18.

use std::io;

use rustix::fs::makedev;

use crate::{bounded, ids::Pid, timed_read};

/// One mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map<'a> {
    /// Its first address.
    pub start: u64,
    /// The first address after it, never below `start`.
    pub end: u64,
    /// Whether its memory may be executed.
    pub executable: bool,
    /// Its offset in its file.
    pub offset: u64,
    /// The device of its file.
    pub device: u64,
    /// The inode of its file; 0 without a file.
    pub inode: u64,
    /// The path of its file, or the kernel's name for it. It may contain spaces, and may be empty.
    pub name: &'a str,
}

/// Reads the text of `pid`'s mappings in the order of their addresses, at most `most` bytes in
/// whole lines.
pub fn read(pid: Pid, most: u64) -> io::Result<String> {
    let read = move || bounded::text_of_process(pid, "maps", most);
    let text = timed_read::run(pid, read).ok_or(io::ErrorKind::TimedOut)??;
    Ok(bounded::whole_lines(text, most))
}

/// Parses the mappings in such a text.
pub fn parse(text: &str) -> impl Iterator<Item = Map<'_>> {
    text.lines().filter_map(map)
}

/// Parses `55d0c8a00000-55d0c8c00000 r-xp 00002000 08:01 1234 /usr/bin/python3.11`.
fn map(line: &str) -> Option<Map<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let flags = fields.next()?;
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = |part| u32::from_str_radix(part, 16).ok();
    (start <= end).then_some(Map {
        start,
        end,
        executable: flags.contains('x'),
        offset,
        device: makedev(device(major)?, device(minor)?),
        inode: fields.next()?.parse().ok()?,
        name: fields.next().unwrap_or_default().trim_start(),
    })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_may_have_spaces_or_be_absent() {
        let found = map("7f00-7f10 r-xp 00002000 fe:01 1234    /opt/my conda/bin/python3.11")
            .expect("a map");
        let wanted = Map {
            start: 0x7f00,
            end: 0x7f10,
            executable: true,
            offset: 0x2000,
            device: makedev(0xfe, 1),
            inode: 1234,
            name: "/opt/my conda/bin/python3.11",
        };
        assert_eq!(found, wanted);
        let anonymous = map("7f10-7f20 rw-p 00000000 00:00 0 ").expect("a map");
        assert_eq!((anonymous.name, anonymous.executable), ("", false));
    }

    #[test]
    fn other_lines_are_not_mappings() {
        let lines = [
            "",
            "Size: 4 kB",
            "7f10-7f00 rw-p 00000000 00:00 0",
            "7f00-7f10 rw-p 00000000 00:00",
            "7f00-7f10 rw-p 00000000 00 0",
            "7f00-7fxx rw-p 00000000 00:00 0",
        ];
        for line in lines {
            assert_eq!(map(line), None, "{line}");
        }
    }

    #[test]
    fn code_of_this_test_is_in_a_mapping() {
        let text = read(Pid(std::process::id()), 1 << 20).expect("maps");
        let here = map as *const () as u64;
        let found = parse(&text).find(|map| (map.start..map.end).contains(&here));
        let found = found.expect("a map");
        let program = std::env::current_exe().expect("a program");
        assert!(found.executable && found.inode > 0, "{found:?}");
        assert_eq!(found.name, program.to_string_lossy());
    }
}
