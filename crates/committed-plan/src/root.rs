use std::fmt;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{Digest, DigestError, SessionId};
use countersign_keys::MacKey;
use countersign_keys::sealed::{PayloadBuffer, SealedText, seal};
use countersign_merkle::RootHash;

/// Prefix of a sealed root.
const PREFIX: &str = "cp1";

/// Domain label of the seal.
const LABEL: &str = "countersign/plan-root-1";

/// The text is not a root sealed by this key for this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed plan root does not verify")]
#[non_exhaustive]
pub struct PlanSealError;

impl PlanSealError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "PLAN_SEAL_INVALID"
    }
}

countersign_core::coded!(PlanSealError);

/// Identifies a committed plan: the root of the Merkle tree over its header and its steps. An approval of the whole
/// plan binds its [`digest`](Self::digest).
///
/// Every leaf states the number of steps, so the root of a committed plan has only one size. An attacker can build a
/// root over leaves that state different numbers; [`RootCursor`](crate::RootCursor) accepts only steps that agree
/// with the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PlanRoot(RootHash);

impl PlanRoot {
    pub(crate) const fn new(root: RootHash) -> Self {
        Self(root)
    }

    /// Wraps a root from an approval, a record or another gate.
    #[must_use]
    pub const fn from_digest(digest: Digest) -> Self {
        Self(RootHash::from_digest(digest))
    }

    /// The root as a digest.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.0.digest()
    }

    pub(crate) const fn hash(&self) -> &RootHash {
        &self.0
    }

    /// Seals the root for one session. A stateless host can give the text to a client and accept it back.
    ///
    /// # Errors
    /// Never for a valid session id, which is far below the maximum size of a sealed payload.
    pub fn seal(&self, session: &SessionId, key: &MacKey) -> Result<String, PlanSealError> {
        seal(PREFIX, LABEL, key, self.payload(session).as_bytes()).map_err(|_| PlanSealError)
    }

    /// Opens a sealed root. Verifies the tag before parsing the payload.
    ///
    /// # Errors
    /// [`PlanSealError`] if the key did not seal the text, or sealed it for another session.
    ///
    /// ```
    /// use countersign_committed_plan::PlanRoot;
    /// use countersign_core::{Digest, SessionId};
    /// use countersign_keys::MacKey;
    /// let (key, session) = (MacKey::from_bytes(&[7; 32])?, SessionId::new("s-1")?);
    /// let root = PlanRoot::from_digest(Digest::of(b"a plan"));
    /// let text = root.seal(&session, &key)?;
    /// assert_eq!(PlanRoot::open(&text, &session, &key)?, root);
    /// assert!(PlanRoot::open(&text, &SessionId::new("s-2")?, &key).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(text: &str, session: &SessionId, key: &MacKey) -> Result<Self, PlanSealError> {
        let mut buffer = PayloadBuffer::default();
        let sealed = SealedText::parse(PREFIX, text, &mut buffer).map_err(|_| PlanSealError)?;
        let payload = sealed.open(LABEL, key).map_err(|_| PlanSealError)?;
        let canonical = read(payload, Recipe::Jcs1, &Limits::default()).map_err(|_| PlanSealError)?;
        let root = canonical.value().get("root").and_then(|root| root.as_str()).ok_or(PlanSealError)?;
        let root: Self = root.parse().map_err(|_| PlanSealError)?;
        // Comparing with the canonical payload checks spelling, members and session at once.
        if root.payload(session).as_bytes() == payload { Ok(root) } else { Err(PlanSealError) }
    }

    fn payload(&self, session: &SessionId) -> String {
        let mut text = format!(r#"{{"recipe":"plan-root-1","root":"{self}","session":"#);
        countersign_canonical_json::write_string(&mut text, session.as_str());
        text.push('}');
        text
    }
}

impl std::str::FromStr for PlanRoot {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for PlanRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PlanRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanRoot({})", self.0)
    }
}
