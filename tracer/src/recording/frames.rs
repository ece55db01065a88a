//! Stores each frame of a stack once, in a table of its own. The row of a stack has their numbers.
//!
//! Most frames of a stack are in the stacks before it too: files and functions of libraries. With
//! numbers, a recording of a training job is a fifth as large.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

/// The table. Its rows never change.
pub(super) const TABLE: &str =
    "CREATE TABLE frames (id INTEGER PRIMARY KEY, frame TEXT NOT NULL UNIQUE);";
/// The most frames that are stored, and that a reader keeps in memory. A program has some
/// thousands. A stack with frames that are not stored has its frames in its row.
const MOST: i64 = 65_536;
/// Longer frames, or stacks with more frames, were not written by raytrace.
const LONGEST: usize = 16 << 10;
const DEEPEST: usize = 1024;
/// The lists of frames in a stack's body.
const LISTS: [&str; 2] = ["frames", "native"];

/// Replaces the frames of a stack's body by numbers. A list with frames that do not fit into the
/// table stays as it is.
pub(super) fn shorten(connection: &Connection, body: &mut Value) -> rusqlite::Result<()> {
    for list in LISTS {
        let Some(frames) = body.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        let numbers: Option<Vec<Value>> = (frames.iter())
            .map(|frame| Ok(number(connection, &frame.to_string())?.map(Value::from)))
            .collect::<rusqlite::Result<_>>()?;
        if let Some(numbers) = numbers {
            *frames = numbers;
        }
    }
    Ok(())
}

/// Returns the number of a frame, and stores the frame if it is new. Returns `None` if there is no
/// room for it.
fn number(connection: &Connection, frame: &str) -> rusqlite::Result<Option<i64>> {
    if frame.len() > LONGEST {
        return Ok(None);
    }
    let known = connection
        .prepare_cached("SELECT id FROM frames WHERE frame = ?1")?
        .query_row([frame], |row| row.get(0))
        .optional()?;
    if known.is_some() {
        return Ok(known);
    }
    let added = connection
        .prepare_cached(
            "INSERT INTO frames SELECT coalesce(max(id), 0) + 1, ?1 FROM frames HAVING coalesce(max(id), 0) < ?2",
        )?
        .execute(rusqlite::params![frame, MOST])?;
    Ok((added > 0).then(|| connection.last_insert_rowid()))
}

/// The frames of a recording that is being read.
pub(super) struct Frames<'a> {
    connection: &'a Connection,
    known: HashMap<i64, Option<Box<str>>>,
}

impl<'a> Frames<'a> {
    pub(super) fn of(connection: &'a Connection) -> Self {
        Self {
            connection,
            known: HashMap::new(),
        }
    }

    /// Returns the body of a stack with its frames in it. A body with a number that stands for no
    /// frame stays as it is, and cannot be parsed.
    pub(super) fn expand<'b>(&mut self, body: &'b str) -> rusqlite::Result<Cow<'b, str>> {
        let mut whole = Cow::Borrowed(body);
        for list in LISTS {
            let head = format!("\"{list}\":[");
            let Some((before, rest)) = whole.split_once(&head) else {
                continue;
            };
            let Some((numbers, after)) = rest.split_once(']') else {
                continue;
            };
            let is_list = |byte: u8| byte.is_ascii_digit() || byte == b',';
            if numbers.is_empty() || !numbers.bytes().all(is_list) {
                continue;
            }
            let Some(frames) = self.all(numbers)? else {
                return Ok(Cow::Borrowed(body));
            };
            whole = Cow::Owned([before, &head, &frames, "]", after].concat());
        }
        Ok(whole)
    }

    fn all(&mut self, numbers: &str) -> rusqlite::Result<Option<String>> {
        let mut frames = String::new();
        for (place, number) in numbers.split(',').enumerate() {
            let number = number.parse().ok().filter(|_| place < DEEPEST);
            let frame = match number {
                Some(number) => self.frame(number)?,
                None => None,
            };
            let Some(frame) = frame else {
                return Ok(None);
            };
            if place > 0 {
                frames.push(',');
            }
            frames += frame;
        }
        Ok(Some(frames))
    }

    fn frame(&mut self, number: i64) -> rusqlite::Result<Option<&str>> {
        if !(1..=MOST).contains(&number) {
            return Ok(None);
        }
        let known = match self.known.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let frame = self
                    .connection
                    .prepare_cached("SELECT frame FROM frames WHERE id = ?1")?
                    .query_row([number], |row| {
                        let frame = row.get_ref(0)?.as_str()?;
                        Ok((frame.len() <= LONGEST).then(|| frame.into()))
                    })
                    .optional()?;
                unknown.insert(frame.flatten())
            }
        };
        Ok(known.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch(TABLE).expect("a table");
        connection
    }

    fn stack(lines: &[u32]) -> Value {
        let frame =
            |line: &u32| json!({"file": "/u/\"frames\":[1]/a.py", "function": "f]", "line": line});
        let frames: Vec<Value> = lines.iter().map(frame).collect();
        json!({"frames": frames, "grown": 1, "native": [{"function": null, "library": "libc.so.6"}]})
    }

    fn stored(connection: &Connection, stack: &Value) -> String {
        let mut body = stack.clone();
        shorten(connection, &mut body).expect("room");
        body.to_string()
    }

    #[test]
    fn frames_are_stored_once() {
        let connection = table();
        let (one, other) = (stack(&[7, 8, 7]), stack(&[8, 9]));
        let bodies = [stored(&connection, &one), stored(&connection, &other)];
        assert_eq!(bodies[0], r#"{"frames":[1,2,1],"grown":1,"native":[3]}"#);
        assert_eq!(bodies[1], r#"{"frames":[2,4],"grown":1,"native":[3]}"#);
        let mut frames = Frames::of(&connection);
        assert_eq!(frames.expand(&bodies[0]).expect("a row"), one.to_string());
        assert_eq!(frames.expand(&bodies[1]).expect("a row"), other.to_string());
    }

    #[test]
    fn row_keeps_frames_beyond_the_table() {
        let connection = table();
        let last = "INSERT INTO frames VALUES (?1, 'the last one')";
        connection.execute(last, [MOST]).expect("a row");
        let whole = stack(&[7]);
        let body = stored(&connection, &whole);
        assert_eq!(body, whole.to_string());
        let mut frames = Frames::of(&connection);
        assert_eq!(frames.expand(&body).expect("a row"), body);
        let long = json!({"frames": ["x".repeat(LONGEST)]});
        assert_eq!(stored(&table(), &long), long.to_string());
    }

    #[test]
    fn unknown_frame_numbers_are_kept() {
        let connection = table();
        stored(&connection, &stack(&[7]));
        let long = format!(
            "INSERT INTO frames VALUES (9, '{}')",
            "x".repeat(LONGEST + 1)
        );
        connection.execute_batch(&long).expect("a row");
        let mut frames = Frames::of(&connection);
        let many = format!(r#"{{"frames":[{}1]}}"#, "1,".repeat(DEEPEST));
        for body in [
            r#"{"frames":[1,5]}"#,
            r#"{"frames":[9]}"#,
            r#"{"frames":[,]}"#,
            r#"{"frames":[99999999999999999999]}"#,
            r#"{"frames":[1"#,
            r#"{"frames":[]}"#,
            &many,
        ] {
            assert_eq!(frames.expand(body).expect("a row"), body);
        }
    }
}
