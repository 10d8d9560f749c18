use std::fmt::Write as _;
use std::num::FpCategory;

/// 2^53: up to this magnitude every integer is exact in a double, and it is the first to which a second integer rounds.
pub(crate) const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// Value of a number literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    /// The nearest double; never negative zero.
    pub(crate) value: f64,
    /// Whether the canonical text of `value` has the decimal value of the literal.
    pub(crate) exact: bool,
}

/// Every integer of this many digits is below 2^53.
const PLAIN_DIGITS: usize = 15;

/// Evaluates a literal that follows JSON's grammar. `None` if it is beyond the largest finite double.
pub(crate) fn evaluate(literal: &str) -> Option<Number> {
    if let Some(value) = plain_integer(literal) {
        return Some(Number { value, exact: true });
    }
    // The standard library accepts every literal of JSON's grammar and rounds to nearest, ties to even.
    let value: f64 = literal.parse().ok()?;
    match value.classify() {
        FpCategory::Infinite | FpCategory::Nan => None,
        FpCategory::Zero => Some(Number { value: 0.0, exact: Decimal::of(literal) == Some(Decimal::ZERO) }),
        FpCategory::Normal | FpCategory::Subnormal => {
            // why: exact in binary is not enough. 2^60 is exact, yet its text is `1152921504606847000`, another integer. A literal
            // that equals its own text makes canonicalising idempotent, and no two numbers share a text.
            let printed = Decimal::of(ryu_js::Buffer::new().format_finite(value));
            Some(Number { value, exact: printed.is_some() && printed == Decimal::of(literal) })
        }
    }
}

/// Returns whether a literal is an integer (no fraction, no exponent) above 2^53 - 1 in magnitude. `value` is the
/// nearest double; rounding never crosses 2^53, so comparing it is comparing the literal.
pub(crate) fn is_unsafe_integer(literal: &str, value: f64) -> bool {
    value.abs() >= EXACT_INTEGERS && !literal.contains(['.', 'e', 'E'])
}

/// Returns whether a literal is certainly its own canonical text: an unsigned integer of at most 15 digits.
pub(crate) fn is_canonical(literal: &str) -> bool {
    literal.len() <= PLAIN_DIGITS && literal.bytes().all(|b| b.is_ascii_digit())
}

/// Writes a finite double as ECMAScript's `Number::toString` does (RFC 8785, section 3.2.2.3).
pub(crate) fn write_number(out: &mut String, value: f64) {
    // why: most numbers are small integers, for which the search for the shortest digits takes several times as long.
    if value.abs() < EXACT_INTEGERS && value.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        let whole = value as i64;
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{whole}");
        return;
    }
    out.push_str(ryu_js::Buffer::new().format_finite(value));
}

/// Reads an integer of at most 15 digits, which is always exact.
fn plain_integer(literal: &str) -> Option<f64> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    if digits.len() > PLAIN_DIGITS {
        return None;
    }
    let mut magnitude: u64 = 0;
    for b in digits.bytes() {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    let value = magnitude as f64;
    Some(if digits.len() < literal.len() && magnitude != 0 { -value } else { value })
}

/// Maximum number of significant digits in the shortest text of a double.
const MOST_DIGITS: usize = 17;

/// A decimal value in normal form: `0.d1d2d3... * 10^exponent`, the first digit not zero, unused digits zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: [u8; MOST_DIGITS],
    exponent: i64,
}

impl Decimal {
    const ZERO: Self = Self { negative: false, digits: [0; MOST_DIGITS], exponent: 0 };

    /// Normalises a literal. `None` if it has more significant digits than the shortest text of any double.
    fn of(literal: &str) -> Option<Self> {
        let (mantissa, exponent) = match literal.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, saturating_integer(exponent)),
            None => (literal, 0),
        };
        let mut digits = [0; MOST_DIGITS];
        let mut seen: usize = 0; // significant digits so far, zeros at the end included
        let mut point: i64 = 0; // how far the point lies behind the first significant digit
        let mut in_fraction = false;
        for b in mantissa.bytes() {
            match b {
                b'.' => in_fraction = true,
                b'0' if seen == 0 => point = point.saturating_sub(i64::from(in_fraction)),
                b'0'..=b'9' => {
                    if b != b'0' {
                        *digits.get_mut(seen)? = b.wrapping_sub(b'0');
                    }
                    seen = seen.saturating_add(1);
                    if !in_fraction {
                        point = point.saturating_add(1);
                    }
                }
                _ => {}
            }
        }
        if seen == 0 {
            return Some(Self::ZERO);
        }
        Some(Self { negative: literal.starts_with('-'), digits, exponent: point.saturating_add(exponent) })
    }
}

/// Reads an exponent. Values beyond 64 bits saturate, far outside the range of a double.
fn saturating_integer(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = digits
        .bytes()
        .fold(0_i64, |sum, b| sum.saturating_mul(10).saturating_add(i64::from(b.wrapping_sub(b'0'))));
    if negative { magnitude.saturating_neg() } else { magnitude }
}
