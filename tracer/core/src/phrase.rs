//! Words plurals, lists and ranges of numbers.

/// `1 death`, `19 deaths`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{} {many}", thousands(number as u64))
    }
}

/// Returns a part of a sentence that is said only if something is so.
pub fn when(is_so: bool, part: &str) -> &str {
    if is_so { part } else { "" }
}

/// `48,211`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Returns `1, 3 and 5–9`. Two numbers are not a range: `1, 3, 5 and 6`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in sorted {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => runs.push((number, number)),
        }
    }
    // Two numbers are not a range.
    let runs = runs.into_iter().flat_map(|(start, end)| match end - start {
        1 => vec![(start, start), (end, end)],
        _ => vec![(start, end)],
    });
    let shown: Vec<String> = runs
        .map(|(start, end)| match end - start {
            0 => start.to_string(),
            _ => format!("{start}–{end}"),
        })
        .collect();
    join(&shown)
}

/// Joins the parts that are known.
pub fn known(parts: impl IntoIterator<Item = Option<String>>, sign: &str) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(sign))
}

/// ` (a, b)`; nothing for no parts.
pub fn in_brackets(parts: &[String]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    format!(" ({})", parts.join(", "))
}

/// `a, b and 3 more`.
pub fn first(parts: &[String], most: usize) -> String {
    let shown = parts[..parts.len().min(most)].join(", ");
    match parts.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// `a, b and c`.
pub fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
