//! Evidence in files: references, objects and limits.

use countersign::core::Digest;
use countersign::keys::TrustRoot;
use serde_json::{Value, json};

use super::made::*;
use countersign::action_proposal::EndorsementDraft;

const INVOICE: &str = "invoice 42: 500 EUR to acme, due 2026-03-31\n";
const ORDER: &str = "order 7: 20 chairs\n";

/// The files of the vectors' evidence, by their path in the folder of the vectors.
pub(super) fn artifacts() -> [(String, String); 2] {
    [("invoice.txt", INVOICE), ("order.txt", ORDER)]
        .map(|(name, text)| (format!("artifacts/{name}"), text.to_owned()))
}

/// A hash entry with the digest of the invoice, or of the order if it names that.
pub(super) fn hash(id: &str, reference: &str) -> Value {
    let text = if reference.contains("order") { ORDER } else { INVOICE };
    json!({"id": id, "type": "hash", "ref": reference, "sha256": sha256(text)})
}

/// Members of an entry that binds the transfer's recipient, beside these.
pub(super) fn for_acme(about: &Value) -> Value {
    let mut entry = json!({
        "bounds": [{"pointer": "/to", "equals": "acme"}],
        "issued": 1_769_857_200_000_i64, "expires": 1_769_947_200_000_i64,
    });
    for (name, value) in about.as_object().unwrap() {
        entry[name] = value.clone();
    }
    entry
}

/// The transfer with the invoice as a file, whose digest an operator signed with these members.
pub(super) fn endorsed(about: &Value) -> Value {
    let mut entry = json!({"sha256": sha256(INVOICE)});
    for (name, value) in about.as_object().unwrap() {
        entry[name] = value.clone();
    }
    let list = json!({
        "format": "countersign-evidence-digests-1",
        "issued": 1_769_857_200_000_i64,
        "expires": 1_769_947_200_000_i64,
        "digests": [entry],
    });
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let envelope = draft.to_envelope(&[&operator()]).to_json();
    let root = TrustRoot::new(1, 1, vec![operator().verifying_key()]).unwrap().to_json();
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    changed(strict(with_entry(transfer(), hash("invoice", "file://invoice.txt"))), |vector| {
        vector["endorsed"] = value(&envelope);
        vector["trust_root"] = value(&root);
    })
}

pub(super) fn refused() -> Vec<Case> {
    let named = |about: &str, reference: &str| {
        let vector = pic09(with_entry(look(), hash("invoice", reference)));
        evidence_failed(about, "/evidence/0/ref", vector)
    };
    let two = with_entry(
        with_entry(look(), hash("invoice", "file://invoice.txt")),
        hash("order", "file://order.txt"),
    );
    let limited = |limits: Value| changed(pic09(two.clone()), |vector| vector["limits"] = limits);
    let both = (INVOICE.len() + ORDER.len()) as u64;
    let other = changed(with_entry(look(), hash("invoice", "file://invoice.txt")), |proposal| {
        proposal["evidence"][0]["sha256"] = Digest::of(b"other").to_string().into();
    });
    vec![
        ("file_differs", evidence_failed("the file has another digest", "/evidence/0/sha256", pic09(other))),
        ("file_is_not_there", named("nothing is there", "file://credit.txt")),
        ("parent", named("out of the folder", "file://../artifacts/invoice.txt")),
        ("parent_within", named("up and down again", "file://a/../invoice.txt")),
        ("this_folder", named("a dot", "file://./invoice.txt")),
        ("absolute", named("from the root on", "file:///invoice.txt")),
        ("percent", named("an escape", "file://invoice%2etxt")),
        ("backslash", named("the other separator", "file://a\\invoice.txt")),
        ("query", named("a query", "file://invoice.txt?v=1")),
        ("fragment", named("a fragment", "file://invoice.txt#1")),
        ("authority", named("a host", "file://localhost:80/invoice.txt")),
        ("other_scheme", named("another scheme", "https://invoice.txt")),
        ("no_scheme", named("no scheme", "invoice.txt")),
        ("scheme_in_capitals", named("the scheme in capitals", "FILE://invoice.txt")),
        ("nul", named("a character that ends a name elsewhere", "file://invoice.txt\u{0}")),
        ("hidden_character", named("a name with a character that is not seen", "file://invoice\u{200b}.txt")),
        ("look_alike", named("a name that only looks the same", "file://invo\u{456}ce.txt")),
        ("empty_name", named("nothing between two separators", "file://a//invoice.txt")),
        (
            "no_folder",
            evidence_failed(
                "the operator has no folder of evidence",
                "/evidence/0/ref",
                changed(strict(with_entry(look(), hash("invoice", "inline:nothing"))), |vector| {
                    without(&mut vector["options"], "evidence_root_dir");
                }),
            ),
        ),
        (
            "file_too_large",
            evidence_failed(
                "a file of one byte too many",
                "/evidence/0/ref",
                limited(json!({"file_bytes": INVOICE.len() - 1})),
            ),
        ),
        (
            "all_files_too_large",
            blocked(
                "files that have one byte too many together",
                "PIC_LIMIT_EXCEEDED",
                "/evidence/1/ref",
                limited(json!({"total_bytes": both - 1})),
            ),
        ),
        (
            "later_entry_fails",
            evidence_failed(
                "one that fails after one that verifies",
                "/evidence/1/sha256",
                pic09(with_entry(
                    with_entry(look(), hash("invoice", "file://invoice.txt")),
                    changed(hash("order", "file://order.txt"), |entry| {
                        entry["sha256"] = sha256(INVOICE).into()
                    }),
                )),
            ),
        ),
    ]
}
