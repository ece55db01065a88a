//! Kills by Ray's memory monitor, as raylets, drivers and the GCS print them, line by line: a text may be cut anywhere, shuffled or
//! mixed with another, so only a line that names the killed itself is believed.
//!
//! - 2.1: `Memory on the node (…) where the task was running was U / T …. Ray killed this worker (ID: W) because …`, no pid
//! - 2.2 to 2.54: `where the task|lease (…, name=N, pid=P, memory used=XGB) was running was …`
//! - 2.55: `Ray killed N worker(s) based on the killing policy: [(Task: …, pid=P, actual memory used=XGB, worker ID=W)]`: all listed
//! - 2.56 to 2.60: `Selected to kill: (…, pid=P, actual memory used=XGB, worker ID=W)`; others in the list were spared

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{HexIds, pattern, peel::Peeled};
use crate::{
    ids::{Bytes, HexId, Pid},
    judge::from_text::claim::{Claim, Place, RayMemory, Stamp, Statement, Subject},
    ray::facts::TopUser,
};

/// Words that open or belong to a record.
pub(super) const ANCHORS: [&str; 7] = [
    "Killing worker with task",
    "Memory on the node (",
    "memory used=",
    "low on memory",
    "Selected to kill: (",
    "worker(s), kill details",
    "exceeded threshold of ",
];
/// Lines of one record: 100 candidates, the object store's state and ten users.
const MAX_LINES: u32 = 160;
/// The biggest processes kept.
const MAX_TOP: usize = 10;

static OLD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"where the (?:task|lease|actor) \(([^()]*?)(?:, )?name=(.{0,200}?), pid=(\d+), memory used=([\d.]+)GB\)",
    )
});
static OLDEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"where the task was running was [\d.]+GB"));
static NEW: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(Selected to kill: )?\((Task: |Actor\(([0-9a-f]{32})\): |Worker with no lease granted: )([^()]{0,600}?)pid=(\d+), actual memory used=([\d.]+)GB, worker ID=([0-9a-f]{56})\)",
    )
});
static USED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"was ([\d.]+)GB(?: used)? / ([\d.]+)GB(?: limit)? \([\d.]+\)(?:, which exceeds the memory usage threshold of (\d(?:\.\d+)?))?",
    )
});
static EXACT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Memory usage (\d+)B exceeded threshold of (\d+)B"));
static NODE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"Memory on the node \(IP: ([^,)\s]{1,64}), ID: ([0-9a-f]{56})\)"));
static TOP: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d+)\t(\d+\.\d+)\t"));

/// The record that is being read.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    open: Option<Block>,
}

#[derive(Debug, Default)]
struct Block {
    lines: u32,
    place: Place,
    stamp: Stamp,
    quote: String,
    node: Option<HexId>,
    ip: Option<String>,
    figures: RayMemory,
    found: Vec<Statement>,
    /// Whether the record itself says that Ray killed, whatever is left of its list.
    claims: bool,
}

impl Monitor {
    /// Whether the next lines belong to a record.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a line.
    pub(super) fn line(&mut self, line: &Peeled, place: Place, out: &mut Vec<Statement>) {
        let text = line.text.as_str();
        let opens = text.contains("Memory on the node (")
            || text.contains("kill details:")
            || text.starts_with("Killing worker with task")
            || super::ray_exit::killed_for_memory(text);
        let done = self.open.as_ref().is_some_and(|open| {
            line.component.is_some()
                || open.lines >= MAX_LINES
                || (opens && open.node.is_some())
                || text.starts_with("Refer to the documentation")
        });
        if done {
            self.flush(out);
        }
        let listed = || text.contains("actual memory used=") && NEW.is_match(text);
        if self.open.is_none() && !opens && !listed() {
            return;
        }
        let block = self.open.get_or_insert_with(|| Block {
            place,
            stamp: line.stamp,
            quote: super::cut(text),
            ..Block::default()
        });
        block.lines += 1;
        block.read(line, place);
    }

    /// Ends the record.
    pub(super) fn flush(&mut self, out: &mut Vec<Statement>) {
        let Some(block) = self.open.take() else {
            return;
        };
        block.finish(out);
    }
}

impl Block {
    fn read(&mut self, line: &Peeled, place: Place) {
        let text = line.text.as_str();
        self.claims |= super::ray_exit::killed_for_memory(text) || text.contains("kill details:");
        if let Some(found) = NODE.captures(text) {
            self.ip = Some(found[1].to_owned());
            self.node = HexId::parse(&found[2]);
        }
        self.figures(text);
        if text.contains("Memory on the node (") {
            self.one(text, line, place);
        }
        self.several(text, line, place);
        self.top(text);
    }

    fn figures(&mut self, text: &str) {
        if let Some(found) = USED.captures(text) {
            self.figures.used = self.figures.used.or_else(|| gigabytes(&found[1]));
            let total = gigabytes(&found[2]);
            let fraction = found
                .get(3)
                .and_then(|found| found.as_str().parse::<f64>().ok());
            let threshold = total
                .zip(fraction)
                .map(|(total, fraction)| scaled(total, fraction));
            self.figures.threshold = self.figures.threshold.or(threshold);
        }
        if let Some(found) = EXACT.captures(text) {
            self.figures.used = found[1].parse().ok().map(Bytes);
            self.figures.threshold = found[2].parse().ok().map(Bytes);
        }
    }

    /// Up to 2.54: one worker a record.
    fn one(&mut self, text: &str, line: &Peeled, place: Place) {
        let worker_id = text.hex_after("Ray killed this worker (ID: ", 56);
        if let Some(found) = OLD.captures(text) {
            let name = found[2].to_owned();
            let subject = Subject {
                pid: found[3].parse().ok().map(Pid),
                worker_id,
                actor_id: found[1].hex_after("actor ID: ", 32),
                class: class_of(&name),
                task: class_of(&name).is_none().then_some(name),
                ..Subject::default()
            };
            self.add(subject, gigabytes(&found[4]), line, place);
        } else if OLDEST.is_match(text) && worker_id.is_some() {
            let subject = Subject {
                worker_id,
                ..Subject::default()
            };
            self.add(subject, None, line, place);
        }
    }

    /// From 2.55 on. A list without marks is one of killed workers only where its own line says so.
    fn several(&mut self, text: &str, line: &Peeled, place: Place) {
        let all_listed =
            text.contains("based on the killing policy: [(") && !text.contains("Selected to kill:");
        for found in NEW.captures_iter(text) {
            if found.get(1).is_none() && !all_listed {
                continue;
            }
            self.add(candidate(&found), gigabytes(&found[6]), line, place);
        }
    }

    fn add(&mut self, subject: Subject, own: Option<Bytes>, line: &Peeled, place: Place) {
        let subject = Subject {
            node_id: self.node.clone(),
            ip: self.ip.clone(),
            ..subject
        };
        self.found.push(Statement {
            place,
            stamp: if line.stamp.is_empty() {
                self.stamp
            } else {
                line.stamp
            },
            quote: super::cut(&line.text),
            subject,
            claim: Claim::RayMemory(Box::new(RayMemory {
                own,
                ..RayMemory::default()
            })),
        });
    }

    fn top(&mut self, text: &str) {
        let mut rows = TOP.captures_iter(text).peekable();
        while let Some(row) = rows.next() {
            let (Some(all), true) = (row.get(0), self.figures.top.len() < MAX_TOP) else {
                return;
            };
            let end = rows
                .peek()
                .and_then(|next| next.get(0))
                .map_or(text.len(), |next| next.start());
            let command = text[all.end()..end].trim_end_matches([',', ';', ' ', '\r']);
            let command = command
                .split("Refer to the documentation")
                .next()
                .unwrap_or("");
            let (Ok(pid), Some(used)) = (row[1].parse(), gigabytes(&row[2])) else {
                continue;
            };
            self.figures.top.push(TopUser {
                pid: Pid(pid),
                used,
                command: command
                    .trim_end_matches([',', ';', ' '])
                    .chars()
                    .take(200)
                    .collect(),
            });
        }
    }

    fn finish(self, out: &mut Vec<Statement>) {
        if self.found.is_empty() && self.claims {
            out.push(Statement {
                place: self.place,
                stamp: self.stamp,
                quote: self.quote,
                subject: Subject {
                    ip: self.ip,
                    ..Subject::default()
                },
                claim: Claim::RayMemory(Box::new(self.figures)),
            });
            return;
        }
        for mut statement in self.found {
            if let Claim::RayMemory(memory) = &mut statement.claim {
                let own = memory.own;
                **memory = RayMemory {
                    own,
                    ..self.figures.clone()
                };
            }
            out.push(statement);
        }
    }
}

fn candidate(found: &Captures<'_>) -> Subject {
    let fields = &found[4];
    let task = fields.split_once("task name=").map(|(_, rest)| {
        rest.split(", required")
            .next()
            .unwrap_or(rest)
            .trim_end_matches(", ")
            .to_owned()
    });
    Subject {
        pid: found[5].parse().ok().map(Pid),
        worker_id: HexId::parse(&found[7]),
        actor_id: found.get(3).and_then(|id| HexId::parse(id.as_str())),
        job_id: fields.hex_after("job ID=", 8),
        class: task.as_deref().and_then(class_of),
        // The creation task is over when its actor works.
        task: task.filter(|task| class_of(task).is_none()),
        ..Subject::default()
    }
}

/// `name:WorkerDict.__init__` is an actor of class `WorkerDict`.
fn class_of(task: &str) -> Option<String> {
    let class = task.strip_suffix(".__init__")?;
    Some(class.rsplit(':').next().unwrap_or(class).to_owned())
}

/// Ray prints "GB" and means GiB.
fn gigabytes(text: &str) -> Option<Bytes> {
    Some(scaled(Bytes(1 << 30), text.parse().ok()?))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "memory sizes are far below 2^53 and not negative"
)]
fn scaled(bytes: Bytes, factor: f64) -> Bytes {
    Bytes((bytes.0 as f64 * factor).clamp(0.0, 1e18) as u64)
}
