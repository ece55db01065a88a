//! Installs the toolchain that rebuilds the eBPF objects.
//!
//! Debian's rustc has `core` built for BPF, so neither a nightly toolchain nor rust-src is needed.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::apt;
use crate::{
    layout,
    process::{output, print_not_needed, run_quietly, step},
};

const PACKAGES: [&str; 5] = [
    "rustc-web",
    "libstd-rust-web-dev-bpf",
    "llvm-22-dev",
    "zlib1g-dev",
    "libzstd-dev",
];

const BPF_LINKER: &str = "0.13.0";

pub(super) fn install() -> Result<()> {
    step("eBPF toolchain: Debian's rustc for BPF and LLVM 22", || {
        apt::install(&PACKAGES)
    })?;
    step("eBPF toolchain: bpf-linker (built by cargo)", bpf_linker)
}

fn bpf_linker() -> Result<()> {
    let mut version = Command::new("bpf-linker");
    version
        .arg("--version")
        .env("PATH", layout::path_with_tools());
    if output(&mut version).is_ok_and(|said| said.contains(BPF_LINKER)) {
        print_not_needed("bpf-linker");
        return Ok(());
    }
    let llvm = Path::new("/usr/lib/llvm-22");
    run_quietly(
        Command::new("cargo")
            .args(["install", "bpf-linker", "--version", BPF_LINKER, "--locked"])
            .args(["--no-default-features", "--features", "llvm-22", "--root"])
            .arg(layout::tools())
            .env("LLVM_PREFIX", llvm)
            .env("LLVM_SYS_221_PREFIX", llvm)
            .env("PATH", format!("{}:{}", llvm.join("bin").display(), path())),
    )
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}
