//! `cargo xtask demo`.

use anyhow::Result;

use crate::{layout, process::run, setup};

pub(crate) fn run_demo() -> Result<()> { Ok(()) }
