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
    /// Whether the literal is the canonical text of `value`.
    pub(crate) canonical: bool,
}

/// Most digits of which every sequence fits 64 bits.
pub(crate) const SHORT_DIGITS: usize = 19;

/// Powers of ten, all of them exact in a double.
const POWERS: [f64; SHORT_DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19,
];

/// Evaluates a literal without exponent: `magnitude / 10^decimals`, written with `decimals` digits behind the point.
/// `None` if it takes [`evaluate`].
///
/// Below 2^53 every integer is a double, and no shorter text names it. Of 15 significant digits or fewer, every decimal
/// survives the way to the nearest double and back (`DBL_DIG`), so no two of them share a double, and the shortest text
/// of that double is the decimal itself. Dividing two doubles that are exact rounds once, so the quotient is the nearest.
#[inline(always)]
pub(crate) fn evaluate_short(negative: bool, magnitude: u64, decimals: usize) -> Option<Number> {
    const LARGEST_INTEGER: u64 = (1 << 53) - 1;
    const LARGEST_DECIMAL: u64 = 999_999_999_999_999;
    /// From here on ECMAScript writes a number without exponent.
    const SMALLEST_WITHOUT_EXPONENT: f64 = 1e-6;
    let limit = if decimals == 0 { LARGEST_INTEGER } else { LARGEST_DECIMAL };
    if magnitude > limit {
        return None;
    }
    let (value, canonical) = if decimals == 0 {
        (magnitude as f64, true)
    } else {
        let value = magnitude as f64 / POWERS.get(decimals)?;
        (value, !magnitude.is_multiple_of(10) && value >= SMALLEST_WITHOUT_EXPONENT)
    };
    Some(match (negative, magnitude) {
        (false, _) => Number { value, exact: true, canonical },
        (true, 0) => Number { value: 0.0, exact: true, canonical: false },
        (true, _) => Number { value: -value, exact: true, canonical },
    })
}

/// Evaluates a literal that follows JSON's grammar. `None` if it is beyond the largest finite double.
pub(crate) fn evaluate(literal: &str) -> Option<Number> {
    // The standard library accepts every literal of JSON's grammar and rounds to nearest, ties to even.
    let value: f64 = literal.parse().ok()?;
    match value.classify() {
        FpCategory::Infinite | FpCategory::Nan => None,
        FpCategory::Zero => {
            let exact = Decimal::of(literal) == Some(Decimal::ZERO);
            Some(Number { value: 0.0, exact, canonical: literal == "0" })
        }
        FpCategory::Normal | FpCategory::Subnormal => {
            // why: exact in binary is not enough. 2^60 is exact, yet its text is `1152921504606847000`, another integer. A literal
            // that equals its own text makes canonicalising idempotent, and no two numbers share a text.
            let mut buffer = ryu_js::Buffer::new();
            let text = buffer.format_finite(value);
            let canonical = text == literal;
            let same_value = || {
                let printed = Decimal::of(text);
                printed.is_some() && printed == Decimal::of(literal)
            };
            Some(Number { value, exact: canonical || same_value(), canonical })
        }
    }
}

/// Returns whether a literal is an integer (no fraction, no exponent) above 2^53 - 1 in magnitude. `value` is the
/// nearest double; rounding never crosses 2^53, so comparing it is comparing the literal.
pub(crate) fn is_unsafe_integer(literal: &str, value: f64) -> bool {
    value.abs() >= EXACT_INTEGERS && !literal.contains(['.', 'e', 'E'])
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
