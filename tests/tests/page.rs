//! The HTML report in a browser.

use std::{process::Command, time::Instant};

use raytrace_tests::{day, recorder::raytrace, staging};

/// Larger is no mail attachment.
const LARGEST: u64 = 10_000_000;

#[test]
fn the_page_of_a_day_with_200_workers_is_small_and_works_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, page) = (
        folder.path().join("day.raytrace"),
        folder.path().join("day.html"),
    );
    let written = day::write(&file, 170, day::Detail::Full).expect("a recording");
    assert!(
        written.samples >= 100_000 && written.deaths >= 500,
        "{written:?}"
    );
    let began = Instant::now();
    let done = Command::new(raytrace())
        .args(["report", "--format", "html", "-o"])
        .args([&page, &file])
        .output()
        .expect("a report");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let size = page.metadata().expect("a page").len();
    println!(
        "{written:?}: {size} bytes written in {:.1?}",
        began.elapsed()
    );
    assert!(size <= LARGEST, "{size} bytes");

    let tested = Command::new(staging::view_python())
        .arg(staging::root().join("tests/views/page.py"))
        .arg(&page)
        .output()
        .expect("a browser test: cargo xtask setup installs what it needs");
    print!("{}", String::from_utf8_lossy(&tested.stdout));
    assert!(
        tested.status.success(),
        "{}",
        String::from_utf8_lossy(&tested.stderr)
    );
}
