use unicode_security::confusable_detection::skeleton;

/// Returns whether a character is invisible or changes how its neighbours are displayed: control, format,
/// line-separating, bidirectional, zero-width, tag and variation-selector characters, and those with an empty glyph.
///
/// Ids contain no such character. Text for people has them escaped ([`escape_hidden`]).
///
/// Source: Unicode 17, general categories `Cc`, `Cf`, `Zl`, `Zp` and property `Variation_Selector`; and Hangul fillers,
/// the blank Braille pattern and the null note head, whose glyphs are empty.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    // why: most names are ASCII, and each call has several.
    if matches!(c, ' '..='~') {
        return false;
    }
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
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            escaped.extend(c.escape_unicode());
        } else if c == '\\' {
            escaped.push_str("\\\\");
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns the two keys of a name. Two names look alike if their first keys or their second keys are equal.
///
/// The keys apply full case mapping and the skeleton of UTS #39 in both orders. A run of whitespace counts as one
/// space; trailing dots and spaces are dropped. One key is not enough, because the skeleton of `I` is `l` while its
/// lower case is `i`: equal skeletons give equal first keys, equal case mappings equal second keys.
///
/// Source: UTS #39, section 4, in the version of the crate `unicode-security`.
#[must_use]
pub fn lookalike_keys(name: &str) -> [String; 2] {
    if has_ascii_keys(name) {
        return [ascii_key(name, first_ascii_key(name)), ascii_key(name, second_ascii_key(name))];
    }
    full_lookalike_keys(name)
}

/// [`lookalike_keys`] by the tables of Unicode alone.
pub(crate) fn full_lookalike_keys(name: &str) -> [String; 2] {
    let plain = single_spaced(name);
    // why: folding may create characters that have a skeleton, and a skeleton may contain characters that fold.
    [fold(&bones(&plain)), bones(&fold(&bones(&fold(&plain))))]
}

/// Returns whether a person could confuse the two names ([`lookalike_keys`]).
#[must_use]
pub fn look_alike(one: &str, other: &str) -> bool {
    // why: an approver is compared with the agent at every approved call.
    if has_ascii_keys(one) && has_ascii_keys(other) {
        return first_ascii_key(one).eq(first_ascii_key(other))
            || second_ascii_key(one).eq(second_ascii_key(other));
    }
    lookalike_keys(one).iter().zip(lookalike_keys(other)).any(|(one, other)| *one == other)
}

/// Returns whether both keys of a name are ASCII: printable ASCII without `%`, whose skeleton is another script's. The
/// test `ascii_keys_are_the_full_ones` compares both ways to the keys.
fn has_ascii_keys(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'%')
}

/// A key as a text, with room for two characters in the place of one.
fn ascii_key(name: &str, bytes: impl Iterator<Item = u8>) -> String {
    let mut key = String::with_capacity(name.len().saturating_mul(2));
    key.extend(bytes.map(char::from));
    key
}

fn first_ascii_key(name: &str) -> impl Iterator<Item = u8> {
    ascii_single_spaced(name).flat_map(ascii_bones).map(|byte| byte.to_ascii_lowercase())
}

fn second_ascii_key(name: &str) -> impl Iterator<Item = u8> {
    let folded = ascii_single_spaced(name).map(|byte| byte.to_ascii_lowercase());
    folded.flat_map(ascii_bones).map(|byte| byte.to_ascii_lowercase()).flat_map(ascii_bones)
}

/// [`single_spaced`] for printable ASCII.
fn ascii_single_spaced(name: &str) -> impl Iterator<Item = u8> {
    let mut after_space = true;
    name.trim_end_matches(['.', ' ']).bytes().filter(move |byte| {
        let is_extra = *byte == b' ' && after_space;
        after_space = *byte == b' ';
        !is_extra
    })
}

/// Skeleton of a printable ASCII character but `%`.
fn ascii_bones(byte: u8) -> impl Iterator<Item = u8> {
    let (first, second) = match byte {
        b'"' => (b'\'', Some(b'\'')),
        b'0' => (b'O', None),
        b'1' | b'I' | b'|' => (b'l', None),
        b'`' => (b'\'', None),
        b'm' => (b'r', Some(b'n')),
        other => (other, None),
    };
    std::iter::once(first).chain(second)
}

/// Maps to upper, then to lower case. Names that differ in case alone become equal (sharp s and SS, both sigmas).
fn fold(text: &str) -> String {
    text.to_uppercase().chars().flat_map(char::to_lowercase).collect()
}

fn bones(text: &str) -> String {
    single_spaced(&skeleton(text).collect::<String>())
}

/// Replaces each run of whitespace by one space, and drops trailing dots and spaces.
fn single_spaced(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches(['.', ' ']).to_owned()
}
