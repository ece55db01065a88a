//! Removes from a line what other programs have put around it, and keeps it as data.
//!
//! Removed are colours and the wrappers of container runtimes, kubectl, journald, syslog, dmesg,
//! Ray's driver and JSON. Kept are times, the process that printed the line, and how often it is
//! repeated.
//!
//! One layer after another is taken off, in whichever order they come, until nothing comes off.
//!
//! Formats: CRI (`2026-11-21T00:00:00.1Z stdout F …`), Docker's JSON, `kubectl logs --prefix
//! --timestamps`, compose (`name-1  | …`), `journalctl -o short|short-iso|short-precise`, syslog
//! levels, `dmesg` plain, `-T`, `-x` and `--time-format iso`, and Ray's `(Class pid=1, ip=…)`,
//! `(raylet, ip=…)`, `… [repeated 2x across cluster]`.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

use super::{
    keywords,
    line::{LogLine, Speaker},
    pattern, ray_prefix, stamp,
};
use crate::{ids::Pid, judge::from_text::claim::Stamp};

/// The most layers that are removed from a line.
const MAX_LAYERS: usize = 8;
/// Where JSON lines have the message: docker, most loggers, journald, Loki, Google Cloud, AWS,
/// OpenTelemetry.
const MESSAGES: [&str; 9] = [
    "log",
    "message",
    "msg",
    "MESSAGE",
    "text",
    "line",
    "textPayload",
    "@message",
    "body",
];
/// How deep JSON may be nested in JSON.
const MAX_NESTED: u8 = 3;
/// The most lines that are read from one JSON line.
const MAX_INNER: usize = 4000;

static COLOUR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\0?33|\\e|\^\[|\u{241b}|\u{2190})\[[0-9;]*[A-Za-z]|\u{fffd}\[[0-9;]+m|\[(?:\d{1,2};)*\d{1,2}m",
    )
});
static CRI: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)) (?:stdout|stderr) [FP] ")
});
static ISO: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)) "));
/// A date without a zone before a line, in brackets or not.
static LOCAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: ([+-]\d{4}))?\]|(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: [A-Z]{3,4}\b)?)(?: \| | - | )",
    )
});
/// What names no process and no usable time: quotes and fences of Markdown, pytest's margin, the
/// margins of tables, ranks of `srun -l`, `mpirun --tag-output` and torchrun, commands of CI
/// services, the prefixes of vLLM, of streams of GitLab, Loki and syslog (RFC 5424), a time of day.
static MARGIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:>+ ?|E {3,}|[│┃|] +| {0,3}[-*•] +|\d{1,5}: |\[\d+,\d+\](?:<std(?:out|err)>:?|:) ?|\[(?:rank|default)\d+\]: ?|\[gw\d+\] |##\[\w+\]|::(?:error|warning|notice)[^:]*::|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+:\d+\] |\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]? |\d\d[OE][ +]|\{[\w./-]+=[^{}]{1,400}\} |1 (?:-|\d{4}-\S+) \S+ \S+ \S+ \S+ (?:- |\[[^\]]*\] ))",
    )
});
/// `journalctl -o short-unix`.
static UNIX: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{10})\.\d{3,9} "));
/// `journalctl -o short-full`: a weekday before the date, and the name of a zone behind it.
static FULL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? (UTC|[A-Z+-][A-Z0-9+-]{2,5}) ",
    )
});
/// The name of a stream that `aws logs tail` puts between the time and the line.
static STREAM: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\w.$-]+(?:/[\w.$\[\]-]+)+ +"));
/// The pod and container that stern puts before a line.
static STERN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[a-z0-9][a-z0-9.-]{4,120} (?:› )?[a-z0-9][a-z0-9-]{1,60} (?:│ )?"));
/// A progress bar of tqdm, which ends no line: `Map:  24%|███   | 121/500 [00:20<01:05,  5.75it/s]`.
static BAR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[^|]{0,120}?\d%\|[^|]{0,400}\| *[^\[\]|]{1,60}\[[^\[\]]{1,60}\]"));
/// The job and step that `gh run view --log` puts before a line.
static JOB_STEP: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[^\t]{1,100}\t[^\t]{1,100}\t\u{feff}?"));
/// As CI services print it before a line.
static BRACKETED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\[(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d))\]:? "));
static SYSLOG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:([A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}) +)?([\w.-]{1,64}) +([\w./@-]{1,64})(?:\[(\d+)\])?: ",
    )
});
/// The same without a host, or with the host left out (`…`): from the kernel, or a program with its
/// pid.
static HOSTLESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:([A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}) )?(?:(?:…|\.\.\.) ?)?(?:(kernel)|([\w./@-]{1,64})\[(\d+)\]): ",
    )
});
static POD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:\[pod/[^\]]*\]|[\w.-]{1,64} +\|) ?"));
static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?:<\d{1,3}>|(?:kern|user|daemon) {0,2}: *[a-z]+ *: |\d+,\d+,(\d+),[^;]{0,40};)")
});
static DMESG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\[ *(?:(\d+\.\d{6})|([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}))\] ?")
});
/// As uWSGI dates a line.
static CTIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}) - "));
/// As Spark and Hadoop date a line.
static SPARK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(\d\d)/(\d\d)/(\d\d) (\d\d:\d\d:\d\d) (?:INFO|WARN|ERROR|FATAL) [\w.$]+: ")
});
/// As the server of PBS dates a line, with what stands before the message.
static PBS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d);"));
static REPEATED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[repeated (\d+)x across cluster\]"));
static PYTHON: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})(?:\t| +)[A-Z]+ \S+:\d+ -- ")
});
/// How glog begins a record that ends its process, as Ray up to 1.2 and other programs print it:
/// the day, and the thread, before which Ray put the pid.
static GLOG: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^F(\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{6}) +(?:(\d+) +)?\d+ ([\w./-]+\.(?:cc|h|cpp)):\d+\] +",
    )
});
/// Unwraps `raw` and calls `out` for each line in it; a wrapper may put several lines into one.
pub(super) fn unwrap_line(raw: &str, out: &mut dyn FnMut(LogLine)) {
    nested(raw, LogLine::default(), MAX_NESTED, out);
}

fn nested(raw: &str, mut line: LogLine, depth: u8, out: &mut dyn FnMut(LogLine)) {
    let plain = if may_be_coloured(raw) {
        COLOUR.replace_all(raw, "")
    } else {
        Cow::Borrowed(raw)
    };
    let plain = if plain.contains(['\u{a0}', '\u{200b}', '\u{feff}']) {
        Cow::Owned(
            plain
                .replace('\u{a0}', " ")
                .replace(['\u{200b}', '\u{feff}'], ""),
        )
    } else {
        plain
    };
    let rest = layers(&plain, &mut line);
    let json = rest.trim();
    if depth > 0
        && json.starts_with('{')
        && let Ok(value) = serde_json::from_str::<Value>(json)
    {
        return inner(&value, json, &line, depth - 1, out);
    }
    finish(rest, &line, out);
}

/// Returns whether a line may contain a colour code.
fn may_be_coloured(raw: &str) -> bool {
    let escape = memchr::memchr3(0x1b, b'\\', b'^', raw.as_bytes());
    escape.is_some()
        || raw.contains(['\u{241b}', '\u{2190}', '\u{fffd}'])
        || raw.contains("m(")
        || raw.contains("[0m")
}

/// Splits a message at each `\n` that is written as two characters.
fn finish(rest: &str, outer: &LogLine, out: &mut dyn FnMut(LogLine)) {
    if !rest.contains("\\n") {
        return one(rest, outer.clone(), out);
    }
    let text = rest
        .replace("\\\\n", "\n")
        .replace("\\n", "\n")
        .replace("\\t", "\t");
    for line in text.split('\n').take(MAX_INNER) {
        one(line, outer.clone(), out);
    }
}

fn one(rest: &str, mut line: LogLine, out: &mut dyn FnMut(LogLine)) {
    let rest = ray_prefix(rest, &mut line);
    if rest.contains("[repeated ")
        && let Some(found) = REPEATED.captures(rest)
    {
        line.repeated = found[1].parse().unwrap_or(0);
    }
    line.stamp = with_epoch(rest, line.stamp);
    line.keywords = keywords::find_all(rest);
    rest.clone_into(&mut line.text);
    out(line);
}

/// Adds the time in UTC that abseil's handler of signals prints, `*** SIGSEGV received at
/// time=1763451416`, to a local time: they differ by a zone. Without a local time it would be the
/// only one in UTC among lines that may be of any zone.
fn with_epoch(text: &str, stamp: Stamp) -> Stamp {
    let epoch = || {
        let (_, rest) = text.split_once(" received at time=")?;
        let end = rest.find(|sign: char| !sign.is_ascii_digit());
        stamp::epoch(rest[..end.unwrap_or(rest.len())].parse().ok()?)
    };
    let in_utc = |local| stamp::whole_zones_from(local, epoch()?);
    Stamp {
        utc: stamp.utc.or_else(|| in_utc(stamp.local?)),
        ..stamp
    }
}

/// Reads the message inside a JSON line, and its time.
fn inner(value: &Value, json: &str, outer: &LogLine, depth: u8, out: &mut dyn FnMut(LogLine)) {
    let value = value.get("jsonPayload").unwrap_or(value);
    let text = MESSAGES.iter().find_map(|key| value.get(key)?.as_str());
    let mut line = outer.clone();
    json_times(value, &mut line.stamp);
    let Some(text) = text else {
        return one(json, line, out);
    };
    let field = |key: &str| value.get(key).and_then(Value::as_str);
    // Ray's event files call the component the type of the source.
    let fatal = field("severity") == Some("FATAL");
    let of_event = || field("source_type").filter(|_| fatal);
    if let Some(component) = field("component").or_else(of_event) {
        let pid = value
            .get("pid")
            .and_then(number)
            .map_or(0, |pid| u32::try_from(pid).unwrap_or(0));
        line.component = Some((component.to_lowercase(), Pid(pid)));
        // Ray's own JSON lines are kept whole, because some of their fields are beside the message.
        line.record = value.get("asctime").map(|_| json.to_owned());
        let level = field("levelname").or_else(|| field("severity"));
        line.level = level.and_then(|level| match level {
            "FATAL" | "CRITICAL" => Some('C'),
            level => level.chars().next(),
        });
    }
    line.host = field("_HOSTNAME").and_then(host).or(line.host);
    let program = field("SYSLOG_IDENTIFIER").or_else(|| field("_COMM"));
    if let Some(program) = program {
        line.program = Some((program.to_owned(), None));
    }
    if text.trim_start().starts_with('{') {
        return nested(text, line, depth, out);
    }
    let text = text.replace("\\n", "\n").replace("\\t", "\t");
    for (number, inner) in text.trim_end().split('\n').take(MAX_INNER).enumerate() {
        let mut each = line.clone();
        if number > 0 {
            each.record = None;
        }
        nested(inner, each, 0, out);
    }
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn json_times(value: &Value, stamp: &mut Stamp) {
    if let Some(local) = value.get("asctime").and_then(Value::as_str) {
        stamp.local = stamp.local.or_else(|| stamp::local(local));
    }
    for key in ["time", "timestamp", "@timestamp", "ts"] {
        let Some(found) = value.get(key) else {
            continue;
        };
        let epoch = number(found).and_then(stamp::epoch);
        stamp.utc = stamp
            .utc
            .or(epoch)
            .or_else(|| stamp::zoned(found.as_str()?));
    }
    let journal = value.get("__REALTIME_TIMESTAMP").and_then(number);
    stamp.utc = stamp.utc.or_else(|| journal.and_then(stamp::epoch));
}

/// Removes one layer after another.
fn layers<'a>(raw: &'a str, line: &mut LogLine) -> &'a str {
    let mut rest = raw;
    for _ in 0..MAX_LAYERS {
        // Blanks before a wrapper belong to it; those before the message are kept.
        let Some(shorter) = layer(rest.trim_start(), line) else {
            break;
        };
        rest = shorter;
    }
    rest
}

/// Whether a text begins with what names its writer: a driver's parentheses, or a record of Ray.
fn names_its_writer(rest: &str) -> bool {
    let known =
        |found: ray_prefix::SpeakerPrefix<'_>| found.pid.is_some() || found.name == "raylet";
    ray_prefix::record(rest).is_some() || ray_prefix::speaker(rest).is_some_and(known)
}

fn layer<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let first = *rest.as_bytes().first()?;
    let known = match first {
        b'(' => return speaker(rest, line),
        b'<' => cut(&LEVEL, rest),
        b'[' => pod_or_dmesg(rest, line),
        b'0'..=b'9' => dated(rest, line),
        b'k' | b'u' | b'd' if LEVEL.is_match(rest) => cut(&LEVEL, rest),
        byte if byte.is_ascii_alphabetic() => named(rest, line),
        b'.' | 0xe2 if rest.starts_with(['.', '…']) => hostless(rest, line),
        _ => None,
    };
    known.or_else(|| margin(rest, line))
}

/// Removes what names neither a process nor a time. Most lines have none of it, so each pattern is
/// tried only where its first byte, or a sign that it must have, is there.
fn margin<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let first = *rest.as_bytes().first()?;
    let has = |sign| memchr::memchr(sign, rest.as_bytes());
    if matches!(first, b'[' | b'0'..=b'9')
        && let Some(found) = LOCAL.captures(rest)
    {
        let time = found.get(1).or_else(|| found.get(3))?.as_str();
        if let Some(zone) = found.get(2) {
            let zoned = format!("{}{}", time.replacen(' ', "T", 1), zone.as_str());
            line.stamp.utc = line.stamp.utc.or_else(|| stamp::zoned(&zoned));
        } else {
            let time = stamp::local(&time.replacen('T', " ", 1));
            line.stamp.local = line.stamp.local.or(time);
        }
        return Some(&rest[found[0].len()..]);
    }
    if first == b'`' {
        return Some(rest.trim_matches('`'));
    }
    let stern = || {
        let begins = first.is_ascii_lowercase() || first.is_ascii_digit();
        let behind = begins.then(|| cut(&STERN, rest))??;
        names_its_writer(behind).then_some(behind)
    };
    let step = || {
        let behind = has(b'\t').and_then(|_| cut(&JOB_STEP, rest))?;
        ISO.is_match(behind).then_some(behind)
    };
    let bar = || {
        let at = has(b'|').filter(|at| rest[..*at].ends_with('%'));
        let behind = at.and_then(|_| cut(&BAR, rest))?;
        (PYTHON.is_match(behind) || names_its_writer(behind)).then_some(behind)
    };
    let marks = !first.is_ascii_alphabetic() || b"CDEIW".contains(&first);
    let marked = marks.then(|| cut(&MARGIN, rest)).flatten();
    marked.or_else(stern).or_else(step).or_else(bar)
}

fn cut<'a>(regex: &Regex, rest: &'a str) -> Option<&'a str> {
    Some(&rest[regex.find(rest)?.end()..])
}

fn pod_or_dmesg<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    if let Some(found) = DMESG.captures(rest) {
        let boot = found
            .get(1)
            .and_then(|seconds| stamp::boot(seconds.as_str()));
        let local = found.get(2).and_then(|wall| stamp::ctime(wall.as_str()));
        line.stamp.boot = line.stamp.boot.or(boot);
        line.stamp.local = line.stamp.local.or(local);
        let rest = &rest[found[0].len()..];
        // `journalctl -o short-monotonic` names the host and the program behind the time.
        return Some(journal(rest, line).unwrap_or(rest));
    }
    if let Some(found) = BRACKETED.captures(rest) {
        line.stamp.utc = line.stamp.utc.or_else(|| stamp::zoned(&found[1]));
        return Some(&rest[found[0].len()..]);
    }
    cut(&POD, rest)
}

fn dated<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    for regex in [&CRI, &ISO] {
        if let Some(found) = regex.captures(rest) {
            line.stamp.utc = line.stamp.utc.or_else(|| stamp::zoned(&found[1]));
            let rest = &rest[found[0].len()..];
            let stream = || cut(&STREAM, rest);
            return Some(journal(rest, line).or_else(stream).unwrap_or(rest));
        }
    }
    if let Some(found) = PYTHON.captures(rest) {
        line.stamp.local = line.stamp.local.or_else(|| stamp::local(&found[1]));
        return Some(&rest[found[0].len()..]);
    }
    if let Some(found) = UNIX.captures(rest) {
        let seconds: Option<i64> = found[1].parse().ok();
        line.stamp.utc = line.stamp.utc.or(seconds.and_then(stamp::epoch));
        return journal(&rest[found[0].len()..], line);
    }
    if let Some(found) = SPARK.captures(rest) {
        let [year, month, day, time] = [1, 2, 3, 4].map(|at| &found[at]);
        let time = stamp::local(&format!("20{year}-{month}-{day} {time}"));
        line.stamp.local = line.stamp.local.or(time);
        return found.get(4).map(|time| rest[time.end()..].trim_start());
    }
    if let Some(found) = PBS.captures(rest) {
        let [month, day, year, time] = [1, 2, 3, 4].map(|at| &found[at]);
        let time = stamp::local(&format!("{year}-{month}-{day} {time}"));
        line.stamp.local = line.stamp.local.or(time);
        return Some(&rest[found[0].len()..]);
    }
    let found = LEVEL.captures(rest)?;
    let microseconds: Option<i64> = found.get(1).and_then(|found| found.as_str().parse().ok());
    let boot = microseconds.and_then(|microseconds| microseconds.checked_mul(1000));
    line.stamp.boot = line.stamp.boot.or(boot);
    Some(&rest[found[0].len()..])
}

/// Reads `HOST kernel: ` behind an ISO time.
fn journal<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let found = SYSLOG.captures(rest).filter(|found| found.get(1).is_none());
    let Some(found) = found else {
        return hostless(rest, line);
    };
    program(&found, line);
    Some(&rest[found[0].len()..])
}

/// Reads `kernel: `, `Nov 21 00:23:48 kernel: `, `… earlyoom[812]: `.
fn hostless<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let found = rest.contains(": ").then(|| HOSTLESS.captures(rest))??;
    let day = found.get(1).and_then(|date| stamp::day(date.as_str()));
    // The kernel begins with the name and pid of a process whose fault it reports.
    if rest[found[0].len()..].starts_with("segfault at ") {
        return None;
    }
    let name = found.get(2).or_else(|| found.get(3))?.as_str();
    let pid = found.get(4).and_then(|pid| pid.as_str().parse().ok());
    line.program = Some((name.to_owned(), pid.map(Pid)));
    line.stamp.day = line.stamp.day.or(day);
    Some(&rest[found[0].len()..])
}

fn named<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    if let Some(found) = begins_with_month(rest)
        .then(|| FULL.captures(rest))
        .flatten()
    {
        let time = stamp::local(&found[1]);
        let known = if &found[2] == "UTC" {
            &mut line.stamp.utc
        } else {
            &mut line.stamp.local
        };
        *known = known.or(time);
        return journal(&rest[found[0].len()..], line);
    }
    let dated = begins_with_month(rest).then(|| SYSLOG.captures(rest));
    if let Some(found) = dated.flatten().filter(|found| found.get(1).is_some()) {
        program(&found, line);
        return Some(&rest[found[0].len()..]);
    }
    if let Some(shorter) = hostless(rest, line) {
        return Some(shorter);
    }
    if let Some(found) = begins_with_month(rest)
        .then(|| CTIME.captures(rest))
        .flatten()
    {
        line.stamp.local = line.stamp.local.or_else(|| stamp::ctime(&found[1]));
        return Some(&rest[found[0].len()..]);
    }
    // Compose puts names in this form before a line. A table of Ray may look like it, so only the
    // plain form is accepted.
    rest.contains('|').then(|| cut(&POD, rest))?
}

/// Returns whether a line begins like `Nov `. Hardly any line without a date is from a journal.
fn begins_with_month(rest: &str) -> bool {
    let begin = rest.as_bytes();
    begin.first().is_some_and(u8::is_ascii_uppercase) && begin.get(3) == Some(&b' ')
}

fn program(found: &regex::Captures<'_>, line: &mut LogLine) {
    let pid = found.get(4).and_then(|pid| pid.as_str().parse().ok());
    let day = found.get(1).and_then(|date| stamp::day(date.as_str()));
    line.stamp.day = line.stamp.day.or(day);
    // A level and a module before a message look alike.
    let is_sure = found.get(1).is_some() || pid.is_some() || &found[3] == "kernel";
    if is_sure {
        line.host = line.host.take().or_else(|| host(&found[2]));
    }
    line.program = Some((found[3].to_owned(), pid.map(Pid)));
}

/// Returns the name of a host, if it tells hosts apart. A level is no host.
fn host(name: &str) -> Option<String> {
    let is_level = name.bytes().all(|sign| sign.is_ascii_uppercase());
    (!is_level && name != "localhost").then(|| name.to_owned())
}

fn speaker<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let found = ray_prefix::speaker(rest)?;
    let name = found.name.trim().trim_end_matches(',');
    // Ray up to 1.0 prints `(pid=raylet, ip=…)`.
    let name = name.strip_prefix("pid=").unwrap_or(name);
    let pid = found.pid.and_then(|pid| pid.parse().ok()).map(Pid);
    let known = matches!(name, "raylet" | "gcs_server" | "autoscaler") || pid.is_some();
    if !known {
        return None;
    }
    line.speaker = Some(Speaker {
        name: name.to_owned(),
        pid,
        ip: found.ip.map(str::to_owned),
    });
    Some(&rest[found.length..])
}

/// Removes the prefix of a record of glog that ends its process.
fn glog_prefix<'a>(rest: &'a str, line: &mut LogLine) -> Option<&'a str> {
    let found = rest
        .starts_with('F')
        .then(|| GLOG.captures(rest))
        .flatten()?;
    let day = stamp::month_day(&found[1], &found[2], &found[3]);
    line.stamp.day = line.stamp.day.or(day);
    let component = ray_prefix::component_of(&found[5]).unwrap_or_default();
    let pid = found.get(4).and_then(|pid| pid.as_str().parse().ok());
    line.component = Some((component.to_owned(), Pid(pid.unwrap_or(0))));
    line.level = Some('C');
    Some(&rest[found[0].len()..])
}

/// Removes Ray's own prefix. Lines that the driver quotes are indented.
fn ray_prefix<'a>(rest: &'a str, line: &mut LogLine) -> &'a str {
    let trimmed = rest.trim_start();
    let Some(found) = ray_prefix::record(trimmed) else {
        return glog_prefix(trimmed, line).unwrap_or(rest);
    };
    line.stamp.local = stamp::local(found.time).or(line.stamp.local);
    let pid = Pid(found.pid.parse().unwrap_or(0));
    // In `raylet.err` no prefix names a component; only the raylet has a file of this name.
    let of_raylet = trimmed[..found.length].contains("] main.cc:");
    let unnamed = if of_raylet { "raylet" } else { "" };
    let component = found.component.unwrap_or(unnamed);
    // On Windows, the name of the program has an ending.
    let component = component.trim_end_matches(".exe");
    line.component = Some((component.to_owned(), pid));
    line.level = Some(found.level);
    line.record = Some(trimmed.to_owned());
    &trimmed[found.length..]
}
