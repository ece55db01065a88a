//! Reads the stacks of other processes from outside, without stopping them.
//!
//! Python frames are read with py-spy as a library, native frames (`native`) from what the kernel
//! took of a thread.
//!
//! Reading is `process_vm_readv` of the interpreter's own structures. If the process moves on
//! meanwhile, the read is torn, which is an error here and never a guess. `grow` decides which
//! process is read, and how often.

mod binary;
mod code;
mod elf;
mod frame;
mod layout;
mod native;
mod python;
mod spy;

pub use native::look_through;
pub use python::{Python, Reader, Stack, StackError, is_python};
