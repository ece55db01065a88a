//! Real pieces of logs, with gaps for what differs from one block to the next: times, pids, ids.

/// What a gap is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// The time, as Ray prints it.
    Time,
    /// Seconds since boot, as in the kernel log.
    Boot,
    /// The pid of the process that writes the file.
    Writer,
    /// The node's id.
    Node,
    /// A pid that is the same in the whole block.
    Victim,
    /// Any pid.
    Pid,
    /// A worker's id that is the same in the whole block.
    Own,
    /// Any worker's id.
    Worker,
    /// Any actor's id.
    Actor,
    /// The number of blocks in the file so far.
    Count,
}

/// How gaps are written in the files of this folder.
const GAPS: [(&str, Gap); 10] = [
    ("%time%", Gap::Time),
    ("%boot%", Gap::Boot),
    ("%self%", Gap::Writer),
    ("%node%", Gap::Node),
    ("%victim%", Gap::Victim),
    ("%pid%", Gap::Pid),
    ("%own%", Gap::Own),
    ("%worker%", Gap::Worker),
    ("%actor%", Gap::Actor),
    ("%count%", Gap::Count),
];

/// A piece of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Text, written as it is.
    Text(&'static str),
    /// A gap, to be filled.
    Gap(Gap),
}

/// A block of several lines of a log.
#[derive(Debug)]
pub(super) struct Template(pub(super) Vec<Part>);

impl Template {
    /// Finds the gaps of a text.
    pub(super) fn new(text: &'static str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((at, words, gap)) = next(rest) {
            parts.push(Part::Text(&rest[..at]));
            parts.push(Part::Gap(gap));
            rest = &rest[at + words.len()..];
        }
        parts.push(Part::Text(rest));
        Self(parts)
    }
}

/// Returns the first gap of a text.
fn next(text: &'static str) -> Option<(usize, &'static str, Gap)> {
    let found = |(words, gap): &(&'static str, Gap)| Some((text.find(words)?, *words, *gap));
    GAPS.iter().filter_map(found).min_by_key(|(at, ..)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_its_gaps_only() {
        let parts = Template::new("used: 0% [%time% I %self%] 50%|%|").0;
        let expected = [
            Part::Text("used: 0% ["),
            Part::Gap(Gap::Time),
            Part::Text(" I "),
            Part::Gap(Gap::Writer),
            Part::Text("] 50%|%|"),
        ];
        assert_eq!(parts, expected);
    }
}
