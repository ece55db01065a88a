//! Notes lines that warn of full memory or look like a memory kill, and after-effects of deaths.
//!
//! Warnings concern GPU memory, `/dev/shm`, the object store, disks, refused allocations and
//! settings. After-effects follow any sudden death.

use super::line::LogLine;
use crate::{
    judge::{
        from_text::claim::{NotedLine, TextRemarks},
        warning,
    },
    ray::log::words::WORDS,
};

/// The page that messages of Ray up to 2.57 link to (in `ray-core/scheduling/`); it has moved
/// since.
const OLD_PAGE: &str = "ray-oom-prevention.html";

/// Returns the keywords of these lines.
pub(super) fn keywords() -> impl Iterator<Item = &'static str> {
    let warnings = warning::WORDS.iter().map(|(words, _)| words.as_str());
    let effects = WORDS.after_effects.iter().map(|(words, _)| words.as_str());
    warnings.chain(effects).chain([OLD_PAGE])
}

/// Notes what a line warns of.
pub(super) fn line(line: &LogLine, claimed: bool, remarks: &mut TextRemarks) {
    let text = line.text.as_str();
    remarks.old_page |= text.contains(OLD_PAGE);
    // earlyoom prints this at its own start, and goes on.
    let harmless = text.contains("Could not lock memory");
    let warning = line.keywords.warning.filter(|_| !harmless);
    if let Some((_, warning)) = warning.and_then(|number| warning::WORDS.get(number)) {
        note(remarks.warnings.entry(*warning).or_default(), line);
    }
    // A line that reports a death is not its after-effect.
    let effect = line.keywords.after_effect.filter(|_| !claimed);
    let effect = effect.and_then(|number| WORDS.after_effects.get(number - warning::WORDS.len()));
    if let Some((_, kind)) = effect {
        note(
            remarks.after_effects.entry(kind.as_str()).or_default(),
            line,
        );
    }
}

fn note(noted: &mut NotedLine, line: &LogLine) {
    if noted.count == 0 {
        noted.place = line.place;
        noted.quote = super::cut(&line.text);
    }
    noted.count += 1 + line.repeated;
}
