//! The resolved configuration that a framework prints of itself: verl's `TaskRunner` with Python's `pprint`, `EasyR1`'s `Runner` as JSON.
//!
//! Read line by line until the braces close; of all its keys only those that [`framework`] knows are kept, flat: `data.val_batch_size`.
//! A text that ends in the middle, or that another print cuts in two, says nothing.

use crate::ray::framework;

/// A configuration that is longer is none.
const MAX_BYTES: usize = 256 << 10;
/// Deeper nesting is no configuration's.
const MAX_DEPTH: usize = 32;

/// Reads one writer's lines.
#[derive(Debug, Default)]
pub struct Configuration {
    open: Option<Open>,
}

/// What has come of a configuration.
#[derive(Debug, Default)]
struct Open {
    text: String,
    depth: usize,
    /// The quote that a string is in.
    quote: Option<char>,
}

impl Configuration {
    /// Whether the next line may belong to it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a line; hands out the settings at the line that closes the configuration, where any is known.
    pub fn push(&mut self, line: &str) -> Option<Vec<(String, String)>> {
        if self.open.is_none() {
            self.open = Some(begin(line)?);
        }
        let open = self.open.as_mut()?;
        // transformers prints a model's as `Qwen2Config {` and JSON; verl puts words before it.
        let model = open.text.is_empty() && is_model(line);
        open.take(if model { "{" } else { line });
        if open.text.len() > MAX_BYTES {
            self.open = None;
            return None;
        }
        if open.depth > 0 {
            return None;
        }
        let text = self.open.take()?.text;
        let settings = flat(&text)?;
        (!settings.is_empty()).then_some(settings)
    }
}

/// Whether a line opens one: `{'actor_rollout_ref': …`, `{` alone, or the first key of `EasyR1`'s where the brace's line was passed over.
fn begin(line: &str) -> Option<Open> {
    let line = line.trim();
    if is_model(line) || line == "{" || line.starts_with("{'") || line.starts_with("{\"") {
        return Some(Open::default());
    }
    (line == "\"data\": {").then(|| Open {
        text: "{".into(),
        depth: 1,
        quote: None,
    })
}

fn is_model(line: &str) -> bool {
    line.trim_end().ends_with("Config {")
}

impl Open {
    fn take(&mut self, line: &str) {
        let mut escaped = false;
        for character in line.chars() {
            match (self.quote, character) {
                (Some(_), _) if escaped => escaped = false,
                (Some(_), '\\') => escaped = true,
                (Some(quote), _) if quote == character => self.quote = None,
                (None, '\'' | '"') => self.quote = Some(character),
                (None, '{' | '[' | '(') => self.depth += 1,
                (None, '}' | ']' | ')') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        // Neither form breaks a string over lines.
        self.quote = None;
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// The known settings of a whole text; `None` where it is no literal of Python's or JSON's.
fn flat(text: &str) -> Option<Vec<(String, String)>> {
    let mut reader = Reader {
        rest: text,
        found: Vec::new(),
    };
    reader.value("", 0)?;
    Some(reader.found)
}

/// A literal, read once from left to right.
struct Reader<'a> {
    rest: &'a str,
    found: Vec<(String, String)>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let there = self.next() == Some(wanted);
        if there {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        there
    }

    /// Reads the value of `path` and hands it out as text; of a map, its keys are kept and nothing is handed out.
    fn value(&mut self, path: &str, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.next()? {
            '{' => self.map(path, depth),
            '[' | '(' => self.list(depth),
            '\'' | '"' => self.string(),
            _ => self.word(),
        }
    }

    fn map(&mut self, path: &str, depth: usize) -> Option<String> {
        self.eat('{');
        while !self.eat('}') {
            let key = self.value("", depth + 1)?;
            let key = if path.is_empty() {
                key
            } else {
                format!("{path}.{key}")
            };
            if !self.eat(':') {
                return None;
            }
            let nested = self.next()? == '{';
            let value = self.value(&key, depth + 1)?;
            if !nested && framework::is_known(&key) {
                self.found.push((key, value));
            }
            self.eat(',');
        }
        Some(String::new())
    }

    fn list(&mut self, depth: usize) -> Option<String> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while !self.eat(']') && !self.eat(')') {
            items.push(self.value("", depth + 1)?);
            self.eat(',');
        }
        Some(format!("[{}]", items.join(",")))
    }

    /// Adjacent strings are one: `pprint` breaks long ones so.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        while let Some(quote @ ('\'' | '"')) = self.next() {
            let body = &self.rest[1..];
            let mut escaped = false;
            let end = body.char_indices().find_map(|(at, character)| {
                let ends = character == quote && !escaped;
                escaped = character == '\\' && !escaped;
                ends.then_some(at)
            })?;
            text.push_str(&body[..end]);
            self.rest = &body[end + 1..];
        }
        Some(text)
    }

    /// `True`, `null`, `1e-06`.
    fn word(&mut self) -> Option<String> {
        let end = self
            .rest
            .find([',', '}', ']', ')', ':', '\n'])
            .unwrap_or(self.rest.len());
        let word = self.rest[..end].trim();
        self.rest = &self.rest[end..];
        (!word.is_empty()).then(|| word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As verl's `TaskRunner` prints it; shortened.
    const VERL: &str = "\
{'actor_rollout_ref': {'actor': {'checkpoint': {'async_save': False,
                                                'save_contents': ['model',
                                                                  'optimizer',
                                                                  'extra']},
                                 'fsdp_config': {'offload_policy': False,
                                                 'optimizer_offload': True,
                                                 'param_offload': True}},
                       'model': {'path': '/models/it\\'s {here}',
                                 'custom': 'a long '
                                           'one'},
                       'rollout': {'gpu_memory_utilization': 0.4}},
 'data': {'train_files': ['a', 'b'], 'val_batch_size': None}}";

    /// As `EasyR1`'s `Runner` prints it; shortened.
    const EASY_R1: &str = r#"{
  "data": {
    "train_files": "hiyouga/geometry3k@train",
    "val_batch_size": 1024
  },
  "worker": {
    "actor": {
      "offload": {
        "offload_params": true,
        "offload_optimizer": true
      }
    },
    "ref": {"fsdp": {"enable_cpu_offload": true}}
  }
}"#;

    fn read(text: &str) -> Vec<Vec<(String, String)>> {
        let mut reader = Configuration::default();
        text.lines().filter_map(|line| reader.push(line)).collect()
    }

    fn value(settings: &[(String, String)], key: &str) -> String {
        let found = settings.iter().find(|(known, _)| known == key);
        found
            .unwrap_or_else(|| panic!("{key}: {settings:?}"))
            .1
            .clone()
    }

    #[test]
    fn the_vocabulary_of_a_model_is_read_from_what_transformers_prints() {
        let text = "Model config after override: Qwen2Config {\n  \"hidden_size\": 64,\n  \"vocab_size\": 151936\n}\n";
        let found = read(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(value(&found[0], "vocab_size"), "151936");
    }

    #[test]
    fn what_pprint_and_json_print_is_read_as_flat_keys() {
        let found = read(&format!("TaskRunner hostname: a, PID: 7\n{VERL}\nnext"));
        let [verl] = found.as_slice() else {
            panic!("{found:?}")
        };
        let actor = "actor_rollout_ref.actor";
        assert_eq!(
            value(verl, &format!("{actor}.fsdp_config.param_offload")),
            "True"
        );
        assert_eq!(value(verl, "data.val_batch_size"), "None");
        assert_eq!(
            value(verl, &format!("{actor}.checkpoint.save_contents")),
            "[model,optimizer,extra]"
        );
        assert!(
            verl.iter().all(|(key, _)| !key.contains("path")),
            "{verl:?}"
        );
        let [easy] = &read(EASY_R1)[..] else {
            panic!("one")
        };
        assert_eq!(value(easy, "worker.actor.offload.offload_params"), "true");
        assert_eq!(value(easy, "worker.ref.fsdp.enable_cpu_offload"), "true");
        let headless = EASY_R1.trim_start_matches("{\n");
        assert_eq!(read(headless), read(EASY_R1));
    }

    #[test]
    fn what_is_cut_short_or_cut_in_two_or_only_looks_alike_says_nothing() {
        let half: Vec<&str> = VERL.lines().take(6).collect();
        assert_eq!(
            read(&half.join(
                "
"
            )),
            Vec::<Vec<_>>::new()
        );
        let mixed = VERL.replace(" 'data'", "INFO loading\n 'data'");
        assert_eq!(read(&mixed), Vec::<Vec<_>>::new());
        assert_eq!(read("{'loss': 0.25, 'step': 7}"), Vec::<Vec<_>>::new());
        assert_eq!(read("{[(\n}\n{'"), Vec::<Vec<_>>::new());
    }
}
