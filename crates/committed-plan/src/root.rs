use std::fmt;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{Digest, DigestError, SessionId};
use countersign_keys::MacKey;
use countersign_keys::sealed::{SealedText, seal};
use countersign_merkle::RootHash;

/// What a sealed root begins with.
const PREFIX: &str = "cp1";

/// The domain label of the seal.
const LABEL: &str = "countersign/plan-root-1";

/// Says that a text is not a root that this key has sealed for this session.
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

/// Identifies a committed plan: the root of the Merkle tree over its header and its steps. What an approval for the whole
/// plan is bound to, as [`digest`](Self::digest).
///
/// Every leaf says how many steps the plan has, so that no other size can be claimed for the root of a plan that was committed. A root
/// that somebody made up can be that of a tree whose leaves say different numbers; a [`RootCursor`](crate::RootCursor) takes only
/// steps that say what the header says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct PlanRoot(RootHash);

impl PlanRoot {
    pub(crate) const fn new(root: RootHash) -> Self {
        Self(root)
    }

    /// Wraps a root that came from elsewhere: out of an approval, a record, another gate.
    #[must_use]
    pub const fn from_digest(digest: Digest) -> Self {
        Self(RootHash::from_digest(digest))
    }

    /// The root's 32 bytes as a digest.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.0.digest()
    }

    pub(crate) const fn hash(&self) -> &RootHash {
        &self.0
    }

    /// Seals the root for one session into a text that a host without memory can hand out and take back.
    ///
    /// # Errors
    /// [`PlanSealError`] never for a valid session id, which is far below what a seal can hold.
    pub fn seal(&self, session: &SessionId, key: &MacKey) -> Result<String, PlanSealError> {
        seal(PREFIX, LABEL, key, self.payload(session).as_bytes()).map_err(|_| PlanSealError)
    }

    /// Opens a sealed root. The tag is verified before anything in it is read.
    ///
    /// # Errors
    /// [`PlanSealError`] when the key did not seal it, or sealed it for another session.
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
        let sealed = SealedText::parse(PREFIX, text).map_err(|_| PlanSealError)?;
        let payload = sealed.open(LABEL, key).map_err(|_| PlanSealError)?;
        let canonical = read(payload, Recipe::Jcs1, &Limits::default()).map_err(|_| PlanSealError)?;
        let root = canonical.value().get("root").and_then(|root| root.as_str()).ok_or(PlanSealError)?;
        let root: Self = root.parse().map_err(|_| PlanSealError)?;
        // One spelling, one set of members and one session: what would be sealed again is what was opened.
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
