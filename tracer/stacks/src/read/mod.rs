//! The stacks of other processes, read from outside without stopping them: Python's by py-spy as a library, native frames by what the kernel
//! took of a thread (`native`).
//!
//! Reading is `process_vm_readv` of the interpreter's own structures. A process that moves on meanwhile yields a torn read, which is
//! an error here and never a guess. Who is asked for what and how often is `grow`'s.

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
