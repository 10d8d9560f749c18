//! The signature entries of the reference's own suites.

use std::path::{Path, PathBuf};

use countersign_core::Millis;
use serde_json::Value;

use super::signing::at;
use crate::attestation::{AttestationRules, verify_entry};
use crate::{ActionProposal, EvidenceEntry, EvidenceKeyring, Profile, ProposalLimits, ProposedCall};

/// A moment between the past and the future expiries of the suites.
const NOW: u64 = 1_800_000_000_000;

fn suites() -> PathBuf {
    let folder = std::env::var_os("COUNTERSIGN_VECTORS")
        .expect("COUNTERSIGN_VECTORS names the folder of public suites");
    Path::new(&folder).join("pic-conformance")
}

fn vectors(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}

/// Whether every signature entry of a vector verifies; `None` without one, or if the proposal cannot be parsed.
fn all_verify(vector: &Value, profile: Profile) -> Option<bool> {
    let keyring = match vector.get("embedded_keyring") {
        Some(keyring) => EvidenceKeyring::from_json(keyring.to_string().as_bytes()).unwrap(),
        None => EvidenceKeyring::empty(),
    };
    let json = vector["proposal"].to_string();
    let proposal = ActionProposal::parse(json.as_bytes(), &ProposalLimits::default()).ok()?;
    let rules = AttestationRules {
        profile,
        keyring: &keyring,
        audience: None,
        skew: Millis::ZERO,
        max_age: Millis::from_secs(86_400),
        payload_bytes: 16_384,
        listed: None,
    };
    let signatures = proposal.evidence().iter().filter_map(|entry| match entry {
        EvidenceEntry::Signature(entry) => Some(entry),
        EvidenceEntry::Hash(_) => None,
    });
    let verified: Vec<bool> = signatures
        .map(|entry| verify_entry(entry, &proposal, &ProposedCall::unbound(), &rules, at(NOW)).is_ok())
        .collect();
    (!verified.is_empty()).then(|| verified.into_iter().all(|ok| ok))
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn reference_suites_signatures_agree() {
    let (mut allowed, mut blocked) = (0, 0);
    for suite in ["upstream-0.8.2", "upstream-0.9-partial"] {
        for (folder, expected) in [("allow", true), ("block", false)] {
            for vector in vectors(&suites().join(suite).join("evidence").join(folder)) {
                let id = vector["id"].as_str().unwrap();
                for profile in [Profile::Pic08, Profile::Pic09] {
                    let Some(verified) = all_verify(&vector, profile) else { continue };
                    // Blocked for a reason other than a signature: evidence without provenance raises no trust.
                    if id.contains("orphaned") {
                        continue;
                    }
                    assert_eq!(verified, expected, "{id} under {profile}");
                    *(if expected { &mut allowed } else { &mut blocked }) += 1;
                }
                // None of them is bound to a call.
                assert_ne!(all_verify(&vector, Profile::Strict), Some(true), "{id}");
            }
        }
    }
    println!("{allowed} verified, {blocked} refused");
    assert!(allowed >= 14 && blocked >= 44, "{allowed} {blocked}");
}
