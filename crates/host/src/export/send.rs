//! The HTTP client that sends spans to their collector.

use std::future::{Future, ready};
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use serde::Deserialize;
use ureq::Agent;

use crate::error::HostError;
use crate::http::{Address, PlainHttp};

/// Time limit of one request to the collector, with its retries.
pub(super) const REQUEST: Duration = Duration::from_secs(3);
/// Most bytes of an answer.
const ANSWER_BYTES: u64 = 64 << 10;

/// URL to which spans are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct CollectorUrl {
    text: String,
    address: Address,
}

impl TryFrom<String> for CollectorUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let address = Address::read(&text)
            .ok_or("invalid endpoint: a URL such as http://127.0.0.1:4318/v1/traces expected")?;
        Ok(Self { text, address })
    }
}

impl CollectorUrl {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Sends requests one at a time, each with a time limit.
#[derive(Debug)]
pub(super) struct Sender(Agent);

impl Sender {
    pub(super) fn new(endpoint: &CollectorUrl, plain: PlainHttp) -> Result<Self, HostError> {
        let text = "the endpoint of `traces` is not on this machine: it needs https, \
                    or `dangerous_plain_http = true`";
        let agent = endpoint.address.client(REQUEST, plain);
        agent.map(Self).ok_or_else(|| HostError::new("TRACES_PLAIN_HTTP", text))
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, mut body) = self.0.run(request.map(Vec::from))?.into_parts();
        let bytes = body.with_config().limit(ANSWER_BYTES).read_to_vec()?;
        Ok(Response::from_parts(head, bytes.into()))
    }
}

/// It may block: the thread that sends spans has no other work.
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
    use super::{CollectorUrl, PlainHttp, Sender};

    #[test]
    fn spans_to_a_remote_host_need_https() {
        let sender = |url: &str, plain| {
            let endpoint = CollectorUrl::try_from(url.to_owned()).unwrap();
            Sender::new(&endpoint, plain).map_err(|failure| failure.code())
        };
        assert!(sender("http://127.0.0.1:4318/v1/traces", PlainHttp::Refused).is_ok());
        assert!(sender("https://collector.example/v1/traces", PlainHttp::Refused).is_ok());
        assert_eq!(sender("http://10.0.0.1/x", PlainHttp::Refused).unwrap_err(), "TRACES_PLAIN_HTTP");
        assert!(sender("http://10.0.0.1/x", PlainHttp::Allowed).is_ok());
        assert!(CollectorUrl::try_from("127.0.0.1:4318".to_owned()).is_err());
    }
}
