use countersign_core::is_hidden;

use crate::content::ConstraintError;
use crate::path_rule::{is_plain_segment, looks_like_a_separator};

/// Longest URI, in bytes.
const MAX_URI_BYTES: usize = 8_192;

/// Allowed beginnings of a URI (RFC 3986), each of which ends with a slash.
///
/// The check is lexical, and compares texts: it normalises nothing. A URI whose rest could lead out of its beginning where a
/// server decodes it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriRule {
    roots: Vec<Box<str>>,
}

impl UriRule {
    pub(crate) fn new(roots: &[String]) -> Result<Self, ConstraintError> {
        if roots.is_empty() {
            return Err(ConstraintError::Empty);
        }
        let prepared = roots
            .iter()
            .map(|root| if is_root(root) { Ok(root.as_str().into()) } else { Err(ConstraintError::UriRoot) });
        Ok(Self { roots: prepared.collect::<Result<_, _>>()? })
    }

    /// Returns whether the URI is a root or begins with one.
    pub(crate) fn fits(&self, uri: &str) -> bool {
        is_plain(uri) && self.roots.iter().any(|root| uri.strip_prefix(&**root).is_some_and(is_plain_rest))
    }
}

/// Returns whether a text is a lower-case scheme, `://`, and plain segments, the last of them empty.
fn is_root(root: &str) -> bool {
    let Some((scheme, rest)) = root.split_once("://") else { return false };
    let is_letter = |c: char| c.is_ascii_lowercase();
    let is_scheme = scheme.starts_with(is_letter)
        && scheme.chars().all(|c| is_letter(c) || c.is_ascii_digit() || matches!(c, '+' | '-' | '.'));
    let path = rest.strip_prefix('/').unwrap_or(rest);
    is_scheme
        && is_plain(root)
        && root.ends_with('/')
        && !rest.contains(['?', '#'])
        && (path.is_empty() || is_plain_rest(path))
}

fn is_plain(uri: &str) -> bool {
    uri.len() <= MAX_URI_BYTES
        && !uri.chars().any(|c| {
            c == '\\' || c.is_whitespace() || c.is_control() || is_hidden(c) || looks_like_a_separator(c)
        })
}

/// Returns whether the text after a root has no empty or ambiguous segment and no escape that hides one.
fn is_plain_rest(rest: &str) -> bool {
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    let folders = path.strip_suffix('/').unwrap_or(path);
    let query = rest.strip_prefix(path).unwrap_or_default();
    (path.is_empty() || folders.split('/').all(is_plain_segment))
        && query.split(['/', '?', '#', '&', '=']).all(|part| part.is_empty() || is_plain_segment(part))
        && rest.split('%').skip(1).all(is_plain_escape)
}

/// Returns whether the text after a percent sign is an escape of a byte that no reader takes for part of a path: not of a
/// dot, a separator, a percent sign or a control character.
fn is_plain_escape(rest: &str) -> bool {
    let byte = rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    byte.is_some_and(|byte| !byte.is_ascii_control() && !matches!(byte, b'.' | b'/' | b'\\' | b'%'))
}
