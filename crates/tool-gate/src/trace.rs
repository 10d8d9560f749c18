//! The place of a call in a trace, as the host says it.

/// Says whether a text is a `traceparent` of version 00: `00`, the trace's id, the parent's id and the flags, in lower-case
/// hexadecimal, and neither id all zero (W3C Trace Context, section 3.2). Versions to come are not known here, so they are
/// none.
pub(crate) fn is_traceparent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut next = |digits| fields.next().filter(|field| is_hex(field, digits));
    let known = (next(2), next(32), next(16), next(2));
    let (Some("00"), Some(trace), Some(parent), Some(_)) = known else { return false };
    let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
    fields.next().is_none() && !is_zero(trace) && !is_zero(parent)
}

fn is_hex(field: &str, digits: usize) -> bool {
    field.len() == digits && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
