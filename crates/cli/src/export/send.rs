//! The HTTP client that takes spans to their collector.

use std::future::{Future, ready};
use std::pin::Pin;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use serde::Deserialize;
use ureq::Agent;
use ureq::http::Uri;

use super::traces::REQUEST;
use crate::failure::Failure;
use crate::loopback::is_loopback;

/// The most bytes of an answer that are read.
const ANSWER_BYTES: u64 = 64 << 10;

/// Where spans are sent: an absolute URL without user information, query or fragment.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Endpoint {
    text: String,
    wire: Wire,
}

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// Encrypted, to a server whose certificate verifies.
    Https,
    /// In clear text, on this machine.
    Loopback,
    /// In clear text, over a network.
    Plain,
}

impl TryFrom<String> for Endpoint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = "an endpoint is a URL like http://127.0.0.1:4318/v1/traces";
        let uri: Uri = text.parse().map_err(|_| wrong)?;
        let host =
            uri.host().filter(|host| !host.is_empty() && !text.contains(['?', '#', '@'])).ok_or(wrong)?;
        // What follows the host is a port, or the URL would lead to another one than it says.
        if uri.authority().is_none_or(|all| all.as_str() != host) && uri.port_u16().is_none() {
            return Err(wrong);
        }
        let wire = match uri.scheme_str() {
            Some("https") => Wire::Https,
            Some("http") if is_loopback(host) => Wire::Loopback,
            Some("http") => Wire::Plain,
            Some(_) | None => return Err(wrong),
        };
        Ok(Self { text, wire })
    }
}

impl Endpoint {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Sends one request after another, each within a time, and follows no redirect.
#[derive(Debug)]
pub(super) struct Sender(Agent);

impl Sender {
    pub(super) fn new(endpoint: &Endpoint, plain_http_is_fine: bool) -> Result<Self, Failure> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(REQUEST));
        Ok(Self(match endpoint.wire {
            Wire::Https => config.https_only(true).build().into(),
            // What stays on this machine must not go through a proxy that the environment names.
            Wire::Loopback => config.proxy(None).build().into(),
            Wire::Plain if plain_http_is_fine => config.build().into(),
            Wire::Plain => {
                let text = "the endpoint of `traces` is not on this machine: it needs https, \
                            or `dangerous_plain_http = true`";
                return Err(Failure::new("TRACES_PLAIN_HTTP", text));
            }
        }))
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, mut body) = self.0.run(request.map(Vec::from))?.into_parts();
        let bytes = body.with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, bytes.into()))
    }
}

/// The thread that sends spans has nothing else to do, so it may wait.
impl HttpClient for Sender {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(ready(self.send(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Sender, Wire};

    fn wire(text: &str) -> Result<Wire, &'static str> {
        Endpoint::try_from(text.to_owned()).map(|endpoint| endpoint.wire)
    }

    #[test]
    fn only_this_machine_is_reached_in_clear_text_unless_that_is_called_dangerous() {
        for here in
            ["http://127.0.0.1:4318/v1/traces", "http://localhost:1/x", "http://[::1]/x", "http://127.9.9.9/"]
        {
            assert_eq!(wire(here), Ok(Wire::Loopback), "{here}");
        }
        assert_eq!(wire("https://collector.example/v1/traces"), Ok(Wire::Https));
        for away in ["http://10.0.0.1/x", "http://localhost.example/x", "http://127.0.0.1.example/x"] {
            assert_eq!(wire(away), Ok(Wire::Plain), "{away}");
            let endpoint = Endpoint::try_from(away.to_owned()).unwrap();
            assert_eq!(Sender::new(&endpoint, false).unwrap_err().code(), "TRACES_PLAIN_HTTP");
            Sender::new(&endpoint, true).unwrap();
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for none in [
            "",
            "/v1/traces",
            "127.0.0.1:4318",
            "ftp://x/y",
            "http://u:p@127.0.0.1/",
            "http://u:p@127.0.0.1:4318/",
            "http://127.0.0.1/?k=v",
            "http://127.0.0.1:x/y",
            "http://[::1].example/x",
            "http:///x",
        ] {
            assert!(wire(none).is_err(), "{none}");
        }
    }
}
