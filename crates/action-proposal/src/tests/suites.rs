//! The reference's own suites, whole, through the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{ManualClock, Timestamp};
use serde_json::Value;

use crate::{
    ActionProposal, EvidenceFolder, EvidenceKeyring, Profile, ProposalLimits, ProposalVerifier, ProposedCall,
};

/// A moment between the past and the future expiries of the suites.
const NOW: u64 = 1_800_000_000_000;

fn json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn canonicalization(file: &Path) -> &'static str {
    let text = std::fs::read_to_string(file).unwrap();
    // Read as raw text, in which numbers keep their spelling.
    let whole = match read(text.as_bytes(), Recipe::PicCjson1, &Limits::default()) {
        Ok(whole) => whole,
        Err(refused) => {
            assert_eq!(refused.code(), "JSON_LONE_SURROGATE");
            return "canonical_reject";
        }
    };
    let input = whole.subtree(whole.value().get("input").unwrap());
    let hex: String = input.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let vector = json(file);
    assert_eq!(vector["expected_canonical_bytes_hex"], hex, "{}", file.display());
    assert_eq!(vector["expected_sha256_hex"], input.digest().to_string(), "{}", file.display());
    "canonical_match"
}

/// Verdict in the terms of the suites: `allow`, or the code.
fn verdict(root: &Path, file: &Path, profile: Profile) -> String {
    let vector = json(file);
    let options = &vector["options"];
    let mut gate = ProposalVerifier::builder(profile);
    gate = match options["verify_evidence"].as_bool() {
        Some(true) => gate.verify_evidence(),
        Some(false) => gate.dangerous_skip_evidence(),
        None => gate,
    };
    gate = match options["strict_trust"].as_bool() {
        Some(true) => gate.sanitize_trust(),
        Some(false) => gate.dangerous_trust_as_claimed(),
        None => gate,
    };
    if let Some(folder) = options["evidence_root_dir"].as_str() {
        // Path from the root of the reference's repository.
        let folder = root.join(folder.strip_prefix("conformance/").unwrap());
        gate = gate.resolver(Arc::new(EvidenceFolder::open(&folder).unwrap()));
    }
    if let Some(keyring) = vector.get("embedded_keyring") {
        gate = gate.keyring(EvidenceKeyring::from_json(keyring.to_string().as_bytes()).unwrap());
    }
    let call = options["expected_tool"].as_str().map_or(ProposedCall::unbound(), ProposedCall::to_tool_named);
    let clock = ManualClock::new(Timestamp::from_millis(NOW).unwrap());
    let judged = ActionProposal::parse(vector["proposal"].to_string().as_bytes(), &ProposalLimits::default())
        .and_then(|proposal| proposal.verify(&gate.build().unwrap(), &call, &clock));
    judged.map_or_else(|e| e.code().as_str().to_owned(), |_| "allow".to_owned())
}

fn run(suite: &str, profile: Profile) -> usize {
    let folder = std::env::var_os("COUNTERSIGN_VECTORS")
        .expect("COUNTERSIGN_VECTORS names the folder of public suites");
    let root = PathBuf::from(folder).join("pic-conformance").join(suite);
    let manifest = json(&root.join("manifest.json"));
    let vectors = manifest["vectors"].as_array().unwrap();
    for vector in vectors {
        let file = root.join(vector["file"].as_str().unwrap());
        if vector["mode"] == "canonicalization" {
            assert_eq!(canonicalization(&file), vector["expected"], "{}", vector["file"]);
            continue;
        }
        let expected = vector["expected_error_code"].as_str().unwrap_or("allow");
        assert_eq!(verdict(&root, &file, profile), expected, "{}", vector["file"]);
    }
    vectors.len()
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn all_vectors_of_0_8_2_hold_under_pic_0_8() {
    assert_eq!(run("upstream-0.8.2", Profile::Pic08), 72);
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn all_later_vectors_hold_under_pic_0_9() {
    assert_eq!(run("upstream-0.9-partial", Profile::Pic09), 14);
}
