//! Ports for the servers that tests start.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Above Ray's defaults, and below the ports that Linux gives to anybody (`ip_local_port_range`).
const PORTS: Range<u16> = 20000..32768;

/// Returns a free port that no other test is given until this process ends.
///
/// The reservation is a Unix socket with an abstract name, as `tests/staging/cluster.py` makes
/// them.
///
/// # Panics
///
/// If no port is free.
pub(crate) fn free_port() -> u16 {
    let count = PORTS.end - PORTS.start;
    let first = u16::try_from(RandomState::new().hash_one(()) % u64::from(count)).expect("small");
    (0..count)
        .map(|step| PORTS.start + (first + step) % count)
        .find(|&port| reserve(port))
        .expect("a free port")
}

fn reserve(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("raytrace-test-port-{port}"));
    let held = UnixListener::bind_addr(&name.expect("a short name"));
    let is_free = TcpListener::bind(("0.0.0.0", port)).is_ok();
    match held {
        Ok(held) if is_free => {
            // Closed at the end of this process.
            std::mem::forget(held);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_given_once() {
        let port = free_port();
        assert!(PORTS.contains(&port));
        assert!(!reserve(port), "{port} is reserved");
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
    }
}
