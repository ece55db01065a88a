//! Formats figures for `top`, and text to an exact width.

use crate::{
    ids::Bytes,
    show::{sanitize, size::size},
};

/// Slower growth is shown as 0, in bytes per second: the memory of an idle process varies that
/// much.
const STILL: f64 = 1024.0 * 1024.0 / 60.0;

/// Makes `text` harmless, and fills or cuts it to `width` columns.
pub(super) fn fit(text: &str, width: usize) -> String {
    let cut = cut(text, width);
    let missing = width.saturating_sub(sanitize::columns(&cut));
    cut + &" ".repeat(missing)
}

/// Makes `text` harmless, and cuts it to `width` columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    sanitize::cut_columns(&sanitize::line(text, sanitize::LONGEST), width)
}

/// Formats a rate as `+114 MiB/min`, as `0` if the figure hardly changes, and as nothing if it is
/// not known yet.
pub(super) fn rate(rate: Option<f64>) -> String {
    let Some(rate) = rate else {
        return String::new();
    };
    if rate.abs() < STILL {
        return "0".to_owned();
    }
    let minute = Bytes(60).times(rate.abs());
    let sign = if rate > 0.0 { '+' } else { '−' };
    format!("{sign}{}/min", size(minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_fitted_to_the_width() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("任务任务", 5), "任务…");
        assert_eq!(fit("\u{1b}[31m", 8), "\\e[31m  ");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn rates_are_shown_per_minute() {
        assert_eq!(rate(Some(2.0 * 1024.0 * 1024.0)), "+0.1 GiB/min");
        assert_eq!(rate(Some(-50_000.0)), "−3 MiB/min");
        assert_eq!((rate(Some(10.0)), rate(None)), ("0".into(), String::new()));
    }
}
