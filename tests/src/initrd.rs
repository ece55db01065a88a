//! Writes an initial RAM disk: a cpio archive in the `newc` format.
//!
//! The format is described in Documentation/driver-api/early-userspace/buffer-format.rst.

use std::{
    collections::BTreeSet,
    io::{Result, Write},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// An archive that is being written.
pub struct Initrd<W> {
    to: W,
    written: BTreeSet<PathBuf>,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

impl<W: Write> Initrd<W> {
    /// Begins an empty archive.
    pub fn new(to: W) -> Self {
        Self {
            to,
            written: BTreeSet::new(),
        }
    }

    /// Adds an executable file and the folders above it. A path that the archive already has is
    /// left as it is.
    pub fn file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        self.file_with_time(path, content, UNIX_EPOCH)
    }

    /// Adds a file with its modification time. Python compiles a file again if its time is not the
    /// one that it knows.
    pub fn file_with_time(&mut self, path: &Path, content: &[u8], time: SystemTime) -> Result<()> {
        self.add_folders_above(path)?;
        let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.entry(path, PROGRAM, time.as_secs(), content)
    }

    /// Adds a symbolic link and the folders above it.
    pub fn link(&mut self, path: &Path, to: &Path) -> Result<()> {
        self.add_folders_above(path)?;
        self.entry(path, LINK, 0, to.as_os_str().as_bytes())
    }

    fn add_folders_above(&mut self, path: &Path) -> Result<()> {
        let mut above: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|path| path.parent().is_some())
            .collect();
        above.reverse();
        for folder in above {
            self.entry(folder, FOLDER, 0, &[])?;
        }
        Ok(())
    }

    /// Ends the archive.
    pub fn finish(mut self) -> Result<W> {
        self.entry(Path::new("TRAILER!!!"), 0, 0, &[])?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &Path, mode: u32, time: u64, content: &[u8]) -> Result<()> {
        if !self.written.insert(path.to_owned()) {
            return Ok(());
        }
        let name = path.strip_prefix("/").unwrap_or(path).display().to_string();
        // Inode, mode, uid, gid, links, time, size, device and special device, length of the name,
        // no checksum.
        let fields = [
            self.written.len(),
            mode as usize,
            0,
            0,
            1,
            usize::try_from(time).unwrap_or(0),
            content.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        let mut head = String::from("070701");
        for field in fields {
            head.push_str(&format!("{field:08x}"));
        }
        head.push_str(&name);
        head.push('\0');
        self.write_padded(head.as_bytes())?;
        self.write_padded(content)
    }

    fn write_padded(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes)?;
        self.to.write_all(&[0; 3][..bytes.len().wrapping_neg() % 4])
    }
}
