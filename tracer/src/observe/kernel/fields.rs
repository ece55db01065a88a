//! Looks up fields of the kernel's structs, by the running kernel's type information.

use raytrace_ebpf::records::NONE;

use super::{btf::Btf, error::KernelError};

/// Where they are looked up.
pub(super) struct Fields<'a> {
    pub(super) btf: &'a Btf,
}

impl Fields<'_> {
    /// One that every kernel has.
    pub(super) fn need(
        &self,
        structure: &'static str,
        field: &'static str,
    ) -> Result<u32, KernelError> {
        let found = self.btf.offset(structure, field);
        found.ok_or(KernelError::NoField { structure, field })
    }

    /// The same, with its name in other kernels.
    pub(super) fn either(
        &self,
        structure: &'static str,
        field: &'static str,
        other: &'static str,
    ) -> Result<u32, KernelError> {
        let found = self.btf.offset(structure, field);
        found.map_or_else(|| self.need(structure, other), Ok)
    }

    /// One that some kernels lack.
    pub(super) fn optional(&self, structure: &str, field: &str) -> u32 {
        self.btf.offset(structure, field).unwrap_or(NONE)
    }
}
