//! The public keys of an issuer, from a file or a URL.

use std::path::PathBuf;
use std::time::Duration;

use countersign_host::error::HostError;
use countersign_host::files::read_trusted_text;
use countersign_host::http::{Address, PlainHttp};
use countersign_host::serve_part::OauthPart;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use parking_lot::Mutex;
use tokio::time::Instant;
use ureq::Agent;

/// Least time between two reads for keys that the set lacks.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which a set is read again, so that a key that the issuer has withdrawn counts no longer.
const FRESH: Duration = Duration::from_secs(60);
/// Time after which a set counts no longer, if it cannot be read again.
const USABLE: Duration = Duration::from_secs(3_600);
/// Time for an answer of the issuer.
const REQUEST: Duration = Duration::from_secs(5);
/// Longest set, in bytes.
const MAX_SET: u64 = 1 << 20;

/// The issuer's keys, read again when they may have changed.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    source: JwksSource,
    held: Mutex<HeldKeys>,
}

#[derive(Debug)]
enum JwksSource {
    File(PathBuf),
    Url(Address, Agent),
}

#[derive(Debug)]
struct HeldKeys {
    set: JwkSet,
    /// The last successful read.
    read: Instant,
    /// The last try.
    tried: Instant,
}

impl IssuerKeys {
    /// Reads the keys.
    pub(super) fn read(part: &OauthPart) -> Result<Self, HostError> {
        let wrong = |text: &str| HostError::new("CONFIG_OAUTH", format!("`oauth` of `serve`: {text}"));
        let source = match (&part.jwks_file, &part.jwks_url) {
            (Some(path), None) => JwksSource::File(path.clone()),
            (None, Some(url)) => {
                let address =
                    Address::read(url).ok_or_else(|| wrong("`jwks_url`: a URL without query expected"))?;
                let client = address.client(REQUEST, PlainHttp::Refused);
                let client = client.ok_or_else(|| wrong("`jwks_url`: https expected beyond this machine"))?;
                JwksSource::Url(address, client)
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(wrong("either `jwks_file` or `jwks_url` expected"));
            }
        };
        let (set, now) = (source.read()?, Instant::now());
        Ok(Self { source, held: Mutex::new(HeldKeys { set, read: now, tried: now }) })
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(super) fn wait(&self, time: Duration) {
        let mut held = self.held.lock();
        let earlier = |then: Instant| then.checked_sub(time).unwrap_or(then);
        (held.read, held.tried) = (earlier(held.read), earlier(held.tried));
    }

    /// Returns whether finding this key may wait for the issuer.
    pub(super) fn waits(&self, id: &str) -> bool {
        matches!(self.source, JwksSource::Url(..)) && self.held.lock().is_due(id)
    }

    /// Returns the key of this id. Reads the keys again if they lack it or are old. If that fails, the keys count for an hour.
    pub(super) fn find(&self, id: &str) -> Option<Jwk> {
        let mut held = self.held.lock();
        if held.is_due(id) {
            held.tried = Instant::now();
            // The others go on with the keys that there are.
            drop(held);
            let read = self.source.read();
            held = self.held.lock();
            if let Ok(set) = read {
                *held = HeldKeys { set, read: Instant::now(), tried: held.tried };
            }
        }
        held.set.find(id).filter(|_| held.read.elapsed() < USABLE).cloned()
    }
}

impl HeldKeys {
    fn is_due(&self, id: &str) -> bool {
        let is_stale = self.set.find(id).is_none() || self.read.elapsed() >= FRESH;
        is_stale && self.tried.elapsed() >= LOOK
    }
}

impl JwksSource {
    fn read(&self) -> Result<JwkSet, HostError> {
        match self {
            Self::File(path) => {
                let wrong = |text: String| HostError::new("JWKS_FILE", text).about(path.display());
                keys_of(&read_trusted_text(path)?).map_err(wrong)
            }
            Self::Url(address, client) => {
                let wrong = |text: String| HostError::new("JWKS_URL", text).about(address.uri());
                keys_of(&fetch(address, client).map_err(wrong)?).map_err(wrong)
            }
        }
    }
}

fn fetch(address: &Address, client: &Agent) -> Result<String, String> {
    let failed = |error: ureq::Error| format!("the issuer's keys cannot be fetched: {error}");
    let mut response = client.get(address.uri()).call().map_err(failed)?;
    if response.status().as_u16() != 200 {
        return Err(format!("the issuer's keys cannot be fetched: status {}", response.status().as_u16()));
    }
    response.body_mut().with_config().limit(MAX_SET).read_to_string().map_err(failed)
}

/// Reads a JWK set. Each key has an id, and is public.
fn keys_of(text: &str) -> Result<JwkSet, String> {
    let set: JwkSet = serde_json::from_str(text).map_err(|error| format!("no JWK set: {error}"))?;
    if set.keys.is_empty() || set.keys.iter().any(|key| key.common.key_id.is_none()) {
        return Err("at least one key expected, each with a `kid`".into());
    }
    if set.keys.iter().any(|key| matches!(key.algorithm, AlgorithmParameters::OctetKey(_))) {
        return Err("a key is symmetric: its owner could issue tokens".into());
    }
    Ok(set)
}
