use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::KeyId;
use tempfile::TempDir;

use super::key;
use crate::file::{
    AnyKey, KeyFileError, read_any_key, read_log_key, read_public_key, read_server_secret, read_signing_key,
    write_log_key, write_public_key, write_server_secret, write_signing_key,
};
use crate::{ServerSecret, base64};

fn secret() -> ServerSecret {
    ServerSecret::new(KeyId::new("gate \"1\"").unwrap(), &[5; 48]).unwrap()
}

fn code<T>(result: Result<T, KeyFileError>) -> &'static str {
    result.err().map_or("ok", |error| {
        assert!(!error.to_string().contains('\n'));
        error.code()
    })
}

/// Writes a file with the given mode.
fn put(dir: &TempDir, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
    let path = dir.path().join("key");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).unwrap();
    chmod(&path, mode);
    path
}

#[cfg(unix)]
fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn chmod(_: &Path, _: u32) {}

/// Contents of the three kinds of written files.
fn written() -> (TempDir, PathBuf, PathBuf, PathBuf) {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (signing, public, server) = (at("s"), at("p"), at("h"));
    write_signing_key(&signing, &key(1)).unwrap();
    write_public_key(&public, &key(1).verifying_key()).unwrap();
    write_server_secret(&server, &secret()).unwrap();
    (dir, signing, public, server)
}

#[test]
fn a_key_is_written_and_read_again() {
    let (_dir, signing, public, server) = written();
    assert_eq!(read_signing_key(&signing).unwrap().verifying_key(), key(1).verifying_key());
    assert_eq!(read_public_key(&public).unwrap(), key(1).verifying_key());
    let again = read_server_secret(&server).unwrap();
    assert_eq!(again.key_id(), secret().key_id());
    assert_eq!(again.named_key("x").tag(b"m"), secret().named_key("x").tag(b"m"));
    assert!(matches!(read_any_key(&signing), Ok(AnyKey::Signing(_))));
    assert!(matches!(read_any_key(&public), Ok(AnyKey::Public(_))));
    assert!(matches!(read_any_key(&server), Ok(AnyKey::Server(_))));
}

#[cfg(unix)]
#[test]
fn a_secret_is_written_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, signing, _, server) = written();
    for path in [signing, server] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_file_that_exists_is_never_replaced() {
    let (_dir, signing, public, server) = written();
    for path in [&signing, &public, &server] {
        let before = fs::read(path).unwrap();
        assert_eq!(code(write_signing_key(path, &key(2))), "KEY_FILE_EXISTS");
        assert_eq!(code(write_public_key(path, &key(2).verifying_key())), "KEY_FILE_EXISTS");
        assert_eq!(code(write_server_secret(path, &secret())), "KEY_FILE_EXISTS");
        assert_eq!(fs::read(path).unwrap(), before);
    }
}

#[test]
fn a_key_is_not_written_where_there_is_no_folder() {
    let dir = TempDir::new().unwrap();
    assert_eq!(code(write_signing_key(&dir.path().join("none/key"), &key(1))), "KEY_FILE_WRITE");
}

#[cfg(unix)]
#[test]
fn a_secret_that_others_may_touch_is_refused() {
    let (_dir, signing, public, server) = written();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o777] {
        chmod(&signing, mode);
        chmod(&server, mode);
        assert_eq!(code(read_signing_key(&signing)), "KEY_FILE_TOO_OPEN", "{mode:o}");
        assert_eq!(code(read_server_secret(&server)), "KEY_FILE_TOO_OPEN", "{mode:o}");
        assert_eq!(code(read_any_key(&server)), "KEY_FILE_TOO_OPEN", "{mode:o}");
    }
    for mode in [0o600, 0o400] {
        chmod(&signing, mode);
        assert_eq!(code(read_signing_key(&signing)), "ok", "{mode:o}");
    }
    chmod(&public, 0o644);
    assert_eq!(code(read_public_key(&public)), "ok");
}

#[test]
fn a_missing_file_and_a_directory_are_refused() {
    let dir = TempDir::new().unwrap();
    assert_eq!(code(read_signing_key(&dir.path().join("none"))), "KEY_FILE_MISSING");
    assert_eq!(code(read_signing_key(dir.path())), "KEY_FILE_UNREADABLE");
    assert_eq!(code(read_public_key(dir.path())), "KEY_FILE_UNREADABLE");
}

#[cfg(unix)]
#[test]
fn a_fifo_is_refused_at_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg("-m").arg("600").arg(&path).status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(code(read_server_secret(&path)), "KEY_FILE_UNREADABLE");
    }
}

#[test]
fn a_file_of_another_kind_of_key_is_refused() {
    let (_dir, signing, public, server) = written();
    let log = signing.with_file_name("l");
    write_log_key(&log, &key(2)).unwrap();
    for path in [&public, &server, &log] {
        assert_eq!(code(read_signing_key(path)), "KEY_FILE_KIND");
    }
    for path in [&signing, &public, &server] {
        assert_eq!(code(read_log_key(path)), "KEY_FILE_KIND");
    }
    for path in [&signing, &server, &log] {
        assert_eq!(code(read_public_key(path)), "KEY_FILE_KIND");
    }
    for path in [&signing, &public, &log] {
        assert_eq!(code(read_server_secret(path)), "KEY_FILE_KIND");
    }
    assert_eq!(read_log_key(&log).unwrap().verifying_key(), key(2).verifying_key());
    assert!(matches!(read_any_key(&log), Ok(AnyKey::Log(_))));
    #[cfg(unix)]
    {
        chmod(&log, 0o640);
        assert_eq!(code(read_log_key(&log)), "KEY_FILE_TOO_OPEN");
    }
}

#[test]
fn malformed_key_file_is_refused() {
    let (dir, signing, _, server) = written();
    let good = fs::read_to_string(signing).unwrap();
    let hmac = fs::read_to_string(server).unwrap();
    let seed = base64::encode(&[1; 32]);
    let id = key(1).key_id();
    let cases = [
        (good.replacen('{', r#"{"note":"x","#, 1), "KEY_FILE_MALFORMED"),
        (good.replacen('{', r#"{"kind":"ed25519-signing","#, 1), "KEY_FILE_MALFORMED"),
        (good.replacen('{', r#"{"public":null,"#, 1), "KEY_FILE_MALFORMED"),
        (good.replacen('{', r#"{"public":"AAAA","#, 1), "KEY_FILE_MALFORMED"),
        (good.replace(&format!(r#""secret":"{seed}""#), r#""secret":7"#), "KEY_FILE_MALFORMED"),
        (good.replace(&format!(r#","secret":"{seed}""#), ""), "KEY_FILE_MALFORMED"),
        (good.replace(r#""format":"countersign-key-1","#, ""), "KEY_FILE_MALFORMED"),
        (good.replace(&seed, seed.trim_end_matches('=')), "KEY_FILE_MALFORMED"),
        (good.replace(&seed, &format!("{seed} ")), "KEY_FILE_MALFORMED"),
        (good.replace(&seed, &format!("\\u0041{}", &seed[1..])), "KEY_FILE_MALFORMED"),
        (good.replace(id.as_str(), key(2).key_id().as_str()), "KEY_FILE_MALFORMED"),
        (format!("{good}{good}"), "KEY_FILE_MALFORMED"),
        (format!("\u{feff}{good}"), "KEY_FILE_MALFORMED"),
        (format!("[{good}]"), "KEY_FILE_MALFORMED"),
        (good[..good.len() / 2].to_owned(), "KEY_FILE_MALFORMED"),
        (String::new(), "KEY_FILE_MALFORMED"),
        (good.replace("countersign-key-1", "countersign-key-2"), "KEY_FILE_VERSION"),
        (r#"{"format":"countersign-key-2","keys":[]}"#.to_owned(), "KEY_FILE_VERSION"),
        (good.replace("ed25519-signing", "ed448-signing"), "KEY_FILE_KIND"),
        (good.replace(&seed, &base64::encode(&[1; 31])), "KEY_TOO_SHORT"),
        (good.replace(&seed, &base64::encode(&[1; 33])), "KEY_TOO_LONG"),
        (good.replace(&seed, &base64::encode(&[0; 32])), "KEY_WEAK"),
        (format!("{good}{}", " ".repeat(16 * 1024)), "KEY_FILE_TOO_LARGE"),
    ];
    for (text, expected) in cases {
        assert_ne!(text, good);
        assert_eq!(code(read_signing_key(&put(&dir, &text, 0o600))), expected, "{text:.300}");
    }
    let bytes = base64::encode(&[5; 48]);
    for (text, expected) in [
        (hmac.replace(&bytes, &base64::encode(&[5; 31])), "KEY_TOO_SHORT"),
        (hmac.replace(&bytes, &base64::encode(&[5; 1025])), "KEY_TOO_LONG"),
        (hmac.replace(&bytes, &base64::encode(&[0; 32])), "KEY_WEAK"),
        (hmac.replace(r#"gate \"1\""#, ""), "KEY_FILE_MALFORMED"),
        (hmac.replace(r#"gate \"1\""#, "a\\u202eb"), "KEY_FILE_MALFORMED"),
    ] {
        assert_ne!(text, hmac);
        assert_eq!(code(read_server_secret(&put(&dir, &text, 0o600))), expected, "{text:.300}");
    }
    assert_eq!(code(read_signing_key(&put(&dir, b"\xff\xfe{}", 0o600))), "KEY_FILE_MALFORMED");
}

#[test]
fn a_public_key_file_with_a_weak_key_is_refused() {
    let (dir, _, public, _) = written();
    let good = fs::read_to_string(public).unwrap();
    let text = key(1).verifying_key().to_base64();
    let mut identity = [0; 32];
    identity[0] = 1;
    let weak = good.replace(&text, &base64::encode(&identity));
    assert_eq!(code(read_public_key(&put(&dir, weak, 0o644))), "KEY_WEAK");
    let off_curve = good.replace(&text, &base64::encode(&[2; 32]));
    assert_ne!(code(read_public_key(&put(&dir, off_curve, 0o644))), "ok");
}
