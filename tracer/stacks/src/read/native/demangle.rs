//! Demangles a function's name as its author wrote it, without arguments, short enough for a line.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// The longest demangled name before it is cut: with substitutions a short name can expand to any
/// length.
const MOST_WRITTEN: usize = 8192;
/// Longer names lose their template arguments, then their beginning.
const LONG: usize = 60;
const LONGEST: usize = 100;
/// Suffixes that compilers append to the parts and copies of a C function.
const PARTS: [&str; 7] = [
    ".cold",
    ".part.",
    ".isra.",
    ".constprop.",
    ".lto_priv",
    ".localalias",
    ".llvm.",
];

/// A text that refuses to grow beyond a bound.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MOST_WRITTEN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns the readable form; `None` for what is not a name.
pub(super) fn readable(name: &str) -> Option<String> {
    let name = name.split('@').next().unwrap_or(name);
    if name.is_empty() || name.contains(|letter: char| letter.is_control()) {
        return None;
    }
    let found = rust(name).or_else(|| cpp(name));
    let found = found.unwrap_or_else(|| without_part(name).to_owned());
    Some(short(&found))
}

fn rust(name: &str) -> Option<String> {
    // The demangler would take names of C++ for legacy names of Rust. Only the latter end in a
    // hash.
    let end = name.split_once('.').map_or(name, |(name, _)| name);
    let hash = end.strip_suffix('E').and_then(|end| end.rsplit_once("17h"));
    let is_old = name.starts_with("_ZN") && hash.is_some_and(|(_, hash)| hash.len() == 16);
    if !is_old && !name.starts_with("_R") {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Bounded(String::new());
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    let mangled = name
        .split('.')
        .next()
        .filter(|name| name.starts_with("_Z"))?;
    let symbol = Symbol::new(mangled).ok()?;
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut text = Bounded(String::new());
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

fn without_part(name: &str) -> &str {
    let cut = PARTS.iter().filter_map(|part| name.find(part)).min();
    &name[..cut.filter(|cut| *cut > 0).unwrap_or(name.len())]
}

fn short(name: &str) -> String {
    let name = if name.len() > LONG {
        without_arguments(name)
    } else {
        name.to_owned()
    };
    let too_many = name.chars().count().saturating_sub(LONGEST);
    if too_many == 0 {
        return name;
    }
    let rest: String = name.chars().skip(too_many + 1).collect();
    format!("…{rest}")
}

/// Returns `f<…>::g` for `f<int, h<char> >::g`. Operators with angle brackets in their names are
/// unchanged.
fn without_arguments(name: &str) -> String {
    if name.contains("operator") {
        return name.to_owned();
    }
    let (mut text, mut depth) = (String::new(), 0u32);
    for letter in name.chars() {
        match letter {
            '<' => {
                if depth == 0 {
                    text.push_str("<…>");
                }
                depth += 1;
            }
            '>' => depth = depth.saturating_sub(1),
            letter if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled() {
        let names = [
            ("malloc", "malloc"),
            ("__libc_malloc@@GLIBC_PRIVATE", "__libc_malloc"),
            ("sysmalloc.part.0", "sysmalloc"),
            (
                "_ZN2at6detail9empty_cpuEN3c108ArrayRefIlEE",
                "at::detail::empty_cpu",
            ),
            (
                "_ZN5alloc7raw_vec19RawVec$LT$T$C$A$GT$8grow_one17h0123456789abcdefE",
                "alloc::raw_vec::RawVec<T,A>::grow_one",
            ),
            (
                "_ZNSt6vectorISt4pairIN5arrow8internal11LongerThing4NameEN5arrow8internal12AnotherThingEESaIS6_EE7reserveEm",
                "std::vector<…>::reserve",
            ),
            ("_Znot_really", "_Znot_really"),
        ];
        for (mangled, wanted) in names {
            assert_eq!(readable(mangled).as_deref(), Some(wanted));
        }
        assert_eq!(readable(""), None);
        assert_eq!(readable("a\nb"), None);
    }

    #[test]
    fn long_names_are_bounded() {
        let names = [
            "x".repeat(2000),
            // Each substitution names the previous one twice.
            format!("_Z1fI{}", "St4pairI".repeat(60)),
            format!("_ZN{}E", "9something".repeat(100)),
        ];
        for name in names {
            let readable = readable(&name).expect("a name");
            assert!(readable.chars().count() <= LONGEST, "{readable}");
        }
    }
}
