//! Looks up fields of the kernel's structs in the running kernel's type information.

use raytrace_ebpf::records::NONE;

use super::{btf::Btf, error::KernelError};

/// The type information in which fields are looked up.
pub(super) struct Fields<'a> {
    pub(super) btf: &'a Btf,
}

impl Fields<'_> {
    /// Returns the offset of a field that every kernel has.
    pub(super) fn need(
        &self,
        structure: &'static str,
        field: &'static str,
    ) -> Result<u32, KernelError> {
        let found = self.btf.offset(structure, field);
        found.ok_or(KernelError::NoField { structure, field })
    }

    /// Returns the size of a structure.
    pub(super) fn size(&self, structure: &'static str) -> Result<u32, KernelError> {
        let found = self.btf.size(structure);
        found.ok_or(KernelError::NoField {
            structure,
            field: "",
        })
    }

    /// Returns the offset of a field that has the name `other` on some kernels.
    pub(super) fn either(
        &self,
        structure: &'static str,
        field: &'static str,
        other: &'static str,
    ) -> Result<u32, KernelError> {
        let found = self.btf.offset(structure, field);
        found.map_or_else(|| self.need(structure, other), Ok)
    }

    /// Returns the offset of a field that some kernels lack; [`NONE`] where it is missing.
    pub(super) fn optional(&self, structure: &str, field: &str) -> u32 {
        self.btf.offset(structure, field).unwrap_or(NONE)
    }
}
