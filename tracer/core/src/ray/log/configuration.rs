//! Reads the resolved configuration that a framework prints.
//!
//! verl's `TaskRunner` prints it with Python's `pprint`, `EasyR1`'s `Runner` as JSON.
//!
//! Lines are read until the braces close. Only the keys that [`framework`] knows are kept, as flat
//! keys: `data.val_batch_size`. A text that ends in the middle, or that another print cuts in two,
//! yields nothing.

use crate::ray::framework;

/// A longer text is not a configuration.
const MAX_BYTES: usize = 256 << 10;
/// The deepest nesting of a configuration.
const MAX_DEPTH: usize = 32;

/// Reads the lines of one writer.
#[derive(Debug, Default)]
pub struct Configuration {
    open: Option<PartialConfiguration>,
}

/// The part of a configuration that was read.
#[derive(Debug, Default)]
struct PartialConfiguration {
    text: String,
    depth: usize,
    /// The quote character of the string that the text is inside of.
    quote: Option<char>,
}

impl Configuration {
    /// Whether the next line may belong to a configuration.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a line. Returns the settings at the line that closes the configuration, if any is
    /// known.
    pub fn push(&mut self, line: &str) -> Option<Vec<(String, String)>> {
        if self.open.is_none() {
            self.open = Some(begin(line)?);
        }
        let open = self.open.as_mut()?;
        // transformers prints a model's configuration as `Qwen2Config {` and JSON; verl puts words
        // before it.
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

/// Begins a configuration if a line opens one: `{'actor_rollout_ref': …`, `{` alone, or the first
/// key of `EasyR1`'s, where the line with the brace was skipped.
fn begin(line: &str) -> Option<PartialConfiguration> {
    let line = line.trim();
    if is_model(line) || line == "{" || line.starts_with("{'") || line.starts_with("{\"") {
        return Some(PartialConfiguration::default());
    }
    (line == "\"data\": {").then(|| PartialConfiguration {
        text: "{".into(),
        depth: 1,
        quote: None,
    })
}

fn is_model(line: &str) -> bool {
    line.trim_end().ends_with("Config {")
}

impl PartialConfiguration {
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

/// Returns the known settings of a whole text; `None` where it is neither a Python literal nor
/// JSON.
fn flat(text: &str) -> Option<Vec<(String, String)>> {
    let mut reader = Reader {
        rest: text,
        found: Vec::new(),
    };
    reader.value("", 0)?;
    Some(reader.found)
}

/// Reads a literal once, from left to right.
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

    /// Reads the value of `path` and returns it as text. For a map, it keeps the keys and returns
    /// nothing.
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

    /// Adjacent strings are one: `pprint` breaks long strings that way.
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

    /// Reads `True`, `null` or `1e-06`.
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

    /// As verl's `TaskRunner` prints it, shortened.
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

    /// As `EasyR1`'s `Runner` prints it, shortened.
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
    fn model_vocabulary_is_read_from_transformers() {
        let text = "Model config after override: Qwen2Config {\n  \"hidden_size\": 64,\n  \"vocab_size\": 151936\n}\n";
        let found = read(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(value(&found[0], "vocab_size"), "151936");
    }

    #[test]
    fn pprint_and_json_are_read_as_flat_keys() {
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

    /// A text that another print cuts in two yields nothing either.
    #[test]
    fn cut_or_similar_text_is_no_configuration() {
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
