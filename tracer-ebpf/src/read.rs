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
