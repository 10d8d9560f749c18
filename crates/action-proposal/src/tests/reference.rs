//! The grammar of references, equal for every resolver.

use countersign_core::is_hidden;
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;

use super::clocks::budget;
use crate::resolver::plain_names;
use crate::{EvidenceResolver, MemoryEvidence, ResolveError};

fn is_taken(reference: &str) -> bool {
    match plain_names(reference) {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error, ResolveError::Reference), "{error:?}");
            false
        }
    }
}

#[test]
fn plain_relative_references_are_taken_name_by_name() {
    for (reference, names) in [
        ("file://invoice.txt", &["invoice.txt"][..]),
        ("file://a/b/c", &["a", "b", "c"]),
        ("file://...", &["..."]),
        ("file://.hidden/..x/x..", &[".hidden", "..x", "x.."]),
        ("file://Rechnung für Ödön, März.pdf", &["Rechnung für Ödön, März.pdf"]),
        ("file://a;b=c&d+e~f'(g)!$*,", &["a;b=c&d+e~f'(g)!$*,"]),
    ] {
        assert_eq!(plain_names(reference).unwrap().collect::<Vec<_>>(), names);
    }
}

#[test]
fn a_path_that_goes_up_or_stays_is_refused() {
    for reference in
        ["..", "../a", "a/..", "a/../b", "a/../../b", ".", "./a", "a/.", "a/./b", "../../../../etc/passwd"]
    {
        assert!(!is_taken(&format!("file://{reference}")), "{reference}");
    }
}

#[test]
fn an_absolute_path_is_refused() {
    for reference in [
        "file:///etc/passwd",
        "file:////etc/passwd",
        "file:///",
        "/etc/passwd",
        "file:///C:/x",
        "file://C:/x",
    ] {
        assert!(!is_taken(reference), "{reference}");
    }
}

#[test]
fn an_empty_name_is_refused() {
    for reference in ["file://", "file://a/", "file://a//b", "file:// /", "file://a/b/"] {
        assert!(!is_taken(reference), "{reference}");
    }
}

#[test]
fn percent_encoding_is_refused_and_never_decoded() {
    for reference in ["%2e%2e/secret", "%2E%2E", "a%2fb", "a%00", "100%", "%252e%252e/x", "invoice%2Etxt"] {
        assert!(!is_taken(&format!("file://{reference}")), "{reference}");
    }
}

#[test]
fn url_characters_in_a_reference_are_refused() {
    for c in ['\\', '\0', '?', '#', ':', '@', '[', ']', '%'] {
        for reference in [
            format!("file://{c}"),
            format!("file://a{c}b"),
            format!("file://a/{c}"),
            format!("file://a/b{c}"),
        ] {
            assert!(!is_taken(&reference), "{reference:?}");
        }
    }
    for reference in
        ["localhost:80/a", "user@host/a", "user:word@host/a", "a?b", "a#b", "..\\a", "[::1]/a", "a:stream"]
    {
        assert!(!is_taken(&format!("file://{reference}")), "{reference}");
    }
}

#[test]
fn another_scheme_or_another_spelling_of_it_is_refused() {
    for reference in [
        "",
        "a",
        "file",
        "file:",
        "file:/a",
        "file:a",
        "FILE://a",
        "File://a",
        " file://a",
        "\u{feff}file://a",
        "http://a",
        "https://a",
        "inline:a",
        "data:,a",
        "ftp://a",
        "fi\tle://a",
        "file:\\\\a",
        "file://file://a",
        "ﬁle://a",
        "jar:file://a",
    ] {
        assert!(!is_taken(reference), "{reference:?}");
    }
}

#[test]
fn characters_that_cannot_be_seen_are_refused_and_no_others() {
    for c in ('\0'..=char::MAX).filter(|c| is_hidden(*c)) {
        assert!(!is_taken(&format!("file://a{c}")), "{c:?}");
    }
    assert!(is_taken("file://a b"));
}

#[test]
fn no_taken_name_becomes_a_path_when_it_is_normalised() {
    let separates = |c: char| matches!(c, '/' | '\\' | '%' | '?' | '#' | ':' | '@' | '[' | ']');
    for c in ('\u{80}'..=char::MAX).filter(|c| !is_hidden(*c)) {
        assert_eq!(is_taken(&format!("file://a{c}")), !c.nfkc().any(separates), "{c:?}");
    }
}

#[test]
fn a_name_a_path_and_a_reference_have_their_longest_length() {
    let names = |count: usize| format!("file://{}", vec!["a"; count].join("/"));
    assert!(is_taken(&names(32)));
    assert!(!is_taken(&names(33)));
    assert!(is_taken(&format!("file://{}", "a".repeat(255))));
    assert!(!is_taken(&format!("file://{}", "a".repeat(256))));
    assert!(!is_taken(&format!("file://{}", "ä".repeat(128))), "bytes count, not characters");
    let long = |last: usize| format!("file://{0}/{0}/{0}/{1}", "a".repeat(255), "a".repeat(last));
    assert_eq!(long(249).len(), 1_024);
    assert!(is_taken(&long(249)));
    assert!(!is_taken(&long(250)));
}

#[test]
fn evidence_in_memory_is_found_by_its_exact_reference_only() {
    let evidence = MemoryEvidence::new().with("file://invoice.txt", *b"42").with("file://a/b", *b"43");
    let find = |reference: &str| {
        evidence.resolve(reference, &mut budget(100, 100)).map(|found| found.bytes().to_vec())
    };
    assert_eq!(find("file://invoice.txt").unwrap(), b"42");
    assert_eq!(find("file://a/b").unwrap(), b"43");
    // The second letter of one is Cyrillic, the dots of the next are full-width, the last is not composed.
    for reference in
        ["file://Invoice.txt", "file://invоice.txt", "file://invoice．txt", "file://invoice.txt ", "file://a"]
    {
        assert!(matches!(find(reference), Err(ResolveError::NotFound)), "{reference}");
    }
    assert!(matches!(find("file://./invoice.txt"), Err(ResolveError::Reference)));
}

#[test]
fn evidence_in_memory_under_another_reference_is_never_found() {
    let evidence = MemoryEvidence::new().with("file:///etc/passwd", *b"root").with("inline:a", *b"a");
    for reference in ["file:///etc/passwd", "inline:a"] {
        assert!(matches!(evidence.resolve(reference, &mut budget(100, 100)), Err(ResolveError::Reference)));
    }
}

#[test]
fn memory_evidence_keeps_the_limits() {
    let evidence = MemoryEvidence::new().with("file://a", *b"confidential");
    assert_eq!(format!("{evidence:?}"), "MemoryEvidence(1 held)");
    assert!(matches!(evidence.resolve("file://a", &mut budget(11, 100)), Err(ResolveError::TooLarge)));
    assert!(matches!(evidence.resolve("file://a", &mut budget(100, 11)), Err(ResolveError::Budget)));
    assert!(evidence.resolve("file://a", &mut budget(12, 12)).is_ok());
}

proptest! {
    #[test]
    fn accepted_reference_is_its_names_joined(path in "[a-z./%:\\\\\u{202e} ]{0,12}") {
        let refused = path.contains(['%', ':', '\\', '\u{202e}']);
        let empty = path.split('/').any(|name| ["", ".", ".."].contains(&name));
        let reference = format!("file://{path}");
        match plain_names(&reference) {
            Ok(names) => {
                prop_assert!(!refused && !empty);
                prop_assert_eq!(names.collect::<Vec<_>>().join("/"), path);
            }
            Err(_) => prop_assert!(refused || empty),
        }
    }
}
