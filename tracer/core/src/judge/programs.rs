//! Says by its name what kind of program ended a process. Both judges use this one table.
//!
//! A name proves nothing about who acted. It only says what kind of program has it.

use super::report::Relation;

/// Names of programs, and their relation to a process that they end.
const PROGRAMS: [(&str, Relation); 23] = [
    // OOM killers in user space.
    ("systemd-oomd", Relation::OomDaemon),
    ("earlyoom", Relation::OomDaemon),
    ("oomd", Relation::OomDaemon),
    ("nohang", Relation::OomDaemon),
    ("low-memory-monitor", Relation::OomDaemon),
    ("Talos' OOM controller", Relation::OomDaemon),
    ("Android's lowmemorykiller", Relation::OomDaemon),
    ("the kernel", Relation::Other),
    // Programs that start and end containers, for memory and for any other reason.
    ("runc", Relation::ContainerRuntime),
    ("crun", Relation::ContainerRuntime),
    ("youki", Relation::ContainerRuntime),
    ("containerd", Relation::ContainerRuntime),
    ("containerd-shim", Relation::ContainerRuntime),
    ("dockerd", Relation::ContainerRuntime),
    ("docker-init", Relation::ContainerRuntime),
    ("kubelet", Relation::ContainerRuntime),
    ("podman", Relation::ContainerRuntime),
    ("conmon", Relation::ContainerRuntime),
    ("crio", Relation::ContainerRuntime),
    // Programs that start and end batch jobs.
    ("slurmstepd", Relation::WorkloadManager),
    ("Slurm", Relation::WorkloadManager),
    ("LSF", Relation::WorkloadManager),
    ("PBS", Relation::WorkloadManager),
];

/// The kernel keeps this many bytes of a name.
const COMM_BYTES: usize = 15;

/// Returns the relation of the program with this file name or, if that is not known, this `comm`.
pub(super) fn relation_of_program(program: &str, comm: &str) -> Option<Relation> {
    // A longer name is that of another program: `runcommand` is not `runc`.
    let fits = |name: &str| name == program || comm == &name[..name.len().min(COMM_BYTES)];
    let found = PROGRAMS.iter().find(|(name, _)| fits(name));
    found.map(|(_, relation)| *relation)
}

/// Whether this is the name of a system program that ends others.
pub fn is_system_program(comm: &str) -> bool {
    relation_of_program("", comm).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_known_by_file_or_truncated_comm() {
        let runtime = Some(Relation::ContainerRuntime);
        assert_eq!(relation_of_program("", "containerd-shim"), runtime);
        assert_eq!(relation_of_program("kubelet", ""), runtime);
        assert_eq!(
            relation_of_program("slurmstepd-wlm", "slurmstepd"),
            Some(Relation::WorkloadManager)
        );
        assert_eq!(
            relation_of_program("earlyoom", ""),
            Some(Relation::OomDaemon)
        );
        assert_eq!(
            relation_of_program("", "low-memory-moni"),
            Some(Relation::OomDaemon)
        );
        for other in [
            "python3",
            "runcommand",
            "crunch",
            "oomdetector",
            "conmonitor",
        ] {
            assert_eq!(relation_of_program(other, other), None, "{other}");
        }
    }
}
