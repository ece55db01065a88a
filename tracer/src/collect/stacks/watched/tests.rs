//! Tests of a process that is watched.

use super::*;
use crate::observe::stacks::Reader;

#[test]
fn a_later_process_with_the_same_pid_is_not_taken_for_it() {
    let child = std::process::Command::new("python3")
        .args(["-c", "import time; time.sleep(60)"])
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: no python3 here");
        return;
    };
    let pid = Pid(child.id());
    // Until it has become Python.
    while !is_python(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let own = processes::key(pid).expect("a start");
    let now = Instant::now();
    let later = ProcessKey::new(pid.0, own.start.0 + 1_000_000_000);
    assert!(Watched::new(later, now).is_none());
    let mut watched = Watched::new(own, now).expect("a process");
    let mut look = Look {
        reader: &mut Reader::default(),
        pythons: None,
        time: BootTime(1),
        now,
        began: clock::cpu_time(),
        near: false,
        has_time: true,
    };
    assert!(watched.look(&mut look).is_ok());
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(watched.look(&mut look).is_err());
    assert!(watched.stack(&mut look, None).is_none());
}
