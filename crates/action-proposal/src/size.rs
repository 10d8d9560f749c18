use countersign_canonical_json::Canonical;

/// Most characters by which the reference's text of a number with a fraction or exponent exceeds the canonical one:
/// `1.2345678901234567e+16` for seventeen digits.
const LONGER_NUMBER: usize = 5;

/// Largest ratio of the reference's count to the received bytes: `1e20,` becomes 21 digits and more.
const MOST_GROWTH: usize = 8;

/// Returns whether a proposal exceeds a limit of bytes by the reference's count: the length of the JSON text that it
/// would write, with a blank after each comma and colon.
///
/// INVARIANT: the result is never below the reference's count, so a text that is too large there is refused here.
pub(crate) fn counts_more_than(most: usize, received: &[u8], canonical: &Canonical) -> bool {
    received.len().saturating_mul(MOST_GROWTH) > most && counted(received, canonical) > most
}

fn counted(received: &[u8], canonical: &Canonical) -> usize {
    let (blanks, numbers) = outside_of_strings(received);
    canonical.bytes().len().saturating_add(blanks).saturating_add(numbers.saturating_mul(LONGER_NUMBER))
}

/// Counts the commas and colons, and the points and exponents of numbers, outside of strings.
fn outside_of_strings(received: &[u8]) -> (usize, usize) {
    let (mut blanks, mut numbers) = (0_usize, 0_usize);
    let (mut in_string, mut escaped, mut before) = (false, false, b' ');
    for &byte in received {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else {
            match byte {
                b'"' => in_string = true,
                b',' | b':' => blanks = blanks.saturating_add(1),
                b'.' => numbers = numbers.saturating_add(1),
                b'e' | b'E' if before.is_ascii_digit() => numbers = numbers.saturating_add(1),
                _ => {}
            }
        }
        before = byte;
    }
    (blanks, numbers)
}
