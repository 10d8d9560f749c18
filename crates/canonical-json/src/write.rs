use crate::number::write_number;
use crate::output::write_char;
use crate::scan::ordinary;
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
    loop {
        // INVARIANT: the run ends before an ASCII byte or at the end, which is a character boundary.
        let (run, special) = rest.split_at(ordinary(rest.as_bytes()));
        out.push_str(run);
        let mut chars = special.chars();
        let Some(c) = chars.next() else { break };
        write_char(out, c);
        rest = chars.as_str();
    }
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
