//! Form bodies: bounded, and only from this page.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

use crate::app::App;
use crate::body::collect_small;
use crate::problem::Problem;

/// Most fields of a form.
const MAX_FIELDS: usize = 16;

/// The fields of a form that a page of this origin sent. A repeated field is refused.
#[derive(Debug)]
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    /// Returns a field; an absent one is empty.
    pub(super) fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        check_origin(&parts.headers)?;
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if kind.and_then(|kind| kind.split(';').next()) != Some("application/x-www-form-urlencoded") {
            let text = "expected: a form of this page";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "BODY_TYPE", text));
        }
        let bytes = collect_small(body).await?;
        fields(&bytes).map(Self).ok_or_else(|| Problem::bad("FORM_MALFORMED", "the form cannot be read"))
    }
}

/// why: browsers name the origin of every form. Without it, or with another one, no page of this server wrote the form.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let one = |name| {
        let mut all = headers.get_all(name).iter();
        all.next().filter(|_| all.next().is_none()).and_then(|value| value.to_str().ok())
    };
    let own = one(ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    if own.is_some() && own == one(HOST) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", "the form is not of this page"))
}

/// Reads `application/x-www-form-urlencoded`.
fn fields(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let mut fields = BTreeMap::new();
    for pair in bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at_checked(at)?;
        let before = fields.insert(decoded(name)?, decoded(value.strip_prefix(b"=").unwrap_or(value))?);
        if before.is_some() || fields.len() > MAX_FIELDS {
            return None;
        }
    }
    Some(fields)
}

fn decoded(bytes: &[u8]) -> Option<String> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        text.push(match byte {
            b'+' => b' ',
            b'%' => hex(*rest.next()?)?.checked_mul(16)?.checked_add(hex(*rest.next()?)?)?,
            byte => *byte,
        });
    }
    // Text fields send their line breaks as CR LF.
    String::from_utf8(text).ok().map(|text| text.replace("\r\n", "\n"))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn form_is_decoded_and_a_repeated_field_refused() {
        let form = fields(b"reason=a+b%26%C3%A9%0D%0Ac&csrf=x").unwrap();
        assert_eq!((form["reason"].as_str(), form["csrf"].as_str()), ("a b&\u{e9}\nc", "x"));
        for bad in ["a=1&a=2", "a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert_eq!(fields(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(fields(b"a&b=").unwrap().len(), 2);
    }
}
