//! Renders reports as JSON. The form is stable and pretty-printed.
//!
//! Foreign text stays as it is, but the JSON is safe to show on a terminal: characters that
//! `sanitize` would not show as themselves are written as `\u` escapes, which every JSON parser
//! reads back.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::show::sanitize::is_harmless;

/// Renders an object in the pretty form with a final newline.
pub fn render(object: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    write(object, &mut text)?;
    Ok(String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Writes an object in the same form. The text of a large one is never in memory as a whole.
pub fn write(object: &impl Serialize, output: &mut impl io::Write) -> serde_json::Result<()> {
    let formatter = Harmless(PrettyFormatter::new());
    object.serialize(&mut Serializer::with_formatter(&mut *output, formatter))?;
    output.write_all(b"\n").map_err(serde_json::Error::io)
}

/// Escapes characters that a terminal would not show as themselves. JSON has such characters only
/// in strings.
pub(super) fn harmless(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if is_harmless(character) {
            shown.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            shown.push_str(&format!("\\u{unit:04x}"));
        }
    }
    shown
}

/// The pretty form of `serde_json` with hidden and control characters escaped.
struct Harmless(PrettyFormatter<'static>);

/// Leaves parts of the form to [`PrettyFormatter`].
macro_rules! as_pretty {
    ($($part:ident($($first:ident)?))*) => {$(
        fn $part<W>(&mut self, writer: &mut W $(, $first: bool)?) -> io::Result<()>
        where
            W: ?Sized + io::Write,
        {
            self.0.$part(writer $(, $first)?)
        }
    )*};
}

impl Formatter for Harmless {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        writer.write_all(harmless(fragment).as_bytes())
    }

    as_pretty! {
        begin_array() end_array() begin_array_value(first) end_array_value()
        begin_object() end_object() begin_object_key(first) begin_object_value() end_object_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::sample;

    #[test]
    fn hostile_text_is_escaped_and_reads_back() {
        let report = sample::hostile();
        let text = render(&report).expect("JSON");
        assert!(text.chars().all(|one| is_harmless(one) || one == '\n'));
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, serde_json::to_value(&report).expect("JSON"));
    }

    #[test]
    fn characters_beyond_16_bits_are_escaped_as_pairs() {
        let mut report = sample::quiet();
        report.notes = vec!["\u{e0041}\u{1f600}".into()];
        let text = render(&report).expect("JSON");
        assert!(text.contains("\"\\udb40\\udc41\u{1f600}\""), "{text}");
    }

    #[test]
    fn contract_of_a_report_with_one_death() {
        let mut report = sample::verl();
        report.deaths.truncate(1);
        insta::assert_snapshot!(render(&report).expect("JSON"));
    }
}
