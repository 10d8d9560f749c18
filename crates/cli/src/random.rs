use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::output::internal;

/// Returns fresh secret bytes from the operating system, which are wiped on drop.
pub(crate) fn secret<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut())
        .map_err(|error| Failure::new("RANDOM_UNAVAILABLE", format!("no random bytes: {error}")))?;
    Ok(bytes)
}

/// Returns a fresh id: a prefix and 128 random bits in hexadecimal.
pub(crate) fn id<T: std::str::FromStr>(prefix: &str) -> Result<T, Failure> {
    let bits = u128::from_be_bytes(*secret()?);
    format!("{prefix}-{bits:032x}").parse().map_err(|_| internal("a made id is not valid"))
}
