//! Installs each version of Ray into a virtual environment of its own under `target/ray`.

use std::path::PathBuf;

use anyhow::Result;

use super::venv;
use crate::{layout, process::step};

/// A version of Ray, and further packages that pip must install with it.
pub(crate) struct RayVersion {
    /// The version.
    pub(crate) version: &'static str,
    /// Packages for which Ray's own metadata allows too many versions.
    with: &'static [&'static str],
}

/// The versions that the tests run on, the newest first.
pub(crate) const VERSIONS: [RayVersion; 3] = [
    RayVersion {
        version: "2.60.0",
        // The growth tests hold a numpy array.
        with: &["numpy"],
    },
    RayVersion {
        version: "2.51.1",
        with: &[],
    },
    // 2.9.3 imports pkg_resources and was built against numpy 1.
    RayVersion {
        version: "2.9.3",
        with: &["numpy<2", "setuptools<81", "pydantic<2.10", "click<8.2"],
    },
];

/// Installs one Ray and its further packages.
pub(crate) fn install(ray: &RayVersion) -> Result<()> {
    let name = format!("Ray {} in target/ray/{0}", ray.version);
    let mut packages = vec![format!("ray[default]=={}", ray.version)];
    packages.extend(ray.with.iter().map(|package| (*package).to_owned()));
    step(&name, || {
        venv::install(&layout::ray(ray.version), &packages)
    })
}

/// Installs a Ray and what its own tests need, under `target/real`. Returns the folder.
pub(super) fn with_pytest(version: &str) -> Result<PathBuf> {
    let folder = layout::real().join(format!("ray-{version}"));
    let ray = format!("ray[default]=={version}");
    let packages = [
        ray.as_str(),
        "numpy",
        "pytest==9.2.0",
        "pytest-asyncio==1.5.0",
        "pytest-timeout==2.4.0",
    ];
    step(&format!("Ray {version} and pytest in target/real"), || {
        venv::install(&folder, &packages.map(str::to_owned))
    })?;
    Ok(folder)
}

/// Installs the newest Ray of the package index. Returns the folder.
pub(crate) fn newest() -> Result<PathBuf> {
    let folder = layout::ray("newest");
    step("the newest Ray in target/ray/newest", || {
        venv::upgrade(&folder, &["ray".to_owned()])
    })?;
    Ok(folder)
}
