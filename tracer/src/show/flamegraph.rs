//! Renders the flame graph of memory growth.
//!
//! A width is how much memory grew through a stack, in MiB. The first row says what became of that
//! memory.

use inferno::flamegraph::{Options, from_lines};

/// Renders [folded stacks](crate::judge::Judge::folded) as SVG.
pub fn render(folded: &[String]) -> std::io::Result<Vec<u8>> {
    let mut options = Options::default();
    "Memory growth by line of Python".clone_into(&mut options.title);
    options.subtitle = Some("resident memory; shared memory is what was touched of it".into());
    "MiB".clone_into(&mut options.count_name);
    options.factor = 1.0 / f64::from(1 << 20);
    let mut svg = Vec::new();
    from_lines(&mut options, folded.iter().map(String::as_str), &mut svg)
        .map_err(std::io::Error::other)?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_bytes_and_names_are_escaped() {
        let folded = [
            "given back;Trainer;a.py:2 borrow 104857600".to_owned(),
            "still held;Trainer;a.py:1 <module> 314572800".to_owned(),
        ];
        let svg = String::from_utf8(render(&folded).expect("a picture")).expect("text");
        assert!(svg.contains("still held (300 MiB, 75.00%)"), "{svg}");
        assert!(svg.contains("a.py:1 &lt;module&gt; (300 MiB"), "{svg}");
    }
}
