//! Makes a Python frame with names of bounded length.
//!
//! A job may make up longer names, and each row of the recording has many.

use crate::event::PythonFrame;

/// How many bytes of a file's or a function's name are kept.
const LONGEST: usize = 300;

/// Makes the frame. Of a longer path the end is kept, of a longer function name the beginning.
pub(super) fn frame(file: &str, function: &str, line: u32) -> PythonFrame {
    let mut from = file.len().saturating_sub(LONGEST);
    while !file.is_char_boundary(from) {
        from += 1;
    }
    let mut to = function.len().min(LONGEST);
    while !function.is_char_boundary(to) {
        to -= 1;
    }
    PythonFrame {
        file: file[from..].to_owned(),
        function: function[..to].to_owned(),
        line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "ü".repeat(1000);
        let cut = frame(&format!("{long}/a.py"), &format!("f{long}"), 3);
        assert!(cut.file.len() <= LONGEST && cut.file.ends_with("ü/a.py"));
        assert!(cut.function.len() <= LONGEST && cut.function.starts_with("fü"));
        let whole = frame("/u/a.py", "f", 3);
        assert_eq!(
            (whole.file.as_str(), whole.function.as_str()),
            ("/u/a.py", "f")
        );
    }
}
