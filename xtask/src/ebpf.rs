//! `cargo xtask build-ebpf`: compiles the eBPF programs, and notes from which sources.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    layout,
    process::{output, run_quietly, step, succeeds},
    setup,
};

const TARGET: &str = "bpfel-unknown-none";

/// The file beside the committed objects.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// Hash of the sources of the programs, their Cargo.toml and the locked versions of their
    /// dependencies.
    source_sha256: String,
    /// Hash of `deaths.o`.
    object_sha256: String,
    /// Hash of `memory.o`.
    memory_sha256: String,
    /// Versions of the compiler and the linker.
    toolchain: String,
}

/// Names of the objects.
const OBJECTS: [&str; 2] = ["deaths", "memory"];

/// Builds the objects and replaces the committed ones and their manifest.
pub(crate) fn build() -> Result<()> {
    setup::ebpf_toolchain()?;
    let (folder, toolchain) = compile()?;
    let [deaths, memory] = read(OBJECTS.map(|name| folder.join(name)))?;
    let manifest = Manifest {
        source_sha256: source_hash()?,
        object_sha256: hex(&Sha256::digest(&deaths)),
        memory_sha256: hex(&Sha256::digest(&memory)),
        toolchain,
    };
    write(&[deaths, memory])?;
    let text = serde_json::to_string_pretty(&manifest)? + "\n";
    fs::write(manifest_path(), text)?;
    Ok(())
}

fn read(paths: [PathBuf; 2]) -> Result<[Vec<u8>; 2]> {
    let [deaths, memory] = paths;
    Ok([fs::read(deaths)?, fs::read(memory)?])
}

fn write(objects: &[Vec<u8>; 2]) -> Result<()> {
    for (path, bytes) in committed().iter().zip(objects) {
        fs::write(path, bytes)?;
        eprintln!("    wrote {} ({} bytes)", path.display(), bytes.len());
    }
    Ok(())
}

/// Builds the objects from source, and runs `work` with them in place of the committed ones. If
/// they differ, the committed ones are put back afterwards.
pub(crate) fn with_rebuilt_object(work: impl FnOnce() -> Result<()>) -> Result<()> {
    setup::ebpf_toolchain()?;
    let (folder, _) = step("rebuild the eBPF objects from source", compile)?;
    let rebuilt = read(OBJECTS.map(|name| folder.join(name)))?;
    let kept = read(committed())?;
    if rebuilt == kept {
        eprintln!("    identical to the committed objects");
        return work();
    }
    eprintln!(
        "    differ from the committed objects (another toolchain): the tests below run on the rebuilt ones"
    );
    write(&rebuilt)?;
    let result = work();
    write(&kept)
        .context("cannot put the committed objects back; run: git checkout tracer-ebpf/object")?;
    result
}

/// Compiles with Debian's rustc, which has `core` for BPF, or else with a nightly that has
/// rust-src.
fn compile() -> Result<(PathBuf, String)> {
    let target = layout::target().join("ebpf");
    let mut cargo = Command::new("cargo");
    let debian = Path::new("/usr/bin/rustc");
    let core = Command::new(debian)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let has_core =
        core.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_dir());
    let mut version = Command::new(debian);
    if has_core {
        cargo
            .env("RUSTC", debian)
            .env("RUSTC_BOOTSTRAP", "1")
            .arg("build");
    } else if succeeds(Command::new("rustc").args(["+nightly", "--version"])) {
        cargo.args(["+nightly", "build", "-Z", "build-std=core"]);
        version = Command::new("rustc");
        version.arg("+nightly");
    } else {
        bail!(
            "no compiler for {TARGET}: install Debian's (apt-get install rustc-web libstd-rust-web-dev-bpf) or `rustup toolchain install nightly --component rust-src`"
        );
    }
    cargo
        .current_dir(layout::root().join("tracer-ebpf"))
        .env("PATH", layout::path_with_tools())
        .args(["--release", "--bins", "--target", TARGET, "--target-dir"])
        .arg(&target);
    run_quietly(&mut cargo)?;
    let compiler = output(version.arg("--version"))?;
    let linker = output(
        Command::new("bpf-linker")
            .arg("--version")
            .env("PATH", layout::path_with_tools()),
    )?;
    let toolchain = format!("{}, {}", compiler.trim(), linker.trim());
    Ok((target.join(TARGET).join("release"), toolchain))
}

/// Returns a hash of everything from which the objects are made.
fn source_hash() -> Result<String> {
    let folder = layout::root().join("tracer-ebpf");
    let mut files = vec![folder.join("Cargo.toml")];
    find(&folder.join("src"), &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(&folder).unwrap_or(&file);
        hash.update(name.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update(fs::read(&file).with_context(|| file.display().to_string())?);
    }
    hash.update(locked("aya-ebpf")?);
    Ok(hex(&hash.finalize()))
}

/// Returns the version of a package in the lock file.
fn locked(package: &str) -> Result<String> {
    let lock = fs::read_to_string(layout::root().join("Cargo.lock"))?;
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"")));
    let version = entry.and_then(|entry| entry.lines().find(|line| line.starts_with("version")));
    Ok(version
        .with_context(|| format!("{package} is not in Cargo.lock"))?
        .to_owned())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn committed() -> [PathBuf; 2] {
    OBJECTS.map(|name| layout::root().join(format!("tracer-ebpf/object/{name}.o")))
}

fn manifest_path() -> PathBuf {
    layout::root().join("tracer-ebpf/object/manifest.json")
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_objects_match_their_sources() {
        let text = fs::read_to_string(manifest_path()).expect("a manifest");
        let manifest: Manifest = serde_json::from_str(&text).expect("JSON");
        let objects = read(committed()).expect("two objects");
        let advice = "the eBPF sources have moved on: run cargo xtask build-ebpf and commit tracer-ebpf/object";
        assert_eq!(
            manifest.source_sha256,
            source_hash().expect("a hash"),
            "{advice}"
        );
        let hashes = objects.map(|object| hex(&Sha256::digest(object)));
        assert_eq!(
            [manifest.object_sha256, manifest.memory_sha256],
            hashes,
            "{advice}"
        );
    }
}
