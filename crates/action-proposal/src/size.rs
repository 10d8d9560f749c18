use countersign_canonical_json::Canonical;

/// How much longer the reference can write a number with a fraction or an exponent than the canonical form does:
/// `1.2345678901234567e+16` for seventeen digits.
const LONGER_NUMBER: usize = 5;

/// The most that the reference's count can exceed the bytes received, as a factor: `1e20,` becomes 21 digits and more.
const MOST_GROWTH: usize = 8;

/// Says whether a proposal is over a limit of bytes as the reference counts them: in its own JSON text of the value, which has
/// a blank after each comma and colon.
///
/// The count here is never below the reference's, so that nothing passes here that is too large there.
pub(crate) fn counts_more_than(most: usize, received: &[u8], canonical: &Canonical) -> bool {
    received.len().saturating_mul(MOST_GROWTH) > most && counted(received, canonical) > most
}

fn counted(received: &[u8], canonical: &Canonical) -> usize {
    let (blanks, numbers) = outside_of_strings(received);
    canonical.bytes().len().saturating_add(blanks).saturating_add(numbers.saturating_mul(LONGER_NUMBER))
}

/// Counts the commas and colons, and the points and exponents of numbers, of a text that was read as JSON.
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
