//! Renders reports as JSON. The form is stable and pretty-printed.
//!
//! Foreign text stays as it is, but the JSON is safe to show on a terminal: characters that
//! `sanitize` would not show as themselves are written as `\u` escapes, which every JSON parser
//! reads back.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::{
    judge::{diff::Diff, report::Report},
    show::sanitize::is_harmless,
};

/// Renders the report as one pretty-printed object with a final newline.
pub fn render(report: &Report) -> Result<String, serde_json::Error> {
    pretty(report)
}

/// Writes the report in the same form. The text of a large one is never in memory as a whole.
pub fn write(report: &impl Serialize, output: &mut impl io::Write) -> serde_json::Result<()> {
    let formatter = Harmless(PrettyFormatter::new());
    report.serialize(&mut Serializer::with_formatter(&mut *output, formatter))?;
    output.write_all(b"\n").map_err(serde_json::Error::io)
}

/// Renders the comparison of two recordings in the same form.
pub fn render_diff(diff: &Diff) -> Result<String, serde_json::Error> {
    pretty(diff)
}

/// Renders any object in the same form.
pub(super) fn pretty(report: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    write(report, &mut text)?;
    Ok(String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The pretty form of `serde_json` with hidden and control characters escaped.
struct Harmless(PrettyFormatter<'static>);

impl Formatter for Harmless {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut units = [0; 2];
        for character in fragment.chars() {
            if is_harmless(character) {
                write!(writer, "{character}")?;
                continue;
            }
            for unit in character.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
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
