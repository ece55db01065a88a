//! What each object needs besides its programs: a license and a panic handler.
//!
//! No program reaches the panic handler.

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The license that the kernel requires: helpers that read kernel memory are GPL-only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
