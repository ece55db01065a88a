//! Reading a field of a kernel struct; both objects hold it.

use aya_ebpf::helpers::generated;

/// Reads a `T` at `base + offset` of kernel memory; zeroes when that faults.
#[inline(always)]
pub(crate) fn read<T: Copy>(base: u64, offset: u32) -> T {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the helper checks the source; the destination is ours and of the right size. Every T used is an integer.
    unsafe {
        generated::bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            (base + u64::from(offset)) as *const _,
        );
        value.assume_init()
    }
}

/// Reads a field of a struct that an argument of a hook points to, or a pointer in such a struct.
///
/// `TYPED`: the verifier knows the type, as in a `tp_btf` program, and `offset` is a constant to
/// it: one load, which gives zeroes where it faults, and which may not reach beyond the field. The
/// helper costs 20 to 40 ns.
#[inline(always)]
pub(crate) fn field<T: Copy, const TYPED: bool>(base: u64, offset: u32) -> T {
    if TYPED {
        // SAFETY: the verifier lets no load pass that is not within the struct; the kernel catches
        // its fault.
        return unsafe { core::ptr::read_volatile((base + u64::from(offset)) as *const T) };
    }
    read(base, offset)
}
