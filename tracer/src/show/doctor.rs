//! Renders the checks of `doctor`: as text, section by section, and as one JSON object.

use owo_colors::Style as Colour;
use serde::Serialize;

use crate::{
    event::ProbeState,
    judge::doctor::{Check, Section, State, facts::Machine},
    phrase,
    show::{json, layout::Page, sanitize, words},
};

/// Width of the word before a check, in columns.
const WORD: usize = 12;

/// Renders the checks as text, for `width` columns.
pub fn render(machine: &Machine, checks: &[Check], width: usize) -> String {
    let mut page = Page::new(width);
    for line in heads(machine) {
        page.paragraph("", Colour::new(), &line, 2);
    }
    let part = |page: &mut Page, section, title: &str, raylet| {
        let of = |check: &&Check| check.section == section && check.raylet_pid == raylet;
        let checks: Vec<&Check> = checks.iter().filter(of).collect();
        write(page, title, &checks);
    };
    for node in &machine.nodes {
        let title = |name: &str| match (&node.cluster, machine.nodes.len()) {
            (Some(cluster), 2..) => format!("{name} on raylet {}", cluster.raylet.pid),
            (None, _) => format!("{name} (if Ray is started in this shell)"),
            _ => name.to_owned(),
        };
        part(
            &mut page,
            Section::Killers,
            &title("WHO KILLS FIRST"),
            node.pid(),
        );
        part(&mut page, Section::Settings, &title("SETTINGS"), node.pid());
    }
    part(&mut page, Section::Recording, "RECORDING", None);
    let rest = [(Section::Gpu, "GPU"), (Section::Disk, "DISK")];
    for (section, title) in rest {
        let checks: Vec<&Check> = checks
            .iter()
            .filter(|check| check.section == section)
            .collect();
        write(&mut page, title, &checks);
    }
    page.paragraph("", Colour::new().bold(), &summary(checks), 2);
    page.finish()
}

fn heads(machine: &Machine) -> Vec<String> {
    let host = format!(
        "{} · Linux {}",
        sanitize::name(&machine.host),
        sanitize::name(&machine.kernel)
    );
    let clusters = machine
        .nodes
        .iter()
        .filter_map(|node| node.cluster.as_ref());
    let mut lines: Vec<String> = clusters
        .map(|cluster| {
            let mut parts = vec![host.clone()];
            parts.extend(
                cluster
                    .ray_version
                    .as_deref()
                    .map(|version| format!("Ray {}", sanitize::name(version))),
            );
            let pid = cluster.raylet.pid;
            let mut raylet = format!("raylet {pid}");
            if cluster.raylet_ns_pid != pid {
                raylet = format!("raylet {} = host pid {pid}", cluster.raylet_ns_pid);
            }
            if let Some(id) = &cluster.container_id {
                raylet.push_str(&format!(" in container {}", id.get(..12).unwrap_or(id)));
            }
            parts.push(raylet);
            parts.join(" · ")
        })
        .collect();
    if lines.is_empty() {
        lines.push(format!("{host} · no Ray is running"));
    }
    lines
}

fn write(page: &mut Page, title: &str, checks: &[&Check]) {
    if checks.is_empty() {
        return;
    }
    // If the first check has no word, its text is beside the title.
    let (beside, checks) = match checks.split_first() {
        Some((first, rest)) if first.word.is_empty() => (first.text.as_str(), rest),
        _ => ("", checks),
    };
    let beside = sanitize::line(beside, sanitize::LONGEST);
    let title = if beside.is_empty() {
        title.to_owned()
    } else {
        format!("{title:<WORD$}   ")
    };
    page.paragraph(&title, Colour::new().bold(), &beside, WORD + 3);
    for check in checks {
        let colour = match check.state {
            State::Ok => Colour::new().green(),
            State::Note => Colour::new(),
            State::Missing => Colour::new().yellow(),
            State::Problem => Colour::new().red().bold(),
        };
        let lead = format!("  {:<WORD$} ", check.word);
        let mut text = sanitize::line(&check.text, sanitize::LONGEST);
        if check.state == State::Problem
            && let Some(command) = &check.command
        {
            text.push_str(&format!(
                ". Fix: {}",
                sanitize::line(command, sanitize::LONGEST)
            ));
        }
        page.paragraph(&lead, colour, &text, WORD + 3);
    }
}

/// `3 problems (2 IGNORED, 1 LEFTOVER), 1 thing cannot be seen.`
fn summary(checks: &[Check]) -> String {
    let problems: Vec<&Check> = checks
        .iter()
        .filter(|check| check.state == State::Problem)
        .collect();
    let missing = checks
        .iter()
        .filter(|check| check.state == State::Missing)
        .count();
    let by_word = words::grouped(problems.iter().map(|check| (&check.word, check)));
    let list = by_word
        .iter()
        .map(|(word, checks)| format!("{} {word}", checks.len()));
    let list: Vec<String> = list.collect();
    let mut text = match problems.len() {
        0 => "No problems found".to_owned(),
        many => words::count(many, "problem", "problems"),
    };
    text.push_str(&phrase::in_brackets(&list));
    if missing > 0 {
        text.push_str(&format!(
            ", {}",
            words::count(missing, "thing cannot be seen", "things cannot be seen")
        ));
    }
    format!("{text}.")
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    raytrace: &'a str,
    host: &'a str,
    kernel: &'a str,
    mode: Option<crate::event::Mode>,
    probes: Vec<JsonProbe<'a>>,
    raylets: Vec<JsonRaylet<'a>>,
    problems: usize,
    missing_probes: usize,
    checks: &'a [Check],
}

#[derive(Serialize)]
struct JsonProbe<'a> {
    name: &'a str,
    state: ProbeState,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonRaylet<'a> {
    pid: crate::ids::Pid,
    session: Option<&'a str>,
    ray_version: Option<&'a str>,
    container_id: Option<&'a str>,
}

/// Renders the checks as one JSON object.
pub fn render_json(machine: &Machine, checks: &[Check]) -> Result<String, serde_json::Error> {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let clusters = machine
        .nodes
        .iter()
        .filter_map(|node| node.cluster.as_ref());
    json::render(&Json {
        schema: 1,
        raytrace: env!("CARGO_PKG_VERSION"),
        host: &machine.host,
        kernel: &machine.kernel,
        mode: machine.mode,
        probes: machine
            .probes
            .iter()
            .map(|probe| JsonProbe {
                name: &probe.name,
                state: probe.state,
                reason: probe.reason.as_deref(),
            })
            .collect(),
        raylets: clusters
            .map(|cluster| JsonRaylet {
                pid: cluster.raylet.pid,
                session: cluster.session.as_deref(),
                ray_version: cluster.ray_version.as_deref(),
                container_id: cluster.container_id.as_deref(),
            })
            .collect(),
        problems: count(State::Problem),
        missing_probes: count(State::Missing),
        checks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{Bytes, Pid},
        judge::doctor::{
            checks,
            facts::{Driver, OldSessions},
            fixtures::{machine, node},
        },
    };

    #[test]
    fn text_has_sections_and_a_final_count() {
        let mut node = node();
        node.settings
            .push(("RAY_object_store_memory".into(), "32212254720".into()));
        node.drivers.push(Driver {
            pid: Pid(690),
            settings: vec![("RAY_memory_usage_threshold".into(), "0.98".into())],
        });
        let mut machine = machine(node);
        machine.old_sessions.push(OldSessions {
            folder: "/tmp/ray".into(),
            sessions: 4,
            bytes: Bytes(38 << 30),
        });
        let text = render(&machine, &checks(&machine), 100);
        let text = anstream::adapter::strip_str(&text).to_string();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn json_checks_have_all_their_fields() {
        let machine = machine(node());
        let text = render_json(&machine, &checks(&machine)).expect("JSON");
        let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&object["schema"], &object["problems"]),
            (&1.into(), &0.into())
        );
        for check in object["checks"].as_array().expect("checks") {
            for field in [
                "id", "section", "state", "text", "value", "expected", "command",
            ] {
                assert!(check.get(field).is_some(), "{check} has no {field}");
            }
        }
    }
}
