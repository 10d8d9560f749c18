use countersign_core::{Millis, ServerName};

use crate::{CallIdError, GatewayLimits, GatewaySettings, PlanApprovals, SettingsError};

#[test]
fn methods_are_allowed_by_exact_name_only() {
    let settings = || GatewaySettings::new(ServerName::new("desk").unwrap());
    assert!(settings().allow_client_method("resources/templates/list").is_ok());
    for method in ["", "*", "resources/*", "a b", "a\n", "\u{430}", &"x".repeat(129)] {
        assert_eq!(settings().allow_client_method(method).err(), Some(SettingsError::Method), "{method:?}");
        assert_eq!(settings().allow_server_method(method).err(), Some(SettingsError::Method), "{method:?}");
    }
}

#[test]
fn limits_have_bounds_of_their_own() {
    let limits = GatewayLimits::default();
    assert!(limits.client_line(1).is_ok());
    assert!(limits.client_line(0).is_err());
    assert!(limits.server_line((256 << 20) + 1).is_err());
    assert!(limits.outstanding(65_537).is_err());
    assert!(limits.list_wait(Millis::ZERO).is_err());
    assert!(limits.drain(Millis::from_secs(3_601)).is_err());
    let settings = || GatewaySettings::new(ServerName::new("desk").unwrap());
    assert!(settings().approval_ttl(Millis::from_secs(60)).is_ok());
    assert!(settings().approval_ttl(Millis::ZERO).is_err());
}

#[test]
fn every_error_has_a_code_and_one_line() {
    for (code, text) in [
        (SettingsError::Method.code(), SettingsError::Method.to_string()),
        ("GATEWAY_LIMIT", GatewayLimits::default().outstanding(0).unwrap_err().to_string()),
        (CallIdError::new().code(), CallIdError::new().to_string()),
    ] {
        assert!(code.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{code}");
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
    }
}

#[test]
fn server_of_the_gateways_name_accepts_no_plans() {
    let settings = |name: &str| {
        GatewaySettings::new(ServerName::new(name).unwrap()).plans(PlanApprovals::Always).map(drop)
    };
    assert_eq!(settings("countersign").map_err(|error| error.code()), Err("GATEWAY_SERVER"));
    assert_eq!(settings("desk"), Ok(()));
}
