use crate::number::write_number;
use crate::tape::{Node, Tape};

/// Writes a string literal (RFC 8785, section 3.2.2.2), for code that composes canonical objects itself.
///
/// ```
/// let mut out = String::new();
/// countersign_canonical_json::write_string(&mut out, "a\"\n\u{1b}\u{e9}/");
/// assert_eq!(out, r#""a\"\n\u001bé/""#);
/// ```
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < b' ' || b == b'"' || b == b'\\') {
        let (run, special) = rest.split_at(at);
        out.push_str(run);
        let mut chars = special.chars();
        match chars.next() {
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some(c) => {
                out.push_str(if u32::from(c) < 0x10 { "\\u000" } else { "\\u001" });
                out.extend(char::from_digit(u32::from(c) & 0xF, 16));
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Writes the value at `at` canonically. Recursion is bounded by the nesting of the value, at most 128.
pub(crate) fn write_value(out: &mut String, tape: &Tape, at: u32) {
    match tape.node(at) {
        Node::Null => out.push_str("null"),
        Node::Bool(true) => out.push_str("true"),
        Node::Bool(false) => out.push_str("false"),
        Node::Number { value, .. } => write_number(out, value),
        Node::Text { start, len, plain } | Node::Name { start, len, plain, .. } => {
            let text = tape.text(start, len);
            if plain {
                out.push('"');
                out.push_str(text);
                out.push('"');
            } else {
                write_string(out, text);
            }
        }
        Node::Array { count, .. } => {
            out.push('[');
            let mut element = at.saturating_add(1);
            for i in 0..count {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, tape, element);
                element = tape.after(element);
            }
            out.push(']');
        }
        Node::Object { first, count, .. } => {
            out.push('{');
            for (i, &name) in tape.names(first, count).iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, tape, name);
                out.push(':');
                write_value(out, tape, name.saturating_add(1));
            }
            out.push('}');
        }
    }
}
