//! Installs what makes packages and tests them: Debian's own tools, and Python's for wheels.

use anyhow::Result;

use super::{apt, venv};
use crate::{layout, process::step};

/// `rpmbuild`, an OCI runtime, a clean root file system, Prometheus and its Alertmanager.
const PACKAGES: [&str; 7] = [
    "binutils",
    "cpio",
    "runc",
    "debootstrap",
    "prometheus",
    "prometheus-alertmanager",
    "rpm",
];
/// `kubernetes-validate` brings Kubernetes' schemas.
const PYTHON_PACKAGES: [&str; 2] = ["wheel", "kubernetes-validate"];

pub(super) fn install() -> Result<()> {
    step("packaging tools", || apt::install(&PACKAGES))?;
    step("wheel and kubernetes-validate in target/packaging", || {
        venv::install(&layout::packaging(), &PYTHON_PACKAGES.map(str::to_owned))
    })
}
