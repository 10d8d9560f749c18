//! Random bytes and ids from the operating system.

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

/// Returns a fresh id: a prefix and 128 random bits in hexadecimal.
///
/// # Errors
/// `RANDOM_UNAVAILABLE`.
pub fn id<T: std::str::FromStr>(prefix: &str) -> Result<T, HostError> {
    let bits = u128::from_be_bytes(*secret()?);
    format!("{prefix}-{bits:032x}").parse().map_err(|_| HostError::internal("a made id is not valid"))
}
