//! Reads fields of kernel structs, for both objects.

use aya_ebpf::helpers::generated;

/// Reads a `T` at `base + offset` in kernel memory. Returns zeroes if the read faults.
#[inline(always)]
pub(crate) fn read<T: Copy>(base: u64, offset: u32) -> T {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: the helper checks the source. The destination is a local variable of the right size.
    // Every `T` in use is an integer or an array of integers, so any bit pattern is valid.
    unsafe {
        generated::bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            (base + u64::from(offset)) as *const _,
        );
        value.assume_init()
    }
}

/// Reads a field of a struct that an argument of a hook points to, or of a struct that such a
/// struct points to.
///
/// `TYPED` means that the verifier knows the type, as in a `tp_btf` program, and that `offset` is a
/// constant for it. The read is then a single load, which returns zeroes if it faults and must not
/// reach beyond the field. The helper costs 20 to 40 ns.
#[inline(always)]
pub(crate) fn field<T: Copy, const TYPED: bool>(base: u64, offset: u32) -> T {
    if TYPED {
        // SAFETY: the verifier rejects a load outside of the struct, and the kernel handles a fault
        // of the load.
        return unsafe { core::ptr::read_volatile((base + u64::from(offset)) as *const T) };
    }
    read(base, offset)
}
