use serde_json::{Value, from_value, json, to_value};

use super::*;

fn hashes(count: u64) -> Vec<Value> {
    (0..count).map(|at| json!(leaf(at))).collect()
}

#[test]
fn wire_form_round_trips() {
    let tree = tree(11);
    let head = tree.head();
    assert_eq!(to_value(head).unwrap(), json!({ "size": 11, "root": head.root().to_string() }));
    assert_eq!(from_value::<TreeHead>(json!(head)).unwrap(), head);
    let proof = tree.prove_inclusion(6).unwrap();
    let written = to_value(&proof).unwrap();
    assert_eq!(written["index"], 6);
    assert_eq!(written["path"][0].as_str().unwrap().len(), 64);
    assert_eq!(from_value::<InclusionProof>(written).unwrap(), proof);
    let proof = tree.prove_consistency(5).unwrap();
    assert_eq!(from_value::<ConsistencyProof>(json!(proof)).unwrap(), proof);
    let frontier = tree.frontier();
    assert_eq!(from_value::<Frontier>(json!(frontier)).unwrap(), frontier);
}

#[test]
fn unknown_members_are_refused() {
    let tree = tree(11);
    let refused = |value: &Value| {
        let read = (
            from_value::<TreeHead>(value.clone()).is_err(),
            from_value::<InclusionProof>(value.clone()).is_err(),
            from_value::<ConsistencyProof>(value.clone()).is_err(),
            from_value::<Frontier>(value.clone()).is_err(),
        );
        assert_eq!(read, (true, true, true, true), "{value}");
    };
    let values = [
        json!(tree.head()),
        json!(tree.prove_inclusion(6).unwrap()),
        json!(tree.prove_consistency(5).unwrap()),
        json!(tree.frontier()),
    ];
    for value in values {
        let mut more = value.clone();
        more["more"] = 1.into();
        refused(&more);
        for name in value.as_object().unwrap().keys() {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(name);
            refused(&less);
            let mut other = value.clone();
            other[name] = Value::Null;
            refused(&other);
        }
    }
}

#[test]
fn impossible_wire_values_are_refused() {
    assert!(from_value::<TreeHead>(json!({ "size": 0, "root": leaf(0) })).is_err());
    assert!(from_value::<TreeHead>(json!({ "size": MAX_SIZE + 1, "root": leaf(0) })).is_err());
    assert!(from_value::<TreeHead>(json!({ "size": -1, "root": leaf(0) })).is_err());
    let upper = leaf(0).to_string().to_uppercase();
    assert!(from_value::<TreeHead>(json!({ "size": 1, "root": upper })).is_err());
    assert!(from_value::<InclusionProof>(json!({ "index": 3, "size": 3, "path": hashes(2) })).is_err());
    assert!(from_value::<InclusionProof>(json!({ "index": 3, "size": 4, "path": hashes(64) })).is_err());
    assert!(from_value::<InclusionProof>(json!({ "index": 3, "size": 4, "path": hashes(63) })).is_ok());
    assert!(from_value::<ConsistencyProof>(json!({ "old_size": 0, "new_size": 4, "path": [] })).is_err());
    assert!(
        from_value::<ConsistencyProof>(json!({ "old_size": 1, "new_size": 4, "path": hashes(65) })).is_err()
    );
    assert!(from_value::<Frontier>(json!({ "size": 5, "peaks": hashes(1) })).is_err());
    assert!(from_value::<Frontier>(json!({ "size": 5, "peaks": hashes(2) })).is_ok());
}
