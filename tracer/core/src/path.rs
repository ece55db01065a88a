//! Handles paths as text only; opens no file.

/// Returns the last name of a path, or all of it if it has no slash.
pub fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Shortens the path of a code file to the part below its installed package, or else to its last
/// name. A path that is already relative to a package is unchanged.
pub fn short_code_path(file: &str) -> &str {
    let installed = ["/site-packages/", "/dist-packages/"];
    let below = installed.iter().find_map(|folder| file.rsplit_once(folder));
    match below {
        Some((_, below)) => below,
        None if file.starts_with('/') => base(file),
        None => file,
    }
}

/// Returns the part before the last name of a path, with the slash; nothing where there is none.
pub(crate) fn folder(path: &str) -> &str {
    &path[..path.len() - base(path).len()]
}

/// Shortens `a.py:5 C.f` to `a.py:5 f`: the file and the line say which class it is.
pub fn without_class(line: &str) -> String {
    match line.rsplit_once(' ') {
        Some((place, function)) if place.contains(".py:") => {
            format!(
                "{place} {}",
                function.rsplit('.').next().unwrap_or(function)
            )
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_the_last_slash() {
        let bases = ["/u/a.py", "a.py", "", "/u/"].map(base);
        assert_eq!(bases, ["a.py", "a.py", "", ""]);
        let code =
            ["/u/a.py", "/v/site-packages/verl/a.py", "verl/a.py", "<x>"].map(short_code_path);
        assert_eq!(code, ["a.py", "verl/a.py", "verl/a.py", "<x>"]);
        let folders = ["/u/a.py", "a.py", "", "/u/"].map(folder);
        assert_eq!(folders, ["/u/", "", "", "/u/"]);
    }
}
