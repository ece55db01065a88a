//! Tests that damaged texts never name another killer, and that nothing panics.
//!
//! Texts are cut anywhere, shuffled, mixed line by line, and get flipped bytes and foreign
//! prefixes. A verdict may become `unknown`.
//!
//! `RAYTRACE_MUTATIONS=10000 cargo test --release -p raytrace damage` makes that many mutations of
//! each text. `RAYTRACE_MUTATION_TEXTS=FOLDER` also uses the logs of a folder.

use std::collections::BTreeSet;

use super::{
    assert_nothing_is_proven,
    fixtures::{ALL, Fixture},
};
use crate::{
    damage::{Random, cut, drop_lines, flip, interleave, lines, shuffle},
    explain::Explainer,
    judge::{from_text, report::Killer},
    show::clause,
};

/// The number of mutations of each text, unless the environment sets another one.
const MUTATIONS: u64 = 40;

const PREFIXES: [&str; 9] = [
    "(raylet) ",
    "(raylet, ip=192.0.2.9) ",
    "(Worker pid=4242) ",
    "\u{1b}[33m(raylet)\u{1b}[0m ",
    "2026-11-21T00:00:00.1Z stdout F ",
    "Nov 21 00:00:00 host kernel: ",
    "[  12.345678] ",
    "[pod/a/b] ",
    "> ",
];

fn prefix(text: &[u8], random: &mut Random) -> Vec<u8> {
    let each = random.below(2) == 0;
    let chosen = PREFIXES[random.below(PREFIXES.len())];
    let mut lines = lines(text);
    for line in &mut lines {
        let taken = if each {
            chosen
        } else {
            PREFIXES[random.below(PREFIXES.len())]
        };
        line.splice(0..0, taken.bytes());
    }
    lines.join(&b'\n')
}

/// Returns the fixtures, and the logs of a folder with the verdicts on their undamaged text.
fn texts() -> Vec<Fixture> {
    let mut texts = ALL.clone();
    let Some(folder) = std::env::var_os("RAYTRACE_MUTATION_TEXTS") else {
        return texts;
    };
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    files.sort();
    for path in files {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("a log")).into_owned();
        let deaths = super::killers(&super::explain(&[("some.log", &text)]));
        texts.push(Fixture {
            name: path.display().to_string().leak(),
            versions: "",
            text: text.leak(),
            deaths: deaths.leak(),
            rules: &[],
            parts: &[],
            survives_breaks: false,
        });
    }
    texts
}

fn mutate(fixture: &Fixture, other: &Fixture, random: &mut Random) -> (Vec<u8>, bool) {
    let text = fixture.text.as_bytes();
    let mut mixed = false;
    let mut mutated = match random.below(6) {
        0 => cut(text, random),
        1 => shuffle(text, random),
        2 => flip(text, random),
        3 => prefix(text, random),
        4 => drop_lines(text, random),
        _ => {
            mixed = true;
            interleave(text, other.text.as_bytes(), random)
        }
    };
    if random.below(3) == 0 && !mutated.is_empty() {
        mutated = match random.below(3) {
            0 => cut(&mutated, random),
            1 => flip(&mutated, random),
            _ => prefix(&mutated, random),
        };
    }
    (mutated, mixed)
}

fn allowed(fixtures: &[&Fixture]) -> BTreeSet<&'static str> {
    let mut allowed: BTreeSet<&'static str> = fixtures
        .iter()
        .flat_map(|fixture| fixture.deaths.iter().map(|(_, killer)| killer.name()))
        .collect();
    allowed.insert(Killer::Unknown.name());
    // The scope of a kernel OOM kill may be lost.
    let by_kernel = |killer: &Killer| killer.is_kernel_oom() && allowed.contains(killer.name());
    if Killer::ALL.iter().any(by_kernel) {
        allowed.insert(Killer::KernelOom.name());
    }
    for fixture in fixtures {
        allowed.extend(fixture.parts.iter().map(|killer| killer.name()));
    }
    allowed
}

#[test]
fn damaged_texts_never_name_another_killer() {
    let asked = std::env::var("RAYTRACE_MUTATIONS").ok();
    let mutations = asked
        .and_then(|count| count.parse().ok())
        .unwrap_or(MUTATIONS);
    let mut random = Random(0x5EED_0F5E_ED0F_5EED);
    let texts = texts();
    for fixture in &texts {
        for _ in 0..mutations {
            let other = &texts[random.below(texts.len())];
            let (text, mixed) = mutate(fixture, other, &mut random);
            let mut explainer = Explainer::default();
            explainer
                .read("some.log", text.as_slice(), |_| {})
                .expect("a text in memory");
            let report = from_text::judge(&explainer.finish(), None);
            assert_nothing_is_proven(&report);
            let sources: &[&Fixture] = if mixed { &[fixture, other] } else { &[fixture] };
            let allowed = allowed(sources);
            for death in &report.deaths {
                let shown = || String::from_utf8_lossy(&text).into_owned();
                let killer = death.verdict.killer.name();
                assert!(
                    allowed.contains(killer),
                    "{} names {killer}: {}\n{}",
                    fixture.name,
                    clause::summary(death),
                    shown()
                );
                let pid = death.process.pid.0;
                let known = sources
                    .iter()
                    .flat_map(|source| source.deaths)
                    .filter(|(known, _)| pid != 0 && *known == pid);
                let scope_lost = || {
                    killer == "kernel-oom" && known.clone().any(|(_, known)| known.is_kernel_oom())
                };
                // Without the words that say why, only that it ended is left.
                let of_a_part = sources.iter().any(|source| {
                    let mut parts = source.parts.iter();
                    parts.any(|part| part.name() == killer)
                        && source.deaths.iter().any(|(known, _)| *known == pid)
                });
                let agrees = known.clone().count() == 0
                    || of_a_part
                    || killer == "unknown"
                    || scope_lost()
                    || known.clone().any(|(_, known)| known.name() == killer);
                assert!(
                    agrees,
                    "{}: pid {pid} by {killer}\n{}",
                    fixture.name,
                    shown()
                );
            }
        }
    }
}

#[test]
fn any_bytes_are_read_without_panic() {
    let mut random = Random(7);
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..random.below(4000))
            .map(|_| random.next().to_le_bytes()[3])
            .collect();
        let mut explainer = Explainer::default();
        explainer
            .read("x", bytes.as_slice(), |_| {})
            .expect("a text in memory");
        let _ = from_text::judge(&explainer.finish(), None);
    }
}
