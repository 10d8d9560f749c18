use countersign_keys::MacKey;
use countersign_keys::sealed::seal;

use super::*;

fn key(byte: u8) -> MacKey {
    MacKey::from_bytes(&[byte; 32]).unwrap()
}

#[test]
fn a_sealed_root_opens_for_its_session_and_key() {
    let root = *plan_of(steps()).root();
    let text = root.seal(&session("s-1"), &key(1)).unwrap();
    assert_eq!(PlanRoot::open(&text, &session("s-1"), &key(1)), Ok(root));
    assert_eq!(PlanRoot::open(&text, &session("s-2"), &key(1)), Err(PlanSealError));
    assert_eq!(PlanRoot::open(&text, &session("s-1"), &key(2)), Err(PlanSealError));
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).unwrap();
        assert!(PlanRoot::open(&changed, &session("s-1"), &key(1)).is_err(), "{at}");
    }
}

#[test]
fn other_sealed_payload_is_not_a_root() {
    let root = *plan_of(steps()).root();
    let open = |payload: &str, label: &str| {
        let text = seal("cp1", label, &key(1), payload.as_bytes()).unwrap();
        PlanRoot::open(&text, &session("s-1"), &key(1))
    };
    let label = "countersign/plan-root-1";
    let good = format!(r#"{{"recipe":"plan-root-1","root":"{root}","session":"s-1"}}"#);
    assert_eq!(open(&good, label), Ok(root));
    assert!(open(&good, "countersign/contract-1").is_err());
    assert!(open(&good.replace("plan-root-1", "plan-root-2"), label).is_err());
    assert!(open(&good.replace('}', r#","more":1}"#), label).is_err());
    assert!(open(&good.replace(":", ": "), label).is_err());
    assert!(open("{}", label).is_err());
    assert!(open("", label).is_err());
}

#[test]
fn a_root_has_one_text() {
    let root = *plan_of(steps()).root();
    let text = root.to_string();
    assert_eq!(text.parse::<PlanRoot>(), Ok(root));
    assert!(text.to_uppercase().parse::<PlanRoot>().is_err());
    assert_eq!(serde_json::to_string(&root).unwrap(), format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<PlanRoot>(&format!("\"{text}\"")).unwrap(), root);
    assert_eq!(format!("{root:?}"), format!("PlanRoot({text})"));
}
