//! Serves metrics over HTTP/1.1.
//!
//! Each connection has a thread, one request and a deadline, so that one that says nothing does not
//! keep a probe waiting.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::show::publish::metrics::{Snapshot, render, to_prometheus_format};

/// The most bytes of a request that are read.
const REQUEST: usize = 8 << 10;
/// A client that takes longer to send its request or to read the answer is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause while nothing can be served.
const PAUSE: Duration = Duration::from_millis(10);
/// The most connections at a time. Others wait in the kernel's queue for one to end.
const MOST: usize = 32;

/// Starts the serving thread, and returns the address that it listens at.
pub(super) fn start(
    address: SocketAddr,
    snapshot: Arc<Mutex<Snapshot>>,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot serve metrics at {address}; name another: --metrics 127.0.0.1:0")
    })?;
    let address = listener.local_addr()?;
    let serve = move || {
        let open = Arc::new(());
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| serve_one(stream, &snapshot, &open)) {
                tracing::debug!("a request for metrics: {error}");
                // For example out of file descriptors: do not spin.
                thread::sleep(PAUSE);
            }
            while Arc::strong_count(&open) > MOST {
                thread::sleep(PAUSE);
            }
        }
    };
    let thread = thread::Builder::new().name("metrics".into());
    thread
        .spawn(serve)
        .context("cannot start the thread that serves metrics")?;
    Ok(address)
}

/// Serves one connection in a thread of its own, which holds `open` for as long.
fn serve_one(
    stream: TcpStream,
    snapshot: &Arc<Mutex<Snapshot>>,
    open: &Arc<()>,
) -> std::io::Result<()> {
    let (snapshot, open) = (Arc::clone(snapshot), Arc::clone(open));
    let serve = move || {
        if let Err(error) = answer(stream, &snapshot) {
            tracing::debug!("a request for metrics: {error}");
        }
        drop(open);
    };
    let thread = thread::Builder::new().name("metrics".into());
    thread.spawn(serve).map(drop)
}

fn answer(mut stream: TcpStream, snapshot: &Mutex<Snapshot>) -> std::io::Result<()> {
    let request = request(&mut stream)?;
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        (Some("GET"), "/metrics") => {
            let snapshot = snapshot
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let text = render(&snapshot);
            if request.contains("application/openmetrics-text") {
                (
                    "200 OK",
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    text,
                )
            } else {
                (
                    "200 OK",
                    "text/plain; version=0.0.4; charset=utf-8",
                    to_prometheus_format(&text),
                )
            }
        }
        (Some("GET"), "/healthz") => ("200 OK", "text/plain", "ok\n".to_owned()),
        (Some("GET"), _) => (
            "404 Not Found",
            "text/plain",
            "metrics are at /metrics\n".to_owned(),
        ),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "GET alone\n".to_owned(),
        ),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    send(&mut stream, &[head.as_bytes(), body.as_bytes()].concat())
}

/// Sends the answer by one deadline: a client that reads a few bytes a second would hold its thread.
fn send(stream: &mut TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut rest = answer;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let count = stream.write(rest)?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Returns the time left until a deadline.
fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(std::io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Reads the head of a request.
fn request(stream: &mut TcpStream) -> std::io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut read = Vec::new();
    let mut piece = [0; 1024];
    while !read.windows(4).any(|four| four == b"\r\n\r\n") && read.len() < REQUEST {
        stream.set_read_timeout(Some(left(until)?))?;
        let count = stream.read(&mut piece)?;
        if count == 0 {
            break;
        }
        read.extend_from_slice(&piece[..count]);
    }
    Ok(String::from_utf8_lossy(&read)
        .to_ascii_lowercase()
        .replacen("get ", "GET ", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("asked");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an answer");
        said
    }

    /// Other paths get 404, other methods 405.
    #[test]
    fn metrics_have_the_requested_format() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let address = start(address, Arc::default()).expect("served");
        let open = ask(
            address,
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n",
        );
        assert!(open.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
        assert!(open.ends_with("# EOF\n"), "{open}");
        let plain = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            plain.contains("# TYPE raytrace_deaths_total counter"),
            "{plain}"
        );
        assert!(ask(address, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(address, &"x".repeat(REQUEST)).starts_with("HTTP/1.1 405"));
    }
    /// A connection that sends nothing keeps no other waiting, and each ends.
    #[test]
    fn idle_connections_do_not_block_a_probe() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let address = start(address, Arc::default()).expect("served");
        let began = Instant::now();
        let idle: Vec<TcpStream> = (0..MOST - 1)
            .map(|_| TcpStream::connect(address).expect("a connection"))
            .collect();
        assert!(ask(address, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        for mut one in idle {
            assert_eq!(one.read(&mut [0]).ok(), Some(0));
        }
    }
}
