//! Untrusted text, shown to a person: nothing in it is hidden or looks like other output.

use countersign_audit_log::{Escaped, RecordedTool};
use countersign_canonical_json::to_canonical;
use countersign_core::{escape_hidden, is_hidden};

/// Most spaces in a row that are shown unescaped. More could push the text after them out of sight.
const MAX_BLANKS: usize = 8;

/// Formats canonical JSON for a person on several lines, without a change of any value. Invisible characters,
/// whitespace other than the space, and every space after eight in a row are in JSON escapes.
#[must_use]
pub fn shown_json(canonical: &str) -> String {
    let mut shown = String::with_capacity(canonical.len());
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut blanks = 0_usize;
    let mut chars = canonical.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            push_within(&mut shown, c, &mut blanks);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                shown.push(c);
                if let Some(end) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    shown.push(end);
                } else {
                    depth = depth.saturating_add(1);
                    break_line(&mut shown, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut shown, depth);
                shown.push(c);
            }
            ',' => {
                shown.push(c);
                break_line(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            _ => {
                push_visible(&mut shown, c);
                in_string = c == '"';
            }
        }
    }
    shown
}

/// Returns untrusted text as a JSON string, so that it cannot be mistaken for the program's own output.
#[must_use]
pub fn spelled(text: &str) -> String {
    to_canonical(&text).map_or_else(|_| String::from("(not shown)"), |text| shown_json(text.as_str()))
}

/// Formats canonical JSON on one line, with the same escapes.
#[must_use]
pub fn shown_line(canonical: &str) -> String {
    let mut shown = String::with_capacity(canonical.len());
    let mut blanks = 0_usize;
    // Outside its strings, canonical JSON has no whitespace.
    canonical.chars().for_each(|c| push_within(&mut shown, c, &mut blanks));
    shown
}

/// Formats an untrusted name whose invisible characters were escaped when it was recorded. A plain ASCII name is
/// unchanged; any other is in quotes that it cannot end. Within them, letters of any script are unchanged, including
/// those that look like others.
#[must_use]
pub fn shown_name<const MAX: usize>(name: &Escaped<MAX>) -> String {
    plain_or_in_quotes(name.as_str())
}

/// Formats an id, which was recorded unescaped, as [`shown_name`] does.
#[must_use]
pub fn shown_id(id: &str) -> String {
    plain_or_in_quotes(&escape_hidden(id))
}

/// Formats both names of a tool as `server:name`, as [`shown_name`] does.
#[must_use]
pub fn shown_tool(tool: &RecordedTool) -> String {
    format!("{}:{}", shown_name(&tool.server), shown_name(&tool.name))
}

/// Quotes an untrusted text, even a plain one.
#[must_use]
pub fn quoted<const MAX: usize>(text: &Escaped<MAX>) -> String {
    in_quotes(text.as_str())
}

/// Returns a plain name unchanged and quotes any other. A name that begins like a verdict is not plain: a call may have
/// such a name.
fn plain_or_in_quotes(escaped: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@/+?~".contains(c);
    let start = escaped.as_bytes().get(..6).unwrap_or_default();
    let is_verdict =
        ["accept", "reject"].iter().any(|verdict| start.eq_ignore_ascii_case(verdict.as_bytes()));
    let plain = !escaped.is_empty() && !is_verdict && escaped.chars().all(is_plain);
    if plain { escaped.to_owned() } else { in_quotes(escaped) }
}

/// Quotes a text. Quotes inside are escaped, so that the next visible quote is the end, even after backslashes.
/// Combining marks beside the quotes are escaped too: they would be drawn over the quotes.
fn in_quotes(escaped: &str) -> String {
    let mut shown = String::with_capacity(escaped.len());
    let mut blanks = 0_usize;
    shown.push('"');
    let mut chars = escaped.chars().peekable();
    let mut is_beside_quote = true;
    while let Some(c) = chars.next() {
        is_beside_quote |= chars.peek().is_none();
        if c == '"' || (is_beside_quote && is_mark(c)) {
            blanks = 0;
            push_spelled_out(&mut shown, c);
        } else {
            push_within(&mut shown, c, &mut blanks);
        }
        is_beside_quote = false;
    }
    shown.push('"');
    shown
}

/// Returns `true` for a character that is drawn over its neighbours. `Debug` escapes these, because it puts quotes
/// around a character.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && c.escape_debug().len() > 1
}

fn push_within(shown: &mut String, c: char, blanks: &mut usize) {
    *blanks = if c == ' ' { blanks.saturating_add(1) } else { 0 };
    if *blanks > MAX_BLANKS {
        push_spelled_out(shown, c);
    } else {
        push_visible(shown, c);
    }
}

fn break_line(shown: &mut String, depth: usize) {
    shown.push('\n');
    shown.extend(std::iter::repeat_n("  ", depth));
}

fn push_visible(shown: &mut String, c: char) {
    if is_hidden(c) || is_other_blank(c) {
        push_spelled_out(shown, c);
    } else {
        shown.push(c);
    }
}

/// Returns `true` for whitespace other than the space, which is counted separately.
fn is_other_blank(c: char) -> bool {
    c.is_whitespace() && c != ' '
}

fn push_spelled_out(shown: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        shown.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use countersign_audit_log::Escaped;

    use super::{quoted, shown_id, shown_json, shown_line, shown_name};

    #[test]
    fn arguments_are_broken_into_lines_and_nothing_hides_in_them() {
        let shown = shown_json("{\"a\":[1,{}],\"b\":\"x\u{202e},\\\"{y}\",\"c\":\"\u{e0041}\"}");
        let lines = [
            "{",
            "  \"a\": [",
            "    1,",
            "    {}",
            "  ],",
            "  \"b\": \"x\\u202e,\\\"{y}\",",
            "  \"c\": \"\\udb40\\udc41\"",
            "}",
        ];
        assert_eq!(shown, lines.join("\n"));
    }

    #[test]
    fn blanks_cannot_push_anything_out_of_sight() {
        let canonical = |blanks: usize| format!("[\"a{}b\",\"{}\"]", " ".repeat(blanks), " ".repeat(8));
        assert_eq!(shown_json(&canonical(8)), "[\n  \"a        b\",\n  \"        \"\n]");
        assert_eq!(shown_json(&canonical(10)), "[\n  \"a        \\u0020\\u0020b\",\n  \"        \"\n]");
    }

    #[test]
    fn every_blank_but_the_ordinary_one_is_spelled_out() {
        let others = ['\u{2800}', '\u{3164}', '\u{115f}', '\u{1160}', '\u{ffa0}', '\u{1d159}'];
        let blanks = (char::MIN..=char::MAX).filter(|c| c.is_whitespace() && *c != ' ').chain(others);
        for blank in blanks {
            let spelled: String =
                blank.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
            assert_eq!(
                shown_json(&format!("{{\"a{blank}b\":\"{blank}\"}}")),
                format!("{{\n  \"a{spelled}b\": \"{spelled}\"\n}}")
            );
        }
        assert_eq!(shown_json("\"\u{a0}\u{2800}\u{3000} x\""), r#""\u00a0\u2800\u3000 x""#);
        // Other whitespace between spaces interrupts the count.
        assert_eq!(shown_json("\" \u{a0} \""), r#"" \u00a0 ""#);
    }

    #[test]
    fn only_unmistakable_names_are_shown_unquoted() {
        let shown_name = |name: &str| shown_name(&Escaped::<256>::new(name));
        for plain in
            ["c1", "support-bot", "alice@example.com", "tools/call", "?", "a_b+c.d", "acc", "no-accept"]
        {
            assert_eq!((shown_name(plain), shown_id(plain)), (plain.to_owned(), plain.to_owned()));
        }
        for (name, shown) in [
            ("", r#""""#),
            ("\u{301}e\u{301}e\u{360}", "\"\\u0301e\u{301}e\\u0360\""),
            ("\u{ff02} \u{5d0}\u{fc}", "\"\u{ff02} \u{5d0}\u{fc}\""),
            ("accept", r#""accept""#),
            ("reject", r#""reject""#),
            ("ACCEPT", r#""ACCEPT""#),
            ("Reject.", r#""Reject.""#),
            ("accepted1", r#""accepted1""#),
            ("c1 desk:search accept", r#""c1 desk:search accept""#),
            ("a:b", r#""a:b""#),
            (r#"x" accept"#, r#""x\u0022 accept""#),
            (r#"x\" accept"#, r#""x\\\u0022 accept""#),
            ("x\u{1b}[2J", r#""x\u{1b}[2J""#),
            (r"x\u{1b}[2J", r#""x\\u{1b}[2J""#),
            (r"\", r#""\\""#),
            ("\u{e9}\u{a0}\u{2800}", "\"\u{e9}\\u00a0\\u{2800}\""),
            ("a          b", r#""a        \u0020\u0020b""#),
        ] {
            assert_eq!((shown_name(name), shown_id(name)), (shown.to_owned(), shown.to_owned()));
        }
    }

    /// Parses the text at the start of a line as a reader would, and returns the rest.
    fn read(line: &str) -> (String, &str) {
        let Some(rest) = line.strip_prefix('"') else {
            let end = line.find([' ', ':', ',', ';', '"', '(']).unwrap_or(line.len());
            let (text, rest) = line.split_at(end);
            return (text.to_owned(), rest);
        };
        let (inside, rest) = rest.split_once('"').unwrap();
        let (mut text, mut left) = (String::new(), inside);
        while let Some((plain, escape)) = left.split_once('\\') {
            text.push_str(plain);
            let (c, after) = if let Some(after) = escape.strip_prefix('\\') {
                ('\\', after)
            } else if let Some(hidden) = escape.strip_prefix("u{") {
                let (digits, after) = hidden.split_once('}').unwrap();
                (char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap(), after)
            } else {
                let (digits, after) = escape.strip_prefix('u').unwrap().split_at(4);
                (char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap(), after)
            };
            text.push(c);
            left = after;
        }
        text.push_str(left);
        (text, rest)
    }

    #[test]
    fn shown_text_is_read_back_unambiguously() {
        let pieces = [
            "\\",
            "\"",
            " ",
            "a",
            "accept",
            ", led to by ",
            "u0022",
            "u{22}",
            "\u{202e}",
            "\u{a0}",
            "\u{301}",
            "         ",
        ];
        let mut texts = BTreeSet::from([String::new()]);
        for _ in 0..4 {
            let longer =
                texts.iter().flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}")));
            let longer: Vec<_> = longer.collect();
            texts.extend(longer);
        }
        assert!(texts.len() > 10_000, "{}", texts.len());
        for text in &texts {
            let escaped = Escaped::<512>::new(text);
            for shown in [shown_name(&escaped), quoted(&escaped), shown_id(text)] {
                for rest in ["", " accept", "\" accept", ": \"x\"", ", led to by \"admin\""] {
                    let line = format!("{shown}{rest}");
                    // A plain name ends at the first character that is not plain.
                    assert_eq!(read(&line), (text.clone(), rest), "{line}");
                }
            }
        }
    }

    #[test]
    fn badly_escaped_text_stays_within_its_quotes() {
        for text in [r"\", r#"x\"#, r#"x\" accept"#, r#"\\\" accept"#, r"\u{", r"\u0022"] {
            let escaped: Escaped<64> = serde_json::from_value(text.into()).unwrap();
            let shown = quoted(&escaped);
            assert_eq!(shown.matches('"').count(), 2, "{shown}");
            assert!(shown.starts_with('"') && shown.ends_with('"'), "{shown}");
        }
    }

    #[test]
    fn a_value_in_one_line_pushes_nothing_out_of_sight() {
        let canonical = format!("{{\"a\":\"x{}y\u{a0}\"}}", " ".repeat(10));
        assert_eq!(shown_line(&canonical), r#"{"a":"x        \u0020\u0020y\u00a0"}"#);
    }

    #[test]
    fn shown_json_has_the_same_value() {
        let blanks = " ".repeat(40);
        let canonical = format!(
            "{{\"a\":\"\\\\\",\"b\":[\"\\u0000\u{200b}\u{a0}\u{1d159}{blanks}\",-1.5e+300,null,true]}}"
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown_json(&canonical)), value(&canonical));
    }
}
