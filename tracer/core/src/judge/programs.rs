//! What a program that ends others is, by its name: the one table of both judges.
//!
//! A name proves nothing about who acted: it only says in what trade that program works.

use super::report::Relation;

/// Names with what their owners are to a process that they end.
const PROGRAMS: [(&str, Relation); 20] = [
    // OOM killers of user space.
    ("systemd-oomd", Relation::OomDaemon),
    ("earlyoom", Relation::OomDaemon),
    ("oomd", Relation::OomDaemon),
    ("nohang", Relation::OomDaemon),
    ("low-memory-monitor", Relation::OomDaemon),
    ("Talos' OOM controller", Relation::OomDaemon),
    // What starts and ends containers and batch jobs, for memory and for any other reason.
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
    ("slurmstepd", Relation::ContainerRuntime),
    ("LSF", Relation::ContainerRuntime),
    ("PBS", Relation::ContainerRuntime),
];

/// The kernel keeps so many bytes of a name.
const COMM_BYTES: usize = 15;

/// What a program is that has this file name or, where that is not known, this `comm`.
pub(super) fn relation(program: &str, comm: &str) -> Option<Relation> {
    // A name that begins like one of these is another program's: `runcommand` is no `runc`.
    let fits = |name: &str| name == program || comm == &name[..name.len().min(COMM_BYTES)];
    let found = PROGRAMS.iter().find(|(name, _)| fits(name));
    found.map(|(_, relation)| *relation)
}

/// Whether this name is that of a program of the machine's that ends others.
#[must_use]
pub fn is_system_program(comm: &str) -> bool {
    relation("", comm).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_file_or_by_the_name_that_the_kernel_has_cut() {
        let runtime = Some(Relation::ContainerRuntime);
        assert_eq!(relation("", "containerd-shim"), runtime);
        assert_eq!(relation("kubelet", ""), runtime);
        assert_eq!(relation("slurmstepd", ""), runtime);
        assert_eq!(relation("earlyoom", ""), Some(Relation::OomDaemon));
        assert_eq!(relation("", "low-memory-moni"), Some(Relation::OomDaemon));
        for other in [
            "python3",
            "runcommand",
            "crunch",
            "oomdetector",
            "conmonitor",
        ] {
            assert_eq!(relation(other, other), None, "{other}");
        }
    }
}
