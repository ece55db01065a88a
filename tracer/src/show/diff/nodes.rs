//! Writes which nodes are compared, and which of them stand out.

use owo_colors::Style as Colour;

use crate::{
    judge::diff::{Diff, NodeDiff},
    show::{layout::Page, sanitize, words},
};

/// Maximum number of nodes in a list of names, and of nodes that stand out. JSON has them all.
const MAX_NAMES: usize = 3;
const MAX_LINES: usize = 8;

/// Writes the section about nodes. There is none if both recordings are of one node.
pub(super) fn section(page: &mut Page, diff: &Diff) {
    let Some(nodes) = &diff.nodes else {
        return;
    };
    page.blank();
    page.paragraph("NODES  ", Colour::new().bold(), &matched(nodes), 2);
    for one in nodes.stand_out.iter().take(MAX_LINES) {
        let line = sanitize::line(&one.why, sanitize::EVIDENCE);
        page.paragraph("  ", Colour::new(), &line, 4);
    }
    let more = nodes.stand_out.len().saturating_sub(MAX_LINES);
    if more > 0 {
        let more = format!("{more} more: --format json");
        page.paragraph("  ", Colour::new(), &more, 2);
    }
}

/// `15 are in both, by host name; only in A: gpu-03; only in B: gpu-17`.
fn matched(nodes: &NodeDiff) -> String {
    let both = match nodes.both.len() {
        0 => "no host name is in both: nodes are compared within each run only".to_owned(),
        1 => "1 is in both, by host name".to_owned(),
        many => format!("{many} are in both, by host name"),
    };
    let mut parts = vec![both];
    for (run, only) in [("A", &nodes.only_a), ("B", &nodes.only_b)] {
        if !only.is_empty() && !nodes.both.is_empty() {
            parts.push(format!("only in {run}: {}", named(only)));
        }
    }
    if !nodes.ambiguous.is_empty() {
        let names = named(&nodes.ambiguous);
        parts.push(format!(
            "not compared, as several machines share a name: {names}"
        ));
    }
    parts.join("; ")
}

fn named(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| sanitize::name(name))
        .collect();
    let more = names.len() - shown.len();
    let shown = shown.join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {}", words::count(more, "other", "others")),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        ids::Bytes,
        judge::{
            diff::compare,
            fleet,
            report::{CallRate, GrowthRate, Owner, OwnerKind, Report},
        },
        show::{Style, diff::render, sample},
    };

    /// Makes the report of a run. Each node has a host name, a boot id, and the memory that a call
    /// of its workers keeps, in MiB.
    fn run(nodes: &[(&str, &str, u64)]) -> Report {
        let one = |(host, boot, mib): &(&str, &str, u64)| {
            let mut report = sample::report(Vec::new(), Vec::new());
            report.recordings[0].host.name = (*host).to_owned();
            report.recordings[0].host.boot_id = (*boot).to_owned();
            report.owners = vec![Owner {
                class: "WorkerDict".into(),
                kind: OwnerKind::Actor,
                processes: 8,
                private_peak_bytes: Some(sample::gib(64.8)),
                per_call_bytes: Some(Bytes(mib << 20)),
                growth_rate: GrowthRate {
                    calls: vec![CallRate {
                        task: "WorkerDict.update_actor".into(),
                        calls: 120,
                        per_call: Bytes(mib << 20),
                    }],
                    hours: None,
                },
                ..Owner::default()
            }];
            report
        };
        fleet::join(nodes.iter().map(one).collect())
    }

    fn text(a: &Report, b: &Report, width: usize) -> String {
        let style = Style {
            width,
            ..sample::style()
        };
        let diff = compare(("before", a), ("after", b));
        let text = anstream::adapter::strip_str(&render(&diff, &style)).to_string();
        let widest = text.lines().map(crate::show::sanitize::columns).max();
        assert!(widest <= Some(width), "{text}");
        text
    }

    /// Returns the section about nodes.
    fn nodes(a: &Report, b: &Report) -> String {
        let text = text(a, b, 100);
        let from = text.find("\nNODES  ").expect("the section");
        let section = text[from + 1..].split("\n\n").next();
        section.unwrap_or_default().to_owned()
    }

    const BEFORE: [(&str, &str, u64); 4] = [
        ("gpu-01", "b1", 100),
        ("gpu-02", "b2", 101),
        ("gpu-03", "b3", 99),
        ("gpu-07", "b7", 100),
    ];

    fn after(mib: u64) -> Report {
        run(&[
            ("gpu-01", "c1", 101),
            ("gpu-02", "c2", 100),
            ("gpu-07", "c7", mib),
            ("gpu-17", "c17", 99),
        ])
    }

    #[test]
    fn two_runs_compared_by_class_and_node() {
        insta::assert_snapshot!(text(&run(&BEFORE), &after(210), 80), @r"
        A before · 4 nodes · 188.0 GiB · 2026-11-20 06:02:11Z, 9,609 s · highest peak of
          a machine 152.3 of 188.0 GiB (81.0 %)
        B after · 4 nodes · 188.0 GiB · 2026-11-20 06:02:11Z, 9,609 s · highest peak of
          a machine 152.3 of 188.0 GiB (81.0 %)

        SETTINGS none changed; 1 is the same in both

        PEAKS ADDED OVER NODES  A                B                change
          WorkerDict            259.2 GiB in 32  259.2 GiB in 32  0

        GROWTH PER CALL  A        B        change
          WorkerDict     101 MiB  210 MiB  +109 MiB

        NODES  3 are in both, by host name; only in A: gpu-03; only in B: gpu-17
          gpu-07 alone: WorkerDict.update_actor grew 2.1 × as fast in B (100 MiB →
            210 MiB a call); on the other 2 nodes 1.0 × as fast (median 100 MiB →
            100 MiB)

        DEATHS no abnormal deaths in either

        WHAT EXPLAINS THE CHANGE
          No known setting changed: look at the code, the data and the versions of
          libraries.
        ");
    }

    #[test]
    fn nodes_that_grow_alike_are_not_named() {
        insta::assert_snapshot!(nodes(&run(&BEFORE), &after(103)), @r"
        NODES  3 are in both, by host name; only in A: gpu-03; only in B: gpu-17
        ");
    }

    #[test]
    fn runs_on_other_hosts_are_compared_within_each_run() {
        let other = run(&[
            ("n1", "d1", 100),
            ("n2", "d2", 250),
            ("n3", "d3", 100),
            ("n4", "d4", 98),
            ("n5", "d5", 98),
        ]);
        insta::assert_snapshot!(nodes(&run(&BEFORE), &other), @r"
        NODES  no host name is in both: nodes are compared within each run only
          n2 alone: in B WorkerDict.update_actor grew by 250 MiB a call, 2.5 × the median of the other 4
            nodes (99 MiB)
        ");
    }

    /// Machines that share a host name are counted separately, by boot id.
    #[test]
    fn machines_sharing_a_name_are_not_compared() {
        let same = run(&[
            ("localhost", "e1", 100),
            ("localhost", "e2", 300),
            ("gpu-01", "e3", 100),
        ]);
        insta::assert_snapshot!(nodes(&run(&BEFORE), &same), @r"
        NODES  1 is in both, by host name; only in A: gpu-02, gpu-03, gpu-07; not compared, as several
          machines share a name: localhost
        ");
        let diff = compare(("a", &run(&BEFORE)), ("b", &same));
        assert_eq!((diff.a.nodes, diff.b.nodes), (4, 3));
        let of_b = diff.owners[0].b.expect("it ran");
        assert_eq!((of_b.nodes, of_b.processes), (3, 24));
    }

    #[test]
    fn class_on_some_nodes_says_how_many() {
        let mut two = run(&BEFORE);
        two.owners.truncate(2);
        let shown = text(&run(&BEFORE), &two, 100);
        assert!(
            shown.contains("259.2 GiB in 32  129.6 GiB in 16 on 2 of 4 nodes"),
            "{shown}"
        );
    }

    #[test]
    fn two_recordings_of_one_node_have_no_section() {
        let one = run(&[("gpu-01", "b1", 100)]);
        assert!(!text(&one, &one, 100).contains("NODES"));
    }
}
