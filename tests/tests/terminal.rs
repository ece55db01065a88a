//! `top` and the status line of `record` in a terminal.

use std::process::Command;

use raytrace_tests::{day, recorder::raytrace, staging};

/// `top` and the status line keep their place while they are drawn.
#[test]
fn terminal_is_left_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("day.raytrace");
    day::write(&file, 600, day::Detail::Full).expect("a recording");
    let done = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views/terminal.py"))
        .args([raytrace(), file])
        .arg(staging::ray("2.60.0").join("bin/python"))
        .arg(staging::root().join("tests/staging"))
        .output()
        .expect("a terminal: cargo xtask setup installs what it needs");
    print!("{}", String::from_utf8_lossy(&done.stdout));
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
}
