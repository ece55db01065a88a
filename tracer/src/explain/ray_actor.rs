//! Reads what a driver prints about dead actors, with the fields and the reason below it.
//!
//! `The actor died unexpectedly before finishing this task.` is followed by the actor's fields and
//! `The actor is dead because …` (2.1 to 2.60; `RayActorError` up to 2.9, `ActorDiedError` after).
//! Each field and the reason is on a line of its own. If the lines of two such blocks are mixed,
//! neither gets a reason.

use std::sync::LazyLock;

use regex::Regex;

use super::{HexIds, line::LogLine, pattern, ray_exit};
use crate::{
    ids::{HexId, Pid},
    judge::from_text::claim::{Claim, Place, Statement, Subject},
};

/// Keywords that open a block or give a reason.
pub(super) const KEYWORDS: [&str; 4] = [
    "The actor died ",
    "The actor is dead because",
    "class_name: ",
    "actor_id: ",
];
/// The fields, in the order in which Ray prints them.
const FIELDS: [&str; 6] = ["class_name", "actor_id", "pid", "name", "namespace", "ip"];
/// For this many lines after a block without a reason, a reason may belong to that block.
const CONFUSED_LINES: u64 = 60;
/// For this many lines after a reason, a stray field shows that two blocks were mixed.
const WATCHED_LINES: u64 = 16;

static CREATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:ray::(\S+)\.\w+\(\) )?\(pid=(\d+), ip=([^,)\s]+)(?:, actor_id=([0-9a-f]{32}))?")
});
static FLAT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"class_name: (\S*)\s+actor_id: ([0-9a-f]{32})(?:\s+pid: (\d+)\s)?"));

/// The block that is being read, and the blocks before it that may still change.
#[derive(Debug, Default)]
pub(super) struct Actors {
    open: Option<Block>,
    /// The number of blocks without a reason, and the line of the last one.
    orphans: (u32, u64),
    /// A block with its reason, kept until no stray field can follow.
    complete: Option<CompleteBlock>,
}

#[derive(Debug)]
struct CompleteBlock {
    block: Block,
    /// The reason, without a subject.
    reason: Statement,
}

#[derive(Debug)]
struct Block {
    /// Its first line, with what the others say of the actor.
    first: Statement,
    /// The next field of [`FIELDS`] that may follow.
    next: usize,
}

impl Actors {
    /// Returns whether the next lines may belong to a block.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns whether the next lines may show that a block was mixed with another one.
    pub(super) fn is_watching(&self) -> bool {
        self.complete.is_some()
    }

    /// Returns the actor whose block ends at this line.
    pub(super) fn ended_at(&self, place: Place) -> Option<&Subject> {
        let complete = self.complete.as_ref();
        let complete = complete.filter(|complete| complete.reason.place == place)?;
        Some(&complete.block.first.subject)
    }

    /// Adds what is still open at the end of a text.
    pub(super) fn finish(&mut self, place: Place, out: &mut Vec<Statement>) {
        self.abandon(place, out);
        self.accept_reason(out);
    }

    fn accept_reason(&mut self, out: &mut Vec<Statement>) {
        if let Some(CompleteBlock { block, reason }) = self.complete.take() {
            let own = block.first.stamp;
            out.push(Statement {
                stamp: if own.is_empty() { reason.stamp } else { own },
                subject: block.first.subject,
                ..reason
            });
        }
    }

    /// Separates a reason from the block above it.
    fn reject_reason(&mut self, out: &mut Vec<Statement>) {
        if let Some(CompleteBlock { block, reason }) = self.complete.take() {
            out.extend(block.without_reason());
            out.push(reason);
        }
    }

    fn watch(&mut self, text: &str, place: Place, out: &mut Vec<Statement>) {
        let Some(complete) = &mut self.complete else {
            return;
        };
        if let Some(why) = of_node(text) {
            complete.reason.claim = ray_exit::node_ended(why);
            complete.reason.quote = super::cut(&format!("{} {text}", complete.reason.quote));
            return;
        }
        if place.line.saturating_sub(complete.reason.place.line) > WATCHED_LINES {
            self.accept_reason(out);
        } else if self.open.is_none() && is_field(text) && !text.starts_with(FIELDS[0]) {
            self.reject_reason(out);
        }
    }

    /// Reads a line.
    pub(super) fn line(&mut self, line: &LogLine, out: &mut Vec<Statement>) {
        let place = line.place;
        let text = line.text.trim();
        if text.is_empty() {
            return;
        }
        self.watch(text, place, out);
        // Ray's own records may quote a reason; `ray_component` reads those.
        if line.component.is_some() {
            return self.abandon(place, out);
        }
        if let Some(reason) = reason(text) {
            return self.reason(text, reason, line, out);
        }
        let opens = text.contains("The actor died unexpectedly before finishing this task");
        if opens
            || (text.starts_with("class_name: ")
                && self.open.as_ref().is_none_or(|open| open.next > 0))
        {
            self.abandon(place, out);
            self.open = Some(Block {
                first: line.states(Subject::default(), Claim::Died),
                next: 0,
            });
        }
        if opens {
            return;
        }
        let taken = self.open.as_mut().is_some_and(|open| open.field(text));
        if !taken {
            self.abandon(place, out);
        }
    }

    /// Ends a block without a reason: the actor died of an unknown cause.
    pub(super) fn abandon(&mut self, place: Place, out: &mut Vec<Statement>) {
        let Some(block) = self.open.take() else {
            return;
        };
        self.orphans = (self.orphans.0 + 1, place.line);
        out.extend(block.without_reason());
    }

    /// Returns whether a reason may belong to an earlier block.
    fn is_confused(&self, place: Place) -> bool {
        self.orphans.0 > 0 && place.line.saturating_sub(self.orphans.1) < CONFUSED_LINES
    }

    fn reason(&mut self, text: &str, reason: &str, line: &LogLine, out: &mut Vec<Statement>) {
        let owner = ray_exit::owner_killed_for_memory(reason);
        out.extend(owner.map(|owner| line.states(owner, Claim::RayMemory(Box::default()))));
        let own = own_subject(text);
        let is_own = own.is_some();
        let reason = line.states(own.unwrap_or_default(), ray_exit::actor(reason));
        if is_own {
            out.push(reason);
            return;
        }
        let block = self.open.take();
        if self.is_confused(line.place) {
            self.orphans.0 -= 1;
            self.orphans.0 += u32::from(block.is_some());
            out.extend(block.and_then(Block::without_reason));
            out.push(reason);
            return;
        }
        self.orphans.0 = 0;
        self.accept_reason(out);
        match block {
            // Its fields end right above the reason. Ray leaves out those that it does not know.
            Some(block) if block.first.subject.is_named() => {
                self.complete = Some(CompleteBlock { block, reason });
            }
            block => {
                out.extend(block.and_then(Block::without_reason));
                out.push(reason);
            }
        }
    }
}

/// Returns what became of an actor's node, from the line below `The actor died because its node has
/// died.` (`gcs_actor_manager.cc`, 2.9 to 2.60).
fn of_node(text: &str) -> Option<&str> {
    text.starts_with("the actor's node was ").then_some(text)
}

/// Returns whether a line is a field of some block.
fn is_field(text: &str) -> bool {
    let key = text.split_once(": ").map(|(key, _)| key);
    key.is_some_and(|key| FIELDS.contains(&key))
}

impl Block {
    /// Reads a field of this block, if the line is the next one in order.
    fn field(&mut self, text: &str) -> bool {
        let Some((key, value)) = text.split_once(':') else {
            return false;
        };
        let Some(at) = FIELDS.iter().position(|field| *field == key) else {
            return false;
        };
        if at < self.next {
            return false;
        }
        self.next = at + 1;
        let value = value.trim();
        let known = || Some(value.to_owned()).filter(|value| !value.is_empty());
        let subject = &mut self.first.subject;
        match key {
            "class_name" => subject.class = known(),
            "actor_id" => subject.actor_id = value.hex(HexId::ACTOR_DIGITS),
            "pid" => subject.pid = value.parse().ok().map(Pid),
            "ip" => subject.ip = known(),
            _ => {}
        }
        true
    }

    /// Returns the death of the actor. If only the sentence was found, nothing says which died.
    fn without_reason(self) -> Option<Statement> {
        (self.next == 0 || self.first.subject.is_named()).then_some(self.first)
    }
}

fn reason(text: &str) -> Option<&str> {
    ["The actor is dead because ", "The actor died because "]
        .iter()
        .find_map(|words| Some(text.split_once(words)?.1))
}

/// Returns the subject that is named on the same line as the reason.
fn own_subject(text: &str) -> Option<Subject> {
    if let Some(found) = CREATION.captures(text) {
        return Some(Subject {
            class: found.get(1).map(|class| class.as_str().to_owned()),
            pid: found[2].parse().ok().map(Pid),
            ip: Some(found[3].to_owned()),
            actor_id: found
                .get(4)
                .and_then(|id| id.as_str().hex(HexId::ACTOR_DIGITS)),
            ..Subject::default()
        });
    }
    let found = FLAT.captures(text)?;
    Some(Subject {
        class: Some(found[1].to_owned()).filter(|class| !class.is_empty()),
        actor_id: found[2].hex(HexId::ACTOR_DIGITS),
        pid: found
            .get(3)
            .and_then(|pid| pid.as_str().parse().ok())
            .map(Pid),
        ..Subject::default()
    })
}
