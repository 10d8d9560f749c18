#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a helper of tests fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use axum::http::{HeaderMap, HeaderValue};
use countersign_core::{AgentId, OperatorId};
use countersign_host::serve_part::{Duty, ServePart};
use tempfile::TempDir;

use super::{Caller, Callers, caller};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn read(text: &str) -> Result<Callers, &'static str> {
    let folder = TempDir::new().unwrap();
    let path: PathBuf = folder.path().join("tokens");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut part = ServePart::default();
    part.token_file = Some(path);
    Callers::read(&part).map_err(|error| error.code())
}

fn entry(token: &str, rest: &str) -> String {
    format!("[[token]]\ntoken = \"{token}\"\nname = \"host\"\n{rest}\n")
}

fn asked(callers: &Callers, values: &[&str]) -> bool {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append("authorization", HeaderValue::from_str(value).unwrap());
    }
    callers.by_token(&headers).is_ok()
}

#[test]
fn only_a_whole_known_token_has_a_caller() {
    let callers = read(&entry(TOKEN, "may = [\"check\"]")).unwrap();
    let bearer = |token: &str| format!("Bearer {token}");
    assert!(asked(&callers, &[&bearer(TOKEN)]));
    assert!(asked(&callers, &[&format!("bEARER {TOKEN}")]));
    for wrong in
        [&TOKEN[1..], &TOKEN[..31], &TOKEN.to_uppercase(), &format!("{TOKEN} "), &format!(" {TOKEN}"), ""]
    {
        assert!(!asked(&callers, &[&bearer(wrong)]), "{wrong:?}");
    }
    assert!(!asked(&callers, &[&format!("Basic {TOKEN}")]));
    assert!(!asked(&callers, &[TOKEN]));
    assert!(!asked(&callers, &[&bearer(TOKEN), &bearer(TOKEN)]));
    assert!(!asked(&callers, &[]));
}

#[test]
fn caller_that_checks_and_answers_is_refused() {
    for may in [r#"["check", "answer"]"#, r#"["answer", "read", "check"]"#, "[]"] {
        let refused = read(&entry(TOKEN, &format!("may = {may}"))).map(drop);
        assert_eq!(refused, Err("CALLER_DUTIES"), "{may}");
    }
    assert!(read(&entry(TOKEN, r#"may = ["answer", "read"]"#)).is_ok());
}

#[test]
fn weak_or_repeated_token_is_refused() {
    let may = "may = [\"check\"]";
    for weak in
        ["", "short", &TOKEN[1..], "0123456789abcdef 0123456789abcdef", "é0123456789abcdef0123456789abcdef"]
    {
        assert_eq!(read(&entry(weak, may)).map(drop), Err("TOKEN_TOO_WEAK"), "{weak:?}");
    }
    let twice = entry(TOKEN, may) + &entry(TOKEN, may);
    assert_eq!(read(&twice).map(drop), Err("CALLER_REPEATED"));
}

#[test]
fn malformed_token_file_is_refused_without_its_text() {
    for text in [
        "",
        "token = 1",
        "[[token]]\nname = \"x\"",
        "[[token",
        &entry(TOKEN, "may = [\"rule\"]"),
        &entry(TOKEN, "x = 1\nmay = [\"check\"]"),
    ] {
        assert_eq!(read(text).map(drop), Err("TOKEN_FILE_MALFORMED"), "{text:?}");
    }
}

#[test]
fn caller_without_agents_opens_the_configurations_own() {
    let agent = |name| AgentId::new(name).unwrap();
    for (rest, own, other) in
        [("", true, false), ("agents = [\"other\"]", false, true), ("agents = []", false, false)]
    {
        let callers = read(&entry(TOKEN, &format!("may = [\"check\"]\n{rest}"))).unwrap();
        let caller = &callers.tokens[0].1;
        assert_eq!(caller.may_open(&agent("own"), &agent("own")), own, "{rest}");
        assert_eq!(caller.may_open(&agent("other"), &agent("own")), other, "{rest}");
    }
}

#[test]
fn duty_that_was_not_given_is_refused() {
    let callers = read(&entry(TOKEN, "may = [\"read\"]")).unwrap();
    let caller = &callers.tokens[0].1;
    assert!(caller.require(&[Duty::Answer, Duty::Read]).is_ok());
    assert!(caller.require(&[Duty::Answer]).is_err());
    assert!(caller.require(&[Duty::Check]).is_err());
}

#[test]
fn a_caller_of_a_token_owns_no_session_of_the_operators() {
    let name = || OperatorId::new("bob").unwrap();
    let listed = caller(name(), vec![Duty::Check], None, false).unwrap();
    let named = Caller::of_token(name());
    assert_ne!(named.owner(), listed.owner());
    assert_eq!(named.owner(), Caller::of_token(name()).owner());
}
