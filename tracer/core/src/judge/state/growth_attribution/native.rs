//! Formats native frames, and finds the one that says most about an allocation.

use crate::event::NativeFrame;

/// Libraries through which every program allocates, by the beginning of their files' names.
const EVERYBODYS: [&str; 14] = [
    "libc.",
    "libc-",
    "ld-",
    "libpthread",
    "libm.",
    "libstdc++",
    "libgcc_s",
    "libffi",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libpython",
    "python",
    "_ctypes",
];

/// C modules that come with Python, by their names before `.cpython-`.
const PYTHONS: [&str; 24] = [
    "_multibytecodec",
    "_asyncio",
    "_bisect",
    "_bz2",
    "_contextvars",
    "_csv",
    "_datetime",
    "_decimal",
    "_elementtree",
    "_hashlib",
    "_heapq",
    "_json",
    "_lzma",
    "_pickle",
    "_posixsubprocess",
    "_queue",
    "_random",
    "_socket",
    "_ssl",
    "_struct",
    "array",
    "mmap",
    "pyexpat",
    "zlib",
];
/// Names of system calls. In a library that is not the system's, such a name is that of a jump to
/// the call.
const SYSTEM_CALLS: [&str; 5] = ["mmap", "mmap64", "mremap", "brk", "sbrk"];

/// Formats a frame as `libtorch_cpu.so: at::detail::empty_cpu`.
pub(super) fn named(frame: &NativeFrame) -> String {
    match &frame.function {
        Some(function) => format!("{}: {function}", frame.library),
        None => frame.library.clone(),
    }
}

/// Returns the innermost frame of a library that is neither the system's nor Python's. What an
/// allocator of that library serves is preferred to the allocator.
pub(super) fn worth_saying(called: &[NativeFrame]) -> Option<&NativeFrame> {
    let is_everybodys = |frame: &NativeFrame| {
        let mut names = EVERYBODYS.iter();
        let module = frame.library.split_once(".cpython-");
        let is_pythons = module.is_some_and(|(module, _)| PYTHONS.contains(&module));
        let function = frame.function.as_deref();
        let is_a_jump = function.is_some_and(|name| SYSTEM_CALLS.contains(&name));
        is_pythons || is_a_jump || names.any(|name| frame.library.starts_with(name))
    };
    // `c10::alloc_cpu`, `PyDataMem_UserNEW`
    let allocates = |frame: &NativeFrame| {
        let name = frame.function.as_deref().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        name.contains("alloc") || name.contains("new")
    };
    let mut of_libraries = called.iter().filter(|frame| !is_everybodys(frame));
    let first = of_libraries.clone().next();
    of_libraries.find(|frame| !allocates(frame)).or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(named: &[(&str, Option<&str>)]) -> Vec<NativeFrame> {
        let frames = named.iter().map(|(library, function)| NativeFrame {
            library: (*library).to_owned(),
            function: function.map(str::to_owned),
        });
        frames.collect()
    }

    fn said(called: &[(&str, Option<&str>)]) -> Option<String> {
        worth_saying(&frames(called)).map(named)
    }

    #[test]
    fn caller_of_the_allocator_is_preferred() {
        let torch = [
            ("libc.so.6", Some("malloc")),
            ("libc10.so", Some("c10::alloc_cpu")),
            ("libtorch_cpu.so", Some("at::detail::empty_cpu")),
            (
                "libtorch_python.so",
                Some("torch::autograd::THPVariable_empty"),
            ),
            ("libpython3.11.so.1.0", Some("cfunction_call")),
        ];
        assert_eq!(
            said(&torch).as_deref(),
            Some("libtorch_cpu.so: at::detail::empty_cpu")
        );
        assert_eq!(
            said(&torch[..2]).as_deref(),
            Some("libc10.so: c10::alloc_cpu")
        );
        let numpy = [
            ("libc.so.6", Some("malloc")),
            ("_multiarray_umath.so", Some("PyDataMem_UserNEW")),
            ("_multiarray_umath.so", Some("PyArray_Empty_int")),
            ("python3.11", None),
        ];
        let named = said(&numpy);
        assert_eq!(
            named.as_deref(),
            Some("_multiarray_umath.so: PyArray_Empty_int")
        );
        let stripped = [
            ("libc.so.6", Some("malloc")),
            ("_multiarray_umath.so", None),
        ];
        assert_eq!(said(&stripped).as_deref(), Some("_multiarray_umath.so"));
    }

    #[test]
    fn common_libraries_are_not_named() {
        assert_eq!(
            said(&[("libc.so.6", Some("malloc")), ("python3.11", None)]),
            None
        );
        assert_eq!(said(&[]), None);
        let codec = "_multibytecodec.cpython-311-x86_64-linux-gnu.so";
        assert_eq!(said(&[(codec, Some("mmap"))]), None);
        assert_eq!(said(&[("libtorch_cpu.so", Some("mmap"))]), None);
    }
}
