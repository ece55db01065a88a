//! Which module of the judge uses which, read from the source: no two use each other but parent and child, and tables see nothing that
//! asks them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use regex::Regex;

/// What the tables may use besides one another: what the report is made of, and what was foreseen.
const STATE: [&str; 4] = ["cause", "missing", "nears", "report"];
/// What the questions to them may use besides one another.
const QUERY: [&str; 5] = ["cause", "missing", "nears", "report", "state"];

/// From each module to those that it uses, as paths below the judge.
type Uses = BTreeSet<(Vec<String>, Vec<String>)>;

/// The source files with their modules; without tests, comments and visibilities.
fn sources(folder: &Path, module: &[String], found: &mut Vec<(Vec<String>, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.expect("a name").to_owned();
        let mut own = module.to_vec();
        if stem != "mod" {
            own.push(stem.clone());
        }
        if path.is_dir() && stem != "tests" {
            sources(&path, &own, found);
        } else if path.is_file() && stem != "tests" {
            let text = fs::read_to_string(&path).expect("a file");
            let code = text.split("#[cfg(test)]\nmod tests").next();
            let lines = code.unwrap_or_default().lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            found.push((own, code.replace("pub(in crate::", "pub(")));
        }
    }
}

/// Each path of `a::{b, c::{self, d}}`.
fn flat(before: &str, tree: &str, found: &mut Vec<String>) {
    let (mut depth, mut begin) = (0, 0);
    let ends = tree.char_indices().chain([(tree.len(), ',')]);
    for (place, character) in ends {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let element = tree[begin..place].trim();
                begin = (place + 1).min(tree.len());
                let group = element.strip_suffix('}');
                match group.and_then(|group| group.split_once('{')) {
                    Some((head, inner)) => flat(&format!("{before}{head}"), inner, found),
                    None if element.is_empty() => {}
                    None => found.push(format!("{before}{element}")),
                }
            }
            _ => {}
        }
    }
}

/// All that a source text names of the judge: in `use`, and by whole paths.
fn named(module: &[String], code: &str) -> BTreeSet<Vec<String>> {
    let mut paths = Vec::new();
    let uses = Regex::new(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);").expect("a form");
    for found in uses.captures_iter(code) {
        flat("", &found[1], &mut paths);
    }
    let is_name = |one: char| one.is_alphanumeric() || one == '_' || one == ':';
    for after in code.split("crate::judge::").skip(1) {
        let end = after.find(|one: char| !is_name(one)).unwrap_or(after.len());
        paths.push(format!("crate::judge::{}", &after[..end]));
    }
    let below = |path: &String| -> Option<Vec<String>> {
        let mut words: Vec<&str> = path.split("::").collect();
        let mut base = module.to_vec();
        if words.starts_with(&["crate", "judge"]) {
            base.clear();
            words.drain(..2);
        } else if words.first() != Some(&"super") {
            return None;
        }
        while words.first() == Some(&"super") {
            words.remove(0);
            base.pop()?;
        }
        base.extend(words.into_iter().map(str::to_owned));
        Some(base)
    };
    paths.iter().filter_map(below).collect()
}

fn uses() -> Uses {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/judge");
    let mut all = Vec::new();
    sources(&folder, &[], &mut all);
    let of = |(module, code): &(Vec<String>, String)| {
        let named = named(module, code).into_iter();
        named
            .map(|other| (module.clone(), other))
            .collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

/// The modules directly below `above` and which of them each uses.
fn between(uses: &Uses, above: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let child = |path: &Vec<String>| {
        let inside = path.iter().take(above.len()).eq(above);
        path.get(above.len()).filter(|_| inside).cloned()
    };
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, other) in uses {
        if let (Some(one), Some(other)) = (child(module), child(other)) {
            let is_module = other.starts_with(char::is_lowercase);
            let others = found.entry(one.clone()).or_default();
            others.extend(Some(other).filter(|other| is_module && *other != one));
        }
    }
    found
}

/// What is left where those that use nothing that is left are taken away, again and again: who is in a circle, or uses one.
fn circles(mut left: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        for others in left.values_mut() {
            others.retain(|other| names.contains(other));
        }
        let before = left.len();
        left.retain(|_, others| !others.is_empty());
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn no_two_modules_use_each_other() {
    let uses = uses();
    for (above, at_least) in [(&[][..], 25), (&["state"], 8), (&["query"], 2)] {
        let between = between(&uses, above);
        assert!(between.len() >= at_least, "read {between:?} of {above:?}");
        let circles = circles(between);
        assert!(circles.is_empty(), "{above:?}: {circles:#?}");
    }
}

#[test]
fn tables_see_nothing_that_asks_them_and_questions_nothing_that_decides() {
    let between = between(&uses(), &[]);
    for (layer, may_use) in [("state", &STATE[..]), ("query", &QUERY)] {
        let above = between[layer].iter();
        let above: Vec<_> = above
            .filter(|other| !may_use.contains(&other.as_str()))
            .collect();
        assert!(above.is_empty(), "{layer} uses {above:?}");
    }
}

#[test]
fn uses_are_found_in_trees_and_in_paths() {
    let module = ["verdict".to_owned(), "kernel".to_owned()];
    let code = "use super::{Case, draft::Draft};\nuse crate::{\n    event::Event,\n    judge::{oom, state::{self, seen::{ExitSeen, Seen}}},\n    path,\n};\nfn of(world: &crate::judge::query::memory::Of) {}";
    let named: BTreeSet<String> = named(&module, code)
        .iter()
        .map(|path| path.join("::"))
        .collect();
    let expected = [
        "oom",
        "query::memory::Of",
        "state::seen::ExitSeen",
        "state::seen::Seen",
        "state::self",
        "verdict::Case",
        "verdict::draft::Draft",
    ];
    assert_eq!(
        named.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_circle_is_found_and_what_is_below_it_is_not_in_it() {
    let uses = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")];
    let mut between: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (one, other) in uses {
        let of = between.entry(one.to_owned()).or_default();
        of.insert(other.to_owned());
    }
    let left = circles(between);
    assert_eq!(left.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}
