//! Makes the wheel for Python's package index.
//!
//! The program is a script of a package without modules, as with maturin's `bindings = "bin"`.
//! maturin would compile the program once more, with flags of its own. `wheel pack` of the Python
//! Packaging Authority takes the program that is there.

use std::{fs, process::Command};

use anyhow::Result;

use super::{GLIBC, Parts, VERSION, make_empty, tree};
use crate::{layout, process::run_quietly};

/// Makes the wheel.
pub(super) fn make(parts: &Parts<'_>) -> Result<()> {
    let [major, minor] = GLIBC;
    let name = parts.architecture.name;
    let folder = layout::target().join(format!("dist-wheel-{name}"));
    make_empty(&folder)?;
    let script = folder.join(format!("raytrace-{VERSION}.data/scripts/raytrace"));
    tree::copy(parts.program, &script, 0o755)?;
    let info = folder.join(format!("raytrace-{VERSION}.dist-info"));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        tree::copy(
            &layout::root().join(licence),
            &info.join("licenses").join(licence),
            0o644,
        )?;
    }
    let readme = fs::read_to_string(layout::root().join("README.md"))?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: raytrace\nVersion: {VERSION}\n\
         Summary: Flight recorder for memory deaths on Ray clusters: who killed this process, what grew, whose it was\n\
         License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n\
         Classifier: Environment :: Console\nClassifier: Operating System :: POSIX :: Linux\n\
         Classifier: Topic :: System :: Monitoring\nRequires-Python: >=3.7\nDescription-Content-Type: text/markdown\n\n{readme}"
    );
    fs::write(info.join("METADATA"), metadata)?;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{name}");
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: raytrace ({VERSION})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    fs::write(info.join("WHEEL"), wheel)?;
    run_quietly(
        Command::new(layout::packaging().join("bin/wheel"))
            .arg("pack")
            .arg(&folder)
            .arg("--dest-dir")
            .arg(parts.folder),
    )?;
    println!(
        "{}",
        parts
            .folder
            .join(format!("raytrace-{VERSION}-{tag}.whl"))
            .display()
    );
    Ok(())
}
