//! Finds the token that a raylet sends to its GCS (Ray 2.54 and later, `RAY_AUTH_MODE=token`).
//!
//! It is searched where Ray's `authentication_token_loader` searches it. It is sent only to the
//! address on that raylet's command line, and it is not kept, recorded or printed.
//!
//! Any user who runs a job can start a program that calls itself `raylet`, with any environment and
//! any address. Such a program can at most receive what its own user could read. A set-uid program
//! of another user under that name has two users, and is not accepted as a raylet.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tonic::metadata::{Ascii, MetadataValue};

use crate::{
    bounded,
    ids::{Pid, ProcessKey},
    observe::{clusters::variable, processes, rooted, timed_read},
};

/// The longest token. Ray's own tokens have 64 bytes; those of Kubernetes have some kilobytes.
const LONGEST: u64 = 16 << 10;

/// Why an expected token cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    #[error("the raylet's token file {0} does not exist or cannot be read")]
    Unreadable(PathBuf),
    #[error(
        "the raylet's token file {0} is not used: it does not belong to the raylet's user, or that user may not read it; use RAY_AUTH_TOKEN in the raylet's environment"
    )]
    Foreign(PathBuf),
    #[error("the raylet's token contains invalid characters")]
    Malformed,
    #[error("no token is sent: the raylet runs as more than one user, or its program is set-uid")]
    TwoUsers,
}

/// Returns the value of the `authorization` header; `None` if no token is in use.
pub(super) fn of(
    process: ProcessKey,
    user: Option<u32>,
) -> Result<Option<MetadataValue<Ascii>>, TokenError> {
    let raylet = process.pid;
    let mode = variable(raylet, b"RAY_AUTH_MODE=").unwrap_or_default();
    if !mode.eq_ignore_ascii_case("token") {
        return Ok(None);
    }
    let is_users = |now: Option<u32>| now.is_some() && now == user;
    if !is_users(processes::only_user(raylet)) || processes::is_set_id(raylet) {
        return Err(TokenError::TwoUsers);
    }
    let given = |name: &[u8]| variable(raylet, name).filter(|value| !value.is_empty());
    let token = if let Some(token) = given(b"RAY_AUTH_TOKEN=") {
        token
    } else if let Some(path) = given(b"RAY_AUTH_TOKEN_PATH=") {
        in_file(raylet, user, Path::new(&path))?
    } else if let Some(home) = given(b"HOME=") {
        in_file(raylet, user, &Path::new(&home).join(".ray/auth_token"))?
    } else {
        return Ok(None);
    };
    // The values may have been read from another process that has the same pid now, or from a
    // program that the raylet has executed since. So the process is checked again.
    let still = processes::key(raylet).is_some_and(|now| now.same(process));
    if !still || !is_users(processes::only_user(raylet)) {
        return Err(TokenError::TwoUsers);
    }
    header(&token).map(Some)
}

fn in_file(raylet: Pid, user: Option<u32>, path: &Path) -> Result<String, TokenError> {
    let unreadable = || TokenError::Unreadable(path.to_owned());
    let file = rooted::file(raylet, path).ok_or_else(unreadable)?;
    let data = file.metadata().map_err(|_| unreadable())?;
    if user != Some(data.uid()) || data.mode() & libc::S_IRUSR == 0 {
        return Err(TokenError::Foreign(path.to_owned()));
    }
    let token = timed_read::run_optional(raylet, move || bounded::read(file, LONGEST).ok());
    String::from_utf8(token.ok_or_else(unreadable)?).map_err(|_| TokenError::Malformed)
}

fn header(token: &str) -> Result<MetadataValue<Ascii>, TokenError> {
    let header = format!("Bearer {}", token.trim());
    let mut header: MetadataValue<Ascii> = header.parse().map_err(|_| TokenError::Malformed)?;
    // A sensitive value is not printed by `Debug`.
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt as _, symlink},
        process::{Child, Command},
    };

    use super::*;

    /// A process that stands in for a raylet and has only this environment.
    struct Stand(Child);

    impl Stand {
        fn with(environment: &[(&str, &str)]) -> Self {
            let mut command = Command::new("/bin/sleep");
            command
                .arg("60")
                .env_clear()
                .envs(environment.iter().copied());
            let child = command.spawn().expect("a process");
            // The kernel shows the environment a moment after the new program was loaded.
            let shown = format!("/proc/{}/environ", child.id());
            while std::fs::read(&shown).is_ok_and(|bytes| bytes.is_empty()) {
                std::thread::yield_now();
            }
            Self(child)
        }

        fn token(&self) -> Result<Option<String>, TokenError> {
            let own = rustix::process::getuid().as_raw();
            self.token_of(own)
        }

        fn token_of(&self, user: u32) -> Result<Option<String>, TokenError> {
            let process = processes::key(Pid(self.0.id())).expect("a process");
            let header = of(process, Some(user))?;
            let text = |header: MetadataValue<Ascii>| header.to_str().map(str::to_owned);
            Ok(header.map(|header| text(header).expect("ASCII")))
        }
    }

    impl Drop for Stand {
        fn drop(&mut self) {
            // It may have ended already.
            let _ended = self.0.kill();
            let _status = self.0.wait();
        }
    }

    /// It is searched only when tokens are in use.
    #[test]
    fn token_is_found_where_ray_finds_it() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(".ray");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("auth_token"), "of-the-home\n").expect("a file");
        // Kubernetes mounts a secret like this.
        symlink("auth_token", folder.join("link")).expect("a link");
        let home = home.path().to_str().expect("UTF-8");
        let link = format!("{home}/.ray/link");
        let mode = ("RAY_AUTH_MODE", "Token");
        let found = |environment: &[(&str, &str)]| {
            let token = Stand::with(environment).token().expect("a token or none");
            token.unwrap_or_default()
        };
        assert_eq!(found(&[("HOME", home), ("RAY_AUTH_TOKEN", "unused")]), "");
        assert_eq!(found(&[mode, ("HOME", home)]), "Bearer of-the-home");
        let by_path = found(&[mode, ("RAY_AUTH_TOKEN_PATH", &link), ("HOME", "/")]);
        assert_eq!(by_path, "Bearer of-the-home");
        let given = found(&[mode, ("RAY_AUTH_TOKEN", "given"), ("HOME", home)]);
        assert_eq!(given, "Bearer given");
    }

    #[test]
    fn foreign_token_file_is_not_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        std::fs::write(&path, "secret").expect("a file");
        let path = path.to_str().expect("UTF-8");
        let stand = Stand::with(&[("RAY_AUTH_MODE", "token"), ("RAY_AUTH_TOKEN_PATH", path)]);
        let own = rustix::process::getuid().as_raw();
        let refused = stand.token_of(own + 1).expect_err("a refusal");
        assert!(matches!(refused, TokenError::TwoUsers), "{refused}");
        assert_eq!(
            stand.token().expect("a token"),
            Some("Bearer secret".into())
        );
        let mode = |mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
        mode(0o240).expect("a mode");
        let refused = stand.token().expect_err("a refusal");
        assert!(matches!(refused, TokenError::Foreign(_)), "{refused}");
        let missing = [
            ("RAY_AUTH_MODE", "token"),
            ("RAY_AUTH_TOKEN_PATH", "/nowhere"),
        ];
        let missing = Stand::with(&missing).token().expect_err("a refusal");
        assert!(matches!(missing, TokenError::Unreadable(_)), "{missing}");
    }

    #[test]
    fn token_is_not_printed() {
        let header = header("hunter2").expect("a header");
        assert!(!format!("{header:?}").contains("hunter2"));
        assert!(header_is_refused("two\nlines"));
    }

    fn header_is_refused(token: &str) -> bool {
        matches!(header(token), Err(TokenError::Malformed))
    }
}
