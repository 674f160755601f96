//! HTTP inside of a pod that has a network of its own.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns};

/// Status and body. Prometheus asks for metrics in this way.
pub(crate) fn get(pid: u32, port: u16, path: &str) -> Option<(u16, Vec<u8>)> {
    let path = path.to_owned();
    // A thread of its own, since it stays in that network.
    let asking = thread::spawn(move || {
        let network = File::open(format!("/proc/{pid}/ns/net")).ok()?;
        setns(network, CloneFlags::CLONE_NEWNET).expect("root may enter");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("set");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let body = answer.split_off(end.expect("headers") + 4);
        let head = String::from_utf8(answer).expect("text");
        let status = head.split(' ').nth(1).expect("a status");
        Some((status.parse().expect("a number"), body))
    });
    asking.join().expect("no panic")
}
