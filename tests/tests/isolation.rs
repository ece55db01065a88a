//! Deaths in the cgroups of Ray's resource isolation have their killers and limits.
//!
//! Ray runs in a virtual machine with cgroup v2.

use raytrace_tests::{
    recorder::assert_balanced,
    truth::{PrivilegeMode, Truth},
    vm::{Machine, Root},
};
use serde_json::Value;

#[test]
#[ignore = "takes some minutes in QEMU, and 8 GiB: a part of `cargo xtask soak`"]
fn deaths_in_rays_own_cgroups_are_named() {
    let machine = Machine {
        suite: "trixie",
        disk: "nvme",
        root: Root::Ray("2.60.0", "isolation.py", ""),
        arguments: &["-smp", "2"],
        kernel: "",
    };
    let sections = machine.run().expect("a machine");
    let truth = Truth::parse(&sections["truth"]).expect("truth");
    let report: Value = serde_json::from_str(&sections["report"])
        .unwrap_or_else(|error| panic!("{error}: {}", sections["log"]));
    let compared = truth.compare(&report, PrivilegeMode::Full);
    eprintln!(
        "{} deaths staged, {} wrong",
        compared.deaths,
        compared.wrong.len()
    );
    assert!(
        compared.wrong.is_empty(),
        "{}\n{}",
        compared.wrong.join("\n"),
        sections["log"]
    );
    assert_eq!(compared.deaths, 3);
    assert_balanced(&report);
}
