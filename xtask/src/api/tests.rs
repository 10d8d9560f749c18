use super::*;

fn interfaces(lines: &[&str]) -> Interfaces {
    let lines = lines.iter().map(|line| ApiLine::new((*line).to_owned())).collect();
    Interfaces { crates: BTreeMap::from([("countersign_tlog".to_owned(), lines)]) }
}

fn list(lines: &[&str], names: &[&str]) -> Result<Vec<String>, ApiError> {
    let interfaces = interfaces(lines);
    let listed = names.iter().map(|name| {
        (("countersign_tlog".to_owned(), (*name).to_owned()), format!("countersign::tlog::{name}"))
    });
    let paths = interfaces.facade(&listed.collect::<Vec<_>>())?;
    interfaces.of_facade(&paths)
}

#[test]
fn lines_have_the_paths_of_the_facade() {
    let lines = [
        "pub struct countersign_tlog::LogKey",
        "impl<T: Into<u8>> core::convert::From<T> for countersign_tlog::LogKey",
        "pub fn countersign_tlog::LogKey::name(&self) -> &countersign_tlog::note::KeyName",
        "pub struct countersign_tlog::note::KeyName",
        "pub fn countersign_tlog::base64::encode(bytes: &[u8]) -> String",
    ];
    let listed = list(&lines, &["KeyName", "LogKey"]).unwrap();
    let expected = [
        "pub struct countersign::tlog::KeyName",
        "pub struct countersign::tlog::LogKey",
        "impl<T: Into<u8>> core::convert::From<T> for countersign::tlog::LogKey",
        "pub fn countersign::tlog::LogKey::name(&self) -> &countersign::tlog::KeyName",
    ];
    assert_eq!(listed, expected);
}

#[test]
fn signature_with_an_unlisted_type_is_an_error() {
    let lines = [
        "pub struct countersign_tlog::LogKey",
        "pub fn countersign_tlog::LogKey::name(&self) -> &countersign_tlog::note::KeyName",
    ];
    let error = list(&lines, &["LogKey"]).unwrap_err();
    assert!(matches!(error, ApiError::Unlisted { name, .. } if name == "countersign_tlog::note::KeyName"));
}

#[test]
fn item_that_its_crate_lacks_is_an_error() {
    assert!(
        matches!(list(&[], &["LogKey"]), Err(ApiError::Missing(path)) if path == "countersign::tlog::LogKey")
    );
}

#[test]
fn changed_signature_is_a_difference() {
    let new = ["pub fn a() -> u16".to_owned(), "pub fn b()".to_owned()];
    assert_eq!(
        difference("pub fn a() -> u8\npub fn b()\n", &new),
        ["-pub fn a() -> u8", "+pub fn a() -> u16"]
    );
    assert_eq!(difference("pub fn a() -> u16\npub fn b()\n", &new), [""; 0]);
}
