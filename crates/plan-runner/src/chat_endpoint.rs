use std::net::IpAddr;

use ureq::http::Uri;

use crate::chat_error::ChatError;

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
