//! Headers of a post.

use base64ct::{Base64, Encoding as _};
use countersign_mcp::{HeaderParams, PostedMessage};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Adds the headers that repeat parts of a message (MCP 2026-07-28, *Request Metadata*), in the handshake era too, where no server
/// looks for them. Returns `false` if one of them cannot be written.
pub(crate) fn add(headers: &mut HeaderMap, post: &PostedMessage, params: Option<&HeaderParams>) -> bool {
    let own = post.headers();
    let mut add = |name: HeaderName, value: &str| {
        let value = HeaderValue::from_str(value).map(|value| headers.insert(name, value));
        value.is_ok()
    };
    let is_whole = own.version.is_none_or(|version| add(VERSION, version))
        && own.method.is_none_or(|method| add(METHOD, method))
        && own.name.is_none_or(|name| add(NAME, &encoded(name)));
    let params = params.map(|params| post.param_headers(params)).unwrap_or_default();
    is_whole
        && params.into_iter().all(|(name, value)| {
            let name = HeaderName::try_from(format!("mcp-param-{name}"));
            name.is_ok_and(|name| add(name, &encoded(&value)))
        })
}

/// Encodes a value (MCP 2026-07-28, *Value Encoding*).
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && value.trim_matches([' ', '\t']) == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", Base64::encode_string(value.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn values_that_no_header_can_hold_are_encoded() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("a b", "a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encoded(value), expected);
        }
    }
}
