//! The HTML report in a browser.

use std::{path::Path, process::Command, time::Instant};

use raytrace_tests::{day, recorder::raytrace, soak, staging};

/// A larger page is too large for a mail attachment.
const LARGEST: u64 = 10_000_000;

/// The day has 200 workers at a time, and the page is small enough to be sent.
#[test]
fn page_of_a_day_works_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, page) = (
        folder.path().join("day.raytrace"),
        folder.path().join("day.html"),
    );
    let written = day::write(&file, 170, day::Detail::Full).expect("a recording");
    assert_eq!(written.deaths, 600, "{written:?}");
    assert!(written.samples >= 100_000, "{written:?}");
    println!("{written:?}");
    write(&file, &page);
    in_a_browser("page.py", &page);
}

/// Writes a report as a page, and checks that it is small enough to be sent.
fn write(recorded: &Path, page: &Path) {
    let began = Instant::now();
    let done = Command::new(raytrace())
        .args(["report", "--format", "html", "-o"])
        .args([page, recorded])
        .output()
        .expect("a report");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let size = page.metadata().expect("a page").len();
    println!("{size} bytes written in {:.1?}", began.elapsed());
    assert!(size <= LARGEST, "{size} bytes");
}

/// Opens the page in a browser. The test fails if the script finds something wrong.
fn in_a_browser(script: &str, page: &Path) {
    let tested = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views").join(script))
        .arg(page)
        .output()
        .expect("a browser test: cargo xtask setup installs what it needs");
    print!("{}", String::from_utf8_lossy(&tested.stdout));
    assert!(
        tested.status.success(),
        "{}",
        String::from_utf8_lossy(&tested.stderr)
    );
}

/// There are six nodes, and 64 with more samples in `cargo xtask soak`.
#[test]
fn page_of_many_nodes_has_a_lane_for_each() {
    let (nodes, every_s) = if soak() { (64, 60) } else { (6, 900) };
    let held = tempfile::tempdir().expect("a folder");
    let (folder, page) = (held.path().join("nodes"), held.path().join("nodes.html"));
    std::fs::create_dir(&folder).expect("a folder");
    let (mut deaths, mut samples) = (0, 0);
    for node in 0..nodes {
        let file = folder.join(format!("gpu-{node:02}.raytrace"));
        let written = day::write_node(&file, node, every_s).expect("a recording");
        deaths += written.deaths;
        samples += written.samples;
    }
    println!("{nodes} nodes, {deaths} deaths, {samples} samples");
    write(&folder, &page);
    in_a_browser("lanes.py", &page);
}
