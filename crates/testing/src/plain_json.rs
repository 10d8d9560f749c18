#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::string_slice,
    reason = "plain code for tests, which fails by panicking"
)]

use std::collections::BTreeMap;

/// Reads `jcs-1` slowly and plainly, as a second opinion on the reader of `canonical-json`, of which it uses nothing.
/// Returns the canonical text, or the code and offset with which that reader has to refuse the bytes.
///
/// Written from RFC 8259 (grammar), RFC 8785 with ECMA-262's `Number::toString` (canonical text), RFC 7493 (refusals),
/// and the documentation of `JsonError` (which fault is reported). It has the default limits. It relies on the
/// standard library for UTF-8 and for the double nearest to a decimal.
///
/// ```
/// use countersign_testing::plain_jcs;
/// assert_eq!(plain_jcs(br#"{ "b": 1.0e1, "a": "\u0041" }"#).as_deref(), Ok(r#"{"a":"A","b":10}"#));
/// assert_eq!(plain_jcs(b"[0.1,9007199254740993]"), Err(("JSON_INEXACT_NUMBER", 5)));
/// ```
///
/// # Errors
/// The code and the offset of the refusal.
pub fn plain_jcs(bytes: &[u8]) -> Result<String, (&'static str, usize)> {
    if bytes.len() > 1 << 20 {
        return Err(("JSON_TOO_LARGE", 1 << 20));
    }
    if bytes.starts_with(&[0xEF, 0xBB, 0xBF]) {
        return Err(("JSON_BOM", 0));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| ("JSON_INVALID_UTF8", e.valid_up_to()))?;
    let mut reader = PlainReader { text, at: 0 };
    let canonical = reader.value(0)?;
    reader.white_space();
    if reader.at < text.len() { Err(("JSON_TRAILING_DATA", reader.at)) } else { Ok(canonical) }
}

/// Code and byte offset.
type PlainRefusal = (&'static str, usize);

struct PlainReader<'a> {
    text: &'a str,
    at: usize,
}

impl PlainReader<'_> {
    /// The next character; NUL, which JSON allows nowhere, at the end.
    fn next(&self) -> char {
        self.text[self.at..].chars().next().unwrap_or('\0')
    }

    fn skip(&mut self) {
        self.at += self.next().len_utf8();
    }

    fn ended(&self) -> bool {
        self.at == self.text.len()
    }

    fn white_space(&mut self) {
        while [' ', '\t', '\n', '\r'].contains(&self.next()) {
            self.skip();
        }
    }

    fn end(&self) -> PlainRefusal {
        ("JSON_UNEXPECTED_END", self.text.len())
    }

    fn unexpected(&self) -> PlainRefusal {
        if self.ended() { self.end() } else { ("JSON_UNEXPECTED_BYTE", self.at) }
    }

    fn expect(&mut self, expected: char) -> Result<(), PlainRefusal> {
        if self.next() != expected {
            return Err(self.unexpected());
        }
        self.skip();
        Ok(())
    }

    /// Reads a value inside of `depth` containers, and returns its canonical text.
    fn value(&mut self, depth: usize) -> Result<String, PlainRefusal> {
        self.white_space();
        if ['{', '['].contains(&self.next()) && depth == 32 {
            return Err(("JSON_TOO_DEEP", self.at));
        }
        match self.next() {
            '{' => self.object(depth + 1),
            '[' => self.array(depth + 1),
            '"' => Ok(quoted(&self.string()?)),
            '-' | '0'..='9' => self.number(),
            't' => self.word("true"),
            'f' => self.word("false"),
            'n' => self.word("null"),
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self, word: &str) -> Result<String, PlainRefusal> {
        for letter in word.chars() {
            self.expect(letter)?;
        }
        Ok(word.to_owned())
    }

    fn array(&mut self, depth: usize) -> Result<String, PlainRefusal> {
        self.expect('[')?;
        let mut elements: Vec<String> = Vec::new();
        self.white_space();
        while self.next() != ']' || !elements.is_empty() {
            if !elements.is_empty() {
                self.white_space();
                if self.next() == ']' {
                    break;
                }
                self.expect(',')?;
                self.white_space();
            }
            if elements.len() == 1 << 16 {
                return Err(("JSON_TOO_WIDE", self.at));
            }
            elements.push(self.value(depth)?);
        }
        self.expect(']')?;
        Ok(format!("[{}]", elements.join(",")))
    }

    fn object(&mut self, depth: usize) -> Result<String, PlainRefusal> {
        self.expect('{')?;
        let mut members: BTreeMap<Vec<u16>, String> = BTreeMap::new();
        let mut repeated = None;
        let mut count = 0;
        self.white_space();
        while self.next() != '}' || count > 0 {
            if count > 0 {
                self.white_space();
                if self.next() == '}' {
                    break;
                }
                self.expect(',')?;
                self.white_space();
            }
            let offset = self.at;
            if self.next() != '"' {
                return Err(self.unexpected());
            }
            if count == 1 << 16 {
                return Err(("JSON_TOO_WIDE", offset));
            }
            count += 1;
            let name = self.string()?;
            self.white_space();
            self.expect(':')?;
            let value = self.value(depth)?;
            let member = format!("{}:{value}", quoted(&name));
            if members.insert(name.encode_utf16().collect(), member).is_some() {
                repeated = repeated.or(Some(offset));
            }
        }
        self.expect('}')?;
        if let Some(offset) = repeated {
            return Err(("JSON_DUPLICATE_NAME", offset));
        }
        Ok(format!("{{{}}}", members.into_values().collect::<Vec<_>>().join(",")))
    }

    /// Reads a string literal, and returns its text.
    fn string(&mut self) -> Result<String, PlainRefusal> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            let offset = self.at;
            match self.next() {
                _ if self.ended() => return Err(self.end()),
                '"' => break,
                '\\' => match self.escape()? {
                    unit @ 0xD800..=0xDBFF => {
                        if self.ended() || self.text[self.at..] == *"\\" {
                            return Err(self.end());
                        }
                        if !self.text[self.at..].starts_with("\\u") {
                            return Err(("JSON_LONE_SURROGATE", offset));
                        }
                        let low = self.escape()?;
                        let pair = String::from_utf16(&[unit, low]);
                        text.push_str(&pair.map_err(|_| ("JSON_LONE_SURROGATE", offset))?);
                    }
                    unit => {
                        let one = String::from_utf16(&[unit]);
                        text.push_str(&one.map_err(|_| ("JSON_LONE_SURROGATE", offset))?);
                    }
                },
                c if u32::from(c) < 0x20 => return Err(("JSON_CONTROL_CHARACTER", offset)),
                c => {
                    text.push(c);
                    self.skip();
                }
            }
        }
        self.expect('"')?;
        Ok(text)
    }

    /// Reads an escape, and returns its UTF-16 unit.
    fn escape(&mut self) -> Result<u16, PlainRefusal> {
        let offset = self.at;
        self.expect('\\')?;
        let kind = self.next();
        if self.ended() {
            return Err(self.end());
        }
        self.skip();
        Ok(match kind {
            '"' | '\\' | '/' => kind as u16,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    if self.ended() {
                        return Err(self.end());
                    }
                    let digit = self.next().to_digit(16).ok_or(("JSON_INVALID_ESCAPE", offset))?;
                    unit = unit * 16 + digit as u16;
                    self.skip();
                }
                unit
            }
            _ => return Err(("JSON_INVALID_ESCAPE", offset)),
        })
    }

    /// Reads a number literal, and returns its canonical text.
    fn number(&mut self) -> Result<String, PlainRefusal> {
        let start = self.at;
        while ['+', '-', '.', 'e', 'E'].contains(&self.next()) || self.next().is_ascii_digit() {
            self.skip();
        }
        let literal = &self.text[start..self.at];
        match number_length(literal) {
            Some(length) if length == literal.len() => {}
            None if self.ended() => return Err(self.end()),
            _ => return Err(("JSON_INVALID_NUMBER", start)),
        }
        let nearest: f64 = literal.parse().map_err(|_| ("JSON_INVALID_NUMBER", start))?;
        if nearest.is_infinite() {
            return Err(("JSON_NUMBER_OVERFLOW", start));
        }
        let (text, same) = if nearest == 0.0 {
            ("0".to_owned(), decimal(literal).0.is_empty())
        } else {
            let (digits, point) = shortest(nearest.abs());
            let same = decimal(literal) == (digits.clone(), i128::from(point));
            let sign = if nearest < 0.0 { "-" } else { "" };
            (format!("{sign}{}", ecma_text(&digits, point)), same)
        };
        if same { Ok(text) } else { Err(("JSON_INEXACT_NUMBER", start)) }
    }
}

/// Length of the number at the start of the text (RFC 8259, section 6). `None` if the text ends before the number does.
/// 0 if it is not a number.
fn number_length(text: &str) -> Option<usize> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut at = usize::from(text.starts_with('-'));
    let rest = |at: usize| text.get(at..).unwrap_or_default();
    if rest(at).is_empty() {
        return None;
    }
    at += if rest(at).starts_with('0') { 1 } else { digits(rest(at)) };
    if at == usize::from(text.starts_with('-')) {
        return Some(0);
    }
    if rest(at).starts_with('.') {
        at += 1;
        if rest(at).is_empty() {
            return None;
        }
        let count = digits(rest(at));
        if count == 0 {
            return Some(0);
        }
        at += count;
    }
    if rest(at).starts_with(['e', 'E']) {
        at += 1;
        at += usize::from(rest(at).starts_with(['+', '-']));
        if rest(at).is_empty() {
            return None;
        }
        let count = digits(rest(at));
        if count == 0 {
            return Some(0);
        }
        at += count;
    }
    Some(at)
}

/// Decimal value of a literal without its sign: its digits, without zeros at either end, and the place of the point
/// behind which they begin.
fn decimal(literal: &str) -> (String, i128) {
    let literal = literal.trim_start_matches('-');
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let zeros = (all.len() - digits.len()) as i128;
    // An exponent that no integer takes belongs to zero, or to a number that a double is not near to.
    let far = if exponent.starts_with('-') { i128::MIN / 2 } else { i128::MAX / 2 };
    let point = exponent.parse::<i128>().unwrap_or(far) + whole.len() as i128 - zeros;
    (digits.trim_end_matches('0').to_owned(), point)
}

/// All decimal digits of a positive double, and the place of the point: the value is 0.digits * 10^point.
fn expansion(value: f64) -> (Vec<u8>, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (mut mantissa, mut power) = match (bits >> 52) as i32 {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    };
    while power < 0 && mantissa % 2 == 0 {
        (mantissa, power) = (mantissa / 2, power + 1);
    }
    let mut digits: Vec<u8> = mantissa.to_string().bytes().map(|b| b - b'0').collect();
    // mantissa * 2^-n is mantissa * 5^n / 10^n.
    for _ in 0..power.abs() {
        multiply(&mut digits, if power > 0 { 2 } else { 5 });
    }
    let point = digits.len() as i32 + power.min(0);
    (digits, point)
}

/// Multiplies a number by a digit.
fn multiply(digits: &mut Vec<u8>, by: u8) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let product = *digit * by + carry;
        (*digit, carry) = (product % 10, product / 10);
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// The digits that ECMA-262 writes for a positive double (`Number::toString`, step 5), and the place of the point: as few
/// as name the double, and of those the nearest to it, or the even ones of two.
fn shortest(value: f64) -> (String, i32) {
    let (exact, point) = expansion(value);
    let names = |digits: &str, point: i32| format!("0.{digits}e{point}").parse::<f64>() == Ok(value);
    let nearest = |count: usize| {
        let mut down = exact.clone();
        down.resize(count, 0);
        let (up, up_point) = next_up(&down, point);
        let even = down[count - 1] % 2 == 0;
        let (down, up) = (text_of(&down), text_of(&up));
        let rest = text_of(exact.get(count..).unwrap_or_default());
        let rest = rest.trim_end_matches('0');
        let down_is_nearer = rest < "5" || rest == "5" && even;
        match (names(&down, point), names(&up, up_point)) {
            (true, false) => Some((down, point)),
            (true, true) if down_is_nearer => Some((down, point)),
            (_, true) => Some((up, up_point)),
            (false, false) => None,
        }
    };
    let (digits, point) = (1..=17).find_map(nearest).expect("17 digits name every double");
    (digits.trim_end_matches('0').to_owned(), point)
}

/// The next number of as many digits.
fn next_up(digits: &[u8], point: i32) -> (Vec<u8>, i32) {
    let mut up = digits.to_vec();
    for digit in up.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return (up, point);
        }
        *digit = 0;
    }
    up.fill(0);
    up[0] = 1;
    (up, point + 1)
}

fn text_of(digits: &[u8]) -> String {
    digits.iter().map(|digit| char::from(b'0' + digit)).collect()
}

/// Writes 0.digits * 10^n as ECMA-262 does (`Number::toString`, steps 6 to 10).
fn ecma_text(digits: &str, n: i32) -> String {
    let k = digits.len() as i32;
    if k <= n && n <= 21 {
        return format!("{digits}{}", "0".repeat((n - k) as usize));
    }
    if 0 < n && n <= 21 {
        return format!("{}.{}", &digits[..n as usize], &digits[n as usize..]);
    }
    if -6 < n && n <= 0 {
        return format!("0.{}{digits}", "0".repeat(-n as usize));
    }
    let sign = if n > 0 { '+' } else { '-' };
    let exponent = (n - 1).abs();
    if k == 1 {
        return format!("{digits}e{sign}{exponent}");
    }
    format!("{}.{}e{sign}{exponent}", &digits[..1], &digits[1..])
}

/// Writes a string literal (RFC 8785, section 3.2.2.2).
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{9}' => out.push_str("\\t"),
            '\u{a}' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\u{d}' => out.push_str("\\r"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
