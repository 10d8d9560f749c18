use countersign_core::{ServerName, ToolName};
use proptest::prelude::*;

use crate::SettingsError;
use crate::shown_names::ShownNames;

fn names_of(server: &str) -> Result<ShownNames, SettingsError> {
    ShownNames::new(&ServerName::new(server).unwrap())
}

fn tool(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

/// Names that are long, look like other shown names, or look like short forms.
fn any_tool() -> impl Strategy<Value = ToolName> {
    let name = prop_oneof!["[a_]{1,4}", "[a-c_.]{1,128}", "(a_|__){1,9}", "[ab]{35,45}_[0-9a]{16}"];
    name.prop_map(|name| tool(&name))
}

fn any_server() -> impl Strategy<Value = ShownNames> {
    "[ab](_?[ab]){0,15}".prop_filter_map("above 32", |server| names_of(&server).ok())
}

proptest! {
    #[test]
    fn no_two_tools_share_a_shown_name(
        (left, right) in (any_server(), any_server()),
        (one, other) in (any_tool(), any_tool()),
    ) {
        let (shown, another) = (left.shown(&one), right.shown(&other));
        let is_same = left.has(&another) && right.has(&shown) && one == other;
        prop_assert_eq!(shown == another, is_same, "{} {}", shown, another);
    }

    #[test]
    fn a_shown_name_is_read_back((names, tools) in (any_server(), prop::collection::vec(any_tool(), 1..5))) {
        for tool in &tools {
            let shown = names.shown(tool);
            prop_assert!(shown.len() <= 64 && names.has(&shown), "{}", shown);
            prop_assert_eq!(names.plain(&shown, tools.iter()), Some(tool.as_str()));
        }
    }
}

#[test]
fn shown_names_are_stable() {
    let names = names_of("files").unwrap();
    assert_eq!(names.shown(&tool("read__all")), "files__read__all");
    assert_eq!(
        names.shown(&tool(&"long_".repeat(20))),
        "files__long_long_long_long_long_long_long_long__049b8c0e3fae2eab"
    );
}

#[test]
fn a_short_form_lookalike_has_its_own_short_form() {
    let names = names_of("files").unwrap();
    let long = tool(&"x".repeat(100));
    let lookalike = tool(names.shown(&long).strip_prefix("files__").unwrap());
    assert_ne!(names.shown(&lookalike), names.shown(&long));
    let tools = [lookalike.clone(), long.clone()];
    assert_eq!(names.plain(&names.shown(&long), tools.iter()), Some(long.as_str()));
    assert_eq!(names.plain(&names.shown(&lookalike), tools.iter()), Some(lookalike.as_str()));
}

#[test]
fn server_names_that_break_the_separator_are_refused() {
    for server in ["a__b", "a_", "_", &"a".repeat(33)] {
        assert!(names_of(server).is_err(), "{server}");
    }
    for server in ["a", "_a", "a_b", &"a".repeat(32)] {
        assert!(names_of(server).is_ok(), "{server}");
    }
}
