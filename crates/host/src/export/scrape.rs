//! Answers scrapes over HTTP/1.1: one path and one connection at a time, each limited in bytes and in time.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::health::Rendering;

/// Most bytes of a request: its line and its headers.
const HEAD_BYTES: usize = 8 << 10;
/// Most reads of one request.
const READS: usize = 16;
/// Time limit of one read, and of one write of the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause after a failed accept.
const REST: Duration = Duration::from_secs(1);

/// Host names that a request may use for this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// An IP address or `localhost`. why: with DNS rebinding, a web page whose own name leads here must not read the
    /// metrics.
    Local,
    /// Any name.
    Any,
}

impl Hosts {
    /// Returns the accepted host names for a server at this address.
    pub(crate) fn at(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::Local } else { Self::Any }
    }

    fn allow(self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        self == Self::Any || name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
    }
}

/// Answers requests until the process ends.
pub(super) fn serve(listener: &TcpListener, hosts: Hosts, metrics: &Rendering) {
    loop {
        match listener.accept() {
            // A faulty peer affects only itself.
            Ok((peer, _)) => drop(answer(peer, hosts, || metrics.render())),
            // The process may be out of handles; an immediate retry would only waste time.
            Err(_) => std::thread::sleep(REST),
        }
    }
}

fn answer(mut peer: TcpStream, hosts: Hosts, render: impl FnOnce() -> String) -> io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut peer)?;
    let reply = match judge(&head, hosts) {
        Ok(ScrapeRequest::Body) => text(&render(), true),
        Ok(ScrapeRequest::Head) => text(&render(), false),
        Err(status) => {
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
    };
    peer.write_all(reply.as_bytes())?;
    peer.shutdown(std::net::Shutdown::Write)
}

/// Requested content: the metrics, or only their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScrapeRequest {
    Body,
    Head,
}

/// Reads up to the empty line or the limit.
fn read_head(peer: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 1 << 10];
    for _ in 0..READS {
        let count = peer.read(&mut part)?;
        head.extend_from_slice(part.get(..count).unwrap_or_default());
        if count == 0 || head.len() > HEAD_BYTES || head.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Returns the requested content, or the status that refuses the request.
fn judge(head: &str, hosts: Hosts) -> Result<ScrapeRequest, &'static str> {
    let (head, _) = head.split_once("\r\n\r\n").ok_or("400 Bad Request")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.0" | "HTTP/1.1"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("400 Bad Request");
    };
    let mut named = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, host)| host.trim());
    if !named.all(|host| hosts.allow(host)) {
        return Err("421 Misdirected Request");
    }
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/metrics") => Ok(ScrapeRequest::Body),
        ("HEAD", "/metrics") => Ok(ScrapeRequest::Head),
        (_, "/metrics") => Err("405 Method Not Allowed"),
        _ => Err("404 Not Found"),
    }
}

fn text(body: &str, with_body: bool) -> String {
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::{Hosts, ScrapeRequest, judge};

    #[test]
    fn only_the_metrics_are_answered() {
        let asked = |line: &str| judge(&format!("{line}\r\nHost: localhost:9464\r\n\r\n"), Hosts::Local);
        assert_eq!(asked("GET /metrics HTTP/1.1"), Ok(ScrapeRequest::Body));
        assert_eq!(asked("GET /metrics?name=x HTTP/1.0"), Ok(ScrapeRequest::Body));
        assert_eq!(asked("HEAD /metrics HTTP/1.1"), Ok(ScrapeRequest::Head));
        assert_eq!(asked("POST /metrics HTTP/1.1"), Err("405 Method Not Allowed"));
        for other in
            ["GET / HTTP/1.1", "GET /metrics/ HTTP/1.1", "GET /../metrics HTTP/1.1", "GET * HTTP/1.1"]
        {
            assert_eq!(asked(other), Err("404 Not Found"), "{other}");
        }
        for none in
            ["GET /metrics", "GET  /metrics HTTP/1.1", "GET /metrics HTTP/2", "", "GET /metrics HTTP/1.1 x"]
        {
            assert_eq!(asked(none), Err("400 Bad Request"), "{none}");
        }
        assert_eq!(judge("GET /metrics HTTP/1.1\r\nHost: localhost", Hosts::Local), Err("400 Bad Request"));
    }

    #[test]
    fn a_page_that_was_led_here_by_its_own_name_reads_nothing() {
        let asked =
            |host: &str, hosts| judge(&format!("GET /metrics HTTP/1.1\r\nhOst:{host}\r\n\r\n"), hosts);
        for own in [" 127.0.0.1:9464", " 127.0.0.1", " [::1]:9464", "[::1]", "LocalHost:1", "10.0.0.1:9464"] {
            assert_eq!(asked(own, Hosts::Local), Ok(ScrapeRequest::Body), "{own}");
        }
        for other in ["evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1].x"]
        {
            assert_eq!(asked(other, Hosts::Local), Err("421 Misdirected Request"), "{other}");
            assert_eq!(asked(other, Hosts::Any), Ok(ScrapeRequest::Body), "{other}");
        }
        let twice = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert_eq!(judge(twice, Hosts::Local), Err("421 Misdirected Request"));
    }
}
