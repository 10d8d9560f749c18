use countersign_core::{Digest, Millis, SessionId, Timestamp};

use crate::normalise::with_normalised;
use crate::{AskDrift, PinError};

/// Id of the digest's recipe.
pub const RECIPE: &str = "ask-1";

/// Unicode version of the tables, which is part of the hashed label.
pub const UNICODE_VERSION: &str = "17.0.0";

/// Domain label of a goal's digest.
const LABEL: &str = "countersign/ask-1/unicode-17.0.0";

/// Domain label of the digest of a text that cannot be a goal. No pin has a digest under it.
const REFUSED_LABEL: &str = "countersign/ask-1/unicode-17.0.0/refused";

/// The digest of a session's goal and the time during which it is valid.
///
/// It does not contain the goal. [`verify`](Self::verify) compares digests in constant time.
///
/// ```
/// use countersign_core::{Millis, SessionId, Timestamp};
/// use countersign_pinned_ask::PinnedAsk;
/// let session = SessionId::new("s1")?;
/// let now = Timestamp::from_millis(1_000)?;
/// let pin = PinnedAsk::pin("Summarise ticket 7", &session, Millis::from_secs(60), now)?;
/// assert!(pin.verify("  summarise\tTICKET 7", &session, now).is_ok());
/// let drift = pin.verify("Delete ticket 7", &session, now).unwrap_err();
/// assert_eq!(drift.code(), "ASK_DRIFT");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "WirePin", into = "WirePin")]
pub struct PinnedAsk {
    session: SessionId,
    digest: Digest,
    issued: Timestamp,
    expires: Timestamp,
}

impl PinnedAsk {
    /// Pins a goal to a session, valid from `now` for `ttl`.
    ///
    /// # Errors
    /// [`PinError`] if the goal is blank or too long, or the time to live is zero or out of range.
    pub fn pin(goal: &str, session: &SessionId, ttl: Millis, now: Timestamp) -> Result<Self, PinError> {
        if ttl.is_zero() {
            return Err(PinError::Ttl);
        }
        let expires = now.checked_add(ttl).map_err(|_| PinError::Ttl)?;
        let digest = with_normalised(goal, |goal| digest(goal, session))?;
        Ok(Self { session: session.clone(), digest, issued: now, expires })
    }

    /// Verifies that the goal stated in this session is the pinned one and that the pin is valid now.
    ///
    /// # Errors
    /// [`AskDrift`] if the session or the goal differs, or the pin is not valid now.
    pub fn verify(&self, restated: &str, session: &SessionId, now: Timestamp) -> Result<(), AskDrift> {
        let pinned = self.digest;
        if *session != self.session {
            return Err(AskDrift::OtherSession { pinned });
        }
        self.alive(now)?;
        let restated = with_normalised(restated, |goal| digest(goal, session))
            .unwrap_or_else(|_| refused_digest(restated, session));
        if restated == pinned { Ok(()) } else { Err(AskDrift::Goal { pinned, restated }) }
    }

    /// Verifies that the pin is valid: from its time of issue until before its expiry.
    ///
    /// # Errors
    /// [`AskDrift::NotYet`] or [`AskDrift::Expired`].
    pub fn alive(&self, now: Timestamp) -> Result<(), AskDrift> {
        let pinned = self.digest;
        if now < self.issued {
            return Err(AskDrift::NotYet { pinned, issued: self.issued });
        }
        if now >= self.expires {
            return Err(AskDrift::Expired { pinned, expires: self.expires });
        }
        Ok(())
    }

    /// Returns the pin with its expiry moved to `expires` if that is later.
    #[must_use]
    pub fn extended_to(self, expires: Timestamp) -> Self {
        Self { expires: self.expires.max(expires), ..self }
    }

    /// Digest of the goal within its session.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The session of the pin.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Time of pinning.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// Time of expiry; the pin is valid before it.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }
}

/// Alias of [`PinnedAsk::verify`], under the name in the seed idea.
///
/// # Errors
/// [`AskDrift`] if the session or the goal differs, or the pin is not valid now.
pub fn require_match(
    pin: &PinnedAsk,
    restated: &str,
    session: &SessionId,
    now: Timestamp,
) -> Result<(), AskDrift> {
    pin.verify(restated, session, now)
}

fn digest(normalised: &[u8], session: &SessionId) -> Digest {
    Digest::of_fields(LABEL, [session.as_str().as_bytes(), normalised])
}

fn refused_digest(text: &str, session: &SessionId) -> Digest {
    Digest::of_fields(REFUSED_LABEL, [session.as_str().as_bytes(), text.as_bytes()])
}

/// Wire form of a pin.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePin {
    recipe: String,
    unicode: String,
    session: SessionId,
    digest: Digest,
    issued: Timestamp,
    expires: Timestamp,
}

/// A pin cannot be read.
#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error("the pin's recipe or Unicode version is another one")]
    Recipe,
    #[error("the pin ends before it begins")]
    Times,
}

impl TryFrom<WirePin> for PinnedAsk {
    type Error = WireError;

    fn try_from(wire: WirePin) -> Result<Self, WireError> {
        if wire.recipe != RECIPE || wire.unicode != UNICODE_VERSION {
            return Err(WireError::Recipe);
        }
        if wire.expires <= wire.issued {
            return Err(WireError::Times);
        }
        let WirePin { session, digest, issued, expires, .. } = wire;
        Ok(Self { session, digest, issued, expires })
    }
}

impl From<PinnedAsk> for WirePin {
    fn from(pin: PinnedAsk) -> Self {
        let PinnedAsk { session, digest, issued, expires } = pin;
        Self { recipe: RECIPE.into(), unicode: UNICODE_VERSION.into(), session, digest, issued, expires }
    }
}
