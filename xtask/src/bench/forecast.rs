//! Scores the forecast of kills for memory on generated shapes, beside the naive forecast.

use anyhow::Result;

use crate::process::{output, program_of_tests};

/// Returns the tables of scores.
pub(super) fn measure() -> Result<String> {
    output(&mut program_of_tests("forecast"))
}
