//! Finds places for recordings, and recordings in them. SQLite's WAL needs a local file system.

use std::path::{Path, PathBuf};

/// The folder for recordings if the current folder is not suitable.
pub const FALLBACK: &str = "/var/lib/raytrace";

/// File systems on which WAL does not work, by the magic number of `statfs(2)` (linux/magic.h and
/// the file systems' own headers).
const REMOTE: [(u64, &str); 11] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x0bd0_0bd0, "Lustre"),
    (0x00c3_6400, "CephFS"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
];

/// Returns the name of the network file system that a folder is on, if it is on one.
pub fn remote(folder: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(folder).ok()?;
    let magic = u64::from(u32::try_from(found.f_type & 0xffff_ffff).unwrap_or(0));
    REMOTE
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}

/// Returns `raytrace-HOST-TIME.raytrace`. Characters of the host name that are unsuitable for a
/// file name are left out.
pub fn default_name(host: &str, time: jiff::Timestamp) -> String {
    let host: String = host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        .take(64)
        .collect();
    let time = time.strftime("%Y%m%dT%H%M%SZ");
    format!("raytrace-{host}-{time}.raytrace")
}

/// Returns the recordings of this host in a folder that have default names, the oldest first.
pub fn of_host(folder: &Path, host: &str) -> Vec<PathBuf> {
    let example = default_name(host, jiff::Timestamp::UNIX_EPOCH);
    let stamp = "19700101T000000Z.raytrace";
    let prefix = example.strip_suffix(stamp).unwrap_or(&example);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let rest = name.and_then(|name| name.strip_prefix(prefix));
            rest.is_some_and(is_stamp)
        })
        .collect();
    files.sort();
    files
}

/// Whether this is the end of a default name. Another host's name may begin with this one's.
fn is_stamp(text: &str) -> bool {
    let Some(time) = text.strip_suffix("Z.raytrace") else {
        return false;
    };
    time.len() == 15
        && time.char_indices().all(|(at, one)| match at {
            8 => one == 'T',
            _ => one.is_ascii_digit(),
        })
}

/// Returns the path of a file that SQLite keeps beside a recording: `-wal`, `-shm`.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Returns the newest recording in the current folder, or else in [`FALLBACK`].
pub fn newest() -> Option<PathBuf> {
    newest_in(Path::new(".")).or_else(|| newest_in(Path::new(FALLBACK)))
}

fn newest_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let recordings = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "raytrace"));
    recordings.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_name_has_host_and_time() {
        let time = "2026-11-20T23:58:59Z".parse().expect("time");
        assert_eq!(
            default_name("gpu-07/../x y", time),
            "raytrace-gpu-07..xy-20261120T235859Z.raytrace"
        );
    }

    #[test]
    fn local_folder_is_not_remote() {
        assert_eq!(remote(Path::new("/")), None);
    }
}
