//! Checks that a program runs on systems of 2018: no symbol of a newer glibc, no other library.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use super::GLIBC;
use crate::process::output;

/// The libraries of every glibc of that age. `libnvidia-ml.so.1` is opened at run time.
const LIBRARIES: [&str; 6] = ["libc", "libm", "libpthread", "libdl", "librt", "ld-linux"];

/// Checks a program file of any architecture.
pub(super) fn program(program: &Path) -> Result<()> {
    // readelf knows every architecture.
    let said = output(
        Command::new("readelf")
            .args(["--wide", "--version-info", "--dynamic"])
            .arg(program),
    )?;
    let newest = said.split("GLIBC_").skip(1).filter_map(version).max();
    let newest = newest.context("readelf names no version of glibc")?;
    if newest > GLIBC {
        bail!(
            "it needs glibc {newest:?}, and {GLIBC:?} is wanted: see readelf -V {}",
            program.display()
        );
    }
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    for library in needed.filter_map(|line| line.split(['[', ']']).nth(1)) {
        if !LIBRARIES.iter().any(|known| library.starts_with(known)) {
            bail!("it needs {library}, which not every system has");
        }
    }
    eprintln!("    glibc {}.{}", newest[0], newest[1]);
    Ok(())
}
/// Returns the number at the beginning of a text, such as `2.28` or `2.2.5`.
fn version(text: &str) -> Option<[u32; 2]> {
    let number = text
        .split(|one: char| !(one.is_ascii_digit() || one == '.'))
        .next()?;
    let mut parts = number.split('.').map(str::parse);
    Some([parts.next()?.ok()?, parts.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("2.2.5 0x09691a75"), Some([2, 2]));
        assert!(version("2.9)") < version("2.28)"));
        assert_eq!(version("PRIVATE"), None);
    }
}
