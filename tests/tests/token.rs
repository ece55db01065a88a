//! `record --gcs` as root does not send root's token to addresses that other users name.
//!
//! Programs that call themselves `raylet` name the addresses.

use std::{
    fs,
    io::{BufRead as _, BufReader, ErrorKind, Read as _},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use raytrace_tests::recorder::Recorder;

const PATIENCE: Duration = Duration::from_secs(60);
/// A user that no process has.
const USER: u32 = 12_345;
const TOKEN: [u8; 64] = [b'a'; 64];
/// A part of the token as HTTP/2 encodes it: `a` has the five bits 00011 (RFC 7541, appendix B), so
/// five bytes hold eight of them, wherever the token begins.
const SENT: [u8; 10] = [0x18, 0xc6, 0x31, 0x8c, 0x63, 0x18, 0xc6, 0x31, 0x8c, 0x63];

/// Root's token file, and two programs called `raylet`: a plain one and a set-uid one.
struct Stage {
    folder: tempfile::TempDir,
    token: PathBuf,
    plain: PathBuf,
    set_uid: PathBuf,
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        mode(at, 0o755);
        let token = at.join("auth_token");
        fs::write(&token, TOKEN).expect("a token");
        mode(&token, 0o600);
        let program = |name: &str| {
            let inside = at.join(name);
            fs::create_dir(&inside).expect("a folder");
            inside.join("raylet")
        };
        let (plain, set_uid) = (program("plain"), program("set-uid"));
        let machine = env!("CARGO_BIN_EXE_machine");
        symlink(machine, &plain).expect("a link");
        // Another program makes the copy, so that no process that is forked here meanwhile has it
        // open.
        let copied = Command::new("cp").arg(machine).arg(&set_uid).status();
        assert!(copied.expect("cp").success());
        mode(&set_uid, 0o4755);
        Self {
            folder,
            token,
            plain,
            set_uid,
        }
    }

    /// Starts a raylet of this user, with a GCS at `address`.
    fn raylet(&self, program: &Path, user: u32, act: &str, address: &str) -> Raylet {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={user}"), format!("--regid={user}")])
            .args(["--clear-groups", "--"])
            .arg(program)
            .args([act, "0", "--raylet_socket_name=/nowhere/sockets/raylet"])
            .arg(format!("--gcs-address={address}"))
            .env("RAY_AUTH_MODE", "token")
            .env("RAY_AUTH_TOKEN_PATH", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("a raylet");
        let mut line = String::new();
        let output = child.stdout.take().expect("output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let raylet = Raylet(child);
        assert!(line.starts_with("ready"), "{line:?}");
        raylet
    }

    /// Starts a recorder of this raylet with `--gcs`.
    fn recorder(&self, raylet: &Raylet) -> Recorder {
        let pid = raylet.0.id().to_string();
        let file = self.folder.path().join(format!("{pid}.raytrace"));
        Recorder::start(&file, &["--gcs", "--raylet-pid", &pid]).expect("a recorder")
    }
}

/// A raylet that is killed when this is dropped.
struct Raylet(Child);

impl Raylet {
    /// Returns its real, effective and saved user.
    fn users(&self) -> Vec<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let users = line.expect("users").split_whitespace().take(3);
        users.map(|user| user.parse().expect("a number")).collect()
    }
}

impl Drop for Raylet {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

#[test]
fn token_is_sent_for_its_owners_raylet() {
    let stage = Stage::new();
    let (listener, address) = listen();
    let raylet = stage.raylet(&stage.plain, 0, "many", &address);
    let recorder = stage.recorder(&raylet);
    let (mut asked, _) = listener.accept().expect("a question");
    asked.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut bytes: Vec<u8> = Vec::new();
    while !bytes.windows(SENT.len()).any(|part| part == SENT) {
        let mut more = [0; 4096];
        let length = asked.read(&mut more).expect("the token");
        assert_ne!(length, 0, "no token came: {bytes:?}");
        bytes.extend(&more[..length]);
    }
    recorder.stop().expect("a recording");
}

/// No program that another user has started gets it sent to its address.
#[test]
fn roots_token_is_not_sent_for_other_users() {
    let stage = Stage::new();
    let acts = [
        // A set-uid program that waits at a prompt, for example for a password.
        (&stage.set_uid, "many", [USER, 0, 0], "no token is sent"),
        // A set-uid program that has become root as its real user too, as su does.
        (&stage.set_uid, "root", [0, 0, 0], "no token is sent"),
        // A plain program that names root's file.
        (
            &stage.plain,
            "many",
            [USER; 3],
            "does not belong to the raylet's user",
        ),
    ];
    for (program, act, users, why) in acts {
        let (listener, address) = listen();
        let raylet = stage.raylet(program, USER, act, &address);
        assert_eq!(raylet.users(), users, "the staging itself");
        let mut recorder = stage.recorder(&raylet);
        let said = recorder.wait_for(&format!("GCS {address}: "), PATIENCE);
        let said = said.expect("what became of the question").text;
        assert!(said.contains(why), "{users:?}: {said}");
        listener.set_nonblocking(true).expect("a mode");
        let asked = listener.accept().map(|_| ());
        let none = asked.expect_err("nobody is asked").kind();
        assert_eq!(none, ErrorKind::WouldBlock, "{users:?}");
        recorder.stop().expect("a recording");
    }
}
