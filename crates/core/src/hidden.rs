/// Says whether a character can hide in a line of text: control, format, line-separating, bidirectional,
/// zero-width, tag and variation-selector characters, and those whose glyph is empty.
///
/// Ids may hold none of these, and text that is shown to a person has them escaped ([`escape_hidden`]).
/// Source: Unicode 17 general categories `Cc`, `Cf`, `Zl`, `Zp` and the property `Variation_Selector`; Hangul fillers,
/// the blank Braille pattern and the null note head, which are drawn as nothing.
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

/// Copies `text` with every hidden character ([`is_hidden`]) and every backslash spelled out (`\u{202e}`, `\\`),
/// so that what a terminal shows is what the text holds.
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
