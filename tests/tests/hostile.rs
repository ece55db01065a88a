//! Processes that act in the name of others are reported with the true sender.
//!
//! Ray and the kernel are real. No verdict is more certain than its evidence.

use raytrace_tests::{
    recorder::{Recorder, assert_balanced},
    staging,
    truth::{Comparison, PrivilegeMode},
};

#[test]
fn disguised_acts_have_their_true_sender() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile.raytrace");
    let recorder = Recorder::start(&file, &[]).expect("a recorder");
    let pid = recorder.pid().to_string();
    let script = staging::start("2.60.0", "hostile.py", &["--recorder", &pid], folder.path())
        .expect("a script");
    let truth = script.finish().expect("staging");
    let recorded = recorder.stop().expect("a recording");
    let Comparison { deaths, mut wrong } = truth.compare(&recorded.report, PrivilegeMode::Full);
    wrong.extend(truth.disagreements(&recorded.report));
    eprintln!("{deaths} hostile acts staged, {} wrong", wrong.len());
    if !wrong.is_empty() {
        let kept = folder.keep();
        panic!(
            "recording kept in {}:\n{}",
            kept.display(),
            wrong.join("\n")
        );
    }
    assert!(deaths >= 38, "only {deaths} acts were staged");
    assert_balanced(&recorded.report);
}
