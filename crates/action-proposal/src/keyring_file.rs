use std::collections::{BTreeMap, BTreeSet};

use countersign_canonical_json::{Kind, Limits, Recipe, ValueRef, read, to_canonical};
use countersign_core::{Digest, ImpactClass, KeyId, Timestamp, escape_hidden};
use countersign_keys::{KeyError, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::key_scope::{KeyScope, ScopeError};
use crate::keyring::{EvidenceKey, EvidenceKeyring, InactiveKey, KeyStatus, WireKeyringKey};
use crate::keyring_error::KeyringError;
use crate::public_key;
use countersign_core::rfc3339::{self, Offset};

/// Largest keyring file, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Most keys, and most entries of each list of revocations.
const MAX_KEYS: usize = 4_096;

/// Members of the full form. None of them is a valid id in the short form.
const MEMBERS: [&str; 4] = ["trusted_keys", "revoked_keys", "revoked_fingerprints", "thresholds"];

impl EvidenceKeyring {
    /// Reads a keyring file: the reference's format, `{"trusted_keys": {..}, "revoked_keys": [..]}` or just ids and
    /// keys. The first form may also have `revoked_fingerprints` and `thresholds`.
    ///
    /// A key is 64 hexadecimal digits, base64 or PEM, alone or as `public_key` of an object that may state
    /// `expires_at`, `not_before` (RFC 3339, UTC without an offset), `tools`, `servers`, `impacts` and `principals`.
    /// At most 1 MiB and 4,096 keys.
    ///
    /// A revoked fingerprint is [`VerifyingKey::fingerprint`]: a framed digest, not the bare SHA-256 of the key. A
    /// file that lists the bare SHA-256 of one of its keys is refused, since it would revoke nothing.
    ///
    /// No key counts as expired here, because the time is unknown. Use [`from_json_at`](Self::from_json_at) at startup.
    ///
    /// # Errors
    /// [`KeyringError`]; one fault refuses the whole file.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyringError> {
        read_keyring(json, None)
    }

    /// Reads like [`from_json`](Self::from_json), for use from `now` on: revoked and expired keys do not count toward
    /// a threshold, and a weak key that is revoked or expired is read as inactive.
    ///
    /// # Errors
    /// [`KeyringError`]; one fault refuses the whole file.
    pub fn from_json_at(json: &[u8], now: Timestamp) -> Result<Self, KeyringError> {
        read_keyring(json, Some(now))
    }

    /// Writes the file. Equal keyrings give equal bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        write_keyring(self)
    }

    /// Number of keys that are neither revoked nor expired.
    fn countable(&self, now: Option<Timestamp>) -> usize {
        let counting = self.keys.iter().filter(|(id, key)| {
            !self.revoked_ids.contains(*id)
                && !self.revoked_fingerprints.contains(key.fingerprint.as_bytes())
                && key.expires.zip(now).is_none_or(|(expires, now)| now < expires)
        });
        counting.count()
    }

    /// Status that makes a weak key unusable; `None` if it could be used.
    fn inactive_status(
        &self,
        id: &str,
        wire: &WireKeyringKey,
        now: Option<Timestamp>,
        place: &str,
    ) -> Result<Option<KeyStatus>, KeyringError> {
        let fingerprint =
            public_key::bytes(&wire.public_key).map(|bytes| VerifyingKey::fingerprint_of(&bytes));
        if self.revoked_ids.contains(id)
            || fingerprint.is_some_and(|digest| self.revoked_fingerprints.contains(digest.as_bytes()))
        {
            return Ok(Some(KeyStatus::Revoked));
        }
        let expires = read_time(wire.expires_at.as_deref(), place, "expires_at")?;
        let is_over = expires.zip(now).is_some_and(|(expires, now)| now >= expires);
        Ok(is_over.then_some(KeyStatus::Expired))
    }
}

/// Reads a keyring file. Without a time, no key counts as expired.
fn read_keyring(json: &[u8], now: Option<Timestamp>) -> Result<EvidenceKeyring, KeyringError> {
    let too_large = KeyringError::TooLarge { max: MAX_BYTES };
    if json.len() > MAX_BYTES {
        return Err(too_large);
    }
    let limits = Limits::default().bytes(MAX_BYTES).map_err(|_| too_large)?;
    let canonical = read(json, Recipe::Jcs1, &limits).map_err(KeyringError::Json)?;
    let file = canonical.value();
    if file.kind() != Kind::Object {
        return Err(malformed(""));
    }
    let Some(trusted) = file.get("trusted_keys") else {
        return read_short_form(file, now);
    };
    if let Some((name, _)) = file.members().find(|(name, _)| !MEMBERS.contains(name)) {
        return Err(malformed(&pointer("", name)));
    }
    if trusted.kind() != Kind::Object {
        return Err(malformed("/trusted_keys"));
    }
    let (revoked_ids, revoked_fingerprints) = (read_revoked_ids(file)?, read_revoked_fingerprints(file)?);
    let keyring = EvidenceKeyring { revoked_ids, revoked_fingerprints, ..EvidenceKeyring::default() };
    let mut keyring = read_keys(keyring, "/trusted_keys", trusted, now)?;
    // why: the bare SHA-256 of a key is no fingerprint. The key would look revoked without being so.
    let is_bare =
        |key: &EvidenceKey| keyring.revoked_fingerprints.contains(Digest::of(key.key.as_bytes()).as_bytes());
    if keyring.keys.values().any(is_bare) {
        return Err(malformed("/revoked_fingerprints"));
    }
    keyring.thresholds = read_thresholds(file, keyring.countable(now))?;
    Ok(keyring)
}

/// Reads the short form: ids and keys only.
fn read_short_form(file: ValueRef<'_>, now: Option<Timestamp>) -> Result<EvidenceKeyring, KeyringError> {
    for (name, value) in file.members() {
        // why: a file of revocations alone is a full one that lost its keys, and not a short one.
        if MEMBERS.contains(&name) || value.kind() != Kind::String {
            return Err(malformed(&pointer("", name)));
        }
    }
    read_keys(EvidenceKeyring::default(), "", file, now)
}

/// Adds the keys to a keyring that already has its revocations.
fn read_keys(
    mut keyring: EvidenceKeyring,
    place: &str,
    trusted: ValueRef<'_>,
    now: Option<Timestamp>,
) -> Result<EvidenceKeyring, KeyringError> {
    if trusted.len() > MAX_KEYS {
        return Err(KeyringError::TooMany { max: MAX_KEYS });
    }
    let mut seen = BTreeSet::new();
    for (id, value) in trusted.members() {
        let place = pointer(place, id);
        let id = read_id(id, &place)?;
        let wire = read_entry(value, &place)?;
        match read_key(&wire, &place) {
            Ok(key) if seen.insert(key.key) => {
                keyring.keys.insert(id, key);
            }
            Ok(_) => return Err(KeyringError::DuplicateKey { place }),
            // why: no signature counts under a revoked or expired key, so a weak one does no harm there.
            Err(KeyringError::Key { place, source: KeyError::Weak }) => {
                let status = keyring.inactive_status(&id, &wire, now, &place)?;
                let status = status.ok_or(KeyringError::Key { place, source: KeyError::Weak })?;
                keyring.inactive.insert(id, InactiveKey { wire, status });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(keyring)
}

fn read_id(id: &str, place: &str) -> Result<Box<str>, KeyringError> {
    match KeyId::new(id) {
        Ok(_) => Ok(id.into()),
        Err(_) => Err(KeyringError::Id { place: place.to_owned() }),
    }
}

fn read_entry(value: ValueRef<'_>, place: &str) -> Result<WireKeyringKey, KeyringError> {
    match value.as_str() {
        Some(text) => Ok(WireKeyringKey { public_key: text.to_owned(), ..WireKeyringKey::default() }),
        None if value.kind() == Kind::Object => WireKeyringKey::read(value, place),
        None => Err(malformed(place)),
    }
}

fn read_key(wire: &WireKeyringKey, place: &str) -> Result<EvidenceKey, KeyringError> {
    let wire = wire.clone();
    let key = public_key::parse(&wire.public_key)
        .map_err(|source| KeyringError::Key { place: place.to_owned(), source })?;
    let scope = KeyScope::new(wire.tools, wire.servers, wire.impacts, wire.principals)
        .map_err(|ScopeError| KeyringError::Scope { place: place.to_owned() })?;
    Ok(EvidenceKey {
        fingerprint: key.fingerprint(),
        key,
        expires: read_time(wire.expires_at.as_deref(), place, "expires_at")?,
        not_before: read_time(wire.not_before.as_deref(), place, "not_before")?,
        scope,
    })
}

fn read_time(text: Option<&str>, place: &str, name: &str) -> Result<Option<Timestamp>, KeyringError> {
    let read = |text| {
        rfc3339::parse_bound(text, Offset::OrUtc)
            .ok_or_else(|| KeyringError::Time { place: pointer(place, name) })
    };
    text.map(read).transpose()
}

fn read_revoked_ids(file: ValueRef<'_>) -> Result<BTreeSet<Box<str>>, KeyringError> {
    let entries = list(file, "revoked_keys")?;
    let read_one = |(place, text): (String, &str)| read_id(text, &place);
    entries.into_iter().map(read_one).collect()
}

fn read_revoked_fingerprints(file: ValueRef<'_>) -> Result<BTreeSet<[u8; 32]>, KeyringError> {
    let entries = list(file, "revoked_fingerprints")?;
    let read_one = |(place, text): (String, &str)| match text.parse::<Digest>() {
        Ok(fingerprint) => Ok(*fingerprint.as_bytes()),
        Err(_) => Err(malformed(&place)),
    };
    entries.into_iter().map(read_one).collect()
}

/// Texts of an optional list, each with its place.
fn list<'a>(file: ValueRef<'a>, name: &str) -> Result<Vec<(String, &'a str)>, KeyringError> {
    let Some(value) = file.get(name) else {
        return Ok(Vec::new());
    };
    let place = pointer("", name);
    if value.kind() != Kind::Array {
        return Err(malformed(&place));
    }
    if value.len() > MAX_KEYS {
        return Err(KeyringError::TooMany { max: MAX_KEYS });
    }
    let text_at = |(index, entry): (usize, ValueRef<'a>)| {
        let place = format!("{place}/{index}");
        match entry.as_str() {
            Some(text) => Ok((place, text)),
            None => Err(malformed(&place)),
        }
    };
    value.elements().enumerate().map(text_at).collect()
}

fn read_thresholds(file: ValueRef<'_>, keys: usize) -> Result<BTreeMap<ImpactClass, usize>, KeyringError> {
    let Some(value) = file.get("thresholds") else {
        return Ok(BTreeMap::new());
    };
    if value.kind() != Kind::Object {
        return Err(malformed("/thresholds"));
    }
    let read_one = |(name, value): (&str, ValueRef<'_>)| {
        let impact = name.parse::<ImpactClass>().ok();
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match (impact, count) {
            (Some(impact), Some(count)) if (1..=keys).contains(&count) => Ok((impact, count)),
            _ => Err(KeyringError::Threshold { place: pointer("/thresholds", name) }),
        }
    };
    value.members().map(read_one).collect()
}

fn malformed(place: &str) -> KeyringError {
    KeyringError::Malformed { place: place.to_owned() }
}

/// Appends a token to a JSON Pointer (RFC 6901), with invisible characters escaped.
fn pointer(place: &str, name: &str) -> String {
    format!("{place}/{}", escape_hidden(&name.replace('~', "~0").replace('/', "~1")))
}

/// Writes the full form, with every key in base64 and every time in UTC.
#[expect(clippy::expect_used, reason = "texts and integers in a struct always serialise")]
fn write_keyring(keyring: &EvidenceKeyring) -> String {
    let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let entry = |key: &EvidenceKey| WireKeyringKey {
        public_key: key.key.to_base64(),
        expires_at: text(key.expires),
        not_before: text(key.not_before),
        tools: key.scope.tools().map(|tools| tools.map(str::to_owned).collect()),
        servers: key.scope.servers().map(|servers| servers.cloned().collect()),
        impacts: key.scope.impacts().map(Iterator::collect),
        principals: key.scope.principals().map(|principals| principals.cloned().collect()),
    };
    let wire = WireKeyring {
        trusted_keys: keyring
            .keys
            .iter()
            .map(|(id, key)| (&**id, entry(key)))
            .chain(keyring.inactive.iter().map(|(id, key)| (&**id, key.wire.clone())))
            .collect(),
        revoked_keys: keyring.revoked_ids.iter().map(|id| &**id).collect(),
        revoked_fingerprints: keyring.revoked_fingerprints.iter().copied().map(Digest::from_bytes).collect(),
        thresholds: keyring.thresholds.iter().map(|(impact, count)| (impact.as_str(), *count)).collect(),
    };
    to_canonical(&wire).expect("a keyring is JSON").as_str().to_owned()
}

#[derive(Serialize)]
struct WireKeyring<'a> {
    trusted_keys: BTreeMap<&'a str, WireKeyringKey>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked_keys: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked_fingerprints: Vec<Digest>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    thresholds: BTreeMap<&'a str, usize>,
}

impl WireKeyringKey {
    /// Reads member by member, so that a fault has a place. Absent members are left out and never `null`: `null` in
    /// place of a limit would lift it.
    fn read(value: ValueRef<'_>, place: &str) -> Result<Self, KeyringError> {
        let mut wire = Self::default();
        let mut has_key = false;
        for (name, value) in value.members() {
            let place = pointer(place, name);
            let text = || value.as_str().map(str::to_owned).ok_or_else(|| malformed(&place));
            match name {
                "public_key" => {
                    wire.public_key = text()?;
                    has_key = true;
                }
                "expires_at" => wire.expires_at = Some(text()?),
                "not_before" => wire.not_before = Some(text()?),
                "tools" => wire.tools = Some(members_of(value, &place)?),
                "servers" => wire.servers = Some(members_of(value, &place)?),
                "impacts" => wire.impacts = Some(members_of(value, &place)?),
                "principals" => wire.principals = Some(members_of(value, &place)?),
                _ => return Err(malformed(&place)),
            }
        }
        if has_key { Ok(wire) } else { Err(malformed(place)) }
    }
}

fn members_of<'a, T: Deserialize<'a>>(value: ValueRef<'a>, place: &str) -> Result<Vec<T>, KeyringError> {
    Vec::deserialize(value).map_err(|_| KeyringError::Scope { place: place.to_owned() })
}
