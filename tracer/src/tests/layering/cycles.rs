//! Checks that there are no dependency cycles among the modules of a folder.
//!
//! A cycle may pass through several modules. A parent and its child may use each other.

use std::collections::BTreeSet;

use super::sources::{self, Module, Uses};

/// Returns which modules of the same folder use each other, for each folder.
fn siblings(uses: &Uses) -> Uses {
    let mut found = Uses::new();
    for (own, others) in uses {
        for other in others {
            let same = own.iter().zip(other).take_while(|(one, two)| one == two);
            let parts = same.count() + 1;
            // A module inside another one is its child.
            if let (Some(one), Some(two)) = (own.get(..parts), other.get(..parts)) {
                found.entry(one.to_vec()).or_default().insert(two.to_vec());
            }
        }
    }
    found
}

/// Returns everything that a module uses, directly or indirectly.
fn reached<'a>(uses: &'a Uses, module: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Module> = uses.get(module).into_iter().flatten().collect();
    while let Some(other) = next.pop() {
        if reached.insert(other) {
            next.extend(uses.get(other).into_iter().flatten());
        }
    }
    reached
}

/// Returns the modules of each cycle.
fn cycles(uses: &Uses) -> BTreeSet<Vec<String>> {
    let siblings = siblings(uses);
    let cycle = |module: &Module| {
        let others = reached(&siblings, module).into_iter();
        let back = others.filter(|other| reached(&siblings, other).contains(module));
        back.map(|other| other.join("::")).collect::<Vec<_>>()
    };
    let cycles = siblings.keys().map(cycle);
    cycles.filter(|cycle| !cycle.is_empty()).collect()
}

#[test]
fn modules_form_no_cycle() {
    let uses = sources::all();
    assert!(uses.len() > 400, "read {}", uses.len());
    assert_eq!(cycles(&uses), BTreeSet::new());
}

/// Cycles through a list of imports and through a third module are found.
#[test]
fn cycles_are_found_except_of_parent_and_child() {
    let find = |code: &[(&str, &str)]| {
        let code = code.iter();
        let code = code.map(|(name, code)| (sources::module(name), (*code).to_owned()));
        cycles(&sources::uses(&code.collect()))
    };
    let third = ("x::c", "fn f() { super::a::f() }");
    let ring = [
        ("x::a", "use super::{Y, b::{self, B as C}};"),
        ("x::b::inner", "use crate::x::c::C;"),
        third,
        ("x::d", "use super::a;"),
    ];
    assert_eq!(
        find(&ring),
        BTreeSet::from([vec![
            "x::a".to_owned(),
            "x::b".to_owned(),
            "x::c".to_owned()
        ]])
    );
    let family = [
        ("x::a", "use super::b::B; mod inner;"),
        ("x::a::inner", "use super::{A, super::b};"),
        ("x::b", "pub(in crate::x) fn f() {}"),
        third,
    ];
    assert_eq!(find(&family), BTreeSet::new());
}
