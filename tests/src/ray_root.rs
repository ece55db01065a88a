//! A root file system with Python, Ray, the staging scripts and raytrace, for a virtual machine.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    initrd::Initrd,
    staging::{self, ray},
    vm::{libraries, strip},
};

/// Parts that no staged job needs. They are half of all bytes.
const LEFT_OUT: [&str; 12] = [
    "config-3.11-x86_64-linux-gnu",
    "dashboard/client",
    "ensurepip",
    "idlelib",
    "jars",
    "lib2to3",
    "pip",
    "ray/data",
    "ray/rllib",
    "ray/train",
    "ray/tune",
    "test",
];

/// Returns the interpreter of this Ray's environment.
pub(crate) fn python(version: &str) -> PathBuf {
    ray(version).join("bin/python")
}

/// Returns the path of a staging script inside the machine.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new("/staging").join(name)
}

/// Writes the root as an initial RAM disk, with the kernel's `modules` if there are any. The
/// stripped program is kept in `folder`.
pub(crate) fn write(
    version: &str,
    raytrace: &Path,
    modules: &Path,
    to: &Path,
    folder: &Path,
) -> Result<()> {
    let mut archive = Initrd::new(BufWriter::new(File::create(to)?));
    let (environment, base) = (ray(version), base(version)?);
    let mut programs = BTreeSet::from([PathBuf::from("/bin/sh"), raytrace.to_owned()]);
    for tree in [&environment, &base.join("lib/python3.11")] {
        add(&mut archive, tree, tree, &mut programs)?;
    }
    for path in fs::read_dir(base.join("bin"))? {
        let path = path?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("python3") && !name.ends_with("-config") {
            add(&mut archive, &path, &path, &mut programs)?;
        }
    }
    add(
        &mut archive,
        &staging::root().join("tests/staging"),
        Path::new("/staging"),
        &mut programs,
    )?;
    for library in needed(&programs)? {
        archive.file(&library, &fs::read(&library)?)?;
    }
    if modules.exists() {
        add(
            &mut archive,
            modules,
            Path::new("/modules"),
            &mut BTreeSet::new(),
        )?;
    }
    archive.file(Path::new("/bin/sh"), &fs::read("/bin/sh")?)?;
    let stripped = strip(raytrace, folder, "raytrace")?;
    archive.file(Path::new("/raytrace"), &fs::read(stripped)?)?;
    Ok(archive.finish()?.flush()?)
}

/// Returns the folder of the Python from which the environment was made.
fn base(version: &str) -> Result<PathBuf> {
    let output = Command::new(python(version))
        .args(["-c", "import sys; print(sys.base_prefix)"])
        .output()
        .with_context(|| format!("no Ray {version}; run: cargo xtask setup"))?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Adds a file or folder as `to`. ELF files are added to `programs`, because they may need
/// libraries.
fn add<W: std::io::Write>(
    archive: &mut Initrd<W>,
    from: &Path,
    to: &Path,
    programs: &mut BTreeSet<PathBuf>,
) -> Result<()> {
    if LEFT_OUT.iter().any(|name| from.ends_with(name)) {
        return Ok(());
    }
    let known = from.symlink_metadata()?;
    if known.is_symlink() {
        archive.link(to, &fs::read_link(from)?)?;
    } else if known.is_dir() {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            add(archive, &from.join(&name), &to.join(&name), programs)?;
        }
    } else if known.is_file() {
        let content = fs::read(from)?;
        if content.starts_with(b"\x7fELF") {
            programs.insert(from.to_owned());
        }
        archive.file_with_time(to, &content, known.modified()?)?;
    }
    Ok(())
}

/// Returns the system's libraries that these programs and libraries need.
fn needed(programs: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for program in programs {
        let libraries = libraries(program)?.into_iter();
        // A package's own libraries are beside it.
        found.extend(
            libraries.filter(|path| !path.components().any(|part| part == Component::ParentDir)),
        );
    }
    if found.is_empty() {
        bail!("ldd finds no library of {} files", programs.len());
    }
    Ok(found)
}
