use std::str::FromStr;
use std::time::Duration;

use countersign_audit_log::MAX_WITNESS_ANSWER_BYTES;
use countersign_core::Millis;
use ureq::Agent;
use ureq::http::Uri;

use crate::failure::{Exit, Failure, chain};
use crate::loopback::is_loopback;

/// Where a witness takes checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Address {
    uri: Uri,
    wire: Wire,
    place: Place,
}

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Encrypted, to a server whose certificate verifies.
    Https,
    /// In clear text.
    Http,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this machine.
    Here,
    Elsewhere,
}

/// Whether clear text may leave this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainHttp {
    Refused,
    Allowed,
}

impl From<bool> for PlainHttp {
    fn from(dangerous: bool) -> Self {
        if dangerous { Self::Allowed } else { Self::Refused }
    }
}

impl FromStr for Address {
    type Err = &'static str;

    /// Reads the URL that `/add-checkpoint` follows. The message holds none of it: a path may be a secret.
    fn from_str(base: &str) -> Result<Self, Self::Err> {
        let wrong = "not a URL like https://witness.example/path";
        if base.contains(['?', '#', '@']) {
            return Err(wrong);
        }
        let uri: Uri = format!("{}/add-checkpoint", base.trim_end_matches('/')).parse().map_err(|_| wrong)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(wrong)?;
        let wire = match uri.scheme_str() {
            Some("https") => Wire::Https,
            Some("http") => Wire::Http,
            Some(_) | None => return Err(wrong),
        };
        // What follows the host is a port, or the URL would lead to another one than it says.
        if uri.authority().is_none_or(|all| all.as_str() != host) && uri.port_u16().is_none() {
            return Err(wrong);
        }
        let place = if is_loopback(host) { Place::Here } else { Place::Elsewhere };
        Ok(Self { uri, wire, place })
    }
}

/// Posts to one witness. Certificates are verified against the roots of Mozilla's programme, which are built in; redirects are
/// not followed, and neither the time nor the bytes of an answer are without an end.
#[derive(Debug)]
pub(super) struct Post {
    agent: Agent,
    uri: Uri,
}

impl Post {
    pub(super) fn new(to: &Address, timeout: Millis, plain: PlainHttp) -> Result<Self, Failure> {
        if (to.wire, to.place, plain) == (Wire::Http, Place::Elsewhere, PlainHttp::Refused) {
            let text = "a witness on another machine is reached over https, or with --dangerous-plain-http";
            return Err(Failure::new("WITNESS_PLAIN_HTTP", text).ending(Exit::Usage));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_millis(timeout.as_millis())))
            .user_agent("countersign");
        let config = config.https_only(to.wire == Wire::Https);
        let config = match to.place {
            // What stays on this machine must not go through a proxy that the environment names.
            Place::Here => config.proxy(None),
            Place::Elsewhere => config,
        };
        Ok(Self { agent: config.build().into(), uri: to.uri.clone() })
    }

    /// Sends a body and gives the answer's status, and its body where the protocol has one.
    pub(super) fn send(&self, body: String) -> Result<(u16, Vec<u8>), Failure> {
        let mut response = self.agent.post(self.uri.clone()).send(body).map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        if !matches!(status, 200 | 409) {
            return Ok((status, Vec::new()));
        }
        // One byte more than may come, so that the reader of the answer can tell that it is too long.
        let limit = u64::try_from(MAX_WITNESS_ANSWER_BYTES).unwrap_or(u64::MAX).saturating_add(2);
        let body = response.body_mut().with_config().limit(limit).read_to_vec();
        body.map(|body| (status, body)).map_err(|error| failed(&error))
    }
}

fn failed(error: &ureq::Error) -> Failure {
    if matches!(error, ureq::Error::Timeout(_)) {
        return Failure::new("WITNESS_TIMEOUT", "the witness did not answer in time");
    }
    if matches!(error, ureq::Error::BodyExceedsLimit(_)) {
        return Failure::new("WITNESS_ANSWER", "the answer of the witness is too long");
    }
    Failure::new("WITNESS_UNREACHABLE", format!("the witness cannot be reached: {}", chain(error)))
}

#[cfg(test)]
mod tests {
    use super::{Address, Place, PlainHttp, Post, Wire};
    use countersign_core::Millis;

    #[test]
    fn a_witness_is_reached_over_https_or_on_this_machine() {
        let way = |url: &str| url.parse::<Address>().map(|to| (to.wire, to.place));
        assert_eq!(way("https://witness.example/a"), Ok((Wire::Https, Place::Elsewhere)));
        assert_eq!(way("https://localhost"), Ok((Wire::Https, Place::Here)));
        for url in ["http://localhost:1/", "http://LOCALHOST", "http://127.0.0.1:80", "http://[::1]:8080/a"] {
            assert_eq!(way(url), Ok((Wire::Http, Place::Here)), "{url}");
            assert!(Post::new(&url.parse().unwrap(), Millis::from_secs(1), PlainHttp::Refused).is_ok());
        }
        for url in ["http://witness.example", "http://127.0.0.1.example", "http://localhost.example:1"] {
            assert_eq!(way(url), Ok((Wire::Http, Place::Elsewhere)), "{url}");
            let to: Address = url.parse().unwrap();
            let refused = Post::new(&to, Millis::from_secs(1), PlainHttp::Refused).unwrap_err();
            assert_eq!(refused.code(), "WITNESS_PLAIN_HTTP");
            assert!(Post::new(&to, Millis::from_secs(1), PlainHttp::Allowed).is_ok());
        }
        for url in [
            "",
            "witness.example",
            "/a",
            "ftp://witness.example",
            "file:///a",
            "https://",
            "https:///a",
            "https://user@witness.example",
            "https://user:word@witness.example",
            "https://witness.example/?a",
            "https://witness.example/#a",
            "https://witness.example/a b",
            "http://",
            "https://witness.example:port",
            "https://witness.example:",
            "https://witness.example:65536",
        ] {
            assert!(way(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_protocols_path_follows_the_url_once() {
        for url in ["https://witness.example/a", "https://witness.example/a/", "https://witness.example/a//"]
        {
            let to: Address = url.parse().unwrap();
            assert_eq!(to.uri.to_string(), "https://witness.example/a/add-checkpoint");
        }
    }
}
