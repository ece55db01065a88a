//! Each fixture alone, and in everything that others put around its lines.

use super::{assert_nothing_is_proven, explain, fixtures::ALL, killers};

#[test]
fn every_form_gives_its_verdict() {
    for fixture in ALL.iter() {
        let report = explain(&[("some.log", fixture.text)]);
        assert_nothing_is_proven(&report);
        assert_eq!(
            killers(&report),
            fixture.deaths,
            "{} ({}): {:?}",
            fixture.name,
            fixture.versions,
            report
                .deaths
                .iter()
                .map(|death| &death.verdict)
                .collect::<Vec<_>>()
        );
        let rules: Vec<&str> = report
            .findings
            .iter()
            .map(|finding| finding.rule.as_str())
            .filter(|rule| *rule != "victim-not-biggest")
            .collect();
        assert_eq!(rules, fixture.rules, "{}", fixture.name);
    }
}

/// What runtimes, drivers and journals make of a line.
fn wrappings(line: &str) -> Vec<String> {
    let json = serde_json::to_string(line).expect("JSON");
    vec![
        format!("2026-11-21T00:23:48.123456789Z stdout F {line}"),
        format!("2026-11-21T00:23:48.123456789+08:00 stderr F {line}"),
        format!("2026-11-21T00:23:48.123456789Z {line}"),
        format!("[pod/trainer-0/ray-head] {line}"),
        format!("ray-head-1  | {line}"),
        format!(r#"{{"log":{json},"stream":"stdout","time":"2026-11-21T00:23:48.1Z"}}"#),
        format!(r#"{{"level":"info","message":{json},"timestamp":1795220628}}"#),
        format!("\u{1b}[36m(TaskRunner pid=9, ip=192.0.2.7)\u{1b}[0m {line}"),
        format!("\\x1b[36m(TaskRunner pid=9)\\x1b[0m {line}"),
        format!("\\u001b[36m(TaskRunner pid=9)\\u001b[0m {line}"),
        format!("[36m(TaskRunner pid=9)[0m {line}"),
        format!("{line}\r"),
    ]
}

#[test]
fn a_wrapping_changes_no_verdict() {
    for fixture in ALL.iter() {
        let lines: Vec<&str> = fixture.text.lines().collect();
        let kinds = wrappings("").len();
        for kind in 0..kinds {
            let wrapped: Vec<String> = lines
                .iter()
                .map(|line| wrappings(line)[kind].clone())
                .collect();
            let text = wrapped.join("\n");
            let report = explain(&[("some.log", &text)]);
            assert_eq!(
                killers(&report),
                fixture.deaths,
                "{}:\n{text}",
                fixture.name
            );
        }
    }
}

#[test]
fn kernel_lines_are_read_in_every_form_of_a_journal() {
    for fixture in ALL.iter().filter(|fixture| fixture.kernel()) {
        let bare: Vec<&str> = fixture
            .text
            .lines()
            .map(|line| {
                line.split_once("] ")
                    .filter(|(head, _)| head.starts_with("[ "))
                    .map_or(line, |(_, rest)| rest)
            })
            .collect();
        let forms: [&dyn Fn(&str) -> String; 8] = [
            &|line| line.to_owned(),
            &|line| format!("[Sat Nov 21 00:23:48 2026] {line}"),
            &|line| format!("<6>[ 2833.337115] {line}"),
            &|line| format!("6,339,2833337115,-;{line}"),
            &|line| format!("kern  :info  : [ 2833.337115] {line}"),
            &|line| format!("Nov 21 00:23:48 gpu-07 kernel: {line}"),
            &|line| format!("Nov 21 00:23:48 gpu-07 kernel: [ 2833.337115] {line}"),
            &|line| format!("2026-11-21T00:23:48+0000 gpu-07 kernel: {line}"),
        ];
        for (number, form) in forms.iter().enumerate() {
            let text: Vec<String> = bare.iter().map(|line| form(line)).collect();
            let report = explain(&[("dmesg.txt", &text.join("\n"))]);
            assert_eq!(
                killers(&report),
                fixture.deaths,
                "{} form {number}",
                fixture.name
            );
        }
    }
}

#[test]
fn long_sentences_are_read_when_a_terminal_broke_them() {
    for fixture in ALL.iter() {
        let whole = explain(&[("some.log", fixture.text)]);
        for width in [120usize, 160] {
            let broken: Vec<String> = fixture
                .text
                .lines()
                .flat_map(|line| {
                    let characters: Vec<char> = line.chars().collect();
                    let whole = if line.is_empty() {
                        vec![String::new()]
                    } else {
                        Vec::new()
                    };
                    let parts = characters.chunks(width).map(|part| part.iter().collect());
                    whole.into_iter().chain(parts.collect::<Vec<String>>())
                })
                .collect();
            let broken = broken.join("\n");
            let report = explain(&[("some.log", &broken)]);
            let allowed = killers(&whole);
            for (pid, killer) in killers(&report) {
                let known = allowed.iter().any(|(_, known)| *known == killer);
                assert!(
                    known || killer.name() == "unknown",
                    "{} {pid} {killer:?}",
                    fixture.name
                );
            }
            if fixture.survives_breaks {
                assert_eq!(
                    killers(&report),
                    fixture.deaths,
                    "{} at {width}:\n{broken}",
                    fixture.name
                );
            }
        }
    }
}
