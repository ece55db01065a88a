//! Rows of a table of whole numbers straight from the pages of the file: a report on a day reads a million of them, and SQLite hands
//! out each number by a call of its own.
//!
//! It mirrors the SQLite file format (sqlite.org/fileformat2.html, 1.6 and 2.1) for the one case that a recording has: a b-tree of
//! rows by id, each of which fits into its page. It is used while the connection holds the file's lock and no log lies beside it.
//! All of the table is looked at first: where anything is not as expected SQLite reads it, and says what is damaged.

use std::{fs::File, os::unix::fs::FileExt as _, path::Path};

use rusqlite::Connection;

use super::place::beside;

/// Columns of a table at most, those that are not asked for included.
const MOST_COLUMNS: usize = 16;
/// A b-tree is no deeper than this: each level has twice as many pages at least.
const DEEPEST: usize = 20;
/// The file's header comes before the first page's own.
const FILE_HEADER: usize = 100;
/// Kinds of pages of a table.
const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

/// A row: its id, and the columns that were asked for. Those that the table does not have are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers<const N: usize> {
    pub(super) id: i64,
    pub(super) columns: [Option<i64>; N],
}

/// The rows of one table, by id.
#[derive(Debug)]
pub(super) struct Pages<const N: usize> {
    file: File,
    page_size: usize,
    /// Bytes of a page that hold something.
    usable: usize,
    count: u32,
    /// The way to the next row: inner pages, and at its end a leaf.
    way: Vec<Step>,
    /// Where each column stands in a row.
    places: [Option<usize>; N],
    /// Where the id stands, which is written as NULL there.
    id_at: usize,
    last: i64,
    /// Pages that were read: none is part of a table twice.
    read: u32,
}

/// A page, and which of its cells is next.
#[derive(Debug)]
struct Step {
    page: Vec<u8>,
    header: usize,
    cells: usize,
    next: usize,
}

/// How far the rows could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next<T> {
    /// One more.
    Row(T),
    /// There is none after the last.
    End,
    /// SQLite has to read what follows.
    Unexpected,
}

impl<const N: usize> Pages<N> {
    /// Opens the table, from its first row on. `connection` is in a transaction, which keeps others from writing the file.
    /// `None` where SQLite has to be asked.
    pub(super) fn open(
        connection: &Connection,
        table: &str,
        columns: [&str; N],
    ) -> rusqlite::Result<Option<Self>> {
        let root = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let root: i64 = connection.query_row(root, [table], |row| row.get(0))?;
        let mut known = connection.prepare(&format!("PRAGMA table_info({table})"))?;
        let known = known.query_map([], |row| row.get::<_, String>(1))?;
        let known: Vec<String> = known.collect::<Result<_, _>>()?;
        let place = |name: &str| known.iter().position(|known| known == name);
        let number = |name: &str| {
            connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
        };
        let (count, free) = (number("page_count")?, number("freelist_count")?);
        let (Some(id_at), Ok(root), Some(path)) =
            (place("id"), u32::try_from(root), connection.path())
        else {
            return Ok(None);
        };
        let places = columns.map(place);
        Ok(Self::of_file(Path::new(path), (count, free))
            .filter(|_| known.len() <= MOST_COLUMNS)
            .and_then(|pages| {
                let mut pages = Self {
                    places,
                    id_at,
                    ..pages
                };
                pages.descend(root)?;
                // What is damaged anywhere is read by SQLite from its first row on: ids that are not in order would be left out.
                pages.is_whole().then_some(())?;
                (pages.last, pages.read) = (i64::MIN, 0);
                pages.descend(root)?;
                Some(pages)
            }))
    }

    /// The file, if it is the one that has so many pages and free pages, and nothing lies beside it.
    fn of_file(path: &Path, (count, free): (i64, i64)) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut header = [0; FILE_HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 1 << 16,
            size => usize::from(size),
        };
        let is_plain = page_size.is_power_of_two()
            && page_size >= 512
            // Not WAL.
            && header[18] == 1
            && header[19] == 1
            && i64::from(word(&header, 28)?) == count
            && i64::from(word(&header, 36)?) == free
            && file.metadata().ok()?.len() == count.unsigned_abs() * page_size as u64
            && !["-wal", "-journal"].iter().any(|end| beside(path, end).exists());
        is_plain.then(|| Self {
            file,
            page_size,
            usable: page_size - usize::from(header[20]),
            count: u32::try_from(count).unwrap_or(0),
            way: Vec::new(),
            places: [None; N],
            id_at: 0,
            last: i64::MIN,
            read: 0,
        })
    }

    /// Whether all rows can be read, in the order of their ids.
    fn is_whole(&mut self) -> bool {
        loop {
            match self.next() {
                Next::Row(_) => {}
                Next::End => return true,
                Next::Unexpected => return false,
            }
        }
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Next<Numbers<N>> {
        loop {
            let Some(step) = self.way.last_mut() else {
                return Next::End;
            };
            if step.next >= step.cells {
                let is_leaf = step.is_leaf();
                let after = if is_leaf { None } else { step.rightmost() };
                self.way.pop();
                match after {
                    Some(page) if self.descend(page).is_some() => {}
                    None if is_leaf => {}
                    _ => return Next::Unexpected,
                }
                continue;
            }
            if !step.is_leaf() {
                let below = step.below();
                step.next += 1;
                if below.and_then(|page| self.descend(page)).is_none() {
                    return Next::Unexpected;
                }
                continue;
            }
            let row = step.row(self.usable, &self.places, self.id_at);
            step.next += 1;
            return match row {
                Some(row) if row.id > self.last => {
                    self.last = row.id;
                    Next::Row(row)
                }
                _ => Next::Unexpected,
            };
        }
    }

    /// Goes to the first cell of a page; `None` for what is no page of a table.
    fn descend(&mut self, number: u32) -> Option<()> {
        self.read += 1;
        let is_new = self.read <= self.count && self.way.len() < DEEPEST;
        if number == 0 || number > self.count || !is_new {
            return None;
        }
        let mut page = vec![0; self.page_size];
        let at = u64::from(number - 1) * self.page_size as u64;
        self.file.read_exact_at(&mut page, at).ok()?;
        let header = if number == 1 { FILE_HEADER } else { 0 };
        let step = Step::of(page, header, self.usable)?;
        // Only a table without rows has an empty page.
        if step.cells == 0 && !self.way.is_empty() {
            return None;
        }
        self.way.push(step);
        Some(())
    }
}

impl Step {
    fn of(page: Vec<u8>, header: usize, usable: usize) -> Option<Self> {
        let kind = *page.get(header)?;
        let cells = usize::from(half(&page, header + 3)?);
        let head = match kind {
            LEAF => 8,
            INTERIOR => 12,
            _ => return None,
        };
        let fits = header + head + 2 * cells <= usable;
        fits.then_some(Self {
            page,
            header,
            cells,
            next: 0,
        })
    }

    fn is_leaf(&self) -> bool {
        self.page.get(self.header) == Some(&LEAF)
    }

    /// The page after the last cell of an inner one.
    fn rightmost(&self) -> Option<u32> {
        word(&self.page, self.header + 8)
    }

    /// The page below the next cell of an inner one.
    fn below(&self) -> Option<u32> {
        word(&self.page, self.cell(12)?)
    }

    /// Where the next cell begins, by the list after a header of this length.
    fn cell(&self, head: usize) -> Option<usize> {
        let listed = self.header + head + 2 * self.next;
        let at = usize::from(half(&self.page, listed)?);
        // Cells come after the list.
        (at >= self.header + head + 2 * self.cells).then_some(at)
    }

    /// The row in the next cell of a leaf.
    fn row<const N: usize>(
        &self,
        usable: usize,
        places: &[Option<usize>; N],
        id_at: usize,
    ) -> Option<Numbers<N>> {
        let mut at = self.cell(8)?;
        let length = usize::try_from(varint(&self.page, &mut at)?).ok()?;
        let id = varint(&self.page, &mut at)?.cast_signed();
        let end = at.checked_add(length)?;
        // A longer row goes on in another page.
        if length > usable - 35 || end > usable {
            return None;
        }
        let found = columns(self.page.get(at..end)?)?;
        if found.get(id_at) != Some(&None) {
            return None;
        }
        let mut columns = [None; N];
        for (column, place) in columns.iter_mut().zip(places) {
            if let Some(place) = place {
                *column = *found.get(*place)?;
            }
        }
        Some(Numbers { id, columns })
    }
}

/// The columns of a row, all of which are whole numbers or NULL.
fn columns(row: &[u8]) -> Option<Found> {
    let mut kind_at = 0;
    let header = usize::try_from(varint(row, &mut kind_at)?).ok()?;
    let (mut at, mut found) = (header, Found::default());
    while kind_at < header {
        let kind = varint(row, &mut kind_at)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 => 8,
            _ => return None,
        };
        let value = match kind {
            0 => None,
            8 => Some(0),
            9 => Some(1),
            _ => Some(integer(row.get(at..at + length)?)),
        };
        at += length;
        found.push(value)?;
    }
    (kind_at == header && at == row.len()).then_some(found)
}

/// The columns of one row.
#[derive(Default)]
struct Found {
    values: [Option<i64>; MOST_COLUMNS],
    count: usize,
}

impl Found {
    fn push(&mut self, value: Option<i64>) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn get(&self, place: usize) -> Option<&Option<i64>> {
        self.values[..self.count].get(place)
    }
}

/// A big-endian number with a sign.
fn integer(bytes: &[u8]) -> i64 {
    let first = bytes
        .first()
        .map_or(0, |first| i64::from(first.cast_signed()));
    let rest = bytes.iter().skip(1);
    rest.fold(first, |number, byte| number << 8 | i64::from(*byte))
}

/// A number of one to nine bytes, seven bits in each but the ninth, which has eight.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == 8 {
            return Some(number << 8 | u64::from(byte));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}
