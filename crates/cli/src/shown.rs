use countersign_core::is_hidden;

/// How many blanks in a row are shown as they are. More could push what follows out of sight.
const MAX_BLANKS: usize = 8;

/// Canonical JSON for a person's eyes: broken into lines, no value of it changed, and every hidden character, every blank
/// that is not the ordinary one, and every blank after eight, spelled out as JSON spells it.
pub(crate) fn shown_json(canonical: &str) -> String {
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

/// Canonical JSON in one line, with every hidden character and every other blank spelled out as JSON spells it.
pub(crate) fn shown_line(canonical: &str) -> String {
    let mut shown = String::with_capacity(canonical.len());
    canonical.chars().for_each(|c| push_visible(&mut shown, c));
    shown
}

/// A name that somebody else chose, of which what hides was spelled out when it was recorded: as it is where it is plain, and
/// otherwise in quotes, so that it cannot look like what stands beside it.
pub(crate) fn shown_name(escaped: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@/+?~".contains(c);
    if !escaped.is_empty() && escaped.chars().all(is_plain) { escaped.to_owned() } else { quoted(escaped) }
}

/// The same, in quotes whatever it is.
pub(crate) fn quoted(escaped: &str) -> String {
    let mut shown = String::with_capacity(escaped.len());
    let mut blanks = 0_usize;
    shown.push('"');
    for c in escaped.chars() {
        if c == '"' {
            shown.push('\\');
        }
        push_within(&mut shown, c, &mut blanks);
    }
    shown.push('"');
    shown
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

/// Says whether a character looks like a blank and is not the one that is counted: the other white space, the Braille
/// pattern without dots and the musical note without a head.
fn is_other_blank(c: char) -> bool {
    (c.is_whitespace() && c != ' ') || matches!(c, '\u{2800}' | '\u{1D159}')
}

fn push_spelled_out(shown: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        shown.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::{shown_json, shown_name};

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
        // Whatever stands between them, ordinary ones are counted as they follow each other.
        assert_eq!(shown_json("\" \u{a0} \""), r#"" \u00a0 ""#);
    }

    #[test]
    fn a_name_is_shown_as_it_is_only_where_it_cannot_look_like_anything_else() {
        for plain in ["c1", "support-bot", "alice@example.com", "tools/call", "?", "a_b+c.d"] {
            assert_eq!(shown_name(plain), plain);
        }
        for (name, shown) in [
            ("", r#""""#),
            ("c1 desk:search accept", r#""c1 desk:search accept""#),
            ("a:b", r#""a:b""#),
            (r#"x" accept"#, r#""x\" accept""#),
            (r"x\u{1b}[2J", r#""x\u{1b}[2J""#),
            (r"\", r#""\""#),
            ("\u{e9}\u{a0}\u{2800}", "\"\u{e9}\\u00a0\\u2800\""),
            ("a          b", r#""a        \u0020\u0020b""#),
        ] {
            assert_eq!(shown_name(name), shown);
        }
    }

    #[test]
    fn what_is_shown_is_the_same_value() {
        let blanks = " ".repeat(40);
        let canonical = format!(
            "{{\"a\":\"\\\\\",\"b\":[\"\\u0000\u{200b}\u{a0}\u{1d159}{blanks}\",-1.5e+300,null,true]}}"
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown_json(&canonical)), value(&canonical));
    }
}
