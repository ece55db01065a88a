//! Tests with servers that are no GCS: silent, closed, or speaking another protocol.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Instant,
};

use super::*;
use crate::ids::Pid;

fn target(address: &str) -> Target {
    Target {
        raylet: processes::key(Pid(std::process::id())).expect("this process"),
        address: address.to_owned(),
        user: None,
        node: OwnNode::default(),
        cluster_id: Some("ab12".into()),
        tls: false,
    }
}

fn trouble(target: &Target) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (rows, trouble) = runtime.block_on(ask::all(target));
    assert_eq!(rows, []);
    trouble.expect("trouble").to_string()
}

/// Starts a server that answers the first request of each connection with these bytes, and keeps
/// the connection open.
fn server(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut connection in listener.incoming().flatten() {
            let mut asked = [0; 16];
            let _asked = connection.read(&mut asked);
            let _answered = connection.write_all(answer);
            kept.push(connection);
        }
    });
    address
}

#[test]
fn silent_server_is_left_after_one_question() {
    let started = Instant::now();
    let said = trouble(&target(&server(b"")));
    println!("{:?}: {said}", started.elapsed());
    assert_eq!(said, "Actors: no answer within 5 s");
}

#[test]
fn web_server_and_closed_port_are_errors() {
    let web = server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let said = trouble(&target(&web));
    assert!(said.starts_with("Actors: "), "{said}");
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    let said = trouble(&target(&closed));
    assert!(said.starts_with("no connection to 127.0.0.1:"), "{said}");
    let said = trouble(&target("no address"));
    assert_eq!(said, "invalid address no address");
}

#[test]
fn tls_gcs_is_not_asked() {
    let tls = Target {
        tls: true,
        ..target("127.0.0.1:1")
    };
    assert!(trouble(&tls).starts_with("the GCS uses TLS"));
}

#[test]
fn loopback_addresses_are_recognized() {
    for own in ["127.0.0.1:6379", "[::1]:6379", "localhost:6379"] {
        assert!(is_loopback(own), "{own}");
    }
    for other in ["192.0.2.2:6379", "head.example.org:6379"] {
        assert!(!is_loopback(other), "{other}");
    }
    assert!(!target("127.0.0.1:6379").is_elsewhere());
}
