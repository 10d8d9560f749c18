use countersign_canonical_json::{Limits, Recipe, read};
use proptest::prelude::*;
use serde_json::Value;

use crate::cut::{Edits, ValuePosition};

fn without(text: &str, names: &[&str]) -> String {
    let mut edits = Edits::new(text.as_bytes());
    edits.cut_members(&ValuePosition::new(text.as_bytes()), |name| names.contains(&name));
    String::from_utf8(edits.finish()).unwrap()
}

#[test]
fn cut_members_leave_every_other_byte() {
    let text = r#" {"a":1.0, "b" : [9007199254740993,"}"],"c":{"a":"\\\""} , "d":null}"#;
    assert_eq!(without(text, &[]), text);
    assert_eq!(without(text, &["a"]), r#" {"b" : [9007199254740993,"}"],"c":{"a":"\\\""} , "d":null}"#);
    assert_eq!(without(text, &["b", "d"]), r#" {"a":1.0,"c":{"a":"\\\""}}"#);
    assert_eq!(without(text, &["a", "b", "c"]), r#" {"d":null}"#);
    assert_eq!(without(text, &["a", "b", "c", "d"]), " {}");
}

#[test]
fn escaped_names_are_cut() {
    assert_eq!(without(r#"{"\u0061":1,"b":2}"#, &["a"]), r#"{"b":2}"#);
}

#[test]
fn places_are_found_by_name() {
    let place = ValuePosition::new(br#"{ "x" : {"y":"\u0041"}, "z": true }"#);
    let y = place.get("x").and_then(|x| x.get("y")).and_then(|y| y.string());
    assert_eq!(y.as_deref(), Some("A"));
    assert!(place.get("y").is_none() && ValuePosition::new(b"7").get("x").is_none());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        r#"[a-c"\\{}\[\],: ]{0,6}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cutting_bytes_is_removing_members(
        value in prop::collection::btree_map("[a-c]{1,2}", any_json(), 0..6),
        taken in prop::collection::vec("[a-c]{1,2}", 0..4),
        pretty in any::<bool>(),
    ) {
        let mut value = Value::Object(value.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let names: Vec<&str> = taken.iter().map(String::as_str).collect();
        let cut = without(&text.unwrap(), &names);
        value.as_object_mut().unwrap().retain(|name, _| !names.contains(&name.as_str()));
        prop_assert_eq!(serde_json::from_str::<Value>(&cut).unwrap(), value);
        prop_assert!(read(cut.as_bytes(), Recipe::Jcs1, &Limits::hard_caps()).is_ok());
    }

    #[test]
    fn keeping_elements_is_removing_the_others(
        elements in prop::collection::vec(any_json(), 0..6),
        kept in prop::collection::btree_set(0_usize..6, 0..6),
        more in any::<bool>(),
    ) {
        let text = serde_json::to_string_pretty(&elements).unwrap();
        let kept: Vec<usize> = kept.into_iter().filter(|at| *at < elements.len()).collect();
        let mut edits = Edits::new(text.as_bytes());
        edits.keep_elements(&ValuePosition::new(text.as_bytes()), &kept, more.then_some("7"));
        let mut expected: Vec<Value> = kept.iter().map(|at| elements[*at].clone()).collect();
        expected.extend(more.then(|| Value::from(7)));
        let cut: Vec<Value> = serde_json::from_slice(&edits.finish()).unwrap();
        prop_assert_eq!(cut, expected);
    }

    #[test]
    fn no_text_makes_cutting_panic(text in r#"[\[\]{}",:a-c0-9.\\ -]{0,40}"#) {
        let mut edits = Edits::new(text.as_bytes());
        let place = ValuePosition::new(text.as_bytes());
        edits.cut_members(&place, |name| name == "a");
        edits.keep_elements(&place, &[1], Some("7"));
        drop(edits.finish());
    }
}

#[test]
fn cuts_of_one_object_add_up() {
    let text = br#"{"a":1,"b":2,"c":3,"d":4}"#;
    let place = ValuePosition::new(text);
    let mut edits = Edits::new(text);
    for taken in ["a", "b", "d"] {
        edits.cut_members(&place, |name| name == taken);
    }
    assert_eq!(edits.finish(), br#"{"c":3}"#);
}

#[test]
fn objects_are_found_by_name_at_any_depth() {
    let text = br#"{"m" : {"m":{"x":1}},"l":[{"\u006d": {} },"m",{"m":[{"m":7}]}]}"#;
    let found = ValuePosition::new(text).objects_named(|name| name == "m");
    let members: Vec<usize> = found.iter().map(|place| place.members().count()).collect();
    assert_eq!(members, [1, 1, 0]);
}

#[test]
fn a_member_is_set_or_added() {
    for (text, expected) in
        [(r#"{"a":1,"b": "x" }"#, r#"{"a":1,"b": 2 }"#), (r#"{"a":1 }"#, r#"{"a":1 ,"b":2}"#)]
    {
        let mut edits = Edits::new(text.as_bytes());
        edits.set_member(&ValuePosition::new(text.as_bytes()), "b", "2");
        assert_eq!(String::from_utf8(edits.finish()).unwrap(), expected);
    }
}
