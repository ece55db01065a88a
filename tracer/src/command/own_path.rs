//! Writes commands for `sudo` so that they work.
//!
//! sudo finds a program by its name only in the folders of its own search path.

use std::path::Path;

/// Folders that sudo searches: `secure_path` as Debian, Fedora and their derivatives set it.
const SEARCHED: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Replaces each `sudo raytrace` in `text` by one with this program's path, if sudo would not find
/// it by its name.
pub fn with_path(text: &str) -> String {
    text.replace("sudo raytrace", &format!("sudo {}", name()))
}

/// Returns what to type after `sudo`: the name of this program, or its path.
pub fn name() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "raytrace".to_owned(), |path| of(&path))
}

fn of(path: &Path) -> String {
    let known = path.parent().and_then(Path::to_str);
    if known.is_none_or(|folder| SEARCHED.contains(&folder)) {
        return "raytrace".to_owned();
    }
    let path = path.display().to_string();
    if path.contains(|character: char| character.is_whitespace() || "'\"$`\\&;".contains(character))
    {
        return format!("'{}'", path.replace('\'', r"'\''"));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_outside_sudos_path_gets_full_path() {
        assert_eq!(of(Path::new("/usr/bin/raytrace")), "raytrace");
        let local = "/home/me/.local/bin/raytrace";
        assert_eq!(of(Path::new(local)), local);
        assert_eq!(
            of(Path::new("/opt/my env/raytrace")),
            "'/opt/my env/raytrace'"
        );
    }
}
