//! `cargo xtask gallery`: runs the examples on private Ray clusters, and keeps their reports.
//!
//! What raytrace says about an example is kept in its folder.

use std::process::Command;

use anyhow::Result;

use crate::{
    layout,
    process::{run, step},
    setup, test,
};

/// Runs all examples, or those that are named.
pub(crate) fn make(names: &[String]) -> Result<()> {
    setup::for_demo()?;
    let raytrace = step("build raytrace", test::build)?;
    let examples = layout::root().join("examples");
    let mut gallery = Command::new(layout::ray(setup::DEMO_VERSION).join("bin/python"));
    gallery
        .arg(examples.join("gallery.py"))
        .arg("--raytrace")
        .arg(raytrace)
        .arg("--recordings")
        .arg(layout::target().join("gallery"))
        .arg("--keep")
        .arg(&examples)
        .args(names);
    run(&mut gallery)
}
