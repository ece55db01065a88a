//! Recognizes the command lines that run the `ray` command of an installation.
//!
//! Mirrors the entry point of Ray's wheels (`ray=ray.scripts.scripts:main` of `python/setup.py`,
//! Ray 2.9 to 2.60), which pip writes to `PREFIX/bin/ray`. The kernel runs this script with the
//! interpreter of its first line. The script's path follows that line's options as an argument, as
//! it was typed or found.

/// The folder of an installed Ray package: `PREFIX/lib/python3.11/site-packages/ray`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation(String);

impl Installation {
    /// Returns the installation that a raylet with this command line was started from.
    pub fn of_raylet(argv: &[String]) -> Option<Self> {
        let root = argv.first()?.strip_suffix("/core/src/ray/raylet/raylet")?;
        root.starts_with('/').then(|| Self(root.to_owned()))
    }

    /// Whether a path is inside the package.
    pub fn holds(&self, path: &str) -> bool {
        path.strip_prefix(&self.0)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the files that are its `ray` command.
    pub fn scripts(&self) -> impl Iterator<Item = String> {
        // PREFIX/lib/python3.11/site-packages/ray
        let mut above = self.0.rsplitn(5, '/');
        let prefix = above.nth(4);
        let module = format!("{}/scripts/scripts.py", self.0);
        std::iter::once(module).chain(prefix.map(|prefix| format!("{prefix}/bin/ray")))
    }
}

/// A script that an interpreter runs, and its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The script's path. From [`run`], it is absolute.
    pub script: &'a str,
    /// The argument after the script, if it has only lower-case letters and dashes.
    pub verb: Option<&'a str>,
}

/// Parses an interpreter's command line. Only options that take no argument and name no code are
/// allowed before the script.
pub fn run(argv: &[String]) -> Option<Run<'_>> {
    command(argv).filter(|run| run.script.starts_with('/'))
}

/// Does the same for a script whose path need not be absolute.
pub fn command(argv: &[String]) -> Option<Run<'_>> {
    let harmless = |option: &&String| {
        let letters = option.strip_prefix('-').unwrap_or_default();
        !letters.is_empty()
            && letters
                .chars()
                .all(|letter| "bBdEIOPqRsSuv".contains(letter))
    };
    let mut rest = argv.iter().skip(1).skip_while(harmless);
    let script = rest.next().filter(|script| !script.starts_with('-'))?;
    let plain = |verb: &&String| {
        let mut letters = verb.chars();
        !verb.is_empty() && letters.all(|each| each.is_ascii_lowercase() || each == '-')
    };
    Some(Run {
        script,
        verb: rest.next().filter(plain).map(String::as_str),
    })
}

/// Returns the `ray` command that a command line shows, such as `ray stop`. That proves nothing: a
/// process can rewrite its own.
pub fn shown(argv: &[String]) -> Option<String> {
    let run = command(argv)?;
    if run.script.rsplit('/').next() != Some("ray") {
        return None;
    }
    Some(format!("ray {}", run.verb?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn installation_has_two_scripts() {
        let raylet = argv("/v/lib/python3.11/site-packages/ray/core/src/ray/raylet/raylet --x");
        let found = Installation::of_raylet(&raylet).expect("an installation");
        let scripts: Vec<String> = found.scripts().collect();
        let module = "/v/lib/python3.11/site-packages/ray/scripts/scripts.py";
        assert_eq!(scripts, [module, "/v/bin/ray"]);
        assert!(found.holds(module));
        assert!(!found.holds("/v/lib/python3.11/site-packages/rayon/x.py"));
        assert_eq!(Installation::of_raylet(&argv("raylet")), None);
    }

    #[test]
    fn option_arguments_are_not_the_script() {
        let script =
            |words| run(&argv(words)).map(|run| (run.script.to_owned(), run.verb.is_some()));
        let ray = |verb| Some(("/v/bin/ray".to_owned(), verb));
        assert_eq!(script("python /v/bin/ray stop"), ray(true));
        assert_eq!(script("python -sE /v/bin/ray stop"), ray(true));
        assert_eq!(script("python /v/bin/ray STOP"), ray(false));
        assert_eq!(script("python /v/bin/ray"), ray(false));
        assert_eq!(script("python -c /v/bin/ray stop"), None);
        assert_eq!(script("python bin/ray stop"), None);
    }
}
