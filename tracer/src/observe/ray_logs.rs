//! Follows the log files of Ray's sessions.
//!
//! The logs of the raylet, the GCS and the drivers are read continuously. A worker's log is read
//! when the worker ends.
//!
//! Files are opened once and kept open, so logs of a container that was deleted after its death
//! stay readable. Only regular files are read, and planted links are not followed
//! ([`super::rooted`]). A file that shrank (copytruncate) or was renamed (rotation) is read again
//! from its start.

use std::{
    collections::HashMap, fs::File, iter::repeat_n, os::unix::fs::FileExt as _, path::Path,
    sync::Arc, time::Instant,
};

use crate::{
    budget::{Budgets, Most, Payer, Rate},
    event::{RayLog, Source},
    ids::{BootTime, HexId, Pid, ProcessKey},
    observe::{
        clock, clusters,
        read_errors::ok_or_log,
        rooted::{Folder, OpenedFile},
        timed_read,
    },
    ray::{
        facts::RayFact,
        log::{FileKind, LogParser, Record, configuration::Configuration, file_name},
    },
};

/// How many bytes of an existing file are read at most when following it begins.
const LOOK_BACK: u64 = 32 << 20;
/// Bytes read at once from one file.
const CHUNK: usize = 256 << 10;
/// Bytes read from one file in one poll. The rest of a file that is written faster waits for the
/// next poll, so that it does not delay the other files.
const AT_ONCE: u64 = 4 << 20;
/// A poll of one file also stops once it has this many records.
const RECORDS: usize = 1024;
/// The records that may be read, of about 1 KiB each in the recording. A storm in which thousands of
/// workers die has some thousands of them.
const ROWS: Most<Rate> = Most {
    cluster: Rate {
        each_second: 512,
        at_once: 16_384,
    },
    user: Rate {
        each_second: 1_024,
        at_once: 32_768,
    },
    whole: Rate {
        each_second: 2_048,
        at_once: 65_536,
    },
};
/// The bytes that may be read. There is enough at once for [`LOOK_BACK`].
const BYTES: Most<Rate> = Most {
    cluster: Rate {
        each_second: 4 << 20,
        at_once: 64 << 20,
    },
    user: Rate {
        each_second: 8 << 20,
        at_once: 128 << 20,
    },
    whole: Rate {
        each_second: 16 << 20,
        at_once: 256 << 20,
    },
};
/// The bytes of workers' files that may be read: their ends when workers die, and the beginning of
/// their output. A worker that dies has about 60 KiB, so the words of thousands that die at once are
/// read.
const WORKERS_BYTES: Most<Rate> = Most {
    cluster: Rate {
        each_second: 4 << 20,
        at_once: 256 << 20,
    },
    user: Rate {
        each_second: 8 << 20,
        at_once: 512 << 20,
    },
    whole: Rate {
        each_second: 32 << 20,
        at_once: 2 << 30,
    },
};
/// The microseconds that the names of a folder of logs may be read, to find the log of a worker that
/// died before it was identified. Any user can make 50,000 names, which take 20 ms, and let thousands
/// of processes end.
const LISTING_US: Most<Rate> = Most {
    cluster: Rate {
        each_second: 10_000,
        at_once: 500_000,
    },
    user: Rate {
        each_second: 10_000,
        at_once: 500_000,
    },
    whole: Rate {
        each_second: 40_000,
        at_once: 2_000_000,
    },
};
/// The most that one listing counts, in microseconds.
const MOST_LISTING_US: u64 = 50_000;
/// Few lines with a record are longer on average. So no more is read than the records that are left
/// may take, but at least [`LEAST`].
const ROW: u64 = 256;
const LEAST: u64 = 4 << 10;
/// If more than this was written since and has not been read, all but the last [`CHUNK`] is left
/// out: it was more than the budget, and the newest lines explain what happens now.
const BEHIND: u64 = 8 << 20;
/// The length of a line in a file of which no line was read.
const LINE: u64 = 128;
/// The most clusters for which lines that were left out are counted.
const MAX_COUNTED: usize = 4_096;
/// The most logs that are followed: each raylet has two, each driver one.
const MAX_FOLLOWED: usize = 2048;
/// The most logs of drivers among them. Any user can make such files in a session of their own.
const MAX_DRIVERS: Most<usize> = Most {
    cluster: 256,
    user: 512,
    whole: 1024,
};
/// When the recording ends, unread lines are counted only in the first bytes that were not read, up
/// to this many.
const MOST_UNREAD: u64 = 64 << 20;
/// The most files of workers that are kept open: three each for 5,000 workers. One user's clusters
/// leave room for those of others. Further files are counted as missed.
const MAX_WORKER_FILES: Most<usize> = Most {
    cluster: 9_000,
    user: 12_000,
    whole: 15_000,
};
/// How many bytes of the end of a worker's file are read when the worker dies.
const TAIL: u64 = 64 << 10;
/// How many bytes of its beginning are read then.
const HEAD: u64 = 4 << 10;
/// A framework prints its configuration within this many bytes of its worker's output, or not at
/// all.
const CONFIGURED: u64 = 256 << 10;

/// After this many polls without new data, about a second, the path of a file is checked for
/// rotation.
const ROTATION_EVERY: u8 = 16;

/// A log record with what an event needs besides.
#[derive(Debug)]
pub struct Line {
    /// When it was written: by its own timestamp, or now if it has none.
    pub time: BootTime,
    /// The logs of the raylet and the GCS are Ray's own statements; the others are the worker's.
    pub source: Source,
    /// The record.
    pub log: RayLog,
}

/// One followed file.
struct Followed {
    cluster: ProcessKey,
    name: String,
    folder: Arc<Folder>,
    file: Arc<File>,
    inode: u64,
    position: u64,
    partial: Vec<u8>,
    parser: LogParser,
    offset_s: Option<i32>,
    kind: FileKind,
    still: u8,
    /// For a driver's log, the pid in its name.
    driver: Option<Pid>,
    over: u32,
    /// The size when following it began.
    size_before: u64,
    /// The bytes and lines that were read of it.
    read: (u64, u64),
}

/// What may be read of a cluster's logs in one poll, and what was.
#[derive(Default)]
struct Allowance {
    bytes: u64,
    rows: u64,
    read_bytes: u64,
    read_rows: u64,
    /// Lines that were left out.
    left_out: u64,
}

/// All log files that are open.
pub struct RayLogs {
    followed: Vec<Followed>,
    workers: HashMap<ProcessKey, Vec<WorkerFile>>,
    /// How many files of workers are open, by cluster.
    held: HashMap<ProcessKey, usize>,
    /// The user who started each cluster's raylet.
    owners: HashMap<ProcessKey, Option<u32>>,
    rows: Budgets,
    bytes: Budgets,
    workers_bytes: Budgets,
    listing_us: Budgets,
    /// By cluster, the lines that were left out, and the files that were not opened because too
    /// many were open.
    left_out: HashMap<ProcessKey, u64>,
}

impl Default for RayLogs {
    fn default() -> Self {
        Self {
            followed: Vec::new(),
            workers: HashMap::new(),
            held: HashMap::new(),
            owners: HashMap::new(),
            rows: Budgets::new(ROWS),
            bytes: Budgets::new(BYTES),
            workers_bytes: Budgets::new(WORKERS_BYTES),
            listing_us: Budgets::new(LISTING_US),
            left_out: HashMap::new(),
        }
    }
}

struct WorkerFile {
    cluster: ProcessKey,
    name: String,
    file: Arc<File>,
    kind: FileKind,
    worker_id: Option<HexId>,
    offset_s: Option<i32>,
    /// Searches the output for the configuration that a framework prints. `None` once it was found,
    /// or when it can no longer come.
    beginning: Option<Beginning>,
}

/// How far a worker's output has been read from its beginning.
#[derive(Default)]
struct Beginning {
    position: u64,
    partial: Vec<u8>,
    configuration: Configuration,
}

impl RayLogs {
    /// Follows a file from its beginning, or from near the end of a long one. Returns false when it
    /// cannot be opened.
    pub fn follow(
        &mut self,
        cluster: ProcessKey,
        folder: &Arc<Folder>,
        name: &str,
        offset_s: Option<i32>,
    ) -> bool {
        let Some(parsed) = file_name::parse(name) else {
            return false;
        };
        // One file may be reached by several paths: through the raylet's root and through the
        // driver's.
        if self
            .followed
            .iter()
            .any(|one| one.cluster.same(cluster) && one.name == name)
        {
            return true;
        }
        let driver = parsed.pid.filter(|_| parsed.driver);
        if !self.has_room(cluster, driver.is_some()) {
            self.leave_out(cluster, 1);
            return false;
        }
        let Some(OpenedFile { file, size, inode }) = folder.opened(name.as_ref()) else {
            return false;
        };
        let position = size.saturating_sub(LOOK_BACK);
        tracing::debug!("{name:?} of {cluster}: following it from byte {position}");
        self.followed.push(Followed {
            cluster,
            name: name.to_owned(),
            folder: Arc::clone(folder),
            file: Arc::new(file),
            inode,
            position,
            partial: Vec::new(),
            parser: LogParser::new(parsed.kind, parsed.worker_id),
            offset_s,
            kind: parsed.kind,
            still: 0,
            driver,
            over: 0,
            size_before: size,
            read: (0, 0),
        });
        true
    }

    fn has_room(&self, cluster: ProcessKey, for_driver: bool) -> bool {
        let drivers = self.followed.iter().filter(|one| one.driver.is_some());
        let drivers = drivers.map(|one| self.payer(one.cluster));
        self.followed.len() < MAX_FOLLOWED
            && (!for_driver || MAX_DRIVERS.has_room(self.payer(cluster), drivers))
    }

    /// Sets the user for whom a cluster's logs are read.
    pub fn set_owner(&mut self, cluster: ProcessKey, user: Option<u32>) {
        self.owners.insert(cluster.truncated(), user);
    }

    fn payer(&self, cluster: ProcessKey) -> Payer {
        let cluster = cluster.truncated();
        let user = self.owners.get(&cluster).copied().flatten();
        Payer { cluster, user }
    }

    fn leave_out(&mut self, cluster: ProcessKey, count: u64) {
        let key = cluster.truncated();
        if count > 0 && (self.left_out.len() < MAX_COUNTED || self.left_out.contains_key(&key)) {
            *self.left_out.entry(key).or_default() += count;
        }
    }

    /// Returns the names in a cluster's folder that `is_wanted` accepts, as far as its budget allows.
    pub fn names(
        &mut self,
        cluster: ProcessKey,
        folder: &Folder,
        is_wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> Vec<String> {
        let (payer, began) = (self.payer(cluster), Instant::now());
        let left = self.listing_us.shares([payer], u64::MAX, clock::boot());
        if left.get(&payer.cluster).is_none_or(|left| *left == 0) {
            self.leave_out(cluster, 1);
            return Vec::new();
        }
        let names = folder.names(is_wanted);
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        // On a busy machine most of it may be waiting.
        let took = took.min(MOST_LISTING_US);
        self.listing_us.spend(payer, took, clock::boot());
        names
    }

    /// Returns how many lines and files of each cluster were left out.
    pub fn left_out(&self) -> &HashMap<ProcessKey, u64> {
        &self.left_out
    }

    /// Keeps a worker's file open until the worker ends.
    pub fn hold(
        &mut self,
        worker: ProcessKey,
        cluster: ProcessKey,
        folder: &Folder,
        name: &str,
        offset_s: Option<i32>,
    ) {
        let Some(parsed) = file_name::parse(name) else {
            return;
        };
        let known = self.workers.get(&worker.truncated());
        if known.is_some_and(|files| files.iter().any(|one| one.name == name)) {
            return;
        }
        let held = self.held.iter();
        let held = held.flat_map(|(cluster, count)| repeat_n(self.payer(*cluster), *count));
        if !MAX_WORKER_FILES.has_room(self.payer(cluster), held) {
            return self.leave_out(cluster, 1);
        }
        if let Some(OpenedFile { file, .. }) = folder.opened(name.as_ref()) {
            tracing::debug!("keeping {name:?} open until {worker} exits");
            *self.held.entry(cluster.truncated()).or_default() += 1;
            let files = self.workers.entry(worker.truncated()).or_default();
            let (kind, worker_id) = (parsed.kind, parsed.worker_id);
            files.push(WorkerFile {
                cluster,
                name: name.to_owned(),
                file: Arc::new(file),
                kind,
                worker_id,
                offset_s,
                beginning: (kind == FileKind::WorkerOutput).then(Beginning::default),
            });
        }
    }

    /// Reports configurations that frameworks have printed since the last call. A job of several
    /// days prints its configuration once, long before any process dies. What is over the budget is
    /// read later.
    pub fn configurations(&mut self, sink: &mut impl FnMut(Line)) {
        let searched = |file: &&WorkerFile| file.beginning.is_some();
        let files = self.workers.values().flatten().filter(searched);
        let sizes = sizes(files.map(|file| (file.cluster, &file.file)));
        let clusters: Vec<ProcessKey> = self.held.keys().copied().collect();
        let mut left = self.may_read_of_workers(clusters);
        let files = self.workers.values_mut().flatten();
        let mut read = Vec::new();
        for (file, size) in files.filter(|file| file.beginning.is_some()).zip(sizes) {
            if let Some(left) = left
                .get_mut(&file.cluster.truncated())
                .filter(|left| **left > 0)
            {
                let bytes = file.configured(size.unwrap_or(0), sink);
                *left = left.saturating_sub(bytes);
                read.push((file.cluster, bytes));
            }
        }
        for (cluster, bytes) in read {
            self.read_of_workers(cluster, bytes);
        }
    }

    /// Returns how many bytes of workers' files may be read now, for each of these clusters.
    fn may_read_of_workers(
        &mut self,
        clusters: impl IntoIterator<Item = ProcessKey>,
    ) -> HashMap<ProcessKey, u64> {
        let payers: Vec<Payer> = clusters
            .into_iter()
            .map(|cluster| self.payer(cluster))
            .collect();
        self.workers_bytes.shares(payers, u64::MAX, clock::boot())
    }

    fn read_of_workers(&mut self, cluster: ProcessKey, bytes: u64) {
        let payer = self.payer(cluster);
        self.workers_bytes.spend(payer, bytes, clock::boot());
    }

    /// Reports what is new in the followed files, at most about `room` records. Returns whether
    /// anything was read.
    ///
    /// Each cluster and user has a budget. Who writes more than that is read later, and at last not
    /// at all; the logs of others are read as if it wrote nothing.
    pub fn poll(&mut self, room: u64, sink: &mut impl FnMut(Line)) -> bool {
        let sizes = self.sizes();
        let mut allowances = self.allowances(&sizes, room);
        for (file, size) in self.followed.iter_mut().zip(sizes) {
            if let Some(size) = size {
                let own = allowances.entry(file.cluster.truncated());
                file.poll(size, own.or_default(), sink);
            }
        }
        let now = clock::boot();
        let mut any = false;
        for (cluster, own) in allowances {
            let payer = self.payer(cluster);
            self.rows.spend(payer, own.read_rows, now);
            self.bytes.spend(payer, own.read_bytes, now);
            self.leave_out(cluster, own.left_out);
            any |= own.read_bytes > 0;
        }
        any
    }

    /// Returns what may be read of each cluster that has something new.
    fn allowances(&mut self, sizes: &[Option<u64>], room: u64) -> HashMap<ProcessKey, Allowance> {
        let now = clock::boot();
        let all = self.followed.iter().zip(sizes);
        let new = all.filter(|(one, size)| size.is_some_and(|size| size != one.position));
        let payers: Vec<Payer> = new.map(|(one, _)| self.payer(one.cluster)).collect();
        let rows = self.rows.shares(payers.iter().copied(), room, now);
        let bytes = self.bytes.shares(payers, u64::MAX, now);
        let of = |(cluster, rows): (ProcessKey, u64)| {
            let bytes = bytes.get(&cluster).copied().unwrap_or(0);
            let own = Allowance {
                bytes,
                rows,
                ..Allowance::default()
            };
            (cluster, own)
        };
        rows.into_iter().map(of).collect()
    }

    fn sizes(&self) -> Vec<Option<u64>> {
        sizes(self.followed.iter().map(|one| (one.cluster, &one.file)))
    }

    /// Whether any file has not been read to its end.
    pub fn is_behind(&self) -> bool {
        let mut all = self.followed.iter().zip(self.sizes());
        all.any(|(one, size)| size.is_some_and(|size| one.position < size))
    }

    /// Counts the lines that have not been read as left out. Returns their number.
    pub fn leave_out_unread(&mut self) -> u64 {
        let all = self.followed.iter().zip(self.sizes());
        let unread =
            |(one, size): (&Followed, Option<u64>)| (one.cluster, one.unread(size.unwrap_or(0)));
        let unread: Vec<(ProcessKey, u64)> = all.map(unread).collect();
        for (cluster, lines) in &unread {
            self.leave_out(*cluster, *lines);
        }
        unread.iter().map(|(_, lines)| lines).sum()
    }

    /// Reports the last lines of a dead worker's files, and closes the files.
    pub fn last_words(&mut self, worker: ProcessKey, sink: &mut impl FnMut(Line)) {
        let Some(files) = self.workers.remove(&worker.truncated()) else {
            return;
        };
        let sizes = sizes(files.iter().map(|file| (file.cluster, &file.file)));
        for (mut file, size) in files.into_iter().zip(sizes) {
            let (cluster, size) = (file.cluster.truncated(), size.unwrap_or(0));
            if let Some(count) = self.held.get_mut(&cluster) {
                *count = count.saturating_sub(1);
            }
            self.held.retain(|_, count| *count > 0);
            let left = self.may_read_of_workers([cluster]);
            if left.get(&cluster).is_none_or(|left| *left == 0) {
                self.leave_out(cluster, 1);
                continue;
            }
            let bytes = file.configured(size, sink) + size.min(HEAD + TAIL);
            for line in file.tail(size) {
                sink(line);
            }
            self.read_of_workers(cluster, bytes);
        }
    }

    /// Sets a new UTC offset for a cluster's logs.
    pub fn set_offset(&mut self, cluster: ProcessKey, offset_s: Option<i32>) {
        for one in &mut self.followed {
            if one.cluster.same(cluster) {
                one.offset_s = offset_s;
            }
        }
        for one in self.workers.values_mut().flatten() {
            if one.cluster.same(cluster) {
                one.offset_s = offset_s;
            }
        }
    }

    /// Stops following a cluster's files once no process can write them any more.
    pub fn forget(&mut self, cluster: ProcessKey) {
        self.followed.retain(|one| !one.cluster.same(cluster));
        self.owners.remove(&cluster.truncated());
    }

    /// Stops following the log of a driver that was not alive in the last `rounds` calls.
    pub fn forget_drivers(&mut self, rounds: u32, lives: impl Fn(ProcessKey, Pid) -> bool) {
        self.followed.retain_mut(|one| {
            let is_over = one.driver.is_some_and(|pid| !lives(one.cluster, pid));
            one.over = if is_over { one.over + 1 } else { 0 };
            one.over < rounds
        });
    }
}

impl Allowance {
    fn read(&mut self, rows: u64, bytes: u64) {
        self.rows = self.rows.saturating_sub(rows);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.read_rows += rows;
        self.read_bytes += bytes;
    }
}

impl Followed {
    fn poll(&mut self, size: u64, own: &mut Allowance, sink: &mut impl FnMut(Line)) {
        let mut records = Vec::new();
        let before = self.position;
        own.left_out += self.catch_up(size, &mut records);
        self.read(size, own, &mut records);
        if self.position == before && self.still.is_multiple_of(ROTATION_EVERY) {
            self.rotated(own, &mut records);
        }
        // A kill record may lack its end. After some polls without new data it is reported as far
        // as it was written.
        self.still = if self.position == before {
            self.still.wrapping_add(1).max(1)
        } else {
            0
        };
        if self.still == 3 && self.parser.is_open() {
            self.parser.flush(&mut records);
        }
        let source = if matches!(self.kind, FileKind::Raylet | FileKind::Gcs) {
            Source::RayLog
        } else {
            Source::WorkerLog
        };
        for record in records {
            sink(line(
                record,
                self.cluster,
                &self.name,
                source,
                self.offset_s,
            ));
        }
    }

    /// Leaves out most of what was written faster than it may be read. Returns the number of lines,
    /// by the length of those that were read.
    fn catch_up(&mut self, size: u64, records: &mut Vec<Record>) -> u64 {
        if size.saturating_sub(self.position.max(self.size_before)) <= BEHIND {
            return 0;
        }
        self.parser.flush(records);
        self.partial.clear();
        let skipped = size - CHUNK as u64 - self.position;
        self.position += skipped;
        let line = self.read.0.checked_div(self.read.1).unwrap_or(LINE);
        skipped / line.max(1)
    }

    fn read(&mut self, size: u64, own: &mut Allowance, records: &mut Vec<Record>) {
        // Most polls find nothing. They cost one fstat and no buffer.
        if size < self.position {
            tracing::debug!("{:?} has become shorter: read anew", self.name);
            self.position = 0;
            self.size_before = 0;
            self.partial.clear();
        }
        let enough = size.min(self.position + AT_ONCE);
        while self.position < enough
            && records.len() < RECORDS
            && own.rows > 0
            && own.bytes > 0
            && let length = (CHUNK as u64).min(own.rows.saturating_mul(ROW).max(LEAST))
            && let Some(read) = part(self.cluster.pid, &self.file, self.position, length)
            && !read.is_empty()
        {
            let before = records.len();
            let length = read.len() as u64;
            self.position += length;
            self.partial.extend_from_slice(&read);
            let mut done = 0;
            for end in memchr::memchr_iter(b'\n', &self.partial) {
                let text = String::from_utf8_lossy(&self.partial[done..end]);
                self.parser.push(text.trim_end_matches('\r'), records);
                done = end + 1;
                self.read.1 += 1;
            }
            self.read.0 += length;
            self.partial.drain(..done);
            if self.partial.len() > CHUNK {
                self.partial.clear();
            }
            own.read((records.len() - before) as u64, length);
        }
    }

    fn unread(&self, size: u64) -> u64 {
        let (mut position, mut lines) = (self.position, 0);
        let end = size.min(position + MOST_UNREAD);
        while position < end
            && let Some(read) = part(self.cluster.pid, &self.file, position, CHUNK as u64)
            && !read.is_empty()
        {
            position += read.len() as u64;
            lines += memchr::memchr_iter(b'\n', &read).count() as u64;
        }
        lines
    }

    /// Reads the new file if the name belongs to another file by now.
    fn rotated(&mut self, own: &mut Allowance, records: &mut Vec<Record>) {
        let named = self.folder.entry(self.name.as_ref());
        if named.is_some_and(|entry| entry.inode != self.inode)
            && let Some(opened) = self.folder.opened(self.name.as_ref())
        {
            tracing::debug!("{:?} is another file now: read anew", self.name);
            self.file = Arc::new(opened.file);
            self.inode = opened.inode;
            self.position = 0;
            self.size_before = 0;
            self.partial.clear();
            // It is not in this poll's shares if the old file had nothing new.
            own.rows = own.rows.max(1);
            own.bytes = own.bytes.max(LEAST);
            self.read(opened.size, own, records);
        }
    }
}

impl WorkerFile {
    /// Continues to read from the beginning of the output. Costs one fstat where nothing is new.
    /// Returns how many bytes it read.
    fn configured(&mut self, size: u64, sink: &mut impl FnMut(Line)) -> u64 {
        let Some(mut beginning) = self.beginning.take() else {
            return 0;
        };
        let before = beginning.position;
        if size > beginning.position {
            let mut bytes = std::mem::take(&mut beginning.partial);
            let length = (size.min(CONFIGURED)).saturating_sub(beginning.position);
            self.part(beginning.position, length, &mut bytes);
            beginning.position += length;
            let whole = bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            beginning.partial = bytes.split_off(whole);
            for text in String::from_utf8_lossy(&bytes).lines() {
                let Some(settings) = beginning.configuration.push(text) else {
                    continue;
                };
                let record = Record {
                    local_time: None,
                    text: "its configuration, resolved".into(),
                    line: 0,
                    fact: RayFact::Configuration {
                        settings,
                        worker_id: self.worker_id.clone(),
                    },
                };
                sink(line(
                    record,
                    self.cluster,
                    &self.name,
                    Source::WorkerLog,
                    self.offset_s,
                ));
                return beginning.position - before;
            }
        }
        let read = beginning.position - before;
        if beginning.position < CONFIGURED {
            self.beginning = Some(beginning);
        }
        read
    }

    fn part(&self, start: u64, length: u64, bytes: &mut Vec<u8>) {
        bytes.extend(part(self.cluster.pid, &self.file, start, length).unwrap_or_default());
    }

    fn tail(&mut self, size: u64) -> Vec<Line> {
        let start = size.saturating_sub(TAIL);
        let mut bytes = Vec::new();
        // The markers of job and actor are at the beginning, the last messages at the end.
        if start > HEAD {
            self.part(0, HEAD, &mut bytes);
            bytes.push(b'\n');
        }
        self.part(start, TAIL, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let mut parser = LogParser::new(self.kind, self.worker_id.clone());
        let mut records = Vec::new();
        for text in text.lines() {
            parser.push(text, &mut records);
        }
        only_last_step(&mut records);
        let make = |record| {
            line(
                record,
                self.cluster,
                &self.name,
                Source::WorkerLog,
                self.offset_s,
            )
        };
        records.into_iter().map(make).collect()
    }
}

/// Keeps only the last of the training steps that a worker printed: it alone says how far the
/// worker was.
fn only_last_step(records: &mut Vec<Record>) {
    let is_step = |record: &Record| matches!(record.fact, RayFact::TrainingStep { .. });
    if let Some(last) = records.iter().rposition(is_step) {
        let mut at = 0..;
        records.retain(|record| at.next() == Some(last) || !is_step(record));
    }
}

fn line(
    record: Record,
    cluster: ProcessKey,
    file: &str,
    source: Source,
    offset_s: Option<i32>,
) -> Line {
    // A time zone that has just changed its offset must not put a line into the future.
    let now = clock::boot();
    let time = record
        .local_time
        .map_or(now, |local| clusters::log_time(local, offset_s).min(now));
    Line {
        time,
        source,
        log: RayLog {
            cluster: Some(cluster),
            file: file.to_owned(),
            local_time: record.local_time,
            text: record.text,
            fact: record.fact,
        },
    }
}

/// Returns the sizes of log files. One read is made for each cluster, so that a file system that
/// never answers delays only the cluster that it belongs to.
fn sizes<'a>(files: impl Iterator<Item = (ProcessKey, &'a Arc<File>)>) -> Vec<Option<u64>> {
    let mut of: HashMap<Pid, (Vec<usize>, Vec<Arc<File>>)> = HashMap::new();
    let mut count = 0;
    for (at, (cluster, file)) in files.enumerate() {
        let (places, files) = of.entry(cluster.pid).or_default();
        places.push(at);
        files.push(Arc::clone(file));
        count = at + 1;
    }
    let mut sizes = vec![None; count];
    for (raylet, (places, files)) in of {
        let size = |file: &Arc<File>| file.metadata().ok().map(|data| data.len());
        let found = timed_read::run(raylet, move || files.iter().map(size).collect::<Vec<_>>());
        for (place, size) in places.into_iter().zip(found.into_iter().flatten()) {
            sizes[place] = size;
        }
    }
    sizes
}

/// Reads a part of a file of the cluster of `raylet`.
fn part(raylet: Pid, file: &Arc<File>, start: u64, length: u64) -> Option<Vec<u8>> {
    let file = Arc::clone(file);
    timed_read::run_optional(raylet, move || {
        let mut bytes = vec![0; usize::try_from(length.min(CHUNK as u64)).ok()?];
        let mut read = 0;
        while read < bytes.len() {
            let more = file.read_at(&mut bytes[read..], start + read as u64);
            match ok_or_log(Path::new("a log of Ray"), more)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Some(bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::ray::facts::RayFact;

    fn key() -> ProcessKey {
        ProcessKey::new(1, 0)
    }

    fn poll(logs: &mut RayLogs) -> Vec<RayFact> {
        let mut found = Vec::new();
        logs.poll(u64::MAX, &mut |line| found.push(line.log.fact));
        found
    }

    fn started(pid: u32) -> String {
        format!(
            "[2026-11-21 00:00:00,000 I 1 1] (raylet) worker_pool.cc:1: Started worker process with pid {pid} worker_id=ab\n"
        )
    }

    #[test]
    fn partial_lines_and_rotations_are_followed() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("raylet.out");
        std::fs::write(&path, started(1)).expect("write");
        let mut logs = RayLogs::default();
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        assert!(logs.follow(key(), &held, "raylet.out", None));
        assert_eq!(poll(&mut logs).len(), 1);
        let mut file = File::options().append(true).open(&path).expect("open");
        let text = started(2);
        let (first, second) = text.split_at(40);
        file.write_all(first.as_bytes()).expect("write");
        assert!(poll(&mut logs).is_empty());
        file.write_all(second.as_bytes()).expect("write");
        assert_eq!(poll(&mut logs).len(), 1);
        // Renamed: lines written just before and just after are both found.
        file.write_all(started(3).as_bytes()).expect("write");
        std::fs::rename(&path, folder.path().join("raylet.out.1")).expect("rename");
        std::fs::write(&path, started(4)).expect("write");
        let mut found = poll(&mut logs);
        found.extend(poll(&mut logs));
        assert_eq!(found.len(), 2);
        // Truncated in place.
        std::fs::write(&path, &started(5)[..30]).expect("write");
        assert!(poll(&mut logs).is_empty());
        std::fs::write(&path, started(5)).expect("write");
        assert_eq!(poll(&mut logs).len(), 1);
    }

    #[test]
    fn fast_log_is_read_in_parts() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("raylet.out");
        std::fs::write(&path, "").expect("write");
        let mut logs = RayLogs::default();
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        assert!(logs.follow(key(), &held, "raylet.out", None));
        let lines = 12_000;
        std::fs::write(&path, started(7).repeat(lines)).expect("write");
        let first = poll(&mut logs).len();
        assert!(first >= RECORDS && first < lines, "{first} of {lines}");
        assert_eq!(
            (logs.is_behind(), logs.leave_out_unread()),
            (true, (lines - first) as u64)
        );
        let mut all = first;
        while logs.is_behind() {
            all += poll(&mut logs).len();
        }
        assert_eq!((all, logs.leave_out_unread()), (lines, 0));
        // Lines without a fact produce no records.
        let nothing = "[2026-11-21 00:00:00,000 I 1 1] x.cc:1: step\n";
        let mut file = File::options().append(true).open(&path).expect("open");
        file.write_all(nothing.repeat(14 * lines).as_bytes())
            .expect("write");
        assert_eq!(poll(&mut logs).len(), 0);
        assert!(logs.is_behind());
    }

    /// Of a cluster that writes without end, little is read, and the newest lines of it. The other
    /// cluster's lines are all read at once, and only the first one's are counted as left out.
    #[test]
    fn flood_of_one_cluster_costs_another_no_line() {
        let folder = tempfile::tempdir().expect("folder");
        let mut logs = RayLogs::default();
        let (flooding, quiet) = (ProcessKey::new(1, 0), ProcessKey::new(2, 0));
        let mut files = Vec::new();
        for cluster in [flooding, quiet] {
            let at = folder.path().join(cluster.pid.0.to_string());
            std::fs::create_dir(&at).expect("folder");
            files.push(File::create(at.join("raylet.out")).expect("file"));
            let held = Arc::new(Folder::open(&at).expect("folder"));
            assert!(logs.follow(cluster, &held, "raylet.out", None));
            logs.set_owner(cluster, Some(65_534));
        }
        let flood = started(7).repeat(100_000);
        let (mut of_flood, mut of_quiet) = (0, 0);
        for round in 0..10 {
            files[0].write_all(flood.as_bytes()).expect("write");
            files[1].write_all(started(8).as_bytes()).expect("write");
            logs.poll(8_192, &mut |line| {
                let own = line.log.cluster == Some(quiet);
                *(if own { &mut of_quiet } else { &mut of_flood }) += 1;
            });
            assert_eq!(of_quiet, round + 1, "of {of_flood}");
        }
        let unread = logs.leave_out_unread();
        assert!((1_000..20_000).contains(&of_flood), "{of_flood}");
        assert!(unread < 100_000, "the newest lines are next: {unread}");
        assert_eq!(logs.left_out().get(&quiet), None);
        let left_out = logs.left_out()[&flooding] + of_flood;
        assert!(left_out.abs_diff(1_000_000) < 10_000, "{left_out}");
    }

    /// Words of workers that die are left out and counted once too much was read of them. Those of
    /// another user's cluster are read.
    #[test]
    fn words_of_one_users_workers_cost_another_user_none() {
        let folder = tempfile::tempdir().expect("folder");
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let name = format!("worker-{}-01000000-7.err", "ab".repeat(28));
        std::fs::write(folder.path().join(&name), "ValueError: no\n").expect("write");
        let mut logs = RayLogs::default();
        let (flooding, quiet) = (ProcessKey::new(1, 0), ProcessKey::new(2, 0));
        logs.set_owner(flooding, Some(1));
        logs.set_owner(quiet, Some(2));
        let die = |logs: &mut RayLogs, cluster, pid| {
            let (worker, mut said) = (ProcessKey::new(pid, 0), 0);
            logs.hold(worker, cluster, &held, &name, None);
            logs.last_words(worker, &mut |_| said += 1);
            (said, logs.left_out().get(&cluster).copied())
        };
        assert_eq!(die(&mut logs, flooding, 10), (1, None));
        // A minute of what comes back is owed.
        let Rate {
            each_second,
            at_once,
        } = WORKERS_BYTES.cluster;
        logs.read_of_workers(flooding, at_once + 60 * each_second);
        assert_eq!(die(&mut logs, flooding, 11), (0, Some(1)));
        assert_eq!(die(&mut logs, quiet, 12), (1, None));
    }

    /// Names of a folder are not read for each of thousands of processes that end.
    #[test]
    fn names_are_read_within_a_budget() {
        let folder = tempfile::tempdir().expect("folder");
        let held = Folder::open(folder.path()).expect("folder");
        std::fs::write(folder.path().join("a"), "").expect("write");
        let mut logs = RayLogs::default();
        logs.set_owner(key(), Some(1));
        assert_eq!(logs.names(key(), &held, |_| true), ["a"]);
        let (payer, most) = (logs.payer(key()), LISTING_US.cluster);
        let spent = most.at_once + 10 * most.each_second;
        logs.listing_us.spend(payer, spent, clock::boot());
        assert_eq!(logs.names(key(), &held, |_| true), [""; 0]);
        assert_eq!(logs.left_out().get(&key()), Some(&1));
        assert_eq!(logs.names(ProcessKey::new(2, 0), &held, |_| true), ["a"]);
    }

    /// The open files of one user's workers leave room for those of another's.
    #[test]
    fn files_of_one_users_workers_leave_room() {
        let folder = tempfile::tempdir().expect("folder");
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let name = format!("worker-{}-01000000-7.err", "ab".repeat(28));
        std::fs::write(folder.path().join(&name), "").expect("write");
        let mut logs = RayLogs::default();
        let clusters = [1, 2, 3].map(|pid| ProcessKey::new(pid, 0));
        for (cluster, user) in clusters.into_iter().zip([1, 1, 2]) {
            logs.set_owner(cluster, Some(user));
        }
        // As if so many were open.
        logs.held.insert(clusters[0], MAX_WORKER_FILES.cluster - 1);
        for pid in [10, 11] {
            logs.hold(ProcessKey::new(pid, 0), clusters[0], &held, &name, None);
        }
        assert_eq!(logs.left_out().get(&clusters[0]), Some(&1));
        let rest = MAX_WORKER_FILES.user - MAX_WORKER_FILES.cluster;
        logs.held.insert(clusters[1], rest);
        for cluster in &clusters[1..] {
            let worker = ProcessKey::new(20 + cluster.pid.0, 0);
            logs.hold(worker, *cluster, &held, &name, None);
        }
        assert_eq!(logs.left_out().get(&clusters[1]), Some(&1));
        assert_eq!(logs.left_out().get(&clusters[2]), None);
        // What is closed leaves room again.
        logs.last_words(ProcessKey::new(10, 0), &mut |_| ());
        assert_eq!(logs.held[&clusters[0]], MAX_WORKER_FILES.cluster - 1);
    }

    /// It is found while the process that printed it is alive.
    #[test]
    fn configuration_is_reported_once() {
        let folder = tempfile::tempdir().expect("folder");
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let name = format!("worker-{}-01000000-7.out", "ab".repeat(28));
        let path = folder.path().join(&name);
        let mut logs = RayLogs::default();
        std::fs::write(
            &path,
            ":job_id:01000000\n{'actor_rollout_ref': {'rollout': {'swap",
        )
        .expect("write");
        logs.hold(key(), key(), &held, &name, None);
        let told = |logs: &mut RayLogs| {
            let mut found = Vec::new();
            logs.configurations(&mut |line| found.push((line.source, line.log.fact)));
            found
        };
        assert_eq!(told(&mut logs), []);
        let mut file = File::options().append(true).open(&path).expect("open");
        file.write_all(b"_space': 40}},\n 'data': {'val_batch_size': None}}\n")
            .expect("write");
        let found = told(&mut logs);
        let [(Source::WorkerLog, RayFact::Configuration { settings, .. })] = found.as_slice()
        else {
            panic!("{found:?}")
        };
        assert_eq!(settings.len(), 2);
        assert_eq!(told(&mut logs), []);
    }

    #[test]
    fn only_the_last_training_step_is_reported() {
        let folder = tempfile::tempdir().expect("folder");
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let name = format!("worker-{}-01000000-7.out", "ab".repeat(28));
        let said = "step:1 - loss:0.3\nstep:2 - loss:0.2\nValueError: no\nstep:3 - loss:0.1\n:job_id:01000000\n";
        std::fs::write(folder.path().join(&name), said).expect("write");
        let mut logs = RayLogs::default();
        logs.hold(key(), key(), &held, &name, None);
        let mut found = Vec::new();
        logs.last_words(key(), &mut |line| found.push(line.log.fact));
        assert!(matches!(
            found.as_slice(),
            [
                RayFact::Exception { .. },
                RayFact::TrainingStep { step: 3, .. },
                RayFact::Marker { .. }
            ]
        ));
    }

    /// The raylet's log stays open.
    #[test]
    fn log_of_an_ended_driver_is_closed() {
        let folder = tempfile::tempdir().expect("folder");
        let names = [
            "raylet.out".to_owned(),
            format!("python-core-driver-{}_7.log", "ab".repeat(28)),
        ];
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let mut logs = RayLogs::default();
        for name in &names {
            std::fs::write(folder.path().join(name), "").expect("write");
            assert!(logs.follow(key(), &held, name, None));
        }
        let left = |logs: &RayLogs| logs.followed.len();
        for _ in 0..9 {
            logs.forget_drivers(3, |cluster, pid| cluster == key() && pid == Pid(7));
        }
        assert_eq!(left(&logs), 2);
        logs.forget_drivers(3, |_, _| false);
        logs.forget_drivers(3, |_, _| false);
        assert_eq!(left(&logs), 2);
        logs.forget_drivers(3, |_, _| false);
        assert_eq!(
            (left(&logs), logs.followed[0].name.as_str()),
            (1, "raylet.out")
        );
    }

    /// A new UTC offset holds for open files too.
    #[test]
    fn lines_are_never_in_the_future() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("raylet.out");
        std::fs::write(&path, started(1).replace("2026", "2200")).expect("write");
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        let mut logs = RayLogs::default();
        assert!(logs.follow(key(), &held, "raylet.out", None));
        let mut times = Vec::new();
        logs.poll(u64::MAX, &mut |line| times.push(line.time));
        assert!(matches!(times.as_slice(), [time] if *time <= clock::boot()));
        logs.set_offset(key(), Some(3600));
        assert_eq!(logs.followed[0].offset_s, Some(3600));
    }

    /// A deleted file that is open is still read.
    #[test]
    fn planted_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, started(1)).expect("write");
        let link = folder.path().join("raylet.out");
        std::os::unix::fs::symlink(&secret, &link).expect("link");
        let mut logs = RayLogs::default();
        let held = Arc::new(Folder::open(folder.path()).expect("folder"));
        assert!(!logs.follow(key(), &held, "raylet.out", None));
        let name = "python-core-worker-ab12_7.log";
        let log = folder.path().join(name);
        std::fs::write(&log, "").expect("write");
        logs.hold(key(), key(), &held, name, None);
        std::fs::write(&log, "[2026-11-21 00:00:00,000 I 1 1] x.cc:1: RayletIpcClient::Disconnect, exit_type=INTENDED_USER_EXIT, exit_detail=bye, has creation_task_exception_pb_bytes=0\n").expect("write");
        std::fs::remove_file(&log).expect("remove");
        let mut found = Vec::new();
        logs.last_words(key(), &mut |line| found.push((line.source, line.log.fact)));
        assert!(matches!(
            found.as_slice(),
            [(Source::WorkerLog, RayFact::SelfDisconnect { .. })]
        ));
    }
}
