//! Why nothing can be observed in the kernel.

use super::btf::BtfError;

/// Why nothing can be observed in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No type information.
    #[error(
        "this kernel has no type information ({path}: {source}); eBPF programs cannot find its structs"
    )]
    NoBtf {
        /// Where it should be.
        path: &'static str,
        /// What reading it said.
        source: std::io::Error,
    },
    /// Damaged type information.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// A struct lacks a field under every name that is known.
    #[error("this kernel's {structure} has no field {field}: please report the kernel's version")]
    NoField {
        /// The struct.
        structure: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The bpf system call is refused.
    #[error("loading eBPF programs is not permitted ({0})")]
    NotPermitted(String),
    /// The kernel's pids are not those of /proc here.
    #[error(
        "running in a separate pid namespace ({0}): /proc shows other pids than the kernel reports"
    )]
    PidNamespace(String),
    /// The kernel is locked down, so that its memory cannot be read.
    #[error(
        "this kernel is locked down (lockdown=confidentiality) and refuses eBPF programs that read its memory: {0}"
    )]
    LockedDown(String),
    /// The object did not load.
    #[error("the eBPF object did not load: {0}")]
    Load(String),
    /// A hook that is needed did not load or attach.
    #[error("this kernel refuses the hook {hook}, without which no death can be proven ({reason})")]
    Refused {
        /// Its name.
        hook: &'static str,
        /// What the kernel said.
        reason: String,
    },
}

/// Joins an error with its causes. Of a long text, such as a verifier log, the end is kept.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    let skip = text.chars().count().saturating_sub(400);
    text.chars().skip(skip).collect()
}
