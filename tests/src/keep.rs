//! Keeps the recordings that tests make in the folder that `RAYTRACE_KEEP` names.
//!
//! `tests/golden/add.py` reads them there.

use std::{
    fs::{self, File},
    io::copy,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;

/// Returns the folder, if one is named.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("RAYTRACE_KEEP").map(PathBuf::from)
}

/// Keeps a copy of a recording under the name of the test that made it.
pub fn file(recording: &Path) -> Result<()> {
    let Some(folder) = folder() else {
        return Ok(());
    };
    fs::create_dir_all(&folder)?;
    let thread = thread::current();
    let test = thread.name().unwrap_or("test").replace("::", "-");
    let name = recording.file_name().context("no name")?.display();
    fs::copy(recording, folder.join(format!("{test}-{name}")))?;
    Ok(())
}

/// Keeps a recording of a virtual machine, in the form that [`unpack`] reads.
pub fn packed(machine: &str, digits: &str) -> Result<()> {
    let Some(folder) = folder() else {
        return Ok(());
    };
    fs::create_dir_all(&folder)?;
    let name = machine.replace('/', "-");
    unpack(digits, &folder.join(format!("{name}.raytrace")))
}

/// Writes a virtual machine's recording to a file. It arrives compressed by gzip, as hexadecimal
/// digits.
pub fn unpack(digits: &str, to: &Path) -> Result<()> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = digits.trim().as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.context("the machine's recording is not hexadecimal")?;
    copy(
        &mut GzDecoder::new(bytes.as_slice()),
        &mut File::create(to)?,
    )?;
    Ok(())
}
