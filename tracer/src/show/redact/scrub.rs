//! Removes names, addresses, paths and command arguments from free text.
//!
//! It remembers which pseudonym each got.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    sync::LazyLock,
};

use regex::{Captures, Regex};

use super::{known_names::KnownNames, public};
use crate::{
    path,
    ray::{framework, log::monitor_kill},
};

/// The search for identifying parts of free text. If two alternatives match at one place, the first
/// one wins.
static IDENTIFYING: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        // A command line that Ray's older kill records quote, up to the end of the text.
        &format!("(?P<commands>{}.*)", monitor_kill::TABLE_PATTERN),
        // A command line of a child that died, as a shell quotes it, and one that earlyoom quotes.
        r"(?P<shell>(?P<head>(?:\bline \d+: +\d+|\[\d+\][+-]) +(?:Killed|Terminated|Aborted|Segmentation fault|Bus error|Illegal instruction)\b)\s+\S.*)",
        r#"(?P<cmdline>\bcmdline ".*)"#,
        // A variable of a command's environment.
        r#"(?P<variable>\b[A-Z][A-Z0-9_]*=(?:"[^"]*(?:"|$)|'[^']*(?:'|$)|\S+))"#,
        // A token, recognized by its prefix.
        r"(?P<token>\b(?:hf_[A-Za-z0-9]|(?:sk|glpat|xox[abprs])-[\w-]|(?:gh[pousr]|github_pat)_\w|AKIA[A-Z0-9]{4}|ASIA[A-Z0-9]{4}|AIza[\w-]|eyJ[\w.-])[\w.-]{7,})",
        // A user at a host.
        r"(?P<account>\b[\w.-]+@[\w.-]+)",
        // A URL with its path and parameters.
        r#"(?P<url>\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>),;]+)"#,
        // An absolute path, and a relative one with three names or a file extension.
        r#"(?P<path>(?:\B(?:~|\.{1,3})?(?:/+[^\s/"'<>|:;,()\[\]{}=]+)+/*)|\b[\w.-]+(?:/[\w.-]+){2,}|\b[\w.-]+/[\w.-]+\.[a-z]{1,6}\b)"#,
        r"(?P<mac>\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b)",
        r"(?P<ipv6>(?:\b[0-9a-fA-F]{1,4}:|\B::)[0-9a-fA-F:.]*[0-9a-fA-F]\b|\b(?:[0-9a-fA-F]{1,4}:)+:\B)",
        r"(?P<ipv4>\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b)",
        // A host name, recognized by its suffix.
        r"(?P<domain>\b(?:[a-zA-Z0-9-]+\.)+(?:local|internal|localdomain|lan|corp|com|net|org|io|ai|cn|de|edu|gov|cloud|svc)\b)",
        r"(?P<node>\bip-\d+-\d+-\d+-\d+\b)",
        // An option's value.
        r"(?P<option>\B--?[a-zA-Z][\w.-]*=\S+)",
        // A user, after a word like `user=`.
        r"(?P<user>\b(?i:user|username|login)[=:] ?[a-zA-Z_][\w-]*)",
    ];
    compile(&parts.join("|"))
});

/// An option with its value after a space, as on a command line.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?P<name>\B--?[a-zA-Z][\w.-]*)[ \t]+(?P<value>"[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s"'-]\S*)"#,
    )
});

/// Words that may follow an option in a sentence and are not its value.
const NO_VALUES: [&str; 12] = [
    "is", "was", "were", "to", "and", "or", "in", "on", "for", "has", "with", "of",
];
/// Ids that look like a variable in Ray's messages.
const IDS: [&str; 6] = ["ID", "PID", "PGID", "UID", "GID", "TID"];
/// Prefixes of variables with values that identify nobody, and that advice names.
const KNOBS: [&str; 5] = ["CUDA_", "MALLOC_", "NCCL_", "OMP_", "PYTORCH_"];
/// Paths that every Linux machine has, and those of Ray that advice names.
const COMMON_PATHS: [&str; 7] = [
    "/",
    "/dev/shm",
    "/dev/kmsg",
    "/dev/null",
    "/tmp/ray",
    "/tmp/ray/session_latest",
    "/tmp/ray/session_DATE",
];
/// Options of Ray with figures, which advice names.
const FIGURES: [&str; 4] = ["memory", "object-store-memory", "num-cpus", "num-gpus"];
/// Shorter arguments are words like `start`, which free text needs.
const SHORTEST_ARGUMENT: usize = 6;

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants; a test compiles them"
)]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// Removes what identifies, and keeps the pseudonyms that were given so far.
#[derive(Debug, Default)]
pub(super) struct Scrubber {
    given: BTreeMap<(&'static str, String), String>,
    counts: BTreeMap<&'static str, usize>,
    /// Host names and their first labels.
    hosts: BTreeMap<String, String>,
    /// File name of the recording.
    file: Option<String>,
    /// Names of users, by their home folders.
    users: BTreeSet<String>,
    /// Whole command lines, with their lengths.
    commands: BTreeSet<(usize, String)>,
    /// Their arguments, if they are not plain words.
    arguments: BTreeSet<String>,
    /// Names of classes, tasks and methods, which stay.
    code: BTreeSet<String>,
    /// Keys of the settings in the report, which stay.
    keys: BTreeSet<String>,
}

impl Scrubber {
    /// Returns the stable pseudonym of `value`. A pseudonym stays as it is.
    pub(super) fn pseudonym(&mut self, kind: &'static str, value: &str) -> String {
        if is_pseudonym(kind, value) {
            return value.to_owned();
        }
        if let Some(given) = self.given.get(&(kind, value.to_owned())) {
            return given.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{kind}-{count}");
        self.given.insert((kind, value.to_owned()), name.clone());
        name
    }

    /// Learns a host name. Free text may hold it in full or as its first label.
    pub(super) fn learn_host(&mut self, host: &str) {
        let name = self.pseudonym("host", host);
        let label = host.split('.').next().unwrap_or(host);
        for known in [host, label] {
            if known.len() > 2 && known != name && known != "localhost" {
                self.hosts.insert(known.to_owned(), name.clone());
            }
        }
    }

    /// Learns the file name of the recording.
    pub(super) fn learn_file(&mut self, name: &str) {
        self.file = Some(name.to_owned());
    }

    /// Learns the name of a class, task or method. It stays wherever it is found.
    pub(super) fn learn_code(&mut self, name: &str) {
        self.code.insert(name.to_owned());
    }

    /// Learns the key of a setting. It stays wherever it is found.
    pub(super) fn learn_key(&mut self, key: &str) {
        self.keys
            .insert(key.trim_start_matches(['+', '-']).to_owned());
    }

    /// Learns the names in any text, and gives each a pseudonym.
    pub(super) fn learn(&mut self, text: &str) {
        self.learn_homes(text);
        self.text(text);
    }

    /// Returns all names that were found so far.
    pub(super) fn known_names(&mut self) -> KnownNames {
        for user in self.users.clone() {
            self.pseudonym("user", &user);
        }
        let given = self.given.iter();
        let given = given.map(|((kind, value), name)| (*kind, value.as_str(), name.as_str()));
        let hosts = self.hosts.iter();
        let hosts = hosts.map(|(host, name)| ("host", host.as_str(), name.as_str()));
        KnownNames::new(given.chain(hosts))
    }

    /// Learns users from the names of home folders.
    fn learn_homes(&mut self, text: &str) {
        let ends = |one: char| !(one.is_alphanumeric() || "._-".contains(one));
        for home in ["/home/", "/Users/"] {
            for (at, _) in text.match_indices(home) {
                let user = text[at + home.len()..].split(ends).next();
                self.users
                    .extend(user.filter(|user| user.len() > 2).map(str::to_owned));
            }
        }
    }

    /// Learns a command line, its arguments, and the users that its home folders name. Free text
    /// may quote the whole line or an argument.
    pub(super) fn learn_command(&mut self, command: &str) {
        if command.starts_with("ray::") || command.ends_with(" …") {
            return;
        }
        self.learn_homes(command);
        let arguments = command.split_whitespace().skip(1);
        let values = arguments.flat_map(|argument| {
            match argument.split_once('=') {
                // The report prints figures of settings.
                Some((key, value)) if self.is_public_key(key) && value.parse::<f64>().is_ok() => "",
                Some((key, values)) if self.is_public_key(key) => values,
                _ => argument,
            }
            .split('=')
        });
        let telling = values.filter(|value| {
            value.len() >= SHORTEST_ARGUMENT
                && !value.starts_with('-')
                && value.chars().any(|one| !one.is_alphabetic())
        });
        let telling: Vec<String> = telling.map(str::to_owned).collect();
        self.arguments.extend(telling);
        if command.trim().contains(' ') {
            let command = command.to_owned();
            self.commands.insert((command.len(), command));
        }
    }

    /// Returns whether a key is that of a framework and not the user's own.
    fn is_public_key(&self, key: &str) -> bool {
        let key = key.trim_start_matches(['+', '-']);
        framework::is_known(key) || public::KEYS.contains(&key) || self.keys.contains(key)
    }

    /// Redacts a file of Python. A file of a public package is named from the package on. Another
    /// is named by its last part. That is a name of code, like those of its functions, and is
    /// replaced only if a command line has it.
    pub(super) fn code_file(&mut self, file: &str) -> String {
        match public::file(file) {
            Some(public) => public.to_owned(),
            None => self.replace_known_names(path::base(file)),
        }
    }

    pub(super) fn host(&mut self, host: &str) -> String {
        self.pseudonym("host", host)
    }

    pub(super) fn path(&mut self, path: &str) -> String {
        if COMMON_PATHS.contains(&path) {
            return path.to_owned();
        }
        if let Some(public) = public::file(path) {
            return public.to_owned();
        }
        self.pseudonym("path", path.trim_end_matches('/'))
    }

    /// Redacts a title. One that Ray set stays, up to its first space. A command line is named by
    /// its program.
    pub(super) fn title(&mut self, title: &str) -> String {
        match title.strip_prefix("ray::") {
            Some(name) => {
                let name = name
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                format!("ray::{}", self.text(&name))
            }
            None => self.command(title),
        }
    }

    /// Reduces a command line to its program.
    pub(super) fn command(&mut self, command: &str) -> String {
        let mut words = command
            .split_whitespace()
            .skip_while(|word| assigned(word).is_some());
        let program = path::base(words.next().unwrap_or_default()).to_owned();
        let program = self.text(&program);
        match words.next() {
            Some(_) => format!("{program} …"),
            None => program,
        }
    }

    /// Redacts the value of a setting. Numbers and switches stay.
    pub(super) fn setting(&mut self, value: &str) -> String {
        let figure = value.parse::<f64>().is_ok();
        let switch = ["true", "false", "on", "off", "yes", "no", "null", ""]
            .contains(&value.to_lowercase().as_str());
        if figure || switch {
            value.to_owned()
        } else {
            self.pseudonym("value", value)
        }
    }

    /// Replaces each text by what `change` makes of it.
    pub(super) fn each<'a>(
        &mut self,
        change: impl Fn(&mut Self, &str) -> String,
        texts: impl IntoIterator<Item = &'a mut String>,
    ) {
        for text in texts {
            *text = change(self, text);
        }
    }

    /// Redacts a line of a log or a command line. There an option is followed by its value, in a
    /// sentence by a word.
    pub(super) fn quote(&mut self, text: &str) -> String {
        let text = PAIR.replace_all(text, |found: &Captures<'_>| {
            if NO_VALUES.contains(&&found["value"]) {
                found[0].to_owned()
            } else {
                format!("{} …", &found["name"])
            }
        });
        self.text(&text)
    }

    /// Redacts a name of code. It stays, except for a token in it.
    pub(super) fn code(&mut self, name: &str) -> String {
        let found = IDENTIFYING.captures_iter(name);
        let tokens: Vec<&str> = found
            .filter_map(|found| found.name("token"))
            .map(|found| found.as_str())
            .collect();
        tokens.into_iter().fold(name.to_owned(), |name, token| {
            name.replace(token, &self.token(token))
        })
    }

    /// Redacts a note on a recording. It may name the recording's file, which contains the name of
    /// its host.
    pub(super) fn note(&mut self, text: &str) -> String {
        let is_part = |letter: char| letter.is_alphanumeric() || "._-".contains(letter);
        let file = self.file.as_deref().filter(|file| !file.is_empty());
        let Some(file) = file else {
            return self.text(text);
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(file) {
            let within = before.ends_with(is_part) || after.starts_with(is_part);
            out += before;
            out += if within { file } else { "FILE" };
            rest = after;
        }
        out += rest;
        self.text(&out)
    }

    /// Redacts free text.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        // Of two command lines that begin alike, the longer one must be found first.
        for (_, command) in self.commands.clone().into_iter().rev() {
            if text.contains(&command) {
                let short = self.command(&command);
                text = replace_whole(&text, &command, &short);
            }
        }
        let text = IDENTIFYING.replace_all(&text, |found: &Captures<'_>| self.replace(found));
        self.replace_known_names(&text)
    }

    fn replace(&mut self, found: &Captures<'_>) -> String {
        let whole = found.get(0).map_or("", |found| found.as_str());
        let is = |kind: &str| found.name(kind).is_some();
        match () {
            () if is("commands") => "(command lines taken out)".to_owned(),
            () if is("shell") => format!("{} (command line taken out)", &found["head"]),
            () if is("cmdline") => "cmdline …".to_owned(),
            () if is("variable") => variable(whole),
            () if is("token") => self.token(whole),
            () if is("account") => self.account(whole),
            () if is("path") => self.path(whole),
            () if is("url") => self.pseudonym("url", whole),
            () if is("mac") || is("ipv4") => self.pseudonym("address", whole),
            () if is("ipv6") && whole.parse::<Ipv6Addr>().is_err() => whole.to_owned(),
            () if is("ipv6") => self.pseudonym("address", whole),
            () if is("option") => option(whole),
            () if is("user") => self.user(whole),
            () => self.pseudonym("host", whole),
        }
    }

    fn account(&mut self, account: &str) -> String {
        let (user, host) = account.split_once('@').unwrap_or((account, ""));
        let host = match self.hosts.get(host) {
            Some(known) => known.clone(),
            None => self.pseudonym("host", host),
        };
        format!("{}@{host}", self.pseudonym("user", user))
    }

    /// Redacts a token. Names of code may begin like one, but have neither digits nor capitals.
    fn token(&mut self, text: &str) -> String {
        let random = |one: char| one.is_ascii_digit() || one.is_ascii_uppercase();
        if text.chars().any(random) {
            self.pseudonym("token", text)
        } else {
            text.to_owned()
        }
    }

    fn user(&mut self, text: &str) -> String {
        let at = text.rfind([' ', '=', ':']).map_or(0, |at| at + 1);
        let (lead, user) = text.split_at(at);
        format!("{lead}{}", self.pseudonym("user", user))
    }

    /// Replaces known hosts, users and arguments that are whole words.
    fn replace_known_names(&mut self, text: &str) -> String {
        let mut out = String::new();
        let is_word = |character: char| character.is_alphanumeric() || "-_.".contains(character);
        let mut rest = text;
        while let Some(start) = rest.find(is_word) {
            let (before, tail) = rest.split_at(start);
            let end = tail
                .find(|character| !is_word(character))
                .unwrap_or(tail.len());
            let (word, after) = tail.split_at(end);
            out.push_str(before);
            out.push_str(&self.known_name(word));
            rest = after;
        }
        out.push_str(rest);
        out
    }

    fn known_name(&mut self, word: &str) -> String {
        let bare = word.trim_end_matches('.');
        if let Some(host) = self.hosts.get(bare) {
            return word.replacen(bare, host, 1);
        }
        if self.users.contains(bare) {
            return word.replacen(bare, &self.pseudonym("user", bare), 1);
        }
        if self.arguments.contains(bare) && !self.code.contains(bare) {
            return word.replacen(bare, &self.pseudonym("argument", bare), 1);
        }
        word.to_owned()
    }
}

/// Returns the name and value of `NAME=value`.
fn assigned(word: &str) -> Option<(&str, &str)> {
    let known = |one: u8| one.is_ascii_uppercase() || one.is_ascii_digit() || one == b'_';
    word.split_once('=')
        .filter(|(name, _)| !name.is_empty() && name.bytes().all(known))
}

/// Redacts a variable. Its name stays. Its value stays if it is an id, that of a known knob, or a
/// number or switch of a `RAY_` variable.
fn variable(text: &str) -> String {
    let Some((name, value)) = assigned(text) else {
        return text.to_owned();
    };
    let bare = value.trim_end_matches([',', ';', '.', ')', ':', '`', '"']);
    let figure = bare.parse::<f64>().is_ok() || ["true", "false"].contains(&bare);
    let knob = KNOBS.iter().any(|knob| name.starts_with(knob)) && !value.contains(['/', '@']);
    if IDS.contains(&name) || knob || (figure && name.starts_with("RAY_")) {
        text.to_owned()
    } else {
        format!("{name}=…")
    }
}

/// Redacts an option: its name stays, and its value is removed. A mark of the sentence that follows
/// the value stays.
fn option(text: &str) -> String {
    match text.split_once('=') {
        Some((name, value)) => {
            let bare = value.trim_end_matches([',', ';', ')', ':']);
            let is_figure = bare.parse::<f64>().is_ok();
            if is_figure && FIGURES.contains(&name.trim_start_matches('-')) {
                return text.to_owned();
            }
            format!("{name}=…{}", &value[bare.len()..])
        }
        None => text.to_owned(),
    }
}

/// Replaces a command line where it stands whole. What only begins like it is another one.
fn replace_whole(text: &str, command: &str, short: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(command) {
        let joins = |one: char| one.is_alphanumeric() || "-_./=:@,".contains(one);
        let joined = after.split(|one| !joins(one)).next().unwrap_or_default();
        let goes_on = joined.contains(char::is_alphanumeric);
        out += before;
        out += if goes_on { command } else { short };
        rest = after;
    }
    out + rest
}

fn is_pseudonym(kind: &str, value: &str) -> bool {
    let number = value
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scrub(text: &str) -> String {
        Scrubber::default().text(text)
    }

    #[test]
    fn paths_addresses_and_accounts_get_pseudonyms() {
        let cases = [
            ("open /data/x/y.bin failed", "open path-1 failed"),
            (
                "at 10.0.3.17:6379, port 6379",
                "at address-1:6379, port 6379",
            ),
            (
                "from fe80::1 to 2001:db8::8:1",
                "from address-1 to address-2",
            ),
            ("lin@login-3 said so", "user-1@host-1 said so"),
            ("on node7.cluster.local now", "on host-1 now"),
            ("s3://bucket/key?sig=1", "url-1"),
            ("/a/b then /a/b and /a/c", "path-1 then path-1 and path-2"),
            ("in src/app/secret.py", "in path-1"),
            (
                "verl/workers/rollout/hf_rollout.py:109 f, in /v/site-packages/torch/nn/linear.py:5 g",
                "verl/workers/rollout/hf_rollout.py:109 f, in torch/nn/linear.py:5 g",
            ),
            (
                "/home/lin/verl/secret.py:3 and /v/site-packages/acme/x.py:4",
                "path-1:3 and path-2:4",
            ),
            ("user=lin did it", "user=user-1 did it"),
            ("run with --token=abc --fast", "run with --token=… --fast"),
            (
                "HF_TOKEN=abc WANDB_API_KEY='a b' RAY_AUTH_TOKEN=x9 python3",
                "HF_TOKEN=… WANDB_API_KEY=… RAY_AUTH_TOKEN=… python3",
            ),
            (
                "for Acme with hf_AbCdEfGhIjKl and sk-live-12345",
                "for Acme with token-1 and token-2",
            ),
            (
                "run.sh: line 12:  4218 Killed                  python3 -m verl.main project=secret",
                "run.sh: line 12:  4218 Killed (command line taken out)",
            ),
            (
                r#"process 4242 uid 1000 "python3": badness 900, cmdline "python3 x.py --api-key "#,
                r#"process 4242 uid 1000 "python3": badness 900, cmdline …"#,
            ),
            (
                "kill; Top 10 memory users: PID MEM(GB) COMMAND 28 3 python a.py --key=1",
                "kill; (command lines taken out)",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(scrub(text), want);
        }
    }

    #[test]
    fn figures_times_ids_and_names_of_code_stay() {
        for text in [
            "WorkerDict.actor_rollout_generate_sequences (pid 3300, 8.1 GiB) was ended at 08:41:07.482",
            "Killing 1 worker(s): pid=41877, memory used=3.41 GB / 4.00 GB",
            "exit_type=4 worker_id=a3960000000000000000",
            "std::bad_alloc in torch::autograd::Engine",
            "signal 9 from raylet (pid 1998), si_code 0: took effect",
            "its owner had died; 23.95/24.00 GiB; oom/mark_victim; by an user request",
            "RAY_DEDUP_LOGS=0 shows them; RAY_memory_usage_threshold=0.9, MALLOC_ARENA_MAX=2",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; job ID=01000000, worker ID=2abec82d",
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null), hf_generate_batches",
            "journalctl -k --since \"2026-11-20 08:03:30 UTC\" | grep -i -e oom; a full /dev/shm causes that",
        ] {
            assert_eq!(scrub(text), text);
        }
    }

    #[test]
    fn options_of_a_quoted_command_lose_their_values() {
        let mut scrubber = Scrubber::default();
        for (text, want) in [
            (
                "python3 train.py --api-key live-12345 -n lin --fast --title 'two words' --name \"cut of",
                "python3 train.py --api-key … -n … --fast --title … --name …",
            ),
            (
                "(2) ray stop --force is called, or --enable-resource-isolation to prevent it",
                "(2) ray stop --force is called, or --enable-resource-isolation to prevent it",
            ),
        ] {
            let once = scrubber.quote(text);
            assert_eq!(once, want);
            assert_eq!(scrubber.quote(&once), want);
        }
    }

    #[test]
    fn command_that_begins_like_another_is_removed_whole() {
        let mut scrubber = Scrubber::default();
        for command in ["/init act eat", "/init act eat-with-a-sharer"] {
            scrubber.learn_command(command);
        }
        for (text, want) in [
            (
                "/init act eat-with-a-sharer alone held it",
                "init … alone held it",
            ),
            ("/init act eat, then /init act eat.", "init …, then init …."),
        ] {
            assert_eq!(scrubber.text(text), want);
        }
        let mut scrubber = Scrubber::default();
        scrubber.learn_command("python3 train.py --key=abc");
        let text = "python3 train.py --key=abcdef ended";
        assert_eq!(scrubber.text(text), "python3 argument-1 --key=… ended");
        let text = "ray start --object-store-memory=BYTES, fewer workers";
        assert_eq!(
            scrubber.text(text),
            "ray start --object-store-memory=…, fewer workers"
        );
    }

    #[test]
    fn command_skips_variables_before_its_program() {
        let command = "DATA=/home/lin/x TOKEN=abc python3 train.py";
        assert_eq!(Scrubber::default().command(command), "python3 …");
    }

    const SECRET: [&str; 9] = [
        "/data/lin/x.bin",
        "lin@login-3",
        "10.0.3.17",
        "2001:db8::8:1",
        "node7.cluster.local",
        "s3://bucket/key",
        "--token=abc",
        "HF_TOKEN=abc",
        "sk-live-12345",
    ];
    const PLAIN: [&str; 6] = [
        "worker",
        "WorkerDict.run",
        "pid=41877",
        "08:41:07",
        "3.41 GB",
        "std::bad_alloc",
    ];

    proptest! {
        #[test]
        fn scrubbing_is_complete_and_idempotent(
            words in prop::collection::vec(
                prop_oneof![prop::sample::select(&SECRET[..]), prop::sample::select(&PLAIN[..])],
                0..12,
            ),
            gap in prop::sample::select(&[" ", ", ", "; ", " ("][..]),
        ) {
            let text = words.join(gap);
            let once = scrub(&text);
            prop_assert_eq!(&scrub(&once), &once);
            for secret in SECRET {
                prop_assert!(!once.contains(secret), "{secret} in {once}");
            }
            for plain in PLAIN {
                prop_assert_eq!(text.contains(plain), once.contains(plain));
            }
        }
    }
}
