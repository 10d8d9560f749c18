//! Roots sealed for a session.

use countersign_keys::MacKey;
use countersign_keys::sealed::seal;
use countersign_test_vectors::hex;

use super::*;

const LABEL: &str = "countersign/plan-root-1";

fn payload(session: &str) -> String {
    let root = plan_of(steps()).root().to_string();
    json!({ "recipe": "plan-root-1", "root": root, "session": session }).to_string()
}

/// A sealed root to open for a session, under the key of 32 repetitions of this byte.
fn sealed(about: &str, expect: &str, session: &str, key: u8, text: impl Into<String>) -> Value {
    json!({
        "description": about, "kind": "seal", "key": hex(&[key; 32]), "session": session,
        "root": plan_of(steps()).root(), "sealed": text.into(), "expect": expect,
    })
}

/// A sealed root with the intermediate values of sealing.
fn made(about: &str, id: &str) -> Value {
    let key = MacKey::from_bytes(&[1; 32]).unwrap();
    let payload = payload(id);
    let bytes = [&(LABEL.len() as u64).to_be_bytes(), LABEL.as_bytes(), payload.as_bytes()].concat();
    let text = plan_of(steps()).root().seal(&session(id), &key).unwrap();
    assert_eq!(seal("cp1", LABEL, &key, payload.as_bytes()), Ok(text.clone()));
    let mut case = sealed(about, "ok", id, 1, text);
    case["label"] = LABEL.into();
    case["payload"] = payload.into();
    case["bytes"] = hex(&bytes).into();
    case["tag"] = hex(key.tag(&bytes).as_bytes()).into();
    case
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    vec![
        ("seal", made("a root that is sealed for a session", "s-1")),
        (
            "seal_awkward_session",
            made("quotes and characters beyond the BMP in the session's id", "s\"\\\u{1f600}"),
        ),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let mac = MacKey::from_bytes(&[1; 32]).unwrap();
    let good = seal("cp1", LABEL, &mac, payload("s-1").as_bytes()).unwrap();
    let (head, tag) = good.rsplit_once('.').unwrap();
    let refused = |about: &str, text: &str| sealed(about, "PLAN_SEAL_INVALID", "s-1", 1, text);
    let forged = |about: &str, label: &str, payload: &str| {
        refused(about, &seal("cp1", label, &mac, payload.as_bytes()).unwrap())
    };
    let bent = |about: &str, from: &str, to: &str| {
        let good = payload("s-1");
        assert!(good.contains(from), "{from}");
        forged(about, LABEL, &good.replacen(from, to, 1))
    };
    let first = if tag.starts_with('A') { "B" } else { "A" };
    let root = plan_of(steps()).root().to_string();
    vec![
        (
            "seal_other_session",
            sealed("a root for another session", "PLAN_SEAL_INVALID", "s-2", 1, good.as_str()),
        ),
        ("seal_other_key", sealed("another key", "PLAN_SEAL_INVALID", "s-1", 2, good.as_str())),
        ("seal_other_label", forged("sealed as something else", "countersign/contract-1", &payload("s-1"))),
        ("seal_other_prefix", refused("another prefix", &good.replacen("cp1", "cc1", 1))),
        ("seal_other_recipe", bent("another recipe", "plan-root-1", "plan-root-2")),
        ("seal_unknown_member", bent("a member that seals do not have", "{", "{\"approved\":true,")),
        ("seal_repeated_member", bent("the session twice", "\"session\"", "\"session\":\"s-2\",\"session\"")),
        ("seal_blank_in_payload", bent("a payload that is not canonical", "{", "{ ")),
        ("seal_root_upper_case", bent("the root in upper case", &root, &root.to_uppercase())),
        (
            "seal_tag_changed",
            refused("one character of the tag changed", &format!("{head}.{first}{}", &tag[1..])),
        ),
        ("seal_tag_truncated", refused("sixteen bytes of the tag", &format!("{head}.{}", &tag[..22]))),
        ("seal_tag_missing", refused("no tag", head)),
        ("seal_padded", refused("a padded tag", &format!("{good}="))),
        ("seal_line_feed", refused("a line feed behind it", &format!("{good}\n"))),
        ("seal_empty", refused("nothing", "")),
    ]
}
