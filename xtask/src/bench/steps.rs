//! Measures how much slower a training step is beside the recorder, on cores without idle time.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::{layout, process::output};

/// Returns the ratio of the time of a step beside the recorder to that without, and the control.
pub(super) fn measure(raytrace: &Path) -> Result<String> {
    let script = layout::root().join("xtask/src/bench/steps.py");
    output(Command::new("python3").arg(script).arg(raytrace))
}
