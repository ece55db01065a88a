//! Reading a field of a kernel struct; both objects hold it.

use aya_ebpf::helpers::generated;

/// Reads a field of a struct that an argument of a hook points to.
///
/// `TYPED`: the verifier knows the argument's type, as in a `tp_btf` program, and `offset` is a constant to it: one load, which gives zeroes
/// where it faults. The helper costs some 20 ns, at a hook that every page fault meets.
#[allow(dead_code, reason = "one of the two objects has no such hook")]
#[inline(always)]
pub(crate) fn field<T: Copy, const TYPED: bool>(base: u64, offset: u32) -> T {
    if TYPED {
        // SAFETY: the verifier lets no load pass that is not within the struct; the kernel catches its fault.
        return unsafe { core::ptr::read_volatile((base + u64::from(offset)) as *const T) };
    }
    read(base, offset)
}

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
