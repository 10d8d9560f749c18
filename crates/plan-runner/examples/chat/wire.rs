// The endpoint and the wire format of chat completions: the request, and the part of the answer that is read.

use std::net::IpAddr;

use countersign_canonical_json::{Limits, Recipe, ValueRef, read, write_string};

use countersign_plan_runner::ChatMessage;
use ureq::http::Uri;

use super::error::ChatError;

/// Writes a request's body.
pub(crate) fn request(model: &str, messages: &[ChatMessage]) -> String {
    let mut body = String::from("{\"messages\":[");
    for (at, message) in messages.iter().enumerate() {
        body.push_str(if at == 0 { "{\"content\":" } else { ",{\"content\":" });
        write_string(&mut body, message.content());
        body.push_str(",\"role\":");
        write_string(&mut body, message.role().as_str());
        body.push('}');
    }
    body.push_str("],\"model\":");
    write_string(&mut body, model);
    body.push_str(",\"stream\":false}");
    body
}

/// Reads the model's text from the server's answer. Numbers are read as in `RFC 8785`, since servers write statistics that no
/// double holds exactly, and none of them is used.
pub(crate) fn answer(body: &[u8]) -> Result<String, ChatError> {
    let limits = Limits::default();
    let limits = limits.bytes(body.len()).unwrap_or(limits);
    let json = read(body, Recipe::Rfc8785, &limits).map_err(ChatError::Json)?;
    let choices = json.value().get("choices").ok_or(ChatError::Shape)?;
    let choice = choices.elements().next().filter(|_| choices.len() == 1).ok_or(ChatError::Shape)?;
    let ended = choice.get("finish_reason").and_then(ValueRef::as_str);
    if ended.is_some_and(|reason| reason != "stop") {
        return Err(ChatError::Unfinished);
    }
    let content = choice.get("message").and_then(|message| message.get("content"));
    content.and_then(ValueRef::as_str).map(str::to_owned).ok_or(ChatError::Shape)
}

/// The URL of chat completions.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) uri: Uri,
    pub(crate) wire: Wire,
}

/// Transport to the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Encrypted, to a server whose certificate verifies.
    Https,
    /// In clear text, on this machine.
    Loopback,
}

impl Endpoint {
    /// Reads a base URL and adds the path of chat completions to it.
    pub(crate) fn new(base: &str) -> Result<Self, ChatError> {
        if base.contains(['?', '#', '@']) {
            return Err(ChatError::Endpoint);
        }
        let uri: Uri = format!("{}/chat/completions", base.trim_end_matches('/'))
            .parse()
            .map_err(|_| ChatError::Endpoint)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(ChatError::Endpoint)?;
        let wire = match uri.scheme_str() {
            Some("https") => Wire::Https,
            Some("http") if is_loopback(host) => Wire::Loopback,
            Some(_) | None => return Err(ChatError::Endpoint),
        };
        Ok(Self { uri, wire })
    }
}

/// Returns whether a host is this machine: `localhost`, or a loopback address.
fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}
