//! Parses the training step that frameworks print once it is done.
//!
//! - verl 0.5: `step:12 - actor/loss:0.1 - …`, and tqdm's `Training Progress: 25%|██▌ | 1/4
//!   [00:02<00:07, 2.44s/it]`
//! - `EasyR1` (b44b311): `Running step: 25%|██▌ | 1/4 [00:02<00:07, 2.44s/it]`
//! - `OpenRLHF` 0.8 to 0.11: `✨ Global step 12: {…}`; its bars count prompts and batches, not steps
//! - `RLlib`, where a result is printed: `'training_iteration': 12,`

use std::sync::LazyLock;

use regex::Regex;

use crate::ray::words::pattern;

/// A step that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Its number, from 1.
    pub(super) step: u64,
    /// The total number of steps.
    pub(super) of: Option<u64>,
}

/// Each of these lines contains one of these texts.
const KEYWORDS: [&str; 5] = [
    "step:",
    "Training Progress: ",
    "Running step: ",
    "Global step ",
    "training_iteration",
];

static LINES: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        r"^step:(\d{1,9}) - ",
        r"^(?:Training Progress|Running step): +\d{1,3}%\|[^|]{0,400}\| (\d{1,9})/(\d{1,9}) \[",
        r"\bGlobal step (\d{1,9}): \{",
        r"^\s*'?training_iteration'?: (\d{1,9}),?$",
    ]
    .map(pattern)
});

/// Returns the last step in a line. A progress bar overwrites its earlier ones.
pub(super) fn parse(text: &str) -> Option<Step> {
    if !KEYWORDS.iter().any(|words| text.contains(words)) {
        return None;
    }
    text.rsplit('\r').find_map(written)
}

fn written(text: &str) -> Option<Step> {
    let mut found = LINES.iter().filter_map(|line| line.captures(text));
    let found = found.next()?;
    let number = |group| found.get(group)?.as_str().parse().ok();
    Some(Step {
        step: number(1)?,
        of: number(2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Option<(u64, Option<u64>)> {
        parse(text).map(|found| (found.step, found.of))
    }

    #[test]
    fn lines_of_four_frameworks_are_parsed() {
        let verl = "step:12 - global_seqlen/min:6537 - actor/entropy:6.89 - actor/kl_loss:0.0";
        assert_eq!(step(verl), Some((12, None)));
        let bar = "Training Progress:  25%|██▌       | 1/4 [00:02<00:07,  2.44s/it]";
        assert_eq!(step(bar), Some((1, Some(4))));
        let easy = "Running step:   3%|▎         | 3/100 [00:10<05:23,  3.33s/it]";
        assert_eq!(step(easy), Some((3, Some(100))));
        let openrlhf =
            "INFO 06-01 12:00:00 ppo_trainer.py:525] ✨ Global step 7: {'policy_loss': 0.1}";
        assert_eq!(step(openrlhf), Some((7, None)));
        assert_eq!(step(" 'training_iteration': 5,"), Some((5, None)));
        assert_eq!(step("training_iteration: 5"), Some((5, None)));
    }

    #[test]
    fn last_state_of_an_overwritten_bar_counts() {
        let bar = |done: u32| format!("Training Progress:  25%|██▌       | {done}/4 [00:02<00:07]");
        let line = format!("\r{}\r{}\r", bar(1), bar(2));
        assert_eq!(step(&line), Some((2, Some(4))));
    }

    #[test]
    fn other_bars_and_words_are_not_steps() {
        for text in [
            "Train epoch [1/1]: 100%|██████████| 8/8 [00:10<00:00]",
            "Episode [1/20]:  30%|███       | 3/10 [00:10<00:00]",
            "Update policy:  30%|███       | 3/10 [00:10<00:00]",
            "my step:12 - of what I do",
            "step:twelve - actor/loss:0.1",
            "step:12",
            "Evaluation completed in 1s, global_step 7, eval_metrics: {}",
        ] {
            assert_eq!(step(text), None, "{text}");
        }
    }
}
