use countersign_core::{KeyId, RunId};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::ZeroizeOnDrop;

use super::unhex;
use crate::{KeyError, Keyring, KeyringError, MacKey, ServerSecret, Tag, TagError};

fn secret(id: &str, byte: u8) -> ServerSecret {
    ServerSecret::new(KeyId::new(id).unwrap(), &[byte; 32]).unwrap()
}

fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn framed(fields: &[&str]) -> Vec<u8> {
    fields.iter().flat_map(|f| [&(f.len() as u64).to_be_bytes(), f.as_bytes()].concat()).collect()
}

#[test]
fn case_6_of_rfc_4231_holds() {
    let key = MacKey::from_bytes(&[0xaa; 131]).unwrap();
    let tag = key.tag(b"Test Using Larger Than Block-Size Key - Hash Key First");
    assert_eq!(tag.as_bytes(), &unhex("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"));
}

#[test]
fn keys_are_derived_as_rfc_5869_says() {
    let ikm = [9; 40];
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &ikm).unwrap();
    // RFC 5869, section 2.2 without a salt, then one block of section 2.3.
    let prk = hmac(&[0; 32], &ikm);
    for (derived, label, name) in [
        (secret.run_key(&run("r")), "countersign/run-key-1", "r"),
        (secret.named_key("contracts"), "countersign/purpose-key-1", "contracts"),
    ] {
        let okm = hmac(&prk, &[framed(&[label, "k1", name]), vec![1]].concat());
        assert_eq!(derived.tag(b"m").as_bytes(), &hmac(&okm, b"m"));
    }
}

#[test]
fn run_key_depends_on_every_input() {
    let tag = |key: MacKey| *key.tag(b"m").as_bytes();
    let base = tag(secret("k", 1).run_key(&run("r")));
    assert_eq!(base, tag(secret("k", 1).run_key(&run("r"))));
    assert_ne!(base, tag(secret("k", 1).run_key(&run("s"))));
    assert_ne!(base, tag(secret("l", 1).run_key(&run("r"))));
    assert_ne!(base, tag(secret("k", 2).run_key(&run("r"))));
    assert_ne!(base, tag(secret("k", 1).named_key("r")));
    assert_ne!(base, tag(MacKey::from_bytes(&[1; 32]).unwrap()));
}

#[test]
fn run_id_and_key_id_are_framed() {
    let tag = |id: &str, name: &str| *secret(id, 1).run_key(&run(name)).tag(b"m").as_bytes();
    assert_ne!(tag("a", "bc"), tag("ab", "c"));
    assert_ne!(tag("bc", "a"), tag("c", "ab"));
    assert_ne!(tag("a", "bc"), tag("bc", "a"));
}

#[test]
fn weak_secret_is_refused() {
    let new = |bytes: &[u8]| ServerSecret::new(KeyId::new("k").unwrap(), bytes).map(|_| ());
    assert_eq!(new(&[1; 31]), Err(KeyError::TooShort { min: 32 }));
    assert_eq!(new(&[]), Err(KeyError::TooShort { min: 32 }));
    assert_eq!(new(&[1; 1025]), Err(KeyError::TooLong { max: 1024 }));
    assert_eq!(new(&[0; 32]), Err(KeyError::Weak));
    assert_eq!(new(&[1; 1024]), Ok(()));
    assert_eq!(MacKey::from_bytes(&[1; 31]).map(|_| ()), Err(KeyError::TooShort { min: 32 }));
    assert_eq!(MacKey::from_bytes(&[0; 64]).map(|_| ()), Err(KeyError::Weak));
}

#[test]
fn a_keyring_refuses_an_id_or_a_secret_that_it_has() {
    let ring = || Keyring::new(secret("a", 1)).accept(secret("b", 2)).unwrap();
    assert_eq!(ring().accept(secret("a", 3)).map(|_| ()), Err(KeyringError::DuplicateId));
    assert_eq!(ring().accept(secret("b", 3)).map(|_| ()), Err(KeyringError::DuplicateId));
    assert_eq!(ring().accept(secret("c", 1)).map(|_| ()), Err(KeyringError::DuplicateSecret));
    assert_eq!(ring().accept(secret("c", 2)).map(|_| ()), Err(KeyringError::DuplicateSecret));
}

#[test]
fn keyring_accepts_at_most_eight_older_keys() {
    let add = |ring: Keyring, n: u8| ring.accept(secret(&format!("k{n}"), n));
    let full = (1..=8).try_fold(Keyring::new(secret("active", 100)), add).unwrap();
    assert_eq!(full.for_run(&run("r")).iter().count(), 9);
    assert_eq!(add(full, 9).map(|_| ()), Err(KeyringError::Full { max: 8 }));
}

#[test]
fn a_keyring_gives_the_active_key_first() {
    let ring = Keyring::new(secret("new", 2)).accept(secret("old", 1)).unwrap();
    let keys = ring.for_run(&run("r"));
    let ids: Vec<_> = keys.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["new", "old"]);
    assert_eq!(keys.active().0.as_str(), "new");
    assert_eq!(keys.run(), &run("r"));
    assert_eq!(keys.active().1.tag(b"m"), secret("new", 2).run_key(&run("r")).tag(b"m"));
}

#[test]
fn a_tag_of_another_key_or_message_is_refused() {
    let (one, two) = (MacKey::from_bytes(&[1; 32]).unwrap(), MacKey::from_bytes(&[2; 32]).unwrap());
    let tag = one.tag(b"m");
    assert_eq!(one.verify(b"m", &tag), Ok(()));
    assert_eq!(two.verify(b"m", &tag), Err(TagError));
    assert_eq!(one.verify(b"n", &tag), Err(TagError));
    for bit in 0..256 {
        let mut bytes = *tag.as_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(one.verify(b"m", &Tag::from_bytes(bytes)), Err(TagError));
    }
}

#[test]
fn debug_output_shows_no_secrets() {
    let ring = Keyring::new(secret("k-9", 0xab)).accept(secret("k-8", 0xcd)).unwrap();
    let keys = ring.for_run(&run("r"));
    let tag = keys.active().1.tag(b"m");
    let shown = format!("{ring:?} {ring:#?} {keys:?} {tag:?} {:?}", keys.active().1);
    assert!(shown.contains("k-9") && shown.contains("k-8"));
    for secret in ["171", "205", "abab", "cdcd", "q6ur", "zc3N", "ABAB"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert!(!shown.contains(&format!("{:?}", tag.as_bytes())));
}

#[test]
fn a_prepared_key_wipes_itself() {
    const fn wipes<T: ZeroizeOnDrop>() {}
    // HMAC's state consists of two hash states.
    wipes::<Sha256>();
    assert!(std::mem::needs_drop::<Hmac<Sha256>>());
    wipes::<ed25519_dalek::SigningKey>();
}

/// Makes an item ambiguous for types that are `Clone`, so that naming it does not compile.
trait CannotBeCloned<A> {
    const OK: bool = true;
}
impl<T: ?Sized> CannotBeCloned<()> for T {}
impl<T: Clone> CannotBeCloned<u8> for T {}

#[test]
fn secrets_cannot_be_copied() {
    const { assert!(<crate::SigningKey as CannotBeCloned<_>>::OK) };
    const { assert!(<ServerSecret as CannotBeCloned<_>>::OK) };
    const { assert!(<MacKey as CannotBeCloned<_>>::OK) };
}
