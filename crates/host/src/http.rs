//! HTTP access to other services.

use std::net::IpAddr;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;

/// Address of a service: an http or https URL without user information, query or fragment.
#[derive(Clone, Debug)]
pub struct Address {
    uri: Uri,
    wire: Scheme,
    place: ServiceLocation,
}

/// Protocol of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// Encrypted, with a verified server certificate.
    Https,
    /// In clear text.
    Http,
}

/// Location of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServiceLocation {
    /// This machine.
    Here,
    Elsewhere,
}

/// Whether clear text may leave this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a decision with two cases")]
pub enum PlainHttp {
    /// It may not.
    Refused,
    /// It may.
    Allowed,
}

impl From<bool> for PlainHttp {
    fn from(dangerous: bool) -> Self {
        if dangerous { Self::Allowed } else { Self::Refused }
    }
}

impl Address {
    /// Parses a URL; `None` unless it has this form.
    #[must_use]
    pub fn read(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty() && !url.contains(['?', '#', '@']))?;
        // Only a port may follow the host; otherwise the URL would lead to a host other than the one it shows.
        if uri.authority().is_none_or(|all| all.as_str() != host) && uri.port_u16().is_none() {
            return None;
        }
        let wire = match uri.scheme_str() {
            Some("https") => Scheme::Https,
            Some("http") => Scheme::Http,
            Some(_) | None => return None,
        };
        let place = if is_loopback(host) { ServiceLocation::Here } else { ServiceLocation::Elsewhere };
        Some(Self { uri, wire, place })
    }

    /// Returns the URL.
    #[must_use]
    pub const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Makes a client for this service; `None` if it would send clear text to another machine and `plain` refuses that.
    /// Certificates are verified against the built-in root certificates of Mozilla's programme. Redirects are not
    /// followed, and an answer takes at most `timeout`.
    #[must_use]
    pub fn client(&self, timeout: Duration, plain: PlainHttp) -> Option<Agent> {
        if (self.wire, self.place, plain) == (Scheme::Http, ServiceLocation::Elsewhere, PlainHttp::Refused) {
            return None;
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(self.wire == Scheme::Https)
            .max_redirects(0)
            .timeout_global(Some(timeout))
            .user_agent("countersign");
        Some(match self.place {
            // why: traffic within this machine must not go through a proxy from the environment.
            ServiceLocation::Here => config.proxy(None).build().into(),
            ServiceLocation::Elsewhere => config.build().into(),
        })
    }
}

/// Returns `true` if the host is this machine: `localhost` or a loopback address.
fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Address, PlainHttp, Scheme, ServiceLocation};

    #[test]
    fn plain_http_to_a_remote_host_needs_permission() {
        let way = |url: &str| Address::read(url).map(|to| (to.wire, to.place));
        let client = |url: &str, plain| Address::read(url).unwrap().client(Duration::from_secs(1), plain);
        assert_eq!(way("https://service.example/a"), Some((Scheme::Https, ServiceLocation::Elsewhere)));
        assert_eq!(way("https://localhost"), Some((Scheme::Https, ServiceLocation::Here)));
        let here = ["http://localhost:1/", "http://LOCALHOST", "http://127.9.9.9:80", "http://[::1]:8080/a"];
        for url in here {
            assert_eq!(way(url), Some((Scheme::Http, ServiceLocation::Here)), "{url}");
            assert!(client(url, PlainHttp::Refused).is_some());
        }
        let away = [
            "http://service.example",
            "http://127.0.0.1.example",
            "http://localhost.example:1",
            "http://10.0.0.1",
        ];
        for url in away {
            assert_eq!(way(url), Some((Scheme::Http, ServiceLocation::Elsewhere)), "{url}");
            assert!(client(url, PlainHttp::Refused).is_none());
            assert!(client(url, PlainHttp::Allowed).is_some());
        }
    }

    #[test]
    fn malformed_url_is_refused() {
        for url in [
            "",
            "service.example",
            "127.0.0.1:4318",
            "/a",
            "ftp://service.example",
            "file:///a",
            "http://",
            "https:///a",
            "https://user@service.example",
            "http://user:word@127.0.0.1:4318/",
            "https://service.example/?a",
            "https://service.example/#a",
            "https://service.example/a b",
            "https://service.example:port",
            "https://service.example:",
            "https://service.example:65536",
            "http://[::1].example/x",
        ] {
            assert!(Address::read(url).is_none(), "{url}");
        }
    }
}
