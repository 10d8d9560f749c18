/// Returns whether a character is invisible or changes how its neighbours are displayed: control, format,
/// line-separating, bidirectional, zero-width, tag and variation-selector characters, and those with an empty glyph.
///
/// Ids contain no such character. Text for people has them escaped ([`escape_hidden`]).
///
/// Source: Unicode 17, general categories `Cc`, `Cf`, `Zl`, `Zp` and property `Variation_Selector`; and Hangul fillers,
/// the blank Braille pattern and the null note head, whose glyphs are empty.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{AD}' | '\u{34F}' | '\u{600}'..='\u{605}' | '\u{61C}'
        | '\u{6DD}' | '\u{70F}' | '\u{890}'..='\u{891}' | '\u{8E2}' | '\u{115F}'..='\u{1160}'
        | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}'
        | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D159}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Escapes every invisible character ([`is_hidden`]) and every backslash (`\u{202e}`, `\\`), so that a terminal
/// displays all of the text.
#[must_use]
pub fn escape_hidden(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_unicode());
        } else if c == '\\' {
            shown.push_str("\\\\");
        } else {
            shown.push(c);
        }
    }
    shown
}
