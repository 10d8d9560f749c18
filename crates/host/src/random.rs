//! Random bytes and ids from the operating system.

use countersign_core::CallId;
use zeroize::Zeroizing;

use crate::error::HostError;

/// Returns fresh secret bytes from the operating system, which are wiped on drop.
///
/// # Errors
/// `RANDOM_UNAVAILABLE`.
pub fn secret<const N: usize>() -> Result<Zeroizing<[u8; N]>, HostError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut()).map_err(|error| {
        HostError::new("RANDOM_UNAVAILABLE", format!("random bytes unavailable: {error}"))
    })?;
    Ok(bytes)
}

/// Crockford's base 32: no letter in it is taken for a digit.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Returns a fresh id of a call: 26 letters and digits, 128 random bits. Its beginning is what a person types to answer a
/// question about the call.
///
/// # Errors
/// `RANDOM_UNAVAILABLE`.
pub fn call_id() -> Result<CallId, HostError> {
    let mut bits = u128::from_be_bytes(*secret()?);
    let mut text = String::with_capacity(26);
    for _ in 0..26 {
        let place = usize::try_from(bits & 31).unwrap_or(0);
        text.push(LETTERS.get(place).map_or('0', |letter| char::from(*letter)));
        bits >>= 5;
    }
    CallId::new(&text).map_err(|_| HostError::internal("a made id is not valid"))
}

/// Returns a fresh id: a prefix and 128 random bits in hexadecimal.
///
/// # Errors
/// `RANDOM_UNAVAILABLE`.
pub fn id<T: std::str::FromStr>(prefix: &str) -> Result<T, HostError> {
    let bits = u128::from_be_bytes(*secret()?);
    format!("{prefix}-{bits:032x}").parse().map_err(|_| HostError::internal("a made id is not valid"))
}
