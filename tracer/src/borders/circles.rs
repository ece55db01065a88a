//! No two modules of a folder use each other, not by a third one either; but a module and what is inside it may.
//!
//! Read from paths that begin with `super` or `crate`. What a parent uses of its children needs no such path.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A module, by its names from the crate's root.
type Module = Vec<String>;

/// The code of each module below a folder.
fn modules(folder: &Path, module: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|name| name.to_str());
        let stem = stem.expect("a name");
        let mut own = module.clone();
        if stem != "mod" {
            own.push(stem.to_owned());
        }
        if path.is_dir() {
            modules(&path, &own, found);
        } else if stem != "tests" && path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests {").next();
            let lines = code.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            found.insert(own, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Names, and the marks of paths between them.
fn words(text: &str) -> Vec<&str> {
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

/// The paths that begin at a word, each of a list in braces by itself; and the words behind them.
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

/// The modules that the code of one uses.
fn used(own: &Module, code: &str, all: &BTreeSet<Module>) -> BTreeSet<Module> {
    let words = words(code);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let begins = at == 0 || !matches!(words[at - 1], "::" | "in");
        if begins && matches!(words[at..], ["super" | "crate", "::", ..]) {
            paths(&words[at..], &[], &mut found);
        }
    }
    found.iter().map(|path| module_of(own, path, all)).collect()
}

/// The module that a path leads into.
fn module_of(own: &Module, path: &[&str], all: &BTreeSet<Module>) -> Module {
    let mut module = if path.first() == Some(&"crate") {
        Vec::new()
    } else {
        own.clone()
    };
    for name in path {
        match *name {
            "crate" => {}
            "super" => {
                module.pop();
            }
            name => {
                module.push(name.to_owned());
                if !all.iter().any(|one| one.starts_with(&module)) {
                    module.pop();
                    break;
                }
            }
        }
    }
    module
}

/// Who uses whom among the modules that lie in one folder, for each folder.
fn uses(sources: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let all: BTreeSet<Module> = sources.keys().cloned().collect();
    let mut uses: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (own, code) in sources {
        for other in used(own, code, &all) {
            let same = own.iter().zip(&other).take_while(|(one, two)| one == two);
            let parts = same.count() + 1;
            // One that lies inside the other is its child.
            if let (Some(one), Some(two)) = (own.get(..parts), other.get(..parts)) {
                uses.entry(one.to_vec()).or_default().insert(two.to_vec());
            }
        }
    }
    uses
}

/// Those that use themselves by others.
fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for module in uses.keys() {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&Module> = uses[module].iter().collect();
        while let Some(other) = next.pop() {
            if reached.insert(other) {
                next.extend(uses.get(other).into_iter().flatten());
            }
        }
        if reached.contains(module) {
            wrong.push(module.join("::"));
        }
    }
    wrong
}

#[test]
fn the_modules_of_the_live_half_form_no_circle() {
    for folder in ["collect", "observe/kernel"] {
        let mut sources = BTreeMap::new();
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(folder);
        let module: Module = folder.split('/').map(str::to_owned).collect();
        modules(&path, &module, &mut sources);
        let uses = uses(&sources);
        assert!(uses.len() > 9, "{uses:?}");
        let circles = circles(&uses);
        assert!(circles.is_empty(), "{circles:#?} in {uses:#?}");
    }
}

#[test]
fn circles_are_found_by_lists_and_thirds_but_not_of_parent_and_child() {
    let module = |name: &str| -> Module { name.split("::").map(str::to_owned).collect() };
    let find = |sources: &[(&str, &str)]| {
        let sources = sources.iter();
        let sources = sources.map(|(name, code)| (module(name), (*code).to_owned()));
        circles(&uses(&sources.collect()))
    };
    let third = ("x::c", "fn f() { super::a::f() }");
    let ring = [
        ("x::a", "use super::{Y, b::{self, B as C}};"),
        ("x::b::inner", "use crate::x::c::C;"),
        third,
    ];
    assert_eq!(find(&ring), ["x::a", "x::b", "x::c"]);
    let family = [
        ("x::a", "use super::b::B; mod inner;"),
        ("x::a::inner", "use super::{A, super::b};"),
        ("x::b", "pub(in crate::x) fn f() {}"),
        third,
    ];
    assert_eq!(find(&family), [""; 0]);
}
