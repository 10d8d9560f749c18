//! A token and its payload have one spelling.

use super::*;

/// A token's payload with one member replaced.
fn with_member(name: &str, json: &str) -> String {
    let good = payload(&token("c", "t"));
    let start = good.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
    let end = start + good[start..].find([',', '}']).unwrap();
    format!("{}{json}{}", &good[..start], &good[end..])
}

fn spelled(text: &str) -> Result<Approval, ApprovalError> {
    text.parse().and_then(|token| check(&token, &full("c")))
}

#[test]
fn a_token_is_the_prefix_the_payload_and_the_tag() {
    let token = token("c", "t");
    let (head, tag) = token.as_str().rsplit_once('.').unwrap();
    assert!(head.starts_with("cs1."));
    assert_eq!(tag.len(), 43);
    let sealed = payload(&token);
    assert_eq!(canonical(&sealed).as_str(), sealed);
    assert_eq!(
        sealed,
        format!(
            r#"{{"agent":"bot","approver":"olga","args":"{}","args_recipe":"jcs-1","ask":"{}","audience":"gate-1","call_id":"c","definition":"{}","expires":1060000,"issued":1000000,"key_id":"k1","plan":"{}","principal":"alice","recipe":"approval-1","registry_version":7,"run":"run-1","server":"desk","session":"s-1","token_id":"t","tool":"refund"}}"#,
            full("c").args,
            Digest::of(b"ask"),
            Digest::of(b"definition"),
            Digest::of(b"plan"),
        )
    );
}

#[test]
fn absent_fields_are_left_out_and_never_null() {
    let token = minted(&bare("c"), &terms("t"));
    let sealed = payload(&token);
    assert!(!sealed.contains("null") && !sealed.contains("agent") && !sealed.contains("plan"));
    assert!(check(&token, &bare("c")).is_ok());
}

#[test]
fn a_tag_in_another_spelling_is_refused() {
    let good = token("c", "t");
    let (head, tag) = good.as_str().rsplit_once('.').unwrap();
    assert!(spelled(good.as_str()).is_ok());
    let spare = char::from(tag.as_bytes()[42] + 1);
    let numeric: u64 = 12_345_678_901_234_567_890;
    for bad in [
        numeric.to_string(),
        tag.to_uppercase(),
        tag.to_lowercase(),
        tag[..22].to_owned(),
        tag[..42].to_owned(),
        format!("{tag}A"),
        format!("{tag}="),
        format!("{tag}{tag}"),
        format!("{}{spare}", &tag[..42]),
        format!("{} {}", &tag[..20], &tag[20..]),
        format!("{tag}\n"),
        format!(" {tag}"),
        String::new(),
    ] {
        assert!(spelled(&format!("{head}.{bad}")).is_err(), "{bad:?}");
    }
}

#[test]
fn a_token_in_another_spelling_is_refused() {
    let good = token("c", "t").as_str().to_owned();
    let (head, tag) = good.rsplit_once('.').unwrap();
    let bare_tag: String = tag.to_owned();
    for bad in [
        String::new(),
        ".".to_owned(),
        "cs1".to_owned(),
        "cs1..".to_owned(),
        good.replacen("cs1", "CS1", 1),
        good.replacen("cs1", "cs0", 1),
        good.replacen("cs1", "cs2", 1),
        good.replacen("cs1.", "", 1),
        format!("{good} "),
        format!(" {good}"),
        format!("{good}\n"),
        format!("{good}."),
        format!("{good}.{tag}"),
        format!("{head}=.{tag}"),
        format!("{head}..{tag}"),
        head.to_owned(),
        bare_tag,
        good.replace('.', ":"),
    ] {
        assert_eq!(refusal(spelled(&bad)), "shape", "{bad:?}");
    }
}

#[test]
fn a_token_over_the_limit_is_refused() {
    let long = format!("cs1.{}.{}", "A".repeat(1 << 20), "A".repeat(43));
    assert_eq!(refusal(spelled(&long)), "shape");
}

#[test]
fn an_expiry_of_another_type_or_spelling_is_refused() {
    let good = with_member("expires", "1060000");
    assert!(check(&forge(&good), &full("c")).is_ok());
    for bad in [
        r#""1060000""#,
        "1060000.0",
        "1060000.5",
        "-1060000",
        "-0",
        "null",
        "true",
        "1e9",
        "1.06e6",
        "9007199254740992",
        "9007199254740993",
        "9007199254740994",
        "18446744073709551615",
        "1e400",
        "01060000",
        "{}",
        "[1060000]",
    ] {
        assert_eq!(refusal(check(&forge(&with_member("expires", bad)), &full("c"))), "payload", "{bad}");
        assert_eq!(refusal(check(&forge(&with_member("issued", bad)), &full("c"))), "payload", "{bad}");
    }
}

#[test]
fn a_member_of_another_type_is_refused() {
    for name in ["call_id", "tool", "args", "principal", "agent", "session", "run", "token_id", "approver"] {
        for bad in ["null", "1", "true", "{}", "[]"] {
            let reason = refusal(check(&forge(&with_member(name, bad)), &full("c")));
            assert_eq!(reason, "payload", "{name} {bad}");
        }
    }
    for bad in ["null", r#""7""#, "7.5", "-7"] {
        assert_eq!(refusal(check(&forge(&with_member("registry_version", bad)), &full("c"))), "payload");
    }
}

#[test]
fn a_null_member_is_not_an_absent_one() {
    let bare_payload = payload(&minted(&bare("c"), &terms("t")));
    let with_null = bare_payload.replacen('{', r#"{"agent":null,"#, 1);
    assert_eq!(canonical(&with_null).as_str(), with_null);
    assert_eq!(refusal(check(&forge(&with_null), &bare("c"))), "payload");
}

#[test]
fn an_unknown_member_is_refused() {
    let good = payload(&token("c", "t"));
    for (from, to) in
        [("{", r#"{"a":1,"#), (r#""token_id""#, r#""sub":"x","token_id""#), ("{", r#"{"Agent":"bot","#)]
    {
        let bad = good.replacen(from, to, 1);
        assert_eq!(canonical(&bad).as_str(), bad);
        assert_eq!(refusal(check(&forge(&bad), &full("c"))), "payload", "{bad}");
    }
}

#[test]
fn a_repeated_member_is_refused() {
    let good = payload(&token("c", "t"));
    for bad in [
        good.replacen('{', r#"{"agent":"bot","#, 1),
        good.replacen('{', r#"{"agent":"eve","#, 1),
        good.replacen('{', r#"{"\u0061gent":"bot","#, 1),
    ] {
        assert_eq!(refusal(check(&forge(&bad), &full("c"))), "payload");
    }
}

#[test]
fn a_missing_member_is_refused() {
    let good: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&payload(&token("c", "t"))).unwrap();
    assert_eq!(good.len(), 20);
    for name in good.keys() {
        let mut less = good.clone();
        less.remove(name);
        let text = serde_json::to_string(&less).unwrap();
        assert!(check(&forge(&text), &full("c")).is_err(), "{name}");
    }
}

#[test]
fn a_payload_that_is_not_canonical_is_refused() {
    let good = payload(&token("c", "t"));
    let reordered = format!(r#"{{"tool":"refund",{}}}"#, &good[1..].replace(r#","tool":"refund"}"#, ""));
    for bad in [
        reordered,
        good.replacen('{', "{ ", 1),
        good.replace(r#""c""#, r#""\u0063""#),
        format!("{good}\n"),
        format!("\u{feff}{good}"),
        format!("{good}{good}"),
        format!("[{good}]"),
        "\"cs1\"".to_owned(),
        "{}".to_owned(),
        String::new(),
        good[..good.len() - 1].to_owned(),
    ] {
        assert_ne!(bad, good);
        assert_eq!(refusal(check(&forge(&bad), &full("c"))), "payload", "{bad}");
    }
}

#[test]
fn a_token_and_its_errors_are_printed_without_secrets() {
    let good = token("c", "t");
    let shown = format!("{good:?}");
    assert!(shown.starts_with("ApprovalToken(redacted)"));
    for part in good.as_str().split('.').skip(1) {
        assert!(!shown.contains(part));
    }
    assert!(!shown.contains("alice"));
    let error = check(&good, &full("d")).unwrap_err();
    assert!(!error.to_string().contains("other-call"));
}
