use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn place(text: &str) -> ArgPlace {
    ArgPlace::new(text).unwrap()
}

fn fits(constraint: &Constraint, argument: &str) -> bool {
    constraint.fits(canonical(&json!({ "a": argument })).value())
}

#[test]
fn a_path_is_a_root_or_lies_beneath_one_by_whole_segments() {
    let within = Constraint::path_within(place("/a"), &["/srv/docs", "notes/"]).unwrap();
    for good in [
        "/srv/docs",
        "/srv/docs/",
        "/srv/docs/a.txt",
        "/srv/docs/a/b/",
        "/srv/docs/..a",
        "/srv/docs/a~b",
        "notes",
        "notes/x",
        "/srv/docs/100% sure",
        "/srv/docs/\u{e9}t\u{e9}.txt",
        "/srv/docs/a b",
    ] {
        assert!(fits(&within, good), "{good:?}");
    }
    for bad in
        ["", "/", "/srv", "/srv/docs2", "/srv/docsx/a", "srv/docs/a", "/notes/x", "notesx", "/SRV/docs/a"]
    {
        assert!(!fits(&within, bad), "{bad:?}");
    }
}

#[test]
fn a_path_with_two_readings_is_refused() {
    let within = Constraint::path_within(place("/a"), &["/srv/docs", "notes"]).unwrap();
    for bad in [
        "/srv/docs/../x",
        "/srv/docs/..",
        "/srv/docs/./x",
        "/srv/docs//x",
        "//srv/docs/x",
        "/srv/docs/x//",
        "/srv/docs/...",
        "/srv/docs/.. /x",
        "/srv/docs/ ../x",
        "/srv/docs/. ./x",
        "/srv/docs/ /x",
        "/srv/docs\\..\\x",
        "/srv/docs/a\\b",
        "/srv/docs/%2e%2e/x",
        "/srv/docs/%2E./x",
        "/srv/docs/%252e/x",
        "/srv/docs/%u002e/x",
        "/srv/docs/a%2fb",
        "/srv/docs/a\0",
        "/srv/docs/a\n",
        "/srv/docs/a\u{202e}b",
        "/srv/docs/a\u{200b}b",
        "/srv/docs/~/x",
        "~/notes",
        "~root/notes",
        "notes/~",
        "./notes/x",
        "/srv/docs/\u{ff0e}\u{ff0e}/x",
        "/srv/docs/a\u{ff0f}..\u{ff0f}x",
        "/srv/docs/\u{2024}\u{2024}/x",
        "/srv/docs/\u{2025}/x",
        "file:///srv/docs/x",
        "/srv/docs/..;/x",
        "/srv/docs/..;a=b/x",
        "/srv/docs/..$/x",
        "/srv/docs/...;/x",
        "/srv/docs/*",
        "/srv/docs/$HOME",
        "/srv/docs/`id`",
    ] {
        assert!(!fits(&within, bad), "{bad:?}");
    }
    assert!(!fits(&within, &format!("/srv/docs/{}", "a".repeat(4_096))));
}

#[test]
fn a_root_that_is_no_plain_path_is_refused() {
    for bad in [
        "",
        "/",
        "//",
        ".",
        "..",
        "/srv/../etc",
        "/srv//docs",
        "~",
        "~/docs",
        "~ops/docs",
        "C:\\docs",
        "/srv/docs/.",
    ] {
        assert_eq!(Constraint::path_within(place("/a"), &[bad]), Err(ConstraintError::Root), "{bad:?}");
    }
    assert_eq!(Constraint::path_within(place("/a"), &[]), Err(ConstraintError::Empty));
}

#[test]
fn a_url_has_a_listed_scheme_and_goes_to_a_listed_host() {
    let to =
        Constraint::url(place("/a"), &["https", "http"], &["example.com", ".example.org", "api.test:8443"])
            .unwrap();
    for good in [
        "https://example.com",
        "https://example.com/",
        "https://example.com/a?b=c@d#e",
        "https://example.com?x",
        "https://example.com#x",
        "http://example.com:80/",
        "https://example.com:443/",
        "https://a.example.org/",
        "https://a.b.example.org:443/",
        "https://api.test:8443/",
        "https://example.com/\u{e9}",
    ] {
        assert!(fits(&to, good), "{good:?}");
    }
    for bad in [
        "",
        "https",
        "https://",
        "https:///",
        "https:/example.com",
        "https:example.com",
        "//example.com",
        "ftp://example.com",
        "javascript://example.com/%0aalert(1)",
        "HTTPS://example.com",
        " https://example.com",
        "https://Example.com",
        "https://example.com.",
        "https://example.com..",
        "https://example.com:8443/",
        "http://example.com:443/",
        "https://example.com:/",
        "https://example.com:0443/",
        "https://example.com:+443/",
        "https://example.com:65979/",
        "https://api.test/",
        "https://api.test:443/",
        "https://example.org/",
        "https://.example.org/",
        "https://evilexample.org/",
        "https://example.com.evil.test/",
        "https://evil.test/example.com",
        "https://evil.test?.example.org",
        "https://evil.test#.example.org",
        "https://evil.test\\.example.org/",
        "https://example.com@evil.test/",
        "https://evil.test@example.com/",
        "https://user:pass@example.com/",
        "https://example.com:443@evil.test/",
        "https://example.com\\@evil.test/",
        "https://example.com\t/",
        "https://exam\nple.com/",
        "https://example.com/a b",
        "https://example.com/a\\b",
        "https://example.com/\u{200b}",
        "https://example.com/\u{a0}",
        "https://ex%61mple.com/",
        "https://example\u{3002}com/",
        "https://ex\u{e4}mple.com/",
        "https://\u{ff45}xample.com/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://[::1]/",
        "https://-a.example.org/",
        "https://a..example.org/",
        "https://example.com#@evil.test/",
        "https://example.com?@evil.test/",
        "https://example.com?a=b#@evil.test",
    ] {
        assert!(!fits(&to, bad), "{bad:?}");
    }
    assert!(!fits(&to, &format!("https://example.com/{}", "a".repeat(8_192))));
}

#[test]
fn a_url_rule_that_names_no_plain_host_is_refused() {
    for bad in [
        "",
        ".",
        "*",
        "*.example.com",
        "Example.com",
        "example.com/",
        "a@b",
        "example.com:",
        "example.com:0",
        "example.com:http",
        "https://example.com",
        "-a.com",
        "a..b",
        "example.com.",
    ] {
        let made = Constraint::url(place("/a"), &["https"], &[bad]);
        assert_eq!(made, Err(ConstraintError::Host), "{bad:?}");
    }
    for bad in ["", "HTTPS", "https:", "1a", "*"] {
        let made = Constraint::url(place("/a"), &[bad], &["example.com"]);
        assert_eq!(made, Err(ConstraintError::Scheme), "{bad:?}");
    }
    assert_eq!(Constraint::url(place("/a"), &[], &["example.com"]), Err(ConstraintError::Empty));
    assert_eq!(Constraint::url(place("/a"), &["https"], &[]), Err(ConstraintError::Empty));
}

#[test]
fn an_address_belongs_to_a_listed_domain() {
    let to = Constraint::email_domain(place("/a"), &["example.com", "mail.example.org"]).unwrap();
    for good in [
        "a@example.com",
        "a.b+c@example.com",
        "o'hara@mail.example.org",
        "a@EXAMPLE.com",
        "a-b_c@example.com",
    ] {
        assert!(fits(&to, good), "{good:?}");
    }
    for bad in [
        "",
        "a",
        "@example.com",
        "a@",
        "a@evil.test",
        "a@sub.example.com",
        "a@example.com.evil.test",
        "a@evil-example.com",
        "a@b@example.com",
        "a@evil.test,b@example.com",
        "a@example.com,b@evil.test",
        "a@example.com;b@example.com",
        "a@example.com\nBcc: eve@evil.test",
        "\"a b\"@example.com",
        "\"a@evil.test\"@example.com",
        "Ann <a@example.com>",
        "a(comment)@example.com",
        ".a@example.com",
        "a.@example.com",
        "a..b@example.com",
        "a @example.com",
        "a@example.com ",
        "a@example.com.",
        "a%evil.test@example.com",
        "evil.test!a@example.com",
        "-oQ/tmp@example.com",
        "\u{e4}@example.com",
        "a@ex\u{e4}mple.com",
        "a@\u{212a}example.com",
        "a@[127.0.0.1]",
        "mailto:a@example.com",
        "a`id`@example.com",
        "a|b@example.com",
        "{a}@example.com",
    ] {
        assert!(!fits(&to, bad), "{bad:?}");
    }
    assert!(fits(&to, &format!("{}@example.com", "a".repeat(64))));
    assert!(!fits(&to, &format!("{}@example.com", "a".repeat(65))));
    for bad in ["", "*", ".example.com", "Example.com", "a@b", "example.com:25"] {
        assert_eq!(Constraint::email_domain(place("/a"), &[bad]), Err(ConstraintError::Domain), "{bad:?}");
    }
}

#[test]
fn constraint_applies_to_each_array_element() {
    let to = Constraint::email_domain(place("/m/to"), &["example.com"]).unwrap();
    let fits = |args: Value| to.fits(canonical(&args).value());
    assert!(fits(json!({})));
    assert!(fits(json!({"m": {}})));
    assert!(fits(json!({"m": null})));
    assert!(fits(json!({"m": {"to": []}})));
    assert!(fits(json!({"m": {"to": ["a@example.com", "b@example.com"]}})));
    assert!(!fits(json!({"m": {"to": ["a@example.com", "b@evil.test"]}})));
    assert!(!fits(json!({"m": {"to": ["a@example.com", ["b@example.com"]]}})));
    for other in [json!(null), json!(1), json!(true), json!({}), json!([null])] {
        assert!(!fits(json!({"m": {"to": other}})), "{other}");
    }
}

#[test]
fn constraint_below_a_scalar_refuses() {
    let to = Constraint::email_domain(place("/m/to"), &["example.com"]).unwrap();
    let fits = |args: Value| to.fits(canonical(&args).value());
    for other in [json!("x"), json!(1), json!(true), json!([]), json!([{"to": "eve@evil.test"}])] {
        assert!(!fits(json!({"m": other})), "{other}");
    }
    let first = Constraint::email_domain(place("/m/0/to"), &["example.com"]).unwrap();
    let fits = |args: Value| first.fits(canonical(&args).value());
    for none in [json!({}), json!({"m": null}), json!({"m": []}), json!({"m": {}}), json!({"m": [{}]})] {
        assert!(fits(none.clone()), "{none}");
    }
    assert!(fits(json!({"m": [{"to": "a@example.com"}]})));
    assert!(!fits(json!({"m": [{"to": "eve@evil.test"}]})));
    assert!(!fits(json!({"m": ["eve@evil.test"]})));
    assert!(!fits(json!({"m": "eve@evil.test"})));
    for token in ["-", "00", "01", "+1", "1x", ""] {
        let at = place(&format!("/m/{token}"));
        let odd = Constraint::email_domain(at, &["example.com"]).unwrap();
        assert!(!odd.fits(canonical(&json!({"m": []})).value()), "{token:?} is no index");
    }
    let second = Constraint::email_domain(place("/m/10"), &["example.com"]).unwrap();
    assert!(second.fits(canonical(&json!({"m": ["eve@evil.test"]})).value()), "there is no tenth");
}

#[test]
fn a_place_is_a_json_pointer_below_the_top() {
    for good in ["/a", "/a/0", "/a~1b", "/a~0b", "/", "//"] {
        assert!(ArgPlace::new(good).is_ok(), "{good:?}");
    }
    for bad in ["", "a", "/a~", "/a~2", "/a\n", "/\u{200b}", &format!("/{}", "a".repeat(256))] {
        assert!(ArgPlace::new(bad).is_err(), "{bad:?}");
    }
    assert!(place("/a").covers(&place("/a/b")));
    assert!(place("/a").covers(&place("/a")));
    assert!(!place("/a").covers(&place("/ab")));
}

#[test]
fn a_uri_begins_with_a_root_by_whole_segments() {
    let docs =
        Constraint::uri_within(place("/a"), &["file:///srv/docs/", "note://", "https://docs.example/"]);
    let docs = docs.unwrap();
    for good in [
        "file:///srv/docs/",
        "file:///srv/docs/a.md",
        "file:///srv/docs/sub/a%20b.md",
        "file:///srv/docs/.hidden/",
        "note://today",
        "https://docs.example/a?page=2#top",
    ] {
        assert!(fits(&docs, good), "{good}");
    }
    for bad in [
        "file:///srv/docs",
        "file:///srv/docsecret/a.md",
        "FILE:///srv/docs/a.md",
        "file:/srv/docs/a.md",
        "file:///srv/docs/../secret",
        "file:///srv/docs/./a.md",
        "file:///srv/docs/..;/secret",
        "file:///srv/docs/%2e%2e/secret",
        "file:///srv/docs/..%2fsecret",
        "file:///srv/docs/%252e%252e/secret",
        "file:///srv/docs/a%00.md",
        "file:///srv/docs/a%",
        "file:///srv/docs/a%zz",
        "file:///srv/docs//etc/passwd",
        "file:///srv/docs/a?of=../../secret",
        "file:///srv/docs/a b",
        "file:///srv/docs/..\u{2215}secret",
        "https://docs.example.evil.test/",
        "https://docs.example@evil.test/",
        "",
    ] {
        assert!(!fits(&docs, bad), "{bad}");
    }
}

#[test]
fn a_root_of_uris_is_a_scheme_and_plain_segments() {
    for bad in [
        "",
        "/srv/docs/",
        "file:///srv/docs",
        "File:///srv/",
        "1a://",
        "file:/srv/",
        "file:///srv/../",
        "file:///srv//",
        "file:///srv/%2e/",
        "note://a?b/",
        "note://a#b/",
        "no te://",
        "://",
        "note:",
    ] {
        assert_eq!(Constraint::uri_within(place("/uri"), &[bad]), Err(ConstraintError::UriRoot), "{bad:?}");
    }
    assert_eq!(Constraint::uri_within(place("/uri"), &[]), Err(ConstraintError::Empty));
    let rule = Constraint::uri_within(place("/uri"), &["note://"]).unwrap();
    assert_eq!(
        (rule.kind(), rule.to_string().as_str()),
        ("uri_within", "/uri has only URIs that begin with note://")
    );
}
