//! Reads kernel symbols (`/proc/kallsyms`): names for stacks, and one address for the programs.
//!
//! The names are for the stack at an OOM kill. Without `CAP_SYSLOG` every address reads as 0, and
//! there are no names. Then only the kernel log can tell a full cgroup from a machine without
//! memory.

use std::io::{BufRead, BufReader, Read};

const TABLE: &str = "/proc/kallsyms";

/// Text symbols, sorted by address.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    addresses: Vec<(u64, u32)>,
    names: String,
}

impl Symbols {
    /// Reads the kernel's table. It is empty when the addresses are hidden or the table is
    /// unreadable.
    pub(super) fn load() -> Self {
        std::fs::File::open(TABLE)
            .map(Self::parse)
            .unwrap_or_default()
    }

    /// Parses `ADDRESS TYPE NAME [MODULE]` lines, and keeps text symbols.
    pub(super) fn parse(source: impl Read) -> Self {
        let mut symbols = Self::default();
        let mut reader = BufReader::with_capacity(64 << 10, source);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
            symbols.add(&line);
            line.clear();
        }
        symbols.addresses.sort_unstable();
        symbols.addresses.shrink_to_fit();
        symbols.names.shrink_to_fit();
        symbols
    }

    fn add(&mut self, line: &str) {
        let mut fields = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (fields.next(), fields.next(), fields.next())
        else {
            return;
        };
        let wanted = matches!(kind, "t" | "T" | "w" | "W");
        let Ok(address) = u64::from_str_radix(address, 16) else {
            return;
        };
        if address == 0 || !wanted || name.starts_with("__pfx_") || name.starts_with("__cfi_") {
            return;
        }
        let Ok(at) = u32::try_from(self.names.len()) else {
            return;
        };
        self.names.push_str(name);
        self.names.push('\0');
        self.addresses.push((address, at));
    }

    fn name_at(&self, at: u32) -> &str {
        let rest = &self.names[at as usize..];
        rest.split('\0').next().unwrap_or(rest)
    }

    /// Returns the function that contains an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let after = self
            .addresses
            .partition_point(|(start, _)| *start <= address);
        let (_, at) = self.addresses.get(after.checked_sub(1)?)?;
        Some(self.name_at(*at))
    }
}

/// Returns the address of a symbol without keeping the table; `None` when addresses are hidden.
pub(super) fn address(name: &str) -> Option<u64> {
    address_in(BufReader::new(std::fs::File::open(TABLE).ok()?), name)
}

fn address_in(table: impl BufRead, name: &str) -> Option<u64> {
    let mut lines = table.lines().map_while(Result::ok);
    let line = lines.find(|line| line.split_ascii_whitespace().nth(2) == Some(name))?;
    let address = u64::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok()?;
    (address != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_named_by_preceding_function() {
        let text = "ffffffff81000000 T first\nffffffff81000100 t second\nffffffff82000000 D data\n\
                    ffffffff82000010 D __per_cpu_offset\n";
        let symbols = Symbols::parse(text.as_bytes());
        assert_eq!(symbols.name(0xffff_ffff_8100_0050), Some("first"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), Some("second"));
        assert_eq!(symbols.name(1), None);
        assert_eq!(symbols.name(0xffff_ffff_8200_0010), Some("second"));
        let address = |name| address_in(text.as_bytes(), name);
        assert_eq!(address("__per_cpu_offset"), Some(0xffff_ffff_8200_0010));
        assert_eq!(address("missing"), None);
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let symbols = Symbols::parse("0000000000000000 T first\n".as_bytes());
        assert_eq!(symbols.name(0x10), None);
        assert_eq!(
            address_in("0000000000000000 D data\n".as_bytes(), "data"),
            None
        );
    }
}
