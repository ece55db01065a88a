//! Measures a full log folder with thousands of old logs.
//!
//! It takes the time to attach, and the recorder's share of a core afterwards.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::{layout, process::output};

/// Returns a line for each folder.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let script = layout::root().join("xtask/src/bench/attach.py");
    output(Command::new("python3").arg(script).arg(raytrace))
}
