use std::str::FromStr;
use std::time::Duration;

use countersign_audit_log::MAX_WITNESS_ANSWER_BYTES;
use countersign_core::Millis;
use ureq::Agent;
use ureq::http::Uri;

use crate::failure::{Exit, Failure, chain};
use countersign_host::http::{Address, PlainHttp};

/// URL to which a witness accepts checkpoints.
#[derive(Clone, Debug)]
pub(super) struct WitnessUrl(Address);

impl FromStr for WitnessUrl {
    type Err = &'static str;

    /// Parses the base URL, to which `/add-checkpoint` is appended. The error message omits the URL: a path may be a
    /// secret.
    fn from_str(base: &str) -> Result<Self, Self::Err> {
        let address = Address::read(&format!("{}/add-checkpoint", base.trim_end_matches('/')));
        address.map(Self).ok_or("not a URL like https://witness.example/path")
    }
}

/// HTTP client of one witness. Each answer is limited in time and in bytes.
#[derive(Debug)]
pub(super) struct Post {
    agent: Agent,
    uri: Uri,
}

impl Post {
    pub(super) fn new(to: &WitnessUrl, timeout: Millis, plain: PlainHttp) -> Result<Self, Failure> {
        let Some(agent) = to.0.client(Duration::from_millis(timeout.as_millis()), plain) else {
            let text = "https required for a witness on another machine, or --dangerous-plain-http";
            return Err(Failure::new("WITNESS_PLAIN_HTTP", text).ending(Exit::Usage));
        };
        Ok(Self { agent, uri: to.0.uri().clone() })
    }

    /// Sends a body and returns the status of the answer, and its body for the statuses that the protocol gives one.
    pub(super) fn send(&self, body: String) -> Result<(u16, Vec<u8>), Failure> {
        let mut response = self.agent.post(self.uri.clone()).send(body).map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        if !matches!(status, 200 | 409) {
            return Ok((status, Vec::new()));
        }
        // Reads beyond the limit, so that the parser can detect an answer that is too long.
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
        return Failure::new("WITNESS_ANSWER", "response of the witness too long");
    }
    Failure::new("WITNESS_UNREACHABLE", format!("the witness cannot be reached: {}", chain(error)))
}

#[cfg(test)]
mod tests {
    use super::{PlainHttp, Post, WitnessUrl};
    use countersign_core::Millis;

    #[test]
    fn a_witness_elsewhere_is_reached_over_https() {
        let post = |url: &str, plain| {
            Post::new(&url.parse().unwrap(), Millis::from_secs(1), plain).map_err(|failure| failure.code())
        };
        assert!(post("https://witness.example", PlainHttp::Refused).is_ok());
        assert!(post("http://127.0.0.1:80", PlainHttp::Refused).is_ok());
        assert_eq!(post("http://witness.example", PlainHttp::Refused).unwrap_err(), "WITNESS_PLAIN_HTTP");
        assert!(post("http://witness.example", PlainHttp::Allowed).is_ok());
    }

    #[test]
    fn the_protocols_path_follows_the_url_once() {
        for url in ["https://witness.example/a", "https://witness.example/a/", "https://witness.example/a//"]
        {
            let to: WitnessUrl = url.parse().unwrap();
            assert_eq!(to.0.uri().to_string(), "https://witness.example/a/add-checkpoint");
        }
        for url in ["", "/", "https://", "https://witness.example?a", "https://witness.example/#"] {
            assert!(url.parse::<WitnessUrl>().is_err(), "{url}");
        }
    }
}
