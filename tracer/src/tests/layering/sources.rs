//! Reads from the source of all crates which module uses which.
//!
//! A use is a path that begins with `super` or `crate`. The crates have one tree of modules:
//! `tracer` and `core` share its root, and `proc` and `stacks` are modules in it. Tests and
//! comments are left out. What a parent uses of its children needs no such path and is not seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The path of a module from the root.
pub(super) type Module = Vec<String>;
/// The modules that each module uses.
pub(super) type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// The folder of each crate, and its module.
const CRATES: [(&str, &str); 4] = [
    ("src", ""),
    ("core/src", ""),
    ("proc/src", "proc"),
    ("stacks/src", "stacks"),
];
/// Modules that are compiled only for tests or fuzzing.
const TESTS: [&str; 4] = ["damage", "fuzz", "skips", "tests"];

/// Splits the path of a module.
pub(super) fn module(path: &str) -> Module {
    let names = path.split("::").filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Reads the code of each module of all crates.
pub(super) fn read_all() -> BTreeMap<Module, String> {
    let mut sources = BTreeMap::new();
    for (folder, name) in CRATES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        read(&path, &module(name), &mut sources);
    }
    sources
}

/// Returns which module uses which, in all crates.
pub(super) fn all() -> Uses {
    uses(&read_all())
}

/// Returns which module uses which, from the code of each.
pub(super) fn uses(sources: &BTreeMap<Module, String>) -> Uses {
    let mut known: BTreeSet<&[String]> = BTreeSet::new();
    for module in sources.keys() {
        known.extend((0..=module.len()).map(|end| &module[..end]));
    }
    let of = |(own, code): (&Module, &String)| (own.clone(), used(own, code, &known));
    sources.iter().map(of).collect()
}

/// Reads the code of each module in a folder.
fn read(folder: &Path, module: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|name| name.to_str());
        let stem = stem.expect("a name");
        let mut own = module.clone();
        if !["lib", "mod"].contains(&stem) {
            own.push(stem.to_owned());
        }
        if TESTS.contains(&stem) {
            continue;
        }
        if path.is_dir() {
            read(&path, &own, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests {").next();
            let lines = code.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            found.entry(own).or_default().push_str(&code);
        }
    }
}

/// Splits code into names and punctuation; `::` is one word.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_name = |one: char| one.is_alphanumeric() || one == '_';
        let end = if is_name(first) {
            rest.find(|one| !is_name(one)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        if !first.is_whitespace() {
            found.push(word);
        }
        rest = after;
    }
    found
}

/// Collects the paths that begin at a word, with one path for each item of a list in braces.
/// Returns the words behind them.
fn paths<'a>(
    mut words: &'a [&'a str],
    begin: &[&'a str],
    found: &mut Vec<Vec<&'a str>>,
) -> &'a [&'a str] {
    let mut path = begin.to_vec();
    loop {
        match words {
            ["{", rest @ ..] => {
                words = rest;
                while !matches!(words, [] | ["}", ..]) {
                    words = paths(words, &path, found);
                    if let [",", rest @ ..] = words {
                        words = rest;
                    }
                }
                return words.get(1..).unwrap_or_default();
            }
            [name, "::", rest @ ..] => {
                path.push(name);
                words = rest;
            }
            [name, "as", _, rest @ ..] | [name, rest @ ..] => {
                path.push(name);
                found.push(path);
                return rest;
            }
            [] => return words,
        }
    }
}

/// Returns the modules that the code of one module uses.
fn used(own: &Module, code: &str, known: &BTreeSet<&[String]>) -> BTreeSet<Module> {
    let words = words(code);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let begins = at == 0 || !matches!(words[at - 1], "::" | "in");
        if begins && matches!(words[at..], ["super" | "crate", "::", ..]) {
            paths(&words[at..], &[], &mut found);
        }
    }
    let found = found.iter();
    found.map(|path| module_of(own, path, known)).collect()
}

/// Returns the module that a path leads to.
fn module_of(own: &Module, path: &[&str], known: &BTreeSet<&[String]>) -> Module {
    let mut module = own.clone();
    let mut names = path.iter().peekable();
    if names.next_if(|name| **name == "crate").is_some() {
        let root = CRATES
            .iter()
            .find(|(_, name)| own.first().is_some_and(|own| own == name));
        module.truncate(usize::from(root.is_some()));
        // What is not the crate's own belongs to `core`, which the crate's root re-exports.
        let inside =
            |name: &&str| known.contains(&[&module[..], &[(**name).to_owned()]].concat()[..]);
        if !names.peek().is_some_and(|name| inside(name)) {
            module.clear();
        }
    }
    for name in names {
        if *name == "super" {
            module.pop();
        } else {
            module.push((*name).to_owned());
            if !known.contains(&module[..]) {
                module.pop();
                break;
            }
        }
    }
    module
}

#[test]
fn paths_resolve_in_lists_and_across_crates() {
    let code = [
        (
            "a::b",
            "use super::{Y, c::{self, C as D}, d::E};\nfn f() -> crate::ids::Pid {}",
        ),
        ("a::c", "pub(in crate::a) use self::inner::f;"),
        ("a::d", "use crate::{a::c, unknown::Name};"),
        ("ids", ""),
        ("proc::maps", "use crate::{ids::Pid, memory::of};"),
        ("proc::memory", "use super::maps::Maps;"),
    ];
    let code = code.map(|(name, code)| (module(name), code.to_owned()));
    let uses = uses(&BTreeMap::from(code));
    let uses: Vec<String> = uses
        .iter()
        .map(|(own, others)| {
            let others: Vec<String> = others.iter().map(|one| one.join("::")).collect();
            format!("{}: {}", own.join("::"), others.join(" "))
        })
        .collect();
    let expected = [
        "a::b: a a::c a::d ids",
        "a::c: ",
        "a::d:  a::c",
        "ids: ",
        "proc::maps: ids proc::memory",
        "proc::memory: proc::maps",
    ];
    assert_eq!(uses, expected);
}
