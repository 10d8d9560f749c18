use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ureq::http::HeaderValue;
use zeroize::Zeroizing;

use super::error::ChatError;

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 4_096;

/// An API key. It is wiped from memory on drop; the copy in each request is not.
pub(crate) struct ApiKey(Zeroizing<String>);

impl ApiKey {
    pub(crate) fn from_env(name: &str) -> Result<Self, ChatError> {
        let key = std::env::var_os(name).filter(|key| !key.is_empty()).ok_or(ChatError::KeyMissing)?;
        Self::new(Zeroizing::new(key.into_string().map_err(|_| ChatError::Key)?))
    }

    /// Reads the key from a file with a single line.
    pub(crate) fn from_file(path: &Path) -> Result<Self, ChatError> {
        // Opening a FIFO would block until it has a writer.
        if !std::fs::metadata(path).is_ok_and(|about| about.is_file()) {
            return Err(ChatError::KeyMissing);
        }
        let file = File::open(path).map_err(|_| ChatError::KeyMissing)?;
        let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_BYTES.saturating_add(2)));
        let read = file.take((MAX_KEY_BYTES as u64).saturating_add(2)).read_to_string(&mut text);
        read.map_err(|_| ChatError::Key)?;
        let key = text.strip_suffix('\n').unwrap_or(&text);
        let key = key.strip_suffix('\r').unwrap_or(key);
        Self::new(Zeroizing::new(key.to_owned()))
    }

    fn new(key: Zeroizing<String>) -> Result<Self, ChatError> {
        let fits = !key.is_empty() && key.len() <= MAX_KEY_BYTES && key.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(key)) } else { Err(ChatError::Key) }
    }

    /// The value of the header `authorization`, marked as sensitive for logs.
    pub(crate) fn header(&self) -> Result<HeaderValue, ChatError> {
        let text = Zeroizing::new(format!("Bearer {}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text).map_err(|_| ChatError::Key)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}
