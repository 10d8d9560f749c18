use std::fmt;

use countersign_core::{KeyId, RunId};
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::error::{KeyError, KeyringError};
use crate::mac::{MacKey, check_secret};

/// The most bytes of a server secret.
const MAX_SECRET_BYTES: usize = 1024;

/// The most secrets that a keyring accepts beside the active one: each costs one HMAC per unknown token.
const MAX_ACCEPTED: usize = 8;

/// Holds a gate's long-lived secret under its id, from which the keys of runs and purposes are derived. Wiped on drop,
/// never printed, never used as a key itself.
///
/// Keys are derived with HKDF-SHA-256 (RFC 5869): the secret is the input key material, there is no salt, and `info`
/// is a label, the key id and the run id or purpose, each behind its length as eight big-endian bytes. So run `ab` and
/// key id `c` never give the key of run `a` and key id `bc`.
pub struct ServerSecret {
    id: KeyId,
    secret: Zeroizing<Vec<u8>>,
}

impl ServerSecret {
    /// Takes 32 to 1,024 secret bytes that the caller drew at random.
    ///
    /// # Errors
    /// [`KeyError::TooShort`], [`KeyError::TooLong`], or [`KeyError::Weak`] when every byte is zero.
    pub fn new(id: KeyId, secret: &[u8]) -> Result<Self, KeyError> {
        check_secret(secret)?;
        if secret.len() > MAX_SECRET_BYTES {
            return Err(KeyError::TooLong { max: MAX_SECRET_BYTES });
        }
        Ok(Self { id, secret: Zeroizing::new(secret.to_vec()) })
    }

    /// The id.
    #[must_use]
    pub const fn key_id(&self) -> &KeyId {
        &self.id
    }

    /// Derives the key of one run. The same run has the same key after a restart.
    #[must_use]
    pub fn run_key(&self, run: &RunId) -> MacKey {
        self.derive("countersign/run-key-1", run.as_str())
    }

    /// Derives the key of a purpose that is not a run, such as sealing contracts.
    #[must_use]
    pub fn named_key(&self, purpose: &str) -> MacKey {
        self.derive("countersign/purpose-key-1", purpose)
    }

    /// The bytes, for the key file alone.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.secret
    }

    fn derive(&self, label: &str, name: &str) -> MacKey {
        let size = |text: &str| (text.len() as u64).to_be_bytes();
        let mut key = Zeroizing::new([0; 32]);
        let info: [&[u8]; 6] = [
            &size(label),
            label.as_bytes(),
            &size(self.id.as_str()),
            self.id.as_str().as_bytes(),
            &size(name),
            name.as_bytes(),
        ];
        #[expect(
            clippy::expect_used,
            reason = "32 bytes are one of the 255 blocks that HKDF-SHA-256 can give"
        )]
        Hkdf::<Sha256>::new(None, &self.secret)
            .expand_multi_info(&info, key.as_mut())
            .expect("HKDF gives 32 bytes");
        #[expect(
            clippy::expect_used,
            reason = "32 bytes of HMAC output are long enough, and zero with chance 2^-256"
        )]
        MacKey::from_bytes(key.as_ref()).expect("a derived key is a key")
    }

    fn same_secret(&self, other: &Self) -> bool {
        self.secret.ct_eq(&other.secret).into()
    }
}

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSecret").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Holds the secret that new tokens are made with, and those whose tokens are still accepted while keys rotate.
///
/// ```
/// use countersign_core::{KeyId, RunId};
/// use countersign_keys::{Keyring, ServerSecret};
/// let new = ServerSecret::new(KeyId::new("2026-02")?, &[2; 32])?;
/// let old = ServerSecret::new(KeyId::new("2026-01")?, &[1; 32])?;
/// let keyring = Keyring::new(new).with_accepted(old)?;
/// let keys = keyring.for_run(&RunId::new("run-7")?);
/// assert_eq!(keys.active().0.as_str(), "2026-02");
/// assert_eq!(keys.iter().count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Keyring {
    active: ServerSecret,
    accepted: Vec<ServerSecret>,
}

impl Keyring {
    /// Starts a keyring with its active secret.
    #[must_use]
    pub const fn new(active: ServerSecret) -> Self {
        Self { active, accepted: Vec::new() }
    }

    /// Adds a secret that verifies and no longer mints. At most 8.
    ///
    /// # Errors
    /// [`KeyringError`] when the id or the secret is there already, or the keyring is full.
    pub fn with_accepted(mut self, secret: ServerSecret) -> Result<Self, KeyringError> {
        if self.secrets().any(|known| known.id == secret.id) {
            return Err(KeyringError::DuplicateId);
        }
        if self.secrets().any(|known| known.same_secret(&secret)) {
            return Err(KeyringError::DuplicateSecret);
        }
        if self.accepted.len() >= MAX_ACCEPTED {
            return Err(KeyringError::Full { max: MAX_ACCEPTED });
        }
        self.accepted.push(secret);
        Ok(self)
    }

    /// The active secret.
    #[must_use]
    pub const fn active(&self) -> &ServerSecret {
        &self.active
    }

    /// Derives the keys of one run, once; they are then ready for every call of that run.
    #[must_use]
    pub fn for_run(&self, run: &RunId) -> RunKeys {
        let derive = |secret: &ServerSecret| (secret.id.clone(), secret.run_key(run));
        RunKeys {
            run: run.clone(),
            active: derive(&self.active),
            accepted: self.accepted.iter().map(derive).collect(),
        }
    }

    fn secrets(&self) -> impl Iterator<Item = &ServerSecret> {
        std::iter::once(&self.active).chain(&self.accepted)
    }
}

/// Holds the derived keys of one run, beside the run's id: tokens of another run can neither be minted nor verified
/// with it.
#[derive(Debug)]
pub struct RunKeys {
    run: RunId,
    active: (KeyId, MacKey),
    accepted: Vec<(KeyId, MacKey)>,
}

impl RunKeys {
    /// The run.
    #[must_use]
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// The key to mint with.
    #[must_use]
    pub const fn active(&self) -> (&KeyId, &MacKey) {
        (&self.active.0, &self.active.1)
    }

    /// The keys to verify with, the active one first.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyId, &MacKey)> {
        std::iter::once(&self.active).chain(&self.accepted).map(|(id, key)| (id, key))
    }
}
