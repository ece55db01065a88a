//! Reports memory kills that no rule explains, with the largest processes and no cause.

use std::collections::BTreeSet;

use crate::{
    ids::{EventId, size},
    judge::report::{Certainty, Death, Finding},
    path,
};

/// The most characters of a process's name here: a compiler's command line has hundreds.
const LONGEST: usize = 60;

pub(super) fn find(left: &[&Death]) -> Option<Finding> {
    let first = left.first()?;
    let table: Vec<String> = first
        .memory
        .top
        .iter()
        .map(|one| {
            format!(
                "{} {} (pid {})",
                size(one.private_bytes),
                short(&one.title),
                one.pid
            )
        })
        .collect();
    // The victims of one decision of Ray's are one kill.
    let acts = left.iter().map(|death| {
        let act = death.verdict.act;
        act.map_or(death.id, |act| act.death_id)
    });
    let kills = acts.collect::<BTreeSet<EventId>>().len();
    let summary = format!(
        "raytrace did not find what filled the memory at {} were {}",
        if kills == 1 {
            "this kill; the largest processes".to_owned()
        } else {
            format!("these {kills} kills; the largest processes at the first")
        },
        if table.is_empty() {
            "not sampled".to_owned()
        } else {
            table.join(", ")
        }
    );
    Some(Finding {
        evidence: left
            .iter()
            .map(|death| super::victim(death))
            .take(5)
            .collect(),
        deaths: left.iter().map(|death| death.id).collect(),
        ..Finding::new("nothing-fits", Certainty::Unknown, summary)
    })
}

/// Returns a title or a command line with at most [`LONGEST`] characters, cut at a word. Of a
/// command line that is too long, the program's folder is left out first.
fn short(title: &str) -> String {
    if title.chars().count() <= LONGEST {
        return title.to_owned();
    }
    let (program, arguments) = title.split_once(' ').unwrap_or((title, ""));
    let whole = format!("{} {arguments}", path::base(program));
    if whole.chars().count() <= LONGEST {
        return whole;
    }
    let kept: String = whole.chars().take(LONGEST - 2).collect();
    let kept = kept
        .rsplit_once(' ')
        .map_or(kept.as_str(), |(words, _)| words);
    format!("{kept} …")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn long_command_line_is_its_program_and_first_arguments() {
        let compiler = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet -I /home/me/venv/lib/python3.11/site-packages/torch/include -D TORCH";
        assert_eq!(short(compiler), "cc1plus -quiet -I …");
        assert_eq!(
            short("ray::WorkerDict.update_actor"),
            "ray::WorkerDict.update_actor"
        );
        let one_word = "é".repeat(100);
        assert_eq!(short(&one_word).chars().count(), 60);
    }
}
