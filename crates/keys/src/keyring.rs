use std::fmt;

use countersign_core::{KeyId, RunId};
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::error::{KeyError, KeyringError};
use crate::mac::{MacKey, check_secret};

/// Maximum length of a server secret, in bytes.
const MAX_SECRET_BYTES: usize = 1024;

/// Maximum number of accepted secrets beside the active one. Each costs one HMAC per unknown token.
const MAX_ACCEPTED: usize = 8;

/// A gate's long-lived secret with its id, from which the keys of runs and purposes are derived. Wiped on drop, never
/// printed, never used as a key itself.
///
/// Keys are derived with HKDF-SHA-256 (RFC 5869): the secret is the input key material, there is no salt, and `info`
/// is a label, the key id and the run id or purpose, each preceded by its length as eight big-endian bytes. So run
/// `ab` with key id `c` never has the key of run `a` with key id `bc`.
pub struct ServerSecret {
    id: KeyId,
    secret: Zeroizing<Vec<u8>>,
}

impl ServerSecret {
    /// Creates a secret from 32 to 1,024 random bytes from the caller.
    ///
    /// # Errors
    /// [`KeyError::TooShort`], [`KeyError::TooLong`], or [`KeyError::Weak`] if every byte is zero.
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

    /// Derives the key of a run. It survives a restart: the same run has the same key.
    #[must_use]
    pub fn run_key(&self, run: &RunId) -> MacKey {
        self.derive("countersign/run-key-1", run.as_str())
    }

    /// Derives the key of a purpose that is not a run, such as sealing contracts.
    #[must_use]
    pub fn named_key(&self, purpose: &str) -> MacKey {
        self.derive("countersign/purpose-key-1", purpose)
    }

    /// The bytes, for key files only.
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

/// The secret that mints new tokens, and older ones whose tokens are still accepted during a rotation.
///
/// ```
/// use countersign_core::{KeyId, RunId};
/// use countersign_keys::{Keyring, ServerSecret};
/// let new = ServerSecret::new(KeyId::new("2026-02")?, &[2; 32])?;
/// let old = ServerSecret::new(KeyId::new("2026-01")?, &[1; 32])?;
/// let keyring = Keyring::new(new).accept(old)?;
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
    /// Creates a keyring with its active secret.
    #[must_use]
    pub const fn new(active: ServerSecret) -> Self {
        Self { active, accepted: Vec::new() }
    }

    /// Adds a secret that verifies and does not mint. At most 8.
    ///
    /// # Errors
    /// [`KeyringError`] if the keyring has the id or the secret already, or is full.
    pub fn accept(mut self, secret: ServerSecret) -> Result<Self, KeyringError> {
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

    /// Derives the keys of one run, once for all its calls.
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

/// The derived keys of one run with the run's id. They neither mint nor verify tokens of another run.
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

    /// The minting key.
    #[must_use]
    pub const fn active(&self) -> (&KeyId, &MacKey) {
        (&self.active.0, &self.active.1)
    }

    /// The verifying keys, the active one first.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyId, &MacKey)> {
        std::iter::once(&self.active).chain(&self.accepted).map(|(id, key)| (id, key))
    }
}
