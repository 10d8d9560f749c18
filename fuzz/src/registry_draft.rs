use countersign::canonical_json::{Limits, read};
use countersign::core::{Millis, Recipe};
use countersign::registry::{LoadOptions, RegistryDraft, verify_registry};
use countersign_testing::{TestRegistry, World};

/// A draft that is accepted writes itself as canonical JSON, which reads back to an equal draft. Signed and verified, it
/// has the same entries, and its rules answer for any arguments.
pub fn registry_draft(bytes: &[u8]) -> bool {
    let Ok(draft) = RegistryDraft::from_json(bytes) else { return false };
    let Ok(text) = draft.to_json() else { return false };
    let again = RegistryDraft::from_json(text.as_bytes()).expect("what a draft writes reads back");
    assert_eq!(again, draft, "a draft reads back to itself");
    assert_eq!(again.to_json().as_ref(), Ok(&text), "a draft has one text");

    let now = World::start();
    let expires = now.checked_add(Millis::from_secs(3_600)).expect("a time in range");
    let Ok(signed) = draft.sign(now, expires, &[&TestRegistry::operator()]) else { return false };
    let signed = signed.to_json();
    let root = TestRegistry::trust_root();
    let loaded = verify_registry(signed.as_bytes(), &root, None, &LoadOptions::default(), now);
    // A registry may revoke the very key that signs it here.
    let Ok(snapshot) = loaded else { return false };
    assert_eq!(snapshot.version(), draft.version());
    assert!(snapshot.agents().eq(draft.agents()), "a snapshot has the draft's agents");
    assert!(
        snapshot.tools().map(|rules| rules.entry()).eq(draft.tools()),
        "a snapshot has the draft's tools"
    );
    for rules in snapshot.tools() {
        for args in
            [r#"{"a":"/srv/x/../y","to":"ann@example.com","url":"https://example.com/"}"#, "{}", "[1]"]
        {
            let args = read(args.as_bytes(), Recipe::Jcs1, &Limits::default()).expect("strict JSON");
            let _ = rules.check_args(&args);
        }
    }
    true
}
